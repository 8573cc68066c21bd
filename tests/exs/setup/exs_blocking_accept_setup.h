// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_BLOCKING_ACCEPT_SETUP_H
#define EXS_BLOCKING_ACCEPT_SETUP_H

#include "exs_listen_setup.h"

static inline int ok_exs_blocking_accept(param *p)
{
	int ret = exs_blocking_accept(p->fd, NULL, NULL);

	if (ret < 0) {
		print_error("ok_exs_blocking_accept");
		return -1;
	}
	p->listen_fd = p->fd;
	p->fd = ret;
	return 0;
}

#endif
