// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_BIND_SETUP_H
#define EXS_BIND_SETUP_H

#include "exs_socket_setup.h"

static inline int ok_exs_bind(param *p)
{
	int ret = exs_bind(p->fd, (struct sockaddr *)&p->address, p->address_len);

	if (ret < 0)
		print_error("ok_exs_bind");
	return ret;
}

static inline int bound(param *p)
{
	return with_socket(p) < 0 ? -1 : ok_exs_bind(p);
}

#endif
