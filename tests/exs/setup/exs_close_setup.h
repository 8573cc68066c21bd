// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_CLOSE_SETUP_H
#define EXS_CLOSE_SETUP_H

#include "../event.h"
#include "exs_socket_setup.h"

static inline int ok_exs_close(param *p)
{
	int ret = is_zero("ok_exs_close", exs_close(p->fd, p->flags, queue_of(p), p->ah));

	if (!ret && p->mode)
		take_event(p, EXS_EVT_CLOSE, p->fd, 0);
	return ret;
}

// So that the other process comes to the end of the stream.
static inline void hang_up(const param *p)
{
	CHECK(!exs_blocking_close(p->fd), "exs_blocking_close: %s", strerror(errno));
}

// The names of the tests, by number.
static const char *const all_close_tests[] = {
	[1 - 1] = "exs_close(fd, flags, qh, ah) [no exs_init]",
	[2 - 1] = "exs_close(fd, BAD_FLAG, qh, ah)",
	[3 - 1] = "exs_close(fd, flags, INVALID_QHANDLE, ah)",
	[4 - 1] = "exs_close(BAD_FD, flags, qh, ah)",
	[5 - 1] = "exs_close(fd, flags, qh, ah)",
	[6 - 1] = "exs_close(CLOSED_FD, flags, qh, ah)",
	[7 - 1] = "exs_close(NOT_CONNECTED_FD, flags, qh, ah)",
	[8 - 1] = "exs_close(LISTENING_FD, flags, qh, ah)",
	[9 - 1] = "exs_close(fd, 0, NULL, NULL)",
	[10 - 1] = "exs_close(fd, flags, qh, ah) [sends in progress]",
};

TEST_NAMES(close, CLOSE)

#endif
