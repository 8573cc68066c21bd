// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_BLOCKING_SEND_SETUP_H
#define EXS_BLOCKING_SEND_SETUP_H

#include "exs_socket_setup.h"

// The number of bytes, which must be all.
static inline ssize_t ok_exs_blocking_send(param *p)
{
	return is_all("ok_exs_blocking_send", exs_blocking_send(p->fd, p->send_buf, p->SEND_BUFSIZE, 0, p->mh), p->SEND_BUFSIZE);
}

// The names of the tests, by number.
static const char *const all_blocking_send_tests[] = {
	[1 - 1] = "exs_blocking_send(NOT_CONNECTED_FD, send_buf, SEND_BUFSIZE, flags, mh)",
	[2 - 1] = "exs_blocking_send(fd, send_buf, SEND_BUFSIZE, flags, mh) [no exs_init]",
	[3 - 1] = "exs_blocking_send(fd, BAD_BUFFER, SEND_BUFSIZE, flags, mh)",
	[4 - 1] = "exs_blocking_send(fd, send_buf, SEND_BUFSIZE, EXS_UNSIGNALED | EXS_BLOCK, mh)",
	[5 - 1] = "exs_blocking_send(fd, send_buf, SEND_BUFSIZE, BAD_FLAG, mh)",
	[6 - 1] = "exs_blocking_send(BAD_FD, send_buf, SEND_BUFSIZE, flags, mh)",
	[8 - 1] = "exs_blocking_send(fd, send_buf, SEND_BUFSIZE, flags, mh) [shut down for writing]",
	[14 - 1] = "exs_blocking_send(fd, send_buf, SEND_BUFSIZE, flags, mh)",
	[15 - 1] = "exs_blocking_send(fd, send_buf, SEND_BUFSIZE, flags, mh) [the peer is killed]",
	[16 - 1] = "exs_blocking_send(fd, send_buf, SEND_BUFSIZE, flags, mh) [no send credits]",
	[17 - 1] = "exs_blocking_send(fd, send_buf, ZERO_LENGTH, flags, mh)",
	[18 - 1] = "exs_blocking_send(fd, send_buf, SEND_BUFSIZE, flags, EXS_MHANDLE_INVALID)",
	[19 - 1] = "exs_blocking_send(fd, send_buf, SEND_BUFSIZE, flags, mh) [the peer has closed]",
	[20 - 1] = "exs_blocking_send(fd, send_buf, SEND_BUFSIZE, flags, mh) [registered memory]",
};

TEST_NAMES(blocking_send, BLOCKING_SEND)

#endif
