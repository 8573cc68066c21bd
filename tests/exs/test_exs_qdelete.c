// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_qcreate_setup.h"
#include "setup/peers.h"
#include "setup/twists.h"

#include <pthread.h>
#include <unistd.h>

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

static int waited;

static void *wait_for_one(void *of)
{
	param *p = of;
	struct timeval limit = {10, 0};
	exs_event_t event;

	waited = exs_qdequeue(p->qh, &event, 1, &limit);
	return NULL;
}

// Whoever waits is not told that the queue is gone. From when on he waits nobody knows: a queue
// that is deleted before is followed by another.
static void waited_at(param *p)
{
	enum { TRIES = 50 };
	pthread_t waiter;
	long ret = 0;
	int error = 0;

	for (int i = 0; i < TRIES && !ret; i++) {
		p->qh = exs_qcreate(0);
		CHECK(!pthread_create(&waiter, NULL, wait_for_one, p), "no thread");
		usleep(10000 * (i + 1));
		errno = 0;
		ret = call(p);
		error = errno;
		if (ret)
			CHECK(!exs_close(p->fd, 0, p->qh, p->ah), "exs_close: %s", strerror(errno));
		pthread_join(waiter, NULL);
	}
	CHECK(!ret || waited == 1, "the wait ends with %d", waited);
	CHECK(!ret || !exs_qdelete(p->qh), "exs_qdelete, once nobody waits: %s", strerror(errno));
	errno = error;
	print_macro(p->test_number, p->test_value, p->test_name, ret, -1, EBUSY);
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
	{10, ERROR(EBUSY), .state = with_socket, .run = waited_at},
};

PROGRAM("exs_qdelete", call)
