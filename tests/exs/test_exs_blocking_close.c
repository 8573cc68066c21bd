// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_close_setup.h"
#include "setup/peers.h"
#include "setup/twists.h"

static long call(param *p)
{
	return exs_blocking_close(p->fd);
}

static void ok(param *p)
{
	errno = 0;
	long ret = call(p);

	CHECK(call(p) == -1 && errno == EBADF, "the socket is still there: %s", strerror(errno));
	print_macro(p->test_number, p->test_value, p->test_name, ret, 0, 0);
}

// The blocking form abbreviates this one, which alone has these arguments.
static void general(param *p, int flags, exs_qhandle_t qh)
{
	print_macro(p->test_number, p->test_value, p->test_name, exs_close(p->fd, flags, qh, p->ah), -1, EINVAL);
	CHECK(!call(p), "a refused close has closed: %s", strerror(errno));
}

static void unsupported_flags(param *p)
{
	general(p, EXS_BLOCK | BAD_FLAG, NULL);
}

static void not_a_queue(param *p)
{
	general(p, EXS_BLOCK, EXS_QHANDLE_INVALID);
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM)},
	{2, OK(OK_EXS_BLOCKING_CLOSE), .peer = peer_accepts, .state = connected, .run = ok},
	{3, ERROR(EINVAL), .state = with_socket, .run = unsupported_flags},
	{4, ERROR(EINVAL), .state = with_socket, .run = not_a_queue},
	{5, ERROR(EBADF), .state = with_socket, .twist = bad_fd},
	{6, OK(OK_EXS_BLOCKING_CLOSE), .state = with_socket, .run = ok},
};

PROGRAM("exs_blocking_close", call, .is_blocking_only = 1)
