// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_mderegister_setup.h"
#include "setup/twists.h"

#include <sys/mman.h>

static int flags;

// Handles are not numbers: here the answer is only good or bad, and the handle is kept.
static long call(param *p)
{
	p->mh = exs_mregister(p->recv_buf, p->RECV_BUFSIZE, flags);
	return p->mh == EXS_MHANDLE_INVALID ? -1 : 0;
}

static void judged(param *p, void *address, size_t size, int with, int error)
{
	errno = 0;
	exs_mhandle_t mh = exs_mregister(address, size, with);
	print_mhandle_macro(p->test_number, p->test_value, p->test_name, mh, error);
}

static void bad_mrf(param *p)
{
	(void)p;
	flags = 0x40000000;
}

static void *pages(int protection)
{
	void *memory = mmap(NULL, TEST_BUFSIZE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED, "mmap: %s", strerror(errno));
	return memory;
}

static void ok(param *p)
{
	judged(p, p->recv_buf, p->RECV_BUFSIZE, 0, 0);
}

static void read_only(param *p)
{
	judged(p, pages(PROT_READ), TEST_BUFSIZE, 0, EACCES);
}

static void no_access(param *p)
{
	judged(p, pages(PROT_NONE), TEST_BUFSIZE, EXS_MRF_RECV_DISABLE, EACCES);
}

static void read_only_to_send(param *p)
{
	judged(p, pages(PROT_READ), TEST_BUFSIZE, EXS_MRF_RECV_DISABLE, 0);
}

static void unmapped(param *p)
{
	// Below what the kernel lets anybody map.
	judged(p, (void *)4096, TEST_BUFSIZE, 0, EFAULT);
}

// Some of it is there: looking for all of it must not take as much again.
static void more_than_there_is(param *p)
{
	judged(p, pages(PROT_READ), SIZE_MAX / 4, EXS_MRF_RECV_DISABLE, EFAULT);
}

// A region may be registered more than once, and each registration is one.
static void twice(param *p)
{
	require(ok_exs_mregister(p, p->recv_buf, p->RECV_BUFSIZE));
	exs_mhandle_t first = p->mh;
	require(ok_exs_mregister(p, p->recv_buf, p->RECV_BUFSIZE));
	CHECK(p->mh != first, "two registrations have one handle");
	require(ok_exs_mderegister(p));
	p->mh = first;
	require(ok_exs_mderegister(p));
	print_pass(0);
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM)},
	{3, ERROR(EINVAL), .state = initialized, .twist = zero_length},
	{4, ERROR(EINVAL), .state = initialized, .twist = bad_mrf},
	{5, ERROR(EINVAL), .state = initialized, .twist = no_buffer},
	{6, OK(OK_EXS_MREGISTER), .state = initialized, .run = ok},
	{7, ERROR(EACCES), .state = initialized, .run = read_only},
	{8, ERROR(EACCES), .state = initialized, .run = no_access},
	{9, OK(OK_EXS_MREGISTER), .state = initialized, .run = read_only_to_send},
	{10, ERROR(EFAULT), .state = initialized, .run = unmapped},
	{11, OK(OK_EXS_MREGISTER), .state = initialized, .run = twice},
	{12, ERROR(EFAULT), .state = initialized, .run = more_than_there_is},
};

PROGRAM("exs_mregister", call)
