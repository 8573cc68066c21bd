// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_mderegister_setup.h"
#include "setup/peers.h"

static int flags;

static long call(param *p)
{
	return exs_mderegister(p->mh, flags);
}

static void no_handle(param *p)
{
	p->mh = NULL;
}

static void invalid(param *p)
{
	p->mh = EXS_MHANDLE_INVALID;
}

static void unregistered(param *p)
{
	p->mh = EXS_MHANDLE_UNREGISTERED;
}

static void again(param *p)
{
	require(ok_exs_mderegister(p));
}

static void bad_flags(param *p)
{
	(void)p;
	flags = 2;
}

// A receive has the memory: it cannot go before the receive is over.
static void in_use(param *p)
{
	require(ok_exs_mregister(p, p->recv_buf, p->RECV_BUFSIZE));
	CHECK(!exs_recv(p->fd, p->recv_buf, p->RECV_BUFSIZE, 0, p->qh, p->ah, p->mh), "exs_recv: %s", strerror(errno));
	errno = 0;
	long ret = call(p);
	int error = errno;
	hang_up(p);
	take_event(p, EXS_EVT_RECV, p->fd, ECANCELED);
	require(ok_exs_mderegister(p));
	errno = error;
	print_macro(p->test_number, p->test_value, p->test_name, ret, -1, EBUSY);
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM)},
	{2, ERROR(EINVAL), .state = with_memory, .twist = no_handle},
	{3, ERROR(EINVAL), .state = with_memory, .twist = invalid},
	{4, ERROR(EINVAL), .state = with_memory, .twist = unregistered},
	{5, OK(OK_EXS_MDEREGISTER), .state = with_memory},
	{6, ERROR(EINVAL), .state = with_memory, .twist = again},
	{7, ERROR(EINVAL), .state = with_memory, .twist = bad_flags},
	{8, ERROR(EBUSY), .modes = NON_BLOCKING, .peer = peer_accepts, .state = connected, .run = in_use},
};

PROGRAM("exs_mderegister", call)
