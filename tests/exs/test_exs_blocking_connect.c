// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_blocking_connect_setup.h"
#include "setup/peers.h"
#include "setup/twists.h"

static long call(param *p)
{
	return exs_blocking_connect(p->fd, p->address, p->address_len);
}

static void nobody_there(param *p)
{
	aim_port(p, 7);
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM), .state = not_initialized},
	{2, ERROR(EINVAL), .peer = peer_accepts, .state = connected},
	{3, OK(OK_EXS_BLOCKING_CONNECT), .peer = peer_accepts, .state = unconnected},
	{4, ERROR(EBADF), .state = with_socket, .twist = bad_fd},
	{5, ERROR(EINVAL), .state = listening},
	{6, ERROR(ECONNREFUSED), .state = with_socket, .twist = nobody_there},
};

PROGRAM("exs_blocking_connect", call, .is_blocking_only = 1)
