// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_qcreate_setup.h"

static long call(param *p)
{
	p->qh = exs_qcreate(p->depth);
	return p->qh == EXS_QHANDLE_INVALID ? -1 : 0;
}

static void judged(param *p, int error)
{
	errno = 0;
	exs_qhandle_t qh = exs_qcreate(p->depth);
	print_qhandle_macro(p->test_number, p->test_value, p->test_name, qh, error);
}

static void ok(param *p)
{
	judged(p, 0);
}

static void default_depth(param *p)
{
	p->depth = 0;
	judged(p, 0);
}

static void deepest(param *p)
{
	p->depth = EXS_QDEPTH_MAX;
	judged(p, 0);
}

static void too_deep(param *p)
{
	p->depth = EXS_QDEPTH_MAX + 1;
}

static void negative_depth(param *p)
{
	p->depth = -1;
}

// One more than there can be; when one has gone there can be one again.
static void too_many(param *p)
{
	exs_qhandle_t one = p->qh;
	int count = one ? 1 : 0;

	while (call(p) == 0) {
		one = p->qh;
		CHECK(++count <= EXS_QUEUES_MAX, "%d event queues", count);
	}
	int error = errno;
	CHECK(count == EXS_QUEUES_MAX, "no more than %d event queues", count);
	CHECK(!exs_qdelete(one), "exs_qdelete: %s", strerror(errno));
	CHECK(!call(p), "exs_qcreate, once there is room: %s", strerror(errno));
	errno = error;
	print_qhandle_macro(p->test_number, p->test_value, p->test_name, EXS_QHANDLE_INVALID, EAGAIN);
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM)},
	{3, OK(OK_EXS_QCREATE), .state = ok_exs_init, .run = ok},
	{4, ERROR(EAGAIN), .state = ok_exs_init, .run = too_many},
	{5, ERROR(EINVAL), .state = ok_exs_init, .twist = too_deep},
	{6, ERROR(EINVAL), .state = ok_exs_init, .twist = negative_depth},
	{7, OK(OK_EXS_QCREATE), .state = ok_exs_init, .run = default_depth},
	{8, OK(OK_EXS_QCREATE), .state = ok_exs_init, .run = deepest},
};

PROGRAM("exs_qcreate", call)
