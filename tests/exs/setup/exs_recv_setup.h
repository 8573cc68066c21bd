// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_RECV_SETUP_H
#define EXS_RECV_SETUP_H

#include "../event.h"
#include "exs_socket_setup.h"

// The number of bytes; 0 at the end of the stream.
static inline ssize_t ok_exs_recv(param *p)
{
	ssize_t ret = exs_recv(p->fd, p->recv_buf, p->RECV_BUFSIZE, p->flags, p->qh, p->ah, p->mh);

	if (ret < 0) {
		print_error("ok_exs_recv");
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

// Receives from here to the end of the stream, each byte of which must be the pattern's, from its byte number `from` on.
static inline uint64_t receive_to_the_end(param *p, uint64_t from)
{
	uint64_t at = from;
	ssize_t length;

	while ((length = ok_exs_recv(p)) > 0)
		for (ssize_t i = 0; i < length; i++, at++)
			CHECK(((unsigned char *)p->recv_buf)[i] == pattern(at), "byte %llu is not what was sent",
			      (unsigned long long)at);
	require(length);
	return at - from;
}

#endif
