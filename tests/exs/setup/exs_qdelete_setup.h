// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_QDELETE_SETUP_H
#define EXS_QDELETE_SETUP_H

#include "exs_qcreate_setup.h"

static inline int ok_exs_qdelete(param *p)
{
	return is_zero("ok_exs_qdelete", exs_qdelete(p->qh));
}

// The names of the tests, by number.
static const char *const all_qdelete_tests[] = {
	[1 - 1] = "exs_qdelete(qh) [no exs_init]",
	[3 - 1] = "exs_qdelete(INVALID_QHANDLE)",
	[4 - 1] = "exs_qdelete(qh)",
	[5 - 1] = "exs_qdelete(qh) [a receive is in progress]",
	[6 - 1] = "exs_qdelete(qh) [deleted already]",
	[7 - 1] = "exs_qdelete(NULL)",
	[8 - 1] = "exs_qdelete(NOT_A_QUEUE)",
	[9 - 1] = "exs_qdelete(qh) [an event is in it]",
	[10 - 1] = "exs_qdelete(qh) [a thread waits at it]",
};

TEST_NAMES(qdelete, QDELETE)

#endif
