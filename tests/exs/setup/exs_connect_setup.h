// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_CONNECT_SETUP_H
#define EXS_CONNECT_SETUP_H

#include "../event.h"
#include "exs_socket_setup.h"

static inline int ok_exs_connect(param *p)
{
	int ret = is_zero("ok_exs_connect", exs_connect(p->fd, p->address, p->address_len, p->flags, p->to, queue_of(p), p->ah));

	if (!ret && p->mode)
		take_event(p, EXS_EVT_CONNECT, p->fd, 0);
	return ret;
}

// The names of the tests, by number.
static const char *const all_connect_tests[] = {
	[1 - 1] = "exs_connect(fd, ai_addr, ai_addrlen, flags, to, qh, ah) [no exs_init]",
	[2 - 1] = "exs_connect(fd, ai_addr, ai_addrlen, -1, to, qh, ah)",
	[3 - 1] = "exs_connect(fd, ai_addr, ai_addrlen, BAD_FLAG, to, qh, ah)",
	[4 - 1] = "exs_connect(BAD_FD, ai_addr, ai_addrlen, flags, to, qh, ah)",
	[5 - 1] = "exs_connect(CONNECTED_FD, ai_addr, ai_addrlen, flags, to, qh, ah)",
	[6 - 1] = "exs_connect(fd, ai_addr, ai_addrlen, flags, to, qh, ah)",
	[7 - 1] = "exs_connect(LISTENING_FD, ai_addr, ai_addrlen, flags, to, qh, ah)",
	[8 - 1] = "exs_connect(fd, ai_addr, ai_addrlen, flags, to, INVALID_QHANDLE, ah)",
	[9 - 1] = "exs_connect(fd, ai_addr, ai_addrlen, 0, to, NULL, ah)",
	[10 - 1] = "exs_connect(fd, ai_addr, ai_addrlen, flags, to, qh, ah) [nobody listens]",
	[11 - 1] = "exs_connect(fd, ADDRESS_OF_AF_UNIX, ai_addrlen, flags, to, qh, ah)",
	[12 - 1] = "exs_connect(fd, ai_addr, SHORT_LENGTH, flags, to, qh, ah)",
	[13 - 1] = "exs_connect(fd, BAD_ADDRESS, ai_addrlen, flags, to, qh, ah)",
	[14 - 1] = "exs_connect(fd, ai_addr, ai_addrlen, flags, BAD_TIMEOUT, qh, ah)",
	[15 - 1] = "exs_connect(fd, ai_addr, ai_addrlen, flags, TIMEOUT, qh, ah)",
	[16 - 1] = "exs_connect(fd, ai_addr, ai_addrlen, flags, to, qh, ah) [bound]",
	[17 - 1] = "exs_connect(fd, ai_addr, ai_addrlen, flags, TIMEOUT, qh, ah) [the peer does not answer]",
	[18 - 1] = "exs_connect(fd, ai_addr, ai_addrlen, flags, to, qh, ah) [after one with TIMEOUT]",
};

TEST_NAMES(connect, CONNECT)

#endif
