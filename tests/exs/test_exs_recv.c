// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/receiving.h"

static long call(param *p)
{
	return exs_recv(p->fd, p->recv_buf, p->RECV_BUFSIZE, p->flags, p->qh, p->ah, p->mh);
}

// One call for all, in however many pieces it comes.
static void peer_sends_in_pieces(param *p)
{
	require(connected(p));
	for (p->SEND_BUFSIZE = 512; (unsigned char *)p->send_buf < p->send_store + TEST_BUFSIZE; p->send_buf = (char *)p->send_buf + 512) {
		require(ok_exs_send(p));
		// Whoever does not wait shall have some of it only, also on a machine that is busy.
		if (p->send_buf == p->send_store)
			usleep(100000);
	}
	meet(p);
}

static void wait_for_all(param *p)
{
	p->flags |= MSG_WAITALL;
	ssize_t ret = receive_once(p);
	CHECK(ret == TEST_BUFSIZE, "%zd bytes of %d", ret, TEST_BUFSIZE);
	CHECK(!memcmp(p->recv_buf, p->send_store, ret), "the bytes are not what was sent");
	print_pass(ret);
}

// The buffers of receives in progress fill in the order in which they were posted.
static void many_in_progress(param *p)
{
	enum { PIECE = 512 };

	p->flags |= MSG_WAITALL;
	p->RECV_BUFSIZE = PIECE;
	for (int i = 0; i < TEST_BUFSIZE / PIECE; i++, p->recv_buf = (char *)p->recv_buf + PIECE)
		CHECK(!call(p), "exs_recv: %s", strerror(errno));
	p->recv_buf = p->recv_store;
	for (int i = 0; i < TEST_BUFSIZE / PIECE; i++, p->recv_buf = (char *)p->recv_buf + PIECE) {
		exs_event_t event = take_event(p, EXS_EVT_RECV, p->fd, 0);
		CHECK(transferred(&event, p->recv_buf, p->mh) == PIECE, "not a whole piece");
	}
	CHECK(!memcmp(p->recv_store, p->send_store, TEST_BUFSIZE), "the bytes are not what was sent");
	print_pass(TEST_BUFSIZE);
}

static void too_many_in_progress(param *p)
{
	int count = 0;

	while (count <= EXS_RECVS_MAX && !call(p))
		count++;
	int error = errno;
	CHECK(count == EXS_RECVS_MAX, "%d receives are in progress, not %d", count, EXS_RECVS_MAX);
	expect_no_event(p);
	errno = error;
	print_macro(p->test_number, p->test_value, p->test_name, -1, -1, EAGAIN);
}

static void peer_sends_a_piece(param *p)
{
	require(connected(p));
	p->SEND_BUFSIZE = 100;
	require(ok_exs_send(p));
	meet(p);
}

// What does not wait takes what is there. The piece comes as a whole: its first byte says that the
// others are there.
static void does_not_wait_for_all(param *p)
{
	ssize_t ret;

	require(do_not_wait(p));
	do
		ret = exs_recv(p->fd, p->recv_buf, 1, EXS_BLOCK, NULL, NULL, p->mh);
	while (ret < 0 && errno == EAGAIN);
	CHECK(ret == 1, "exs_recv: %zd %s", ret, strerror(errno));
	p->flags |= MSG_WAITALL;
	ret = call(p);
	CHECK(ret == 99 && !memcmp(p->recv_buf, p->send_store + 1, ret), "%zd bytes of 99", ret);
	print_macro(p->test_number, p->test_value, p->test_name, call(p), -1, EAGAIN);
}

static void closed_while_receiving(param *p)
{
	CHECK(!call(p), "exs_recv: %s", strerror(errno));
	hang_up(p);
	take_event(p, EXS_EVT_RECV, p->fd, ECANCELED);
	expect_no_event(p);
	print_pass(0);
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM)},
	{2, ERROR(EINVAL), .peer = peer_connects, .state = accepted, .twist = bad_qhandle},
	{3, ERROR(EINVAL), .peer = peer_connects, .state = accepted, .twist = no_qhandle},
	{4, ERROR(EINVAL), .peer = peer_connects, .state = accepted, .twist = zero_length},
	{5, ERROR(EINVAL), .peer = peer_connects, .state = accepted, .twist = max_length},
	{6, ERROR(EINVAL), .peer = peer_connects, .state = accepted, .twist = no_buffer},
	{7, ERROR(EOPNOTSUPP), .peer = peer_connects, .state = accepted, .twist = bad_flag},
	{8, ERROR(EBADF), .peer = peer_connects, .state = accepted, .twist = bad_fd},
	{9, ERROR(ENOTCONN), .state = with_socket},
	{10, OK(OK_EXS_RECV), .peer = peer_sends, .state = accepted, .run = ok_receive},
	{11, OK(OK_EXS_RECV), .peer = peer_sends, .state = accepted, .run = ok_receive_registered},
	{12, OK(OK_EXS_RECV), .peer = peer_says_nothing_more, .state = accepted, .run = end_of_stream},
	{13, ERROR(ECONNRESET), .peer = peer_connects, .state = accepted, .run = reset_while_receiving},
	{14, ERROR(EAGAIN), .modes = BLOCKING, .peer = peer_connects, .state = accepted, .twist = nothing_there},
	{15, ERROR(EINVAL), .peer = peer_connects, .state = accepted, .twist = bad_mhandle},
	{16, ERROR(EINVAL), .peer = peer_connects, .state = accepted, .twist = half_registered},
	{17, ERROR(EACCES), .peer = peer_connects, .state = accepted, .twist = cannot_be_received_into},
	{18, ERROR(EFAULT), .peer = peer_connects, .state = accepted, .twist = wild_buffer},
	{19, ERROR(EINVAL), .peer = peer_connects, .state = accepted, .twist = deleted_qhandle},
	{20, OK(OK_EXS_RECV), .peer = peer_sends_in_pieces, .state = accepted, .run = wait_for_all},
	{21, OK(OK_EXS_RECV), .modes = NON_BLOCKING, .peer = peer_sends, .state = accepted, .run = many_in_progress},
	{22, ERROR(EAGAIN), .modes = NON_BLOCKING, .peer = peer_connects, .state = accepted, .run = too_many_in_progress},
	{23, ERROR(ECANCELED), .modes = NON_BLOCKING, .peer = peer_connects, .state = accepted, .run = closed_while_receiving},
	{24, OK(OK_EXS_RECV), .peer = peer_connects, .state = shut_for_reading, .run = nothing_after_shutdown},
	{25, ERROR(EAGAIN), .modes = BLOCKING, .peer = peer_sends_a_piece, .state = accepted, .run = does_not_wait_for_all},
};

PROGRAM("exs_recv", call)
