// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_RECV_SETUP_H
#define EXS_RECV_SETUP_H

#include "../event.h"
#include "exs_socket_setup.h"

// One receive with these flags beside p's: the number of bytes, 0 at the end of the stream.
static inline ssize_t receive_with(param *p, int flags)
{
	ssize_t ret = exs_recv(p->fd, p->recv_buf, p->RECV_BUFSIZE, p->flags | flags, queue_of(p), p->ah, p->mh);

	if (ret < 0) {
		print_error("exs_recv");
		return -1;
	}
	if (!(p->flags & EXS_BLOCK)) {
		CHECK(ret == 0, "exs_recv answers %zd", ret);
		exs_event_t event = take_event(p, EXS_EVT_RECV, p->fd, 0);
		ret = transferred(&event, p->recv_buf, p->mh);
		int at_end = event.exs_evt_union.exs_evt_xfer.exs_evt_flags & EXS_EVF_EOF;
		CHECK(!at_end == !!ret, "%zd bytes, and the event %s the end of the stream", ret, at_end ? "says" : "does not say");
	}
	CHECK(ret <= (ssize_t)p->RECV_BUFSIZE, "%zd bytes in a buffer of %zu", ret, p->RECV_BUFSIZE);
	return ret;
}

// What there is, at most a buffer full.
static inline ssize_t receive_some(param *p)
{
	return receive_with(p, 0);
}

// A buffer full, or a message: less only at the end of the stream.
static inline ssize_t ok_exs_recv(param *p)
{
	return receive_with(p, p->socktype == SOCK_STREAM ? MSG_WAITALL : 0);
}

// Receives from here to the end of the stream, each byte of which must be the pattern's, from its
// byte number `from` on.
static inline uint64_t receive_to_the_end(param *p, uint64_t from)
{
	uint64_t at = from;
	ssize_t length;

	while ((length = receive_some(p)) > 0)
		for (ssize_t i = 0; i < length; i++, at++)
			CHECK(((unsigned char *)p->recv_buf)[i] == pattern(at), "byte %llu is not what was sent",
			      (unsigned long long)at);
	require(length);
	return at - from;
}

// The names of the tests, by number.
static const char *const all_recv_tests[] = {
	[1 - 1] = "exs_recv(fd, recv_buf, RECV_BUFSIZE, flags, qh, ah, mh) [no exs_init]",
	[2 - 1] = "exs_recv(fd, recv_buf, RECV_BUFSIZE, flags, INVALID_QH, ah, mh)",
	[3 - 1] = "exs_recv(fd, recv_buf, RECV_BUFSIZE, 0, NULL, ah, mh)",
	[4 - 1] = "exs_recv(fd, recv_buf, ZERO_LENGTH, flags, qh, ah, mh)",
	[5 - 1] = "exs_recv(fd, recv_buf, MAX_LENGTH, flags, qh, ah, mh)",
	[6 - 1] = "exs_recv(fd, BAD_BUFFER, RECV_BUFSIZE, flags, qh, ah, mh)",
	[7 - 1] = "exs_recv(fd, recv_buf, RECV_BUFSIZE, BAD_FLAG, qh, ah, mh)",
	[8 - 1] = "exs_recv(BAD_FD, recv_buf, RECV_BUFSIZE, flags, qh, ah, mh)",
	[9 - 1] = "exs_recv(NOT_CONNECTED_FD, recv_buf, RECV_BUFSIZE, flags, qh, ah, mh)",
	[10 - 1] = "exs_recv(fd, recv_buf, RECV_BUFSIZE, flags, qh, ah, mh)",
	[11 - 1] = "exs_recv(fd, recv_buf, RECV_BUFSIZE, flags, qh, ah, mh) [registered memory]",
	[12 - 1] = "exs_recv(fd, recv_buf, RECV_BUFSIZE, flags, qh, ah, mh) [the end of the stream]",
	[13 - 1] = "exs_recv(fd, recv_buf, RECV_BUFSIZE, flags, qh, ah, mh) [the peer is killed]",
	[14 - 1] = "exs_recv(fd, recv_buf, RECV_BUFSIZE, flags, qh, ah, mh) [O_NONBLOCK, nothing there]",
	[15 - 1] = "exs_recv(fd, recv_buf, RECV_BUFSIZE, flags, qh, ah, EXS_MHANDLE_INVALID)",
	[16 - 1] = "exs_recv(fd, recv_buf, RECV_BUFSIZE, flags, qh, ah, HALF_OF_IT)",
	[17 - 1] = "exs_recv(fd, recv_buf, RECV_BUFSIZE, flags, qh, ah, RECV_DISABLED)",
	[18 - 1] = "exs_recv(fd, UNMAPPED, RECV_BUFSIZE, flags, qh, ah, mh)",
	[19 - 1] = "exs_recv(fd, recv_buf, RECV_BUFSIZE, flags, DELETED_QHANDLE, ah, mh)",
	[20 - 1] = "exs_recv(fd, recv_buf, RECV_BUFSIZE, MSG_WAITALL, qh, ah, mh)",
	[21 - 1] = "exs_recv(fd, recv_buf, RECV_BUFSIZE, flags, qh, ah, mh) [several in progress]",
	[22 - 1] = "exs_recv(fd, recv_buf, RECV_BUFSIZE, flags, qh, ah, mh) [EXS_RECVS_MAX in progress]",
	[23 - 1] = "exs_recv(fd, recv_buf, RECV_BUFSIZE, flags, qh, ah, mh) [closed meanwhile]",
	[24 - 1] = "exs_recv(fd, recv_buf, RECV_BUFSIZE, flags, qh, ah, mh) [shut down for reading]",
	[25 - 1] = "exs_recv(fd, recv_buf, RECV_BUFSIZE, MSG_WAITALL, qh, ah, mh) [O_NONBLOCK, a part is there]",
};

TEST_NAMES(recv, RECV)

#endif
