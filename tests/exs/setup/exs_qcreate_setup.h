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

#endif
