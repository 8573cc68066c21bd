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
	{1, ERROR(EPERM), "exs_listen(fd, 10) [no exs_init]"},
	{2, ERROR(EINVAL), "exs_listen(fd, -1)", .state = bound, .twist = negative_backlog},
	{3, ERROR(EINVAL), "exs_listen(CONNECTED_FD, 10)", .peer = peer_accepts, .state = connected},
	{4, ERROR(EBADF), "exs_listen(BAD_FD, 10)", .state = bound, .twist = bad_fd},
	{5, OK(OK_EXS_LISTEN), "exs_listen(fd, 10)", .state = bound},
	{6, ERROR(EINVAL), "exs_listen(LISTENING_FD, 10)", .state = listening},
	{7, ERROR(EINVAL), "exs_listen(ACCEPTED_FD, 10)", .peer = peer_connects, .state = accepted},
};

PROGRAM("exs_listen", call)
