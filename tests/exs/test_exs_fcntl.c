// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_socket_setup.h"
#include "setup/twists.h"

#include <fcntl.h>

static long call(param *p)
{
	return exs_fcntl(p->fd, F_GETFL);
}

static void no_such_command(param *p)
{
	print_macro(p->test_number, p->test_value, p->test_name, exs_fcntl(p->fd, 123456, 0), -1, EINVAL);
}

static void set_and_read(param *p)
{
	int before = exs_fcntl(p->fd, F_GETFL);

	CHECK(before >= 0 && !(before & O_NONBLOCK), "F_GETFL of a new socket: %#x", before);
	CHECK(!exs_fcntl(p->fd, F_SETFL, before | O_NONBLOCK), "F_SETFL: %s", strerror(errno));
	CHECK(exs_fcntl(p->fd, F_GETFL) & O_NONBLOCK, "O_NONBLOCK is not set");
	CHECK(!exs_fcntl(p->fd, F_SETFL, before), "F_SETFL: %s", strerror(errno));
	CHECK(!(exs_fcntl(p->fd, F_GETFL) & O_NONBLOCK), "O_NONBLOCK stays set");
	print_pass(0);
}

static void file_limit(param *p)
{
	off_t limit = -1, none = 0;

	CHECK(!exs_fcntl(p->fd, EXS_F_GETFILELIMIT, &limit) && limit == EXS_FILE_LIMIT, "a limit of %lld", (long long)limit);
	CHECK(!exs_fcntl(p->fd, EXS_F_SETFILELIMIT, &none), "EXS_F_SETFILELIMIT: %s", strerror(errno));
	CHECK(!exs_fcntl(p->fd, EXS_F_GETFILELIMIT, &limit) && limit == 0, "a limit of %lld", (long long)limit);
	print_pass(0);
}

static void negative_limit(param *p)
{
	off_t limit = -1;

	print_macro(p->test_number, p->test_value, p->test_name, exs_fcntl(p->fd, EXS_F_SETFILELIMIT, &limit), -1, EINVAL);
}

static void wild_limit(param *p)
{
	print_macro(p->test_number, p->test_value, p->test_name, exs_fcntl(p->fd, EXS_F_SETFILELIMIT, (void *)64), -1, EFAULT);
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM)},
	{2, ERROR(EBADF), .state = with_socket, .twist = bad_fd},
	{3, ERROR(EINVAL), .state = with_socket, .run = no_such_command},
	{4, OK(OK_EXS_FCNTL), .answer = O_RDWR, .state = with_socket},
	{5, OK(OK_EXS_FCNTL), .state = with_socket, .run = set_and_read},
	{6, OK(OK_EXS_FCNTL), .state = with_socket, .run = file_limit},
	{7, ERROR(EINVAL), .state = with_socket, .run = negative_limit},
	{8, ERROR(EFAULT), .state = with_socket, .run = wild_limit},
};

PROGRAM("exs_fcntl", call)
