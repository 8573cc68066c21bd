// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_WRITE_SETUP_H
#define EXS_WRITE_SETUP_H

#include "exs_socket_setup.h"

// The number of bytes, which must be all.
static inline ssize_t ok_exs_write(param *p)
{
	return is_all("ok_exs_write", exs_write(p->fd, p->send_buf, p->SEND_BUFSIZE), p->SEND_BUFSIZE);
}

// The names of the tests, by number.
static const char *const all_write_tests[] = {
	[1 - 1] = "exs_write(NOT_CONNECTED_FD, send_buf, SEND_BUFSIZE)",
	[2 - 1] = "exs_write(fd, send_buf, SEND_BUFSIZE) [no exs_init]",
	[3 - 1] = "exs_write(fd, BAD_BUFFER, SEND_BUFSIZE)",
	[5 - 1] = "exs_write(fd, send_buf, SEND_BUFSIZE) [shut down for writing]",
	[11 - 1] = "exs_write(fd, send_buf, SEND_BUFSIZE)",
	[12 - 1] = "exs_write(fd, send_buf, SEND_BUFSIZE) [the peer is killed]",
	[13 - 1] = "exs_write(fd, send_buf, SEND_BUFSIZE) [EXS_UNSIGNALED | EXS_BLOCK]",
	[14 - 1] = "exs_write(fd, send_buf, SEND_BUFSIZE) [no send credits]",
	[15 - 1] = "exs_write(BAD_FD, send_buf, SEND_BUFSIZE)",
	[16 - 1] = "exs_write(fd, send_buf, SEND_BUFSIZE) [the peer has closed]",
};

TEST_NAMES(write, WRITE)

#endif
