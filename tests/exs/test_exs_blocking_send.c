// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/sending.h"

static long call(param *p)
{
	// What EXS_BLOCK says the name says already.
	return exs_blocking_send(p->fd, p->send_buf, p->SEND_BUFSIZE, p->flags & ~EXS_BLOCK, p->mh);
}

static void both_flags(param *p)
{
	print_macro(p->test_number, p->test_value, p->test_name,
		    exs_blocking_send(p->fd, p->send_buf, p->SEND_BUFSIZE, EXS_UNSIGNALED | EXS_BLOCK, p->mh), -1, EINVAL);
}

#define CALL "exs_blocking_send(fd, send_buf, SEND_BUFSIZE, flags, mh)"

static const struct test_case all_tests[] = {
	{1, ERROR(ENOTCONN), "exs_blocking_send(NOT_CONNECTED_FD, send_buf, SEND_BUFSIZE, flags, mh)", .state = with_socket},
	{2, ERROR(EPERM), CALL " [no exs_init]"},
	{3, ERROR(EINVAL), "exs_blocking_send(fd, BAD_BUFFER, SEND_BUFSIZE, flags, mh)", .peer = peer_accepts, .state = connected, .twist = no_buffer},
	{4, ERROR(EINVAL), "exs_blocking_send(fd, send_buf, SEND_BUFSIZE, EXS_UNSIGNALED | EXS_BLOCK, mh)", .peer = peer_accepts, .state = connected, .run = both_flags},
	{5, ERROR(EOPNOTSUPP), "exs_blocking_send(fd, send_buf, SEND_BUFSIZE, BAD_FLAG, mh)", .peer = peer_accepts, .state = connected, .twist = bad_flag},
	{6, ERROR(EBADF), "exs_blocking_send(BAD_FD, send_buf, SEND_BUFSIZE, flags, mh)", .peer = peer_accepts, .state = connected, .twist = bad_fd},
	{8, ERROR(EPIPE), CALL " [shut down for writing]", .peer = peer_accepts, .state = shut_down},
	{14, OK(OK_EXS_BLOCKING_SEND), CALL, .peer = peer_receives, .state = connected, .run = ok_send},
	{15, ERROR(ECONNRESET), CALL " [the peer is killed]", .peer = peer_accepts, .state = connected, .run = reset_while_sending},
	{16, ERROR(EBUSY), CALL " [no send credits]", .peer = peer_accepts, .state = connected, .run = no_send_credits},
	{17, ERROR(EINVAL), "exs_blocking_send(fd, send_buf, ZERO_LENGTH, flags, mh)", .peer = peer_accepts, .state = connected, .twist = zero_length},
	{18, ERROR(EINVAL), "exs_blocking_send(fd, send_buf, SEND_BUFSIZE, flags, EXS_MHANDLE_INVALID)", .peer = peer_accepts, .state = connected, .twist = bad_mhandle},
	{19, ERROR(EPIPE), CALL " [the peer has closed]", .peer = peer_closes, .state = connected, .run = peer_has_closed},
	{20, OK(OK_EXS_BLOCKING_SEND), CALL " [registered memory]", .peer = peer_receives, .state = connected, .run = ok_send_registered},
};

PROGRAM("exs_blocking_send", call, .is_blocking_only = 1)
