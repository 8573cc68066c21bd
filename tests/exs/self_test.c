// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The framework's own test: what it makes of tests that end in all the ways in which tests end. No
// library is called.

#include "case.h"

#include <signal.h>
#include <unistd.h>

static long call(param *p)
{
	(void)p;
	errno = EINVAL;
	return -1;
}

static long answer(param *p)
{
	(void)p;
	return 7;
}

static void passes(param *p)
{
	errno = 0;
	print_macro(p->test_number, p->test_value, p->test_name, answer(p), 7, 0);
}

static void wrong_answer(param *p)
{
	print_macro(p->test_number, p->test_value, p->test_name, answer(p), 8, 0);
}

static void colons(param *p)
{
	(void)p;
	FAIL("%s: %s : %d", "exs_send", "a reason", 1);
}

static void fails_after_passing(param *p)
{
	(void)p;
	print_pass(0);
	finish(EXIT_FAILURE);
}

static void fails_before_passing(param *p)
{
	(void)p;
	print_fail("the first word");
	print_pass(0);
}

static void crashes(param *p)
{
	(void)p;
	raise(SIGSEGV);
}

static void hangs(param *p)
{
	(void)p;
	for (;;)
		pause();
}

static void is_killed(param *p)
{
	(void)p;
	kill(getpid(), SIGKILL);
}

static void says_nothing(param *p)
{
	(void)p;
}

static const struct test_case all_tests[] = {
	{1, ERROR(EINVAL), "the errno that is expected"},
	{2, ERROR(EPERM), "another errno"},
	{3, OK(OK_ANSWER), "an answer", .run = passes},
	{4, OK(OK_ANSWER), "another answer", .run = wrong_answer},
	{5, OK(OK_ANSWER), "a reason with colons", .run = colons},
	{6, OK(OK_ANSWER), "a bad end after a good result", .run = fails_after_passing},
	{7, OK(OK_ANSWER), "a good result after a bad one", .run = fails_before_passing},
	{8, OK(OK_ANSWER), "a fault", .run = crashes},
	{9, OK(OK_ANSWER), "no end", .run = hangs, .limit = 1},
	{10, OK(OK_ANSWER), "killed", .run = is_killed},
	{11, OK(OK_ANSWER), "no result", .run = says_nothing},
	{12, ERROR(EINVAL), "non-blocking mode only", NON_BLOCKING},
	{14, ERROR(EINVAL), "a number is left out before this one"},
};

PROGRAM("self", call)
