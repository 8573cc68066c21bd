// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_BLOCKING_CLOSE_SETUP_H
#define EXS_BLOCKING_CLOSE_SETUP_H

#include "exs_socket_setup.h"

static inline int ok_exs_blocking_close(param *p)
{
	return is_zero("ok_exs_blocking_close", exs_blocking_close(p->fd));
}

// The names of the tests, by number.
static const char *const all_blocking_close_tests[] = {
	[1 - 1] = "exs_blocking_close(fd) [no exs_init]",
	[2 - 1] = "exs_blocking_close(fd)",
	[3 - 1] = "exs_blocking_close(fd) [flags are not supported]",
	[4 - 1] = "exs_blocking_close(fd) [qhandle is invalid]",
	[5 - 1] = "exs_blocking_close(BAD_FD)",
	[6 - 1] = "exs_blocking_close(NOT_CONNECTED_FD)",
};

TEST_NAMES(blocking_close, BLOCKING_CLOSE)

#endif
