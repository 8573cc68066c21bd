// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_QDEQUEUE_SETUP_H
#define EXS_QDEQUEUE_SETUP_H

#include "exs_qcreate_setup.h"

// So many events as the vector has room for and the time lets come: one at the least.
static inline int ok_exs_qdequeue(param *p)
{
	int ret = exs_qdequeue(p->qh, p->evtvec, p->evtvec_cnt, p->to);

	if (ret >= 1 && ret <= abs(p->evtvec_cnt))
		return ret;
	print_error("ok_exs_qdequeue");
	return -1;
}

// The names of the tests, by number.
static const char *const all_qdequeue_tests[] = {
	[1 - 1] = "exs_qdequeue(qh, evtvec, evtvec_cent, to) [no exs_init]",
	[2 - 1] = "exs_qdequeue(INVALID_QH, evtvec, evtvec_cent, to) [no exs_init]",
	[3 - 1] = "exs_qdequeue(qh, evtvec, ZERO_EVTVEC_CENT, to)",
	[4 - 1] = "exs_qdequeue(qh, evtvec, evtvec_cent, to)",
	[5 - 1] = "exs_qdequeue(qh, BAD_EVTVEC, evtvec_cent, to)",
	[6 - 1] = "exs_qdequeue(qh, evtvec, evtvec_cent, BAD_TIMEOUT_ADDRESS)",
	[7 - 1] = "exs_qdequeue(qh, evtvec, EXS_EVTVEC_MAX + 1, to)",
	[8 - 1] = "exs_qdequeue(INVALID_QH, evtvec, evtvec_cent, to)",
	[9 - 1] = "exs_qdequeue(qh, evtvec, -EXS_EVTVEC_MAX - 1, to)",
	[10 - 1] = "exs_qdequeue(qh, evtvec, evtvec_cent, BAD_TIMEOUT)",
	[11 - 1] = "exs_qdequeue(qh, evtvec, evtvec_cent, to) [the time passes]",
	[12 - 1] = "exs_qdequeue(qh, evtvec, -200, NULL)",
	[13 - 1] = "exs_qdequeue(qh, evtvec, -5, to) [three events]",
	[14 - 1] = "exs_qdequeue(qh, evtvec, evtvec_cent, NULL) [a signal handler runs]",
	[15 - 1] = "exs_qdequeue(qh, NULL, evtvec_cent, to)",
	[16 - 1] = "exs_qdequeue(qh, evtvec, evtvec_cent, NULL) [EXS_WAIT_BUSY_POLL, a signal handler runs]",
};

TEST_NAMES(qdequeue, QDEQUEUE)

#endif
