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

#define CALL "exs_send(fd, send_buf, SEND_BUFSIZE, flags, qh, ah, mh)"

static const struct test_case all_tests[] = {
	{1, ERROR(ENOTCONN), "exs_send(NOT_CONNECTED_FD, send_buf, SEND_BUFSIZE, flags, qh, ah, mh)", .state = with_socket},
	{2, ERROR(EPERM), CALL " [no exs_init]"},
	{3, ERROR(EINVAL), "exs_send(fd, send_buf, SEND_BUFSIZE, flags, INVALID_QHANDLE, ah, mh)", .peer = peer_accepts, .state = connected, .twist = bad_qhandle},
	{4, ERROR(EINVAL), "exs_send(fd, send_buf, SEND_BUFSIZE, 0, NULL, ah, mh)", .peer = peer_accepts, .state = connected, .twist = no_qhandle},
	{5, ERROR(EINVAL), "exs_send(fd, BAD_BUFFER, SEND_BUFSIZE, flags, qh, ah, mh)", .peer = peer_accepts, .state = connected, .twist = no_buffer},
	{7, ERROR(EOPNOTSUPP), "exs_send(fd, send_buf, SEND_BUFSIZE, BAD_FLAG, qh, ah, mh)", .peer = peer_accepts, .state = connected, .twist = bad_flag},
	{8, ERROR(EBADF), "exs_send(BAD_FD, send_buf, SEND_BUFSIZE, flags, qh, ah, mh)", .peer = peer_accepts, .state = connected, .twist = bad_fd},
	{10, ERROR(EPIPE), CALL " [shut down for writing]", .peer = peer_accepts, .state = shut_down},
	{16, OK(OK_EXS_SEND), CALL, .peer = peer_receives, .state = connected, .run = ok_send},
	{17, ERROR(ECONNRESET), CALL " [the peer is killed]", .peer = peer_accepts, .state = connected, .run = reset_while_sending},
	{18, ERROR(EINVAL), "exs_send(fd, send_buf, SEND_BUFSIZE, EXS_UNSIGNALED | EXS_BLOCK, qh, ah, mh)", .peer = peer_accepts, .state = connected, .twist = unsignaled_and_blocking},
	{19, ERROR(EBUSY), CALL " [no send credits]", .peer = peer_accepts, .state = connected, .run = no_send_credits},
	{20, ERROR(EINVAL), "exs_send(fd, send_buf, ZERO_LENGTH, flags, qh, ah, mh)", .peer = peer_accepts, .state = connected, .twist = zero_length},
	{21, ERROR(EINVAL), "exs_send(fd, send_buf, EXS_LENGTH_MAX + 1, flags, qh, ah, mh)", .peer = peer_accepts, .state = connected, .twist = max_length},
	{22, ERROR(EINVAL), "exs_send(fd, send_buf, SEND_BUFSIZE, flags, qh, ah, EXS_MHANDLE_INVALID)", .peer = peer_accepts, .state = connected, .twist = bad_mhandle},
	{23, ERROR(EINVAL), "exs_send(fd, send_buf, SEND_BUFSIZE, flags, qh, ah, HALF_OF_IT)", .peer = peer_accepts, .state = connected, .twist = half_registered},
	{24, ERROR(EACCES), "exs_send(fd, send_buf, SEND_BUFSIZE, flags, qh, ah, SEND_DISABLED)", .peer = peer_accepts, .state = connected, .twist = cannot_be_sent_from},
	{25, ERROR(EFAULT), "exs_send(fd, UNMAPPED, SEND_BUFSIZE, flags, qh, ah, mh)", .peer = peer_accepts, .state = connected, .twist = wild_buffer},
	{26, ERROR(EINVAL), "exs_send(fd, send_buf, SEND_BUFSIZE, flags, DELETED_QHANDLE, ah, mh)", .peer = peer_accepts, .state = connected, .twist = deleted_qhandle},
	{27, ERROR(EPIPE), CALL " [the peer has closed]", .peer = peer_closes, .state = connected, .run = peer_has_closed},
	{28, OK(OK_EXS_SEND), CALL " [registered memory]", .peer = peer_receives, .state = connected, .run = ok_send_registered},
	{29, OK(OK_EXS_SEND), "exs_send(fd, send_buf, SEND_BUFSIZE, EXS_UNSIGNALED, NULL, ah, mh)", .peer = peer_receives, .state = connected, .run = unsignaled},
	{30, OK(OK_EXS_SEND), "exs_send(fd, send_buf, SEND_BUFSIZE, EXS_UNSIGNALED, qh, ah, mh)", NON_BLOCKING, .peer = peer_receives, .state = connected, .run = unsignaled_with_queue},
	{31, ERROR(ENOTCONN), "exs_send(LISTENING_FD, send_buf, SEND_BUFSIZE, flags, qh, ah, mh)", .state = listening},
};

PROGRAM("exs_send", call)
