// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_LISTEN_SETUP_H
#define EXS_LISTEN_SETUP_H

#include "exs_bind_setup.h"

static inline int ok_exs_listen(param *p)
{
	return is_zero("ok_exs_listen", exs_listen(p->fd, p->backlog));
}

static inline int listening(param *p)
{
	return bound(p) < 0 ? -1 : ok_exs_listen(p);
}

// The names of the tests, by number.
static const char *const all_listen_tests[] = {
	[1 - 1] = "exs_listen(fd, 10) [no exs_init]",
	[2 - 1] = "exs_listen(fd, -1)",
	[3 - 1] = "exs_listen(CONNECTED_FD, 10)",
	[4 - 1] = "exs_listen(BAD_FD, 10)",
	[5 - 1] = "exs_listen(fd, 10)",
	[6 - 1] = "exs_listen(LISTENING_FD, 10)",
	[7 - 1] = "exs_listen(ACCEPTED_FD, 10)",
	[8 - 1] = "exs_listen(fd, 10) [no exs_bind]",
	[9 - 1] = "exs_listen(fd, 2) [four connect before anybody is accepted]",
};

TEST_NAMES(listen, LISTEN)

#endif
