// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_SHUTDOWN_SETUP_H
#define EXS_SHUTDOWN_SETUP_H

#include "../event.h"
#include "exs_socket_setup.h"

static inline int ok_exs_shutdown(param *p)
{
	int ret = is_zero("ok_exs_shutdown", exs_shutdown(p->fd, p->how, p->flags, queue_of(p), p->ah));

	if (!ret && p->mode)
		take_event(p, EXS_EVT_SHUTDOWN, p->fd, 0);
	return ret;
}

// The names of the tests, by number.
static const char *const all_shutdown_tests[] = {
	[1 - 1] = "exs_shutdown(fd, SHUT_RDWR, flags, qh, qh) [no exs_init]",
	[2 - 1] = "exs_shutdown(fd, SHUT_RDWR, BAD_FLAG, qh, qh)",
	[3 - 1] = "exs_shutdown(fd, SHUT_RDWR, flags, INVALID_QHANDLE, qh)",
	[4 - 1] = "exs_shutdown(BAD_FD, SHUT_RDWR, flags, qh, qh)",
	[5 - 1] = "exs_shutdown(fd, SHUT_RDWR, flags, qh, qh)",
	[6 - 1] = "exs_shutdown(fd, BAD_DIRECTION, flags, qh, qh)",
	[7 - 1] = "exs_shutdown(NOT_CONNECTED_FD, SHUT_RDWR, flags, qh, qh)",
	[8 - 1] = "exs_shutdown(fd, SHUT_WR, flags, qh, qh)",
	[9 - 1] = "exs_shutdown(fd, SHUT_RD, flags, qh, qh)",
	[10 - 1] = "exs_shutdown(fd, SHUT_RD, EXS_BLOCK, NULL, NULL) [a receive with MSG_WAITALL has a part]",
	[11 - 1] = "exs_shutdown(fd, SHUT_RD, flags, qh, qh) [a part of a message is there]",
};

TEST_NAMES(shutdown, SHUTDOWN)

#endif
