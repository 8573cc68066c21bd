// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/sending.h"

static long call(param *p)
{
	return exs_send(p->fd, p->send_buf, p->SEND_BUFSIZE, p->flags, p->qh, p->ah, p->mh);
}

static void unsignaled(param *p)
{
	p->flags = EXS_UNSIGNALED;
	p->qh = NULL;
	CHECK(!call(p), "exs_send: %s", strerror(errno));
	hang_up(p);
	print_pass(0);
}

// No event if all is well: the one that comes is that of the close.
static void unsignaled_with_queue(param *p)
{
	p->flags = EXS_UNSIGNALED;
	CHECK(!call(p), "exs_send: %s", strerror(errno));
	p->flags = 0;
	require(ok_exs_close(p));
	expect_no_event(p);
	print_pass(0);
}

// More than a connection holds, and more than the credit that is left when the peer has taken a few
// small messages.
enum { WHOLE = 200000, MANY_SLOTS = 40000, SMALL_ONES = 7 };

static unsigned char whole[WHOLE];

static int connected_by_messages(param *p)
{
	p->socktype = SOCK_SEQPACKET;
	return connected(p) < 0 ? -1 : do_not_wait(p);
}

static void take_message(param *p, size_t length)
{
	p->recv_buf = whole;
	p->RECV_BUFSIZE = sizeof(whole);
	ssize_t ret = receive_some(p);
	CHECK(ret == (ssize_t)length, "a message of %zd bytes instead of %zu", ret, length);
	for (size_t i = 0; i < length; i++)
		CHECK(whole[i] == pattern(i), "byte %zu is not what was sent", i);
}

static void peer_takes_messages(param *p)
{
	p->socktype = SOCK_SEQPACKET;
	require(accepted(p));
	for (int i = 0; i < SMALL_ONES; i++)
		take_message(p, 1);
	meet(p);
	take_message(p, MANY_SLOTS);
	meet(p);
	meet(p);
	take_message(p, WHOLE);
	meet(p);
}

static void send_message(param *p, size_t length)
{
	ssize_t ret;

	for (size_t i = 0; i < WHOLE; i++)
		whole[i] = pattern(i);
	// That the peer has taken what went before may be on its way still.
	do
		ret = exs_send(p->fd, whole, length, EXS_BLOCK, NULL, NULL, NULL);
	while (ret < 0 && errno == EBUSY);
	CHECK(ret == (ssize_t)length, "a message of %zu bytes: %zd %s", length, ret, strerror(errno));
	// It is the program's again.
	memset(whole, 0, sizeof(whole));
}

// Messages for which there may never be as much credit go all the same, one at a time, and nobody
// waits for the peer.
static void messages_beyond_the_credit(param *p)
{
	for (int i = 0; i < SMALL_ONES; i++)
		send_message(p, 1);
	meet(p);
	send_message(p, MANY_SLOTS);
	meet(p);
	send_message(p, WHOLE);
	CHECK(call(p) == -1 && errno == EBUSY, "behind a message that the peer has not taken: %s", strerror(errno));
	meet(p);
	print_pass(0);
}

// A send ends after those before it. Who does not wait does not wait for one that the peer has still
// to read.
static void behind_a_large_one(param *p)
{
	exs_qhandle_t queue = exs_qcreate(1);

	require(do_not_wait(p));
	CHECK(!exs_send(p->fd, whole, WHOLE, 0, queue, NULL, NULL), "exs_send: %s", strerror(errno));
	print_macro(p->test_number, p->test_value, p->test_name, call(p), -1, EBUSY);
}

// The registration is looked at, though nothing else of it is used.
static void half_registered_without_waiting(param *p)
{
	half_registered(p);
	require(do_not_wait(p));
}

static const struct test_case all_tests[] = {
	{1, ERROR(ENOTCONN), .state = with_socket},
	{2, ERROR(EPERM)},
	{3, ERROR(EINVAL), .peer = peer_accepts, .state = connected, .twist = bad_qhandle},
	{4, ERROR(EINVAL), .peer = peer_accepts, .state = connected, .twist = no_qhandle},
	{5, ERROR(EINVAL), .peer = peer_accepts, .state = connected, .twist = no_buffer},
	{7, ERROR(EOPNOTSUPP), .peer = peer_accepts, .state = connected, .twist = bad_flag},
	{8, ERROR(EBADF), .peer = peer_accepts, .state = connected, .twist = bad_fd},
	{10, ERROR(EPIPE), .peer = peer_accepts, .state = shut_down},
	{16, OK(OK_EXS_SEND), .peer = peer_receives, .state = connected, .run = ok_send},
	{17, ERROR(ECONNRESET), .peer = peer_accepts, .state = connected, .run = reset_while_sending},
	{18, ERROR(EINVAL), .peer = peer_accepts, .state = connected, .twist = unsignaled_and_blocking},
	{19, ERROR(EBUSY), .peer = peer_accepts, .state = connected, .run = no_send_credits},
	{20, ERROR(EINVAL), .peer = peer_accepts, .state = connected, .twist = zero_length},
	{21, ERROR(EINVAL), .peer = peer_accepts, .state = connected, .twist = max_length},
	{22, ERROR(EINVAL), .peer = peer_accepts, .state = connected, .twist = bad_mhandle},
	{23, ERROR(EINVAL), .peer = peer_accepts, .state = connected, .twist = half_registered},
	{24, ERROR(EACCES), .peer = peer_accepts, .state = connected, .twist = cannot_be_sent_from},
	{25, ERROR(EFAULT), .peer = peer_accepts, .state = connected, .twist = wild_buffer},
	{26, ERROR(EINVAL), .peer = peer_accepts, .state = connected, .twist = deleted_qhandle},
	{27, ERROR(EPIPE), .peer = peer_closes, .state = connected, .run = peer_has_closed},
	{28, OK(OK_EXS_SEND), .peer = peer_receives, .state = connected, .run = ok_send_registered},
	{29, OK(OK_EXS_SEND), .peer = peer_receives, .state = connected, .run = unsignaled},
	{30, OK(OK_EXS_SEND), .modes = NON_BLOCKING, .peer = peer_receives, .state = connected, .run = unsignaled_with_queue},
	{31, ERROR(ENOTCONN), .state = listening},
	{32, OK(OK_EXS_SEND), .modes = BLOCKING, .peer = peer_takes_messages, .state = connected_by_messages, .run = messages_beyond_the_credit},
	{33, ERROR(EBUSY), .modes = BLOCKING, .peer = peer_accepts, .state = connected, .run = behind_a_large_one},
	{34, ERROR(EINVAL), .modes = BLOCKING, .peer = peer_accepts, .state = connected, .twist = half_registered_without_waiting},
};

PROGRAM("exs_send", call)
