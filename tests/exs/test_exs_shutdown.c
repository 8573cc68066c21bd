// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_server_setup.h"
#include "setup/peers.h"
#include "setup/twists.h"

static long call(param *p)
{
	return exs_shutdown(p->fd, p->how, p->flags, p->qh, p->ah);
}

static int connected_for_both(param *p)
{
	p->how = SHUT_RDWR;
	return connected(p);
}

static void bad_direction(param *p)
{
	p->how = 77;
}

// All is refused afterwards in the directions that were shut.
static void ok(param *p)
{
	require(ok_exs_shutdown(p));
	if (p->mode)
		expect_no_event(p);
	if (p->how != SHUT_RD)
		CHECK(exs_write(p->fd, p->send_buf, 1) == -1 && errno == EPIPE, "exs_write: %s", strerror(errno));
	if (p->how != SHUT_WR)
		CHECK(exs_read(p->fd, p->recv_buf, 1) == 0, "exs_read: %s", strerror(errno));
	print_pass(0);
}

static int connected_for_writing(param *p)
{
	p->how = SHUT_WR;
	return connected(p);
}

static int connected_for_reading(param *p)
{
	p->how = SHUT_RD;
	return connected(p);
}

// What was sent before arrives before the end does.
static void after_sending(param *p)
{
	require(ok_exs_send(p));
	ok(p);
	CHECK(exs_read(p->fd, p->recv_buf, 1) == 1, "the other direction: %s", strerror(errno));
}

static void peer_answers(param *p)
{
	require(accepted(p));
	CHECK(receive_to_the_end(p, 0) == TEST_BUFSIZE, "not all that was sent before the end");
	p->SEND_BUFSIZE = 1;
	require(ok_exs_send(p));
	meet(p);
}

enum { PART = 10, MESSAGES = 14, WHOLE = 12 << 10 };

static void peer_sends_a_part(param *p)
{
	p->SEND_BUFSIZE = 1 + PART;
	require(connected(p));
	require(ok_exs_send(p));
	meet(p);
}

// The receive's event: so many bytes, which are the end of the stream if there are none.
static void check_received(param *p, size_t length)
{
	exs_event_t event = take_event(p, EXS_EVT_RECV, p->fd, 0);
	const exs_evt_xfer_t *xfer = &event.exs_evt_union.exs_evt_xfer;

	CHECK(xfer->exs_evt_length == length, "%zu bytes instead of %zu", xfer->exs_evt_length, length);
	CHECK(!(xfer->exs_evt_flags & EXS_EVF_EOF) == !!length, "%zu bytes with flags %#x", length, xfer->exs_evt_flags);
}

static void start_receive(param *p, void *where, size_t length, int flags)
{
	CHECK(!exs_recv(p->fd, where, length, flags, p->qh, p->ah, p->mh), "exs_recv: %s", strerror(errno));
}

// What wants to be filled has what came until then, the next nothing. That the first byte is there
// says that the others are: they came with it.
static void half_filled(param *p)
{
	start_receive(p, p->recv_store, 1, 0);
	start_receive(p, p->recv_store + 1, 2 * PART, MSG_WAITALL);
	start_receive(p, p->recv_store + 1 + 2 * PART, 1, 0);
	check_received(p, 1);
	CHECK(!exs_shutdown(p->fd, SHUT_RD, EXS_BLOCK, NULL, NULL), "exs_shutdown: %s", strerror(errno));
	check_received(p, PART);
	CHECK(!memcmp(p->recv_store, p->send_store, 1 + PART), "the bytes are not what was sent");
	check_received(p, 0);
	print_pass(0);
}

// Messages for all credit but two; the last one has more than that.
static void peer_sends_messages(param *p)
{
	static unsigned char whole[WHOLE];

	p->socktype = SOCK_SEQPACKET;
	require(connected(p));
	p->SEND_BUFSIZE = 1;
	for (int i = 0; i < MESSAGES; i++)
		require(ok_exs_send(p));
	CHECK(!exs_send(p->fd, whole, WHOLE, EXS_UNSIGNALED, NULL, NULL, NULL), "exs_send: %s", strerror(errno));
	meet(p);
	meet(p);
}

// A part of a message is none. The rest of it does not come, as the peer learns of no credit.
static void half_a_message(param *p)
{
	static unsigned char whole[WHOLE];

	meet(p);
	for (int i = 0; i < MESSAGES; i++) {
		start_receive(p, p->recv_store, 1, 0);
		check_received(p, 1);
		if (i == 0)
			stop_peer();
	}
	start_receive(p, whole, WHOLE, 0);
	CHECK(!exs_shutdown(p->fd, SHUT_RD, 0, p->qh, p->ah), "exs_shutdown: %s", strerror(errno));
	continue_peer();
	check_received(p, 0);
	take_event(p, EXS_EVT_SHUTDOWN, p->fd, 0);
	print_pass(0);
}

static int accepted_for_messages(param *p)
{
	p->socktype = SOCK_SEQPACKET;
	return accepted(p);
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM)},
	{2, ERROR(EINVAL), .peer = peer_accepts, .state = connected_for_both, .twist = bad_flag},
	{3, ERROR(EINVAL), .peer = peer_accepts, .state = connected_for_both, .twist = bad_qhandle},
	{4, ERROR(EBADF), .peer = peer_accepts, .state = connected_for_both, .twist = bad_fd},
	{5, OK(OK_EXS_SHUTDOWN), .peer = peer_accepts, .state = connected_for_both, .run = ok},
	{6, ERROR(EINVAL), .peer = peer_accepts, .state = connected, .twist = bad_direction},
	{7, ERROR(ENOTCONN), .state = with_socket},
	{8, OK(OK_EXS_SHUTDOWN), .peer = peer_answers, .state = connected_for_writing, .run = after_sending},
	{9, OK(OK_EXS_SHUTDOWN), .peer = peer_accepts, .state = connected_for_reading, .run = ok},
	{10, OK(OK_EXS_SHUTDOWN), .modes = NON_BLOCKING, .peer = peer_sends_a_part, .state = accepted, .run = half_filled},
	{11, OK(OK_EXS_SHUTDOWN), .modes = NON_BLOCKING, .peer = peer_sends_messages, .state = accepted_for_messages, .run = half_a_message},
};

PROGRAM("exs_shutdown", call)
