// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_server_setup.h"
#include "setup/peers.h"
#include "setup/twists.h"

static long call(param *p)
{
	return exs_listen(p->fd, p->backlog);
}

static void negative_backlog(param *p)
{
	p->backlog = -1;
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM)},
	{2, ERROR(EINVAL), .state = bound, .twist = negative_backlog},
	{3, ERROR(EINVAL), .peer = peer_accepts, .state = connected},
	{4, ERROR(EBADF), .state = bound, .twist = bad_fd},
	{5, OK(OK_EXS_LISTEN), .state = bound},
	{6, ERROR(EINVAL), .state = listening},
	{7, ERROR(EINVAL), .peer = peer_connects, .state = accepted},
	{8, ERROR(EDESTADDRREQ), .state = with_socket},
};

PROGRAM("exs_listen", call)
