// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/receiving.h"

static long call(param *p)
{
	return exs_blocking_recv(p->fd, p->recv_buf, p->RECV_BUFSIZE, p->flags & ~EXS_BLOCK, p->mh);
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM)},
	{2, ERROR(EINVAL), .peer = peer_connects, .state = accepted, .twist = zero_length},
	{3, ERROR(EINVAL), .peer = peer_connects, .state = accepted, .twist = max_length},
	{4, ERROR(EINVAL), .peer = peer_connects, .state = accepted, .twist = no_buffer},
	{5, ERROR(EOPNOTSUPP), .peer = peer_connects, .state = accepted, .twist = bad_flag},
	{6, ERROR(EBADF), .peer = peer_connects, .state = accepted, .twist = bad_fd},
	{7, ERROR(ENOTCONN), .state = with_socket},
	{8, OK(OK_EXS_BLOCKING_RECV), .peer = peer_sends, .state = accepted, .run = ok_receive},
	{9, OK(OK_EXS_BLOCKING_RECV), .peer = peer_sends, .state = accepted, .run = ok_receive_registered},
	{10, OK(OK_EXS_BLOCKING_RECV), .peer = peer_says_nothing_more, .state = accepted, .run = end_of_stream},
	{11, ERROR(ECONNRESET), .peer = peer_connects, .state = accepted, .run = reset_while_receiving},
	{12, ERROR(EAGAIN), .peer = peer_connects, .state = accepted, .twist = nothing_there},
	{13, ERROR(EINVAL), .peer = peer_connects, .state = accepted, .twist = bad_mhandle},
};

PROGRAM("exs_blocking_recv", call, .is_blocking_only = 1)
