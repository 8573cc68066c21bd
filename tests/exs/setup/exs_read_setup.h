// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_READ_SETUP_H
#define EXS_READ_SETUP_H

#include "exs_socket_setup.h"

// A buffer full, in as many calls as it takes.
static inline ssize_t ok_exs_read(param *p)
{
	size_t got = 0;

	while (got < p->RECV_BUFSIZE) {
		ssize_t ret = exs_read(p->fd, (char *)p->recv_buf + got, p->RECV_BUFSIZE - got);

		if (ret < 1 || (size_t)ret > p->RECV_BUFSIZE - got)
			return is_all("ok_exs_read", ret, p->RECV_BUFSIZE - got);
		got += ret;
	}
	return got;
}

// The names of the tests, by number.
static const char *const all_read_tests[] = {
	[1 - 1] = "exs_read(fd, recv_buf, RECV_BUFSIZE) [no exs_init]",
	[2 - 1] = "exs_read(fd, recv_buf, ZERO_LENGTH)",
	[3 - 1] = "exs_read(fd, recv_buf, MAX_LENGTH)",
	[4 - 1] = "exs_read(fd, NULL, RECV_BUFSIZE)",
	[5 - 1] = "exs_read(BAD_FD, recv_buf, RECV_BUFSIZE)",
	[6 - 1] = "exs_read(NOT_CONNECTED_FD, recv_buf, RECV_BUFSIZE)",
	[7 - 1] = "exs_read(fd, recv_buf, RECV_BUFSIZE)",
	[8 - 1] = "exs_read(fd, recv_buf, RECV_BUFSIZE) [the end of the stream]",
	[9 - 1] = "exs_read(fd, recv_buf, RECV_BUFSIZE) [the peer is killed]",
	[10 - 1] = "exs_read(fd, recv_buf, RECV_BUFSIZE) [O_NONBLOCK, nothing there]",
};

TEST_NAMES(read, READ)

#endif
