// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_QSTATUS_SETUP_H
#define EXS_QSTATUS_SETUP_H

#include "exs_qcreate_setup.h"

// The queue's depth becomes that of p.
static inline int ok_exs_qstatus(param *p)
{
	return is_zero("ok_exs_qstatus", exs_qstatus(p->qh, EXS_QATTR_DEPTH, &p->depth, sizeof(p->depth)));
}

// The names of the tests, by number.
static const char *const all_qstatus_tests[] = {
	[1 - 1] = "exs_qstatus(qh, EXS_QATTR_DEPTH, &depth, size) [no exs_init]",
	[2 - 1] = "exs_qstatus(INVALID_QHANDLE, EXS_QATTR_DEPTH, &depth, size)",
	[3 - 1] = "exs_qstatus(NULL, EXS_QATTR_DEPTH, &depth, size)",
	[4 - 1] = "exs_qstatus(DELETED_QHANDLE, EXS_QATTR_DEPTH, &depth, size)",
	[5 - 1] = "exs_qstatus(qh, BAD_ATTRIBUTE, &depth, size)",
	[6 - 1] = "exs_qstatus(qh, EXS_QATTR_DEPTH, &depth, BAD_SIZE)",
	[7 - 1] = "exs_qstatus(qh, EXS_QATTR_DEPTH, NULL, size)",
	[8 - 1] = "exs_qstatus(qh, EXS_QATTR_DEPTH, BAD_ADDRESS, size)",
	[9 - 1] = "exs_qstatus(qh, EXS_QATTR_DEPTH, &depth, size)",
	[10 - 1] = "exs_qstatus(qh, EXS_QATTR_EVENTS, &count, size)",
	[11 - 1] = "exs_qstatus(qh, EXS_QATTR_SIGNAL, &signal, size)",
	[12 - 1] = "exs_qstatus(qh, EXS_QATTR_WAIT, &wait, size)",
};

TEST_NAMES(qstatus, QSTATUS)

#endif
