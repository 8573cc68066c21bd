// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef RECEIVING_H
#define RECEIVING_H

#include "exs_fcntl_setup.h"
#include "exs_mregister_setup.h"
#include "peers.h"
#include "twists.h"

// What exs_recv(), exs_blocking_recv() and exs_read() have in common, each through the call of its
// program.

// The call once, to its end: the number of bytes, or -1 and errno.
static inline ssize_t receive_once(param *p)
{
	ssize_t ret = p->call(p);

	if (ret == 0 && p->mode) {
		exs_event_t event = take_event(p, EXS_EVT_RECV, p->fd, 0);
		ret = transferred(&event, p->recv_buf, p->mh);
	}
	return ret;
}

// A buffer full, in as many calls as it takes, every byte of it.
static inline void ok_receive(param *p)
{
	size_t got = 0;

	while (got < TEST_BUFSIZE) {
		p->RECV_BUFSIZE = TEST_BUFSIZE - got;
		ssize_t ret = receive_once(p);
		CHECK(ret > 0, "%s", ret ? strerror(errno) : "the stream ends early");
		CHECK((size_t)ret <= p->RECV_BUFSIZE, "%zd bytes in a buffer of %zu", ret, p->RECV_BUFSIZE);
		CHECK(!memcmp(p->recv_buf, p->send_store + got, ret), "the bytes are not what was sent");
		got += ret;
	}
	print_pass(got);
}

static inline void ok_receive_registered(param *p)
{
	require(ok_exs_mregister(p, p->recv_store, TEST_BUFSIZE));
	ok_receive(p);
}

static inline void peer_says_nothing_more(param *p)
{
	p->how = SHUT_WR;
	require(connected(p));
	require(ok_exs_shutdown(p));
	meet(p);
}

// The end of the stream is no bytes, again and again.
static inline void end_of_stream(param *p)
{
	for (int i = 0; i < 3; i++)
		CHECK(receive_once(p) == 0, "something at the end of the stream: %s", strerror(errno));
	print_pass(0);
}

// The other process dies without a word while the call waits for it, or, not waiting, soon after.
static inline void reset_while_receiving(param *p)
{
	long ret = -1;

	if (p->mode) {
		CHECK(!p->call(p), "%s", strerror(errno));
		kill_peer();
		take_event(p, EXS_EVT_RECV, p->fd, ECONNRESET);
		ret = reset_again(p, EXS_EVT_RECV);
	} else {
		kill_peer();
		errno = 0;
		ret = p->call(p);
	}
	print_macro(p->test_number, p->test_value, p->test_name, ret, -1, ECONNRESET);
}

static inline void nothing_there(param *p)
{
	require(do_not_wait(p));
}

static inline void half_registered(param *p)
{
	require(ok_exs_mregister(p, p->recv_store, TEST_BUFSIZE / 2));
}

static inline void cannot_be_received_into(param *p)
{
	p->mh = exs_mregister(p->recv_store, TEST_BUFSIZE, EXS_MRF_RECV_DISABLE);
}

static inline int shut_for_reading(param *p)
{
	p->how = SHUT_RD;
	return accepted(p) < 0 ? -1 : ok_exs_shutdown(p);
}

static inline void nothing_after_shutdown(param *p)
{
	CHECK(receive_once(p) == 0, "something after shutting down for reading");
	print_pass(0);
}

#endif
