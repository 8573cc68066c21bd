// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_QCREATE_SETUP_H
#define EXS_QCREATE_SETUP_H

#include "exs_init_setup.h"

static inline int ok_exs_qcreate(param *p)
{
	p->qh = exs_qcreate(p->depth);
	if (p->qh != EXS_QHANDLE_INVALID)
		return 0;
	print_error("ok_exs_qcreate");
	return -1;
}

// In non-blocking mode an operation needs an event queue: where none was made one is made now.
static inline exs_qhandle_t queue_of(param *p)
{
	if (p->mode && !p->qh)
		ok_exs_qcreate(p);
	return p->qh;
}

// The library, and in non-blocking mode an event queue.
static inline int initialized(param *p)
{
	if (ok_exs_init(p) < 0)
		return -1;
	return p->mode ? ok_exs_qcreate(p) : 0;
}

// A queue that blocking mode has not got.
static inline int with_own_queue(param *p)
{
	return p->mode ? 0 : ok_exs_qcreate(p);
}

// The library and an event queue in either mode.
static inline int with_queue(param *p)
{
	return ok_exs_init(p) < 0 ? -1 : ok_exs_qcreate(p);
}

// The names of the tests, by number.
static const char *const all_qcreate_tests[] = {
	[1 - 1] = "exs_qcreate(10) [no exs_init]",
	[3 - 1] = "exs_qcreate(10)",
	[4 - 1] = "exs_qcreate(10) [as many as there can be]",
	[5 - 1] = "exs_qcreate(EXS_QDEPTH_MAX + 1)",
	[6 - 1] = "exs_qcreate(-1)",
	[7 - 1] = "exs_qcreate(0)",
	[8 - 1] = "exs_qcreate(EXS_QDEPTH_MAX)",
};

TEST_NAMES(qcreate, QCREATE)

#endif
