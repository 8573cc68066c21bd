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
};

PROGRAM("exs_send", call)
