// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/receiving.h"

static long call(param *p)
{
	return exs_blocking_recv(p->fd, p->recv_buf, p->RECV_BUFSIZE, p->flags & ~EXS_BLOCK, p->mh);
}

#define CALL "exs_blocking_recv(fd, recv_buf, RECV_BUFSIZE, flags, mh)"

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM), CALL " [no exs_init]"},
	{2, ERROR(EINVAL), "exs_blocking_recv(fd, recv_buf, ZERO_LENGTH, flags, mh)", .peer = peer_connects, .state = accepted, .twist = zero_length},
	{3, ERROR(EINVAL), "exs_blocking_recv(fd, recv_buf, MAX_LENGTH, flags, mh)", .peer = peer_connects, .state = accepted, .twist = max_length},
	{4, ERROR(EINVAL), "exs_blocking_recv(fd, BAD_BUFFER, RECV_BUFSIZE, flags, mh)", .peer = peer_connects, .state = accepted, .twist = no_buffer},
	{5, ERROR(EOPNOTSUPP), "exs_blocking_recv(fd, recv_buf, RECV_BUFSIZE, BAD_FLAG, mh)", .peer = peer_connects, .state = accepted, .twist = bad_flag},
	{6, ERROR(EBADF), "exs_blocking_recv(BAD_FD, recv_buf, RECV_BUFSIZE, flags, mh)", .peer = peer_connects, .state = accepted, .twist = bad_fd},
	{7, ERROR(ENOTCONN), "exs_blocking_recv(NOT_CONNECTED_FD, recv_buf, RECV_BUFSIZE, flags, mh)", .state = with_socket},
	{8, OK(OK_EXS_BLOCKING_RECV), CALL, .peer = peer_sends, .state = accepted, .run = ok_receive},
	{9, OK(OK_EXS_BLOCKING_RECV), CALL " [registered memory]", .peer = peer_sends, .state = accepted, .run = ok_receive_registered},
	{10, OK(OK_EXS_BLOCKING_RECV), CALL " [the end of the stream]", .peer = peer_says_nothing_more, .state = accepted, .run = end_of_stream},
	{11, ERROR(ECONNRESET), CALL " [the peer is killed]", .peer = peer_connects, .state = accepted, .run = reset_while_receiving},
	{12, ERROR(EAGAIN), CALL " [O_NONBLOCK, nothing there]", .peer = peer_connects, .state = accepted, .twist = nothing_there},
	{13, ERROR(EINVAL), "exs_blocking_recv(fd, recv_buf, RECV_BUFSIZE, flags, EXS_MHANDLE_INVALID)", .peer = peer_connects, .state = accepted, .twist = bad_mhandle},
};

PROGRAM("exs_blocking_recv", call, .is_blocking_only = 1)
