// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_CONNECT_SETUP_H
#define EXS_CONNECT_SETUP_H

#include "../event.h"
#include "exs_socket_setup.h"

static inline int ok_exs_connect(param *p)
{
	int ret = exs_connect(p->fd, (struct sockaddr *)&p->address, p->address_len, p->flags, p->to, p->qh, p->ah);

	if (ret < 0)
		print_error("ok_exs_connect");
	else if (p->mode)
		take_event(p, EXS_EVT_CONNECT, p->fd, 0);
	return ret;
}

#endif
