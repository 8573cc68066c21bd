// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/receiving.h"

static long call(param *p)
{
	return exs_read(p->fd, p->recv_buf, p->RECV_BUFSIZE);
}

#define CALL "exs_read(fd, recv_buf, RECV_BUFSIZE)"

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM), CALL " [no exs_init]"},
	{2, ERROR(EINVAL), "exs_read(fd, recv_buf, ZERO_LENGTH)", .peer = peer_connects, .state = accepted, .twist = zero_length},
	{3, ERROR(EINVAL), "exs_read(fd, recv_buf, MAX_LENGTH)", .peer = peer_connects, .state = accepted, .twist = max_length},
	{4, ERROR(EINVAL), "exs_read(fd, NULL, RECV_BUFSIZE)", .peer = peer_connects, .state = accepted, .twist = no_buffer},
	{5, ERROR(EBADF), "exs_read(BAD_FD, recv_buf, RECV_BUFSIZE)", .peer = peer_connects, .state = accepted, .twist = bad_fd},
	{6, ERROR(ENOTCONN), "exs_read(NOT_CONNECTED_FD, recv_buf, RECV_BUFSIZE)", .state = with_socket},
	{7, OK(OK_EXS_READ), CALL, .peer = peer_sends, .state = accepted, .run = ok_receive},
	{8, OK(OK_EXS_READ), CALL " [the end of the stream]", .peer = peer_says_nothing_more, .state = accepted, .run = end_of_stream},
	{9, ERROR(ECONNRESET), CALL " [the peer is killed]", .peer = peer_connects, .state = accepted, .run = reset_while_receiving},
	{10, ERROR(EAGAIN), CALL " [O_NONBLOCK, nothing there]", .peer = peer_connects, .state = accepted, .twist = nothing_there},
};

PROGRAM("exs_read", call, .is_blocking_only = 1)
