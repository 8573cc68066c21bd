// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_SEND_SETUP_H
#define EXS_SEND_SETUP_H

#include "../event.h"
#include "exs_socket_setup.h"

// The number of bytes, which must be all.
static inline ssize_t ok_exs_send(param *p)
{
	ssize_t ret = exs_send(p->fd, p->send_buf, p->SEND_BUFSIZE, p->flags, queue_of(p), p->ah, p->mh);

	if (ret < 0) {
		print_error("ok_exs_send");
		return -1;
	}
	if (p->mode) {
		CHECK(ret == 0, "exs_send answers %zd", ret);
		exs_event_t event = take_event(p, EXS_EVT_SEND, p->fd, 0);
		ret = transferred(&event, p->send_buf, p->mh);
	}
	CHECK(ret == (ssize_t)p->SEND_BUFSIZE, "%zd bytes of %zu are sent", ret, p->SEND_BUFSIZE);
	return ret;
}

// The names of the tests, by number.
static const char *const all_send_tests[] = {
	[1 - 1] = "exs_send(NOT_CONNECTED_FD, send_buf, SEND_BUFSIZE, flags, qh, ah, mh)",
	[2 - 1] = "exs_send(fd, send_buf, SEND_BUFSIZE, flags, qh, ah, mh) [no exs_init]",
	[3 - 1] = "exs_send(fd, send_buf, SEND_BUFSIZE, flags, INVALID_QHANDLE, ah, mh)",
	[4 - 1] = "exs_send(fd, send_buf, SEND_BUFSIZE, 0, NULL, ah, mh)",
	[5 - 1] = "exs_send(fd, BAD_BUFFER, SEND_BUFSIZE, flags, qh, ah, mh)",
	[7 - 1] = "exs_send(fd, send_buf, SEND_BUFSIZE, BAD_FLAG, qh, ah, mh)",
	[8 - 1] = "exs_send(BAD_FD, send_buf, SEND_BUFSIZE, flags, qh, ah, mh)",
	[10 - 1] = "exs_send(fd, send_buf, SEND_BUFSIZE, flags, qh, ah, mh) [shut down for writing]",
	[16 - 1] = "exs_send(fd, send_buf, SEND_BUFSIZE, flags, qh, ah, mh)",
	[17 - 1] = "exs_send(fd, send_buf, SEND_BUFSIZE, flags, qh, ah, mh) [the peer is killed]",
	[18 - 1] = "exs_send(fd, send_buf, SEND_BUFSIZE, EXS_UNSIGNALED | EXS_BLOCK, qh, ah, mh)",
	[19 - 1] = "exs_send(fd, send_buf, SEND_BUFSIZE, flags, qh, ah, mh) [no send credits]",
	[20 - 1] = "exs_send(fd, send_buf, ZERO_LENGTH, flags, qh, ah, mh)",
	[21 - 1] = "exs_send(fd, send_buf, EXS_LENGTH_MAX + 1, flags, qh, ah, mh)",
	[22 - 1] = "exs_send(fd, send_buf, SEND_BUFSIZE, flags, qh, ah, EXS_MHANDLE_INVALID)",
	[23 - 1] = "exs_send(fd, send_buf, SEND_BUFSIZE, flags, qh, ah, HALF_OF_IT)",
	[24 - 1] = "exs_send(fd, send_buf, SEND_BUFSIZE, flags, qh, ah, SEND_DISABLED)",
	[25 - 1] = "exs_send(fd, UNMAPPED, SEND_BUFSIZE, flags, qh, ah, mh)",
	[26 - 1] = "exs_send(fd, send_buf, SEND_BUFSIZE, flags, DELETED_QHANDLE, ah, mh)",
	[27 - 1] = "exs_send(fd, send_buf, SEND_BUFSIZE, flags, qh, ah, mh) [the peer has closed]",
	[28 - 1] = "exs_send(fd, send_buf, SEND_BUFSIZE, flags, qh, ah, mh) [registered memory]",
	[29 - 1] = "exs_send(fd, send_buf, SEND_BUFSIZE, EXS_UNSIGNALED, NULL, ah, mh)",
	[30 - 1] = "exs_send(fd, send_buf, SEND_BUFSIZE, EXS_UNSIGNALED, qh, ah, mh)",
	[31 - 1] = "exs_send(LISTENING_FD, send_buf, SEND_BUFSIZE, flags, qh, ah, mh)",
	[32 - 1] = "exs_send(fd, send_buf, SEND_BUFSIZE, flags, qh, ah, mh) [O_NONBLOCK, messages beyond the credit]",
	[33 - 1] = "exs_send(fd, send_buf, SEND_BUFSIZE, flags, qh, ah, mh) [O_NONBLOCK, behind a large send]",
	[34 - 1] = "exs_send(fd, send_buf, SEND_BUFSIZE, flags, qh, ah, HALF_OF_IT) [O_NONBLOCK]",
};

TEST_NAMES(send, SEND)

#endif
