// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_BLOCKING_RECV_SETUP_H
#define EXS_BLOCKING_RECV_SETUP_H

#include "exs_socket_setup.h"

// A buffer full.
static inline ssize_t ok_exs_blocking_recv(param *p)
{
	return is_all("ok_exs_blocking_recv", exs_blocking_recv(p->fd, p->recv_buf, p->RECV_BUFSIZE, MSG_WAITALL, p->mh), p->RECV_BUFSIZE);
}

// The names of the tests, by number.
static const char *const all_blocking_recv_tests[] = {
	[1 - 1] = "exs_blocking_recv(fd, recv_buf, RECV_BUFSIZE, flags, mh) [no exs_init]",
	[2 - 1] = "exs_blocking_recv(fd, recv_buf, ZERO_LENGTH, flags, mh)",
	[3 - 1] = "exs_blocking_recv(fd, recv_buf, MAX_LENGTH, flags, mh)",
	[4 - 1] = "exs_blocking_recv(fd, BAD_BUFFER, RECV_BUFSIZE, flags, mh)",
	[5 - 1] = "exs_blocking_recv(fd, recv_buf, RECV_BUFSIZE, BAD_FLAG, mh)",
	[6 - 1] = "exs_blocking_recv(BAD_FD, recv_buf, RECV_BUFSIZE, flags, mh)",
	[7 - 1] = "exs_blocking_recv(NOT_CONNECTED_FD, recv_buf, RECV_BUFSIZE, flags, mh)",
	[8 - 1] = "exs_blocking_recv(fd, recv_buf, RECV_BUFSIZE, flags, mh)",
	[9 - 1] = "exs_blocking_recv(fd, recv_buf, RECV_BUFSIZE, flags, mh) [registered memory]",
	[10 - 1] = "exs_blocking_recv(fd, recv_buf, RECV_BUFSIZE, flags, mh) [the end of the stream]",
	[11 - 1] = "exs_blocking_recv(fd, recv_buf, RECV_BUFSIZE, flags, mh) [the peer is killed]",
	[12 - 1] = "exs_blocking_recv(fd, recv_buf, RECV_BUFSIZE, flags, mh) [O_NONBLOCK, nothing there]",
	[13 - 1] = "exs_blocking_recv(fd, recv_buf, RECV_BUFSIZE, flags, EXS_MHANDLE_INVALID)",
};

TEST_NAMES(blocking_recv, BLOCKING_RECV)

#endif
