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

static const struct test_case all_tests[] = {
	{1, ERROR(ENOTCONN), .state = with_socket},
	{2, ERROR(EPERM)},
	{3, ERROR(EINVAL), .peer = peer_accepts, .state = connected, .twist = no_buffer},
	{4, ERROR(EINVAL), .peer = peer_accepts, .state = connected, .run = both_flags},
	{5, ERROR(EOPNOTSUPP), .peer = peer_accepts, .state = connected, .twist = bad_flag},
	{6, ERROR(EBADF), .peer = peer_accepts, .state = connected, .twist = bad_fd},
	{8, ERROR(EPIPE), .peer = peer_accepts, .state = shut_down},
	{14, OK(OK_EXS_BLOCKING_SEND), .peer = peer_receives, .state = connected, .run = ok_send},
	{15, ERROR(ECONNRESET), .peer = peer_accepts, .state = connected, .run = reset_while_sending},
	{16, ERROR(EBUSY), .peer = peer_accepts, .state = connected, .run = no_send_credits},
	{17, ERROR(EINVAL), .peer = peer_accepts, .state = connected, .twist = zero_length},
	{18, ERROR(EINVAL), .peer = peer_accepts, .state = connected, .twist = bad_mhandle},
	{19, ERROR(EPIPE), .peer = peer_closes, .state = connected, .run = peer_has_closed},
	{20, OK(OK_EXS_BLOCKING_SEND), .peer = peer_receives, .state = connected, .run = ok_send_registered},
};

PROGRAM("exs_blocking_send", call, .is_blocking_only = 1)
