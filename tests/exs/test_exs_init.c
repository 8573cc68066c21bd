// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_mregister_setup.h"

#include <sys/wait.h>
#include <unistd.h>

static long call(param *p)
{
	return exs_init(p->version);
}

static void bad_version(param *p)
{
	p->version = 4711;
}

static void zero_version(param *p)
{
	p->version = 0;
}

// A refused version leaves nothing behind.
static void good_after_bad(param *p)
{
	CHECK(exs_init(0) == -1 && errno == ENOTSUP, "exs_init(0): %s", strerror(errno));
	print_macro(p->test_number, p->test_value, p->test_name, exs_init(p->version), 0, 0);
}

// A child that calls it, whatever the parent has done before: its answer is errno.
static int init_in_child(param *p)
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (child == 0)
		_exit(call(p) ? errno : 0);
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status), "the child has no end");
	return WEXITSTATUS(status);
}

static void in_child(param *p)
{
	errno = init_in_child(p);
	print_macro(p->test_number, p->test_value, p->test_name, errno ? -1 : 0, 0, 0);
}

// Devices stay open in the parent, where the child has no use of them.
static void in_child_of_a_user(param *p)
{
	require(ok_exs_mregister(p, p->recv_buf, p->RECV_BUFSIZE));
	errno = init_in_child(p);
	print_macro(p->test_number, p->test_value, p->test_name, errno ? -1 : 0, -1, EALREADY);
}

static const struct test_case all_tests[] = {
	{1, ERROR(ENOTSUP), .twist = bad_version},
	{2, OK(OK_EXS_INIT)},
	{3, ERROR(EALREADY), .state = ok_exs_init},
	{4, ERROR(ENOTSUP), .twist = zero_version},
	{5, OK(OK_EXS_INIT), .run = good_after_bad},
	{6, OK(OK_EXS_INIT), .state = ok_exs_init, .run = in_child},
	{7, ERROR(EALREADY), .state = initialized, .run = in_child_of_a_user},
};

PROGRAM("exs_init", call)
