// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_init_setup.h"

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

static const struct test_case all_tests[] = {
	{1, ERROR(ENOTSUP), .twist = bad_version},
	{2, OK(OK_EXS_INIT)},
	{3, ERROR(EALREADY), .state = ok_exs_init},
	{4, ERROR(ENOTSUP), .twist = zero_version},
	{5, OK(OK_EXS_INIT), .run = good_after_bad},
};

PROGRAM("exs_init", call)
