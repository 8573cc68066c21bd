// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_BLOCKING_CONNECT_SETUP_H
#define EXS_BLOCKING_CONNECT_SETUP_H

#include "exs_socket_setup.h"

static inline int ok_exs_blocking_connect(param *p)
{
	return is_zero("ok_exs_blocking_connect", exs_blocking_connect(p->fd, p->address, p->address_len));
}

// The names of the tests, by number.
static const char *const all_blocking_connect_tests[] = {
	[1 - 1] = "exs_blocking_connect(fd, ai_addr, ai_addrlen) [no exs_init]",
	[2 - 1] = "exs_blocking_connect(CONNECTED_FD, ai_addr, ai_addrlen)",
	[3 - 1] = "exs_blocking_connect(fd, ai_addr, ai_addrlen)",
	[4 - 1] = "exs_blocking_connect(BAD_FD, ai_addr, ai_addrlen)",
	[5 - 1] = "exs_blocking_connect(LISTENING_FD, ai_addr, ai_addrlen)",
	[6 - 1] = "exs_blocking_connect(fd, ai_addr, ai_addrlen) [nobody listens]",
};

TEST_NAMES(blocking_connect, BLOCKING_CONNECT)

#endif
