// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_CLOSE_SETUP_H
#define EXS_CLOSE_SETUP_H

#include "../event.h"
#include "exs_socket_setup.h"

static inline int ok_exs_close(param *p)
{
	int ret = exs_close(p->fd, p->flags, p->qh, p->ah);

	if (ret < 0)
		print_error("ok_exs_close");
	else if (p->mode)
		take_event(p, EXS_EVT_CLOSE, p->fd, 0);
	return ret;
}

// So that the other process comes to the end of the stream.
static inline void hang_up(const param *p)
{
	CHECK(!exs_blocking_close(p->fd), "exs_blocking_close: %s", strerror(errno));
}

#endif
