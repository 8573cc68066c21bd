// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_FCNTL_SETUP_H
#define EXS_FCNTL_SETUP_H

#include "exs_socket_setup.h"

#include <fcntl.h>

// Calls on this socket fail where they would wait.
static inline int do_not_wait(param *p)
{
	return is_zero("exs_fcntl", exs_fcntl(p->fd, F_SETFL, O_NONBLOCK));
}

// A socket that waits has no flags but these.
static inline int ok_exs_fcntl(param *p)
{
	int ret = exs_fcntl(p->fd, F_GETFL);

	if (ret == O_RDWR)
		return ret;
	print_error("ok_exs_fcntl");
	return -1;
}

// The names of the tests, by number.
static const char *const all_fcntl_tests[] = {
	[1 - 1] = "exs_fcntl(fd, F_GETFL) [no exs_init]",
	[2 - 1] = "exs_fcntl(BAD_FD, F_GETFL)",
	[3 - 1] = "exs_fcntl(fd, BAD_COMMAND)",
	[4 - 1] = "exs_fcntl(fd, F_GETFL)",
	[5 - 1] = "exs_fcntl(fd, F_SETFL, O_NONBLOCK)",
	[6 - 1] = "exs_fcntl(fd, EXS_F_SETFILELIMIT, &limit)",
	[7 - 1] = "exs_fcntl(fd, EXS_F_SETFILELIMIT, &NEGATIVE)",
	[8 - 1] = "exs_fcntl(fd, EXS_F_SETFILELIMIT, BAD_ADDRESS)",
};

TEST_NAMES(fcntl, FCNTL)

#endif
