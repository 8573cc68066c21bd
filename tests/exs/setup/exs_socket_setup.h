// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_SOCKET_SETUP_H
#define EXS_SOCKET_SETUP_H

#include "exs_qcreate_setup.h"

static inline int ok_exs_socket(param *p)
{
	p->fd = exs_socket(p->family, p->socktype, p->protocol);
	if (p->fd < 0)
		print_error("ok_exs_socket");
	return p->fd;
}

static inline int with_socket(param *p)
{
	if (initialized(p) < 0 || ok_exs_socket(p) < 0)
		return -1;
	return aim(p, p->addr);
}

#endif
