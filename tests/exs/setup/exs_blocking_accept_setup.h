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
	check_socket(ret);
	p->listen_fd = p->fd;
	p->fd = ret;
	return 0;
}

// The names of the tests, by number.
static const char *const all_blocking_accept_tests[] = {
	[1 - 1] = "exs_blocking_accept(fd, addr_store, addrlen) [no exs_init]",
	[2 - 1] = "exs_blocking_accept(fd, addr_store, addrlen) [no exs_listen]",
	[3 - 1] = "exs_blocking_accept(fd, addr_store, addrlen)",
	[4 - 1] = "exs_blocking_accept(fd, addr_store, addrlen) [flags are not supported]",
	[5 - 1] = "exs_blocking_accept(fd, addr_store, addrlen) [addrvec_cnt is zero]",
	[6 - 1] = "exs_blocking_accept(fd, addr_store, addrlen) [qhandle is not an event queue]",
	[7 - 1] = "exs_blocking_accept(BAD_FD, addr_store, addrlen)",
	[8 - 1] = "exs_blocking_accept(fd, addr_store, addrlen) [O_NONBLOCK, nobody connects]",
	[9 - 1] = "exs_blocking_accept(fd, NULL, NULL)",
	[10 - 1] = "exs_blocking_accept(fd, addr_store, NULL)",
	[11 - 1] = "exs_blocking_accept(fd, BAD_ADDR, addrlen)",
	[12 - 1] = "exs_blocking_accept(fd, addr_store, BAD_ADDRLEN)",
	[13 - 1] = "exs_blocking_accept(fd, addr_store, CONSTANT_ADDRLEN)",
	[14 - 1] = "exs_blocking_accept(fd, NULL, BAD_ADDRLEN)",
};

TEST_NAMES(blocking_accept, BLOCKING_ACCEPT)

#endif
