// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/sending.h"

static long call(param *p)
{
	return exs_write(p->fd, p->send_buf, p->SEND_BUFSIZE);
}

#define CALL "exs_write(fd, send_buf, SEND_BUFSIZE)"

static const struct test_case all_tests[] = {
	{1, ERROR(ENOTCONN), "exs_write(NOT_CONNECTED_FD, send_buf, SEND_BUFSIZE)", .state = with_socket},
	{2, ERROR(EPERM), CALL " [no exs_init]"},
	{3, ERROR(EINVAL), "exs_write(fd, BAD_BUFFER, SEND_BUFSIZE)", .peer = peer_accepts, .state = connected, .twist = no_buffer},
	{5, ERROR(EPIPE), CALL " [shut down for writing]", .peer = peer_accepts, .state = shut_down},
	{11, OK(OK_EXS_WRITE), CALL, .peer = peer_receives, .state = connected, .run = ok_send},
	{12, ERROR(ECONNRESET), CALL " [the peer is killed]", .peer = peer_accepts, .state = connected, .run = reset_while_sending},
	{13, ERROR(EINVAL), CALL " [EXS_UNSIGNALED | EXS_BLOCK]", .peer = peer_accepts, .state = connected, .run = both_flags_in_the_general_form},
	{14, ERROR(EBUSY), CALL " [no send credits]", .peer = peer_accepts, .state = connected, .run = no_send_credits},
	{15, ERROR(EBADF), "exs_write(BAD_FD, send_buf, SEND_BUFSIZE)", .peer = peer_accepts, .state = connected, .twist = bad_fd},
	{16, ERROR(EPIPE), CALL " [the peer has closed]", .peer = peer_closes, .state = connected, .run = peer_has_closed},
};

PROGRAM("exs_write", call, .is_blocking_only = 1)
