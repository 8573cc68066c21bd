// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_QMODIFY_SETUP_H
#define EXS_QMODIFY_SETUP_H

#include "exs_qcreate_setup.h"

// The queue gets the depth of p.
static inline int ok_exs_qmodify(param *p)
{
	return is_zero("ok_exs_qmodify", exs_qmodify(p->qh, EXS_QATTR_DEPTH, &p->depth, sizeof(p->depth)));
}

// The names of the tests, by number.
static const char *const all_qmodify_tests[] = {
	[1 - 1] = "exs_qmodify(qh, EXS_QATTR_DEPTH, &depth, size) [no exs_init]",
	[2 - 1] = "exs_qmodify(INVALID_QHANDLE, EXS_QATTR_DEPTH, &depth, size)",
	[3 - 1] = "exs_qmodify(NULL, EXS_QATTR_DEPTH, &depth, size)",
	[4 - 1] = "exs_qmodify(DELETED_QHANDLE, EXS_QATTR_DEPTH, &depth, size)",
	[5 - 1] = "exs_qmodify(qh, BAD_ATTRIBUTE, &depth, size)",
	[6 - 1] = "exs_qmodify(qh, EXS_QATTR_DEPTH, &depth, BAD_SIZE)",
	[7 - 1] = "exs_qmodify(qh, EXS_QATTR_DEPTH, NULL, size)",
	[8 - 1] = "exs_qmodify(qh, EXS_QATTR_DEPTH, BAD_ADDRESS, size)",
	[9 - 1] = "exs_qmodify(qh, EXS_QATTR_DEPTH, &depth, size)",
	[10 - 1] = "exs_qmodify(qh, EXS_QATTR_DEPTH, &NEGATIVE, size)",
	[11 - 1] = "exs_qmodify(qh, EXS_QATTR_DEPTH, &TOO_DEEP, size)",
	[12 - 1] = "exs_qmodify(qh, EXS_QATTR_EVENTS, &count, size)",
	[13 - 1] = "exs_qmodify(qh, EXS_QATTR_WAIT, &BAD_WAIT, size)",
	[14 - 1] = "exs_qmodify(qh, EXS_QATTR_SIGNAL, &BAD_SIGNAL, size)",
	[15 - 1] = "exs_qmodify(qh, EXS_QATTR_WAIT, &wait, size)",
	[16 - 1] = "exs_qmodify(qh, EXS_QATTR_SIGNAL, &signal, size)",
};

TEST_NAMES(qmodify, QMODIFY)

#endif
