// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_BIND_SETUP_H
#define EXS_BIND_SETUP_H

#include "exs_socket_setup.h"

static inline int ok_exs_bind(param *p)
{
	return is_zero("ok_exs_bind", exs_bind(p->fd, p->address, p->address_len));
}

static inline int bound(param *p)
{
	return with_socket(p) < 0 ? -1 : ok_exs_bind(p);
}

// The names of the tests, by number.
static const char *const all_bind_tests[] = {
	[1 - 1] = "exs_bind(fd, ai_addr, ai_addrlen) [no exs_init]",
	[2 - 1] = "exs_bind(BAD_FD, ai_addr, ai_addrlen)",
	[3 - 1] = "exs_bind(CONNECTED_FD, ai_addr, ai_addrlen)",
	[4 - 1] = "exs_bind(fd, ai_addr, ai_addrlen)",
	[5 - 1] = "exs_bind(fd, ai_addr, ai_addrlen) [another socket listens there]",
	[6 - 1] = "exs_bind(fd, ADDRESS_OF_NOBODY, ai_addrlen)",
	[7 - 1] = "exs_bind(fd, ADDRESS_OF_AF_UNIX, ai_addrlen)",
	[8 - 1] = "exs_bind(fd, ai_addr, SHORT_LENGTH)",
	[9 - 1] = "exs_bind(fd, BAD_ADDRESS, ai_addrlen)",
	[10 - 1] = "exs_bind(fd, ai_addr, ai_addrlen) [another socket is there at all addresses]",
	[11 - 1] = "exs_bind(fd, LOOPBACK, ai_addrlen) [of the other family, where another socket has the port]",
};

TEST_NAMES(bind, BIND)

#endif
