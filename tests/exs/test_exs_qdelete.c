// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_qcreate_setup.h"
#include "setup/peers.h"
#include "setup/twists.h"

static long call(param *p)
{
	return exs_qdelete(p->qh);
}

static void no_handle(param *p)
{
	p->qh = NULL;
}

static void wild_handle(param *p)
{
	p->qh = (exs_qhandle_t)p->recv_buf;
}

// A receive is in progress until its socket is closed.
static void in_use(param *p)
{
	CHECK(!exs_recv(p->fd, p->recv_buf, p->RECV_BUFSIZE, 0, p->qh, p->ah, p->mh), "exs_recv: %s", strerror(errno));
	errno = 0;
	long ret = call(p);
	int error = errno;
	hang_up(p);
	take_event(p, EXS_EVT_RECV, p->fd, ECANCELED);
	CHECK(!exs_qdelete(p->qh), "exs_qdelete, once nothing is in progress: %s", strerror(errno));
	errno = error;
	print_macro(p->test_number, p->test_value, p->test_name, ret, -1, EBUSY);
}

// Events that nobody took do not keep it.
static void with_events(param *p)
{
	CHECK(!exs_send(p->fd, p->send_buf, p->SEND_BUFSIZE, 0, p->qh, p->ah, p->mh), "exs_send: %s", strerror(errno));
	for (int count = 0; !count;)
		CHECK(!exs_qstatus(p->qh, EXS_QATTR_EVENTS, &count, sizeof(count)), "exs_qstatus: %s", strerror(errno));
	long ret = call(p);
	hang_up(p);
	print_macro(p->test_number, p->test_value, p->test_name, ret, 0, 0);
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM)},
	{3, ERROR(EINVAL), .state = with_queue, .twist = bad_qhandle},
	{4, OK(OK_EXS_QDELETE), .state = with_queue},
	{5, ERROR(EBUSY), .modes = NON_BLOCKING, .peer = peer_accepts, .state = connected, .run = in_use},
	{6, ERROR(EINVAL), .state = with_queue, .twist = deleted_qhandle},
	{7, ERROR(EINVAL), .state = with_queue, .twist = no_handle},
	{8, ERROR(EINVAL), .state = with_queue, .twist = wild_handle},
	{9, OK(OK_EXS_QDELETE), .modes = NON_BLOCKING, .peer = peer_receives, .state = connected, .run = with_events},
};

PROGRAM("exs_qdelete", call)
