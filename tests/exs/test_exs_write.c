// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/sending.h"

static long call(param *p)
{
	return exs_write(p->fd, p->send_buf, p->SEND_BUFSIZE);
}

static const struct test_case all_tests[] = {
	{1, ERROR(ENOTCONN), .state = with_socket},
	{2, ERROR(EPERM)},
	{3, ERROR(EINVAL), .peer = peer_accepts, .state = connected, .twist = no_buffer},
	{5, ERROR(EPIPE), .peer = peer_accepts, .state = shut_down},
	{11, OK(OK_EXS_WRITE), .peer = peer_receives, .state = connected, .run = ok_send},
	{12, ERROR(ECONNRESET), .peer = peer_accepts, .state = connected, .run = reset_while_sending},
	{13, ERROR(EINVAL), .peer = peer_accepts, .state = connected, .run = both_flags_in_the_general_form},
	{14, ERROR(EBUSY), .peer = peer_accepts, .state = connected, .run = no_send_credits},
	{15, ERROR(EBADF), .peer = peer_accepts, .state = connected, .twist = bad_fd},
	{16, ERROR(EPIPE), .peer = peer_closes, .state = connected, .run = peer_has_closed},
};

PROGRAM("exs_write", call, .is_blocking_only = 1)
