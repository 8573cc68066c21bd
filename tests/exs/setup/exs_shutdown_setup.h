// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_SHUTDOWN_SETUP_H
#define EXS_SHUTDOWN_SETUP_H

#include "../event.h"
#include "exs_socket_setup.h"

static inline int ok_exs_shutdown(param *p)
{
	int ret = exs_shutdown(p->fd, p->how, p->flags, p->qh, p->ah);

	if (ret < 0)
		print_error("ok_exs_shutdown");
	else if (p->mode)
		take_event(p, EXS_EVT_SHUTDOWN, p->fd, 0);
	return ret;
}

#endif
