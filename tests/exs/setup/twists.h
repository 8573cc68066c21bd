// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef TWISTS_H
#define TWISTS_H

#include "../case.h"

// How parameters are spoiled. Each changes one thing.

enum { BAD_FLAG = 2, BAD_DESCRIPTOR = 9999 };

static inline void bad_fd(param *p)
{
	p->fd = BAD_DESCRIPTOR;
}

static inline void bad_flag(param *p)
{
	p->flags |= BAD_FLAG;
}

static inline void bad_qhandle(param *p)
{
	p->qh = EXS_QHANDLE_INVALID;
}

static inline void deleted_qhandle(param *p)
{
	p->qh = exs_qcreate(1);
	exs_qdelete(p->qh);
}

// No event queue for an operation that is not to wait.
static inline void no_qhandle(param *p)
{
	p->flags = 0;
	p->qh = NULL;
}

static inline void bad_mhandle(param *p)
{
	p->mh = EXS_MHANDLE_INVALID;
}

static inline void unsignaled_and_blocking(param *p)
{
	p->flags = EXS_UNSIGNALED | EXS_BLOCK;
}

static inline void no_buffer(param *p)
{
	p->send_buf = p->recv_buf = NULL;
}

// Never mapped.
static inline void wild_buffer(param *p)
{
	p->send_buf = p->recv_buf = (void *)64;
}

static inline void zero_length(param *p)
{
	p->SEND_BUFSIZE = p->RECV_BUFSIZE = 0;
}

static inline void max_length(param *p)
{
	p->SEND_BUFSIZE = p->RECV_BUFSIZE = EXS_LENGTH_MAX + 1;
}

static inline void bad_address(param *p)
{
	p->address->sa_family = AF_UNIX;
}

static inline void short_address(param *p)
{
	p->address_len = sizeof(sa_family_t);
}

#endif
