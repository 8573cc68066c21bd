// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_FCNTL_SETUP_H
#define EXS_FCNTL_SETUP_H

#include "exs_socket_setup.h"

#include <fcntl.h>

// Calls on this socket fail where they would wait.
static inline int do_not_wait(param *p)
{
	int ret = exs_fcntl(p->fd, F_SETFL, O_NONBLOCK);

	if (ret < 0)
		print_error("exs_fcntl");
	return ret;
}

#endif
