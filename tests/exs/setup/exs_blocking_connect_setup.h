// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_BLOCKING_CONNECT_SETUP_H
#define EXS_BLOCKING_CONNECT_SETUP_H

#include "exs_socket_setup.h"

static inline int ok_exs_blocking_connect(param *p)
{
	int ret = exs_blocking_connect(p->fd, (struct sockaddr *)&p->address, p->address_len);

	if (ret < 0)
		print_error("ok_exs_blocking_connect");
	return ret;
}

#endif
