// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/receiving.h"

static long call(param *p)
{
	return exs_read(p->fd, p->recv_buf, p->RECV_BUFSIZE);
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM)},
	{2, ERROR(EINVAL), .peer = peer_connects, .state = accepted, .twist = zero_length},
	{3, ERROR(EINVAL), .peer = peer_connects, .state = accepted, .twist = max_length},
	{4, ERROR(EINVAL), .peer = peer_connects, .state = accepted, .twist = no_buffer},
	{5, ERROR(EBADF), .peer = peer_connects, .state = accepted, .twist = bad_fd},
	{6, ERROR(ENOTCONN), .state = with_socket},
	{7, OK(OK_EXS_READ), .peer = peer_sends, .state = accepted, .run = ok_receive},
	{8, OK(OK_EXS_READ), .peer = peer_says_nothing_more, .state = accepted, .run = end_of_stream},
	{9, ERROR(ECONNRESET), .peer = peer_connects, .state = accepted, .run = reset_while_receiving},
	{10, ERROR(EAGAIN), .peer = peer_connects, .state = accepted, .twist = nothing_there},
};

PROGRAM("exs_read", call, .is_blocking_only = 1)
