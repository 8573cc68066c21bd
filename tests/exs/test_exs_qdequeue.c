// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_qcreate_setup.h"
#include "setup/peers.h"
#include "setup/twists.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static exs_event_t events[EXS_EVTVEC_MAX];
static const struct timeval at_once = {0, 0};

static long call(param *p)
{
	return exs_qdequeue(p->qh, p->evtvec, p->evtvec_cnt, p->to);
}

// Nothing here waits for ever by mistake.
static int queue_and_room(param *p)
{
	p->evtvec = events;
	p->to = &at_once;
	return with_queue(p);
}

static int room_only(param *p)
{
	p->evtvec = events;
	p->to = &at_once;
	p->qh = EXS_QHANDLE_INVALID;
	return 0;
}

static void zero_count(param *p)
{
	p->evtvec_cnt = 0;
}

static void wild_events(param *p)
{
	p->evtvec = (exs_event_t *)64;
}

static void no_events(param *p)
{
	p->evtvec = NULL;
}

static void wild_timeout(param *p)
{
	p->to = (const struct timeval *)64;
}

static void bad_timeout(param *p)
{
	static const struct timeval bad = {0, 1000000};

	p->to = &bad;
}

static void too_many(param *p)
{
	p->evtvec_cnt = EXS_EVTVEC_MAX + 1;
}

static void too_many_to_wait_for(param *p)
{
	p->evtvec_cnt = -EXS_EVTVEC_MAX - 1;
}

static void post_send(param *p, uintptr_t ahandle)
{
	CHECK(!exs_send(p->fd, p->send_buf, 16, 0, p->qh, (exs_ahandle_t)ahandle, p->mh), "exs_send: %s", strerror(errno));
}

// Sends so many messages without waiting for them, each with an ahandle of its own, then has all
// their events counted.
static void post_sends(param *p, int count)
{
	for (int i = 0; i < count; i++)
		post_send(p, i + 1);
}

static void check_sends(const exs_event_t *vector, int from, int count)
{
	for (int i = 0; i < count; i++) {
		CHECK(vector[i].exs_evt_type == EXS_EVT_SEND && !vector[i].exs_evt_errno, "event of type %d, %s",
		      vector[i].exs_evt_type, strerror(vector[i].exs_evt_errno));
		CHECK((uintptr_t)vector[i].exs_evt_ahandle == (uintptr_t)(from + i + 1), "sends end out of order");
		CHECK(vector[i].exs_evt_union.exs_evt_xfer.exs_evt_length == 16, "not 16 bytes");
	}
}

static void wait_until_queued(param *p, int wanted)
{
	int count = 0;

	while (count < wanted)
		CHECK(!exs_qstatus(p->qh, EXS_QATTR_EVENTS, &count, sizeof(count)), "exs_qstatus: %s", strerror(errno));
}

// As many as there are, no more than there is room for, in the order in which they came.
static void number_of_events(param *p)
{
	post_sends(p, 10);
	wait_until_queued(p, 10);
	CHECK(exs_qdequeue(p->qh, events, 4, NULL) == 4, "4 of 10 events were to be had");
	check_sends(events, 0, 4);
	CHECK(exs_qdequeue(p->qh, events, EXS_EVTVEC_MAX, NULL) == 6, "6 of 10 events were left");
	check_sends(events, 4, 6);
	print_macro(p->test_number, p->test_value, p->test_name, exs_qdequeue(p->qh, events, 1, &at_once), 0, 0);
	hang_up(p);
}

static void *send_late(void *arg)
{
	usleep(100000);
	post_send(arg, 200);
	return NULL;
}

// Waits for all, also for the one whose operation begins while it waits.
static void waits_for_so_many(param *p)
{
	pthread_t late;

	post_sends(p, 199);
	wait_until_queued(p, 199);
	CHECK(!pthread_create(&late, NULL, send_late, p), "no thread");
	int count = exs_qdequeue(p->qh, events, -200, NULL);
	pthread_join(late, NULL);
	CHECK(count == 200, "%d events instead of 200", count);
	check_sends(events, 0, 200);
	hang_up(p);
	print_pass(0);
}

static long milliseconds_since(const struct timespec *from)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - from->tv_sec) * 1000 + (now.tv_nsec - from->tv_nsec) / 1000000;
}

static void time_passes(param *p)
{
	static const struct timeval some = {0, 200000};
	struct timespec from;

	for (int count = 1; count >= -3; count -= 4) {
		clock_gettime(CLOCK_MONOTONIC, &from);
		int ret = exs_qdequeue(p->qh, events, count, &some);
		long took = milliseconds_since(&from);
		CHECK(ret == 0, "%d events of an empty queue", ret);
		CHECK(took >= 199, "gave up after %ld ms of 200", took);
	}
	print_pass(0);
}

// What there is when the time is up is what one gets, also where more were to be waited for.
static void less_than_wanted(param *p)
{
	static const struct timeval some = {0, 200000};

	post_sends(p, 3);
	wait_until_queued(p, 3);
	int count = exs_qdequeue(p->qh, events, -5, &some);
	CHECK(count == 3, "%d events instead of 3", count);
	check_sends(events, 0, 3);
	hang_up(p);
	print_pass(0);
}

static void on_signal(int number)
{
	(void)number;
}

// Again and again: a signal may come before the call waits.
static void interrupted(param *p)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct itimerspec often = {{0, 50000000}, {0, 50000000}};
	timer_t timer;

	sigaction(SIGUSR1, &action, NULL);
	CHECK(!timer_create(CLOCK_MONOTONIC, &event, &timer), "timer_create: %s", strerror(errno));
	timer_settime(timer, 0, &often, NULL);
	print_macro(p->test_number, p->test_value, p->test_name, exs_qdequeue(p->qh, events, 1, NULL), -1, EINTR);
}

static void interrupted_while_polling(param *p)
{
	int wait = EXS_WAIT_BUSY_POLL;

	CHECK(!exs_qmodify(p->qh, EXS_QATTR_WAIT, &wait, sizeof(wait)), "exs_qmodify: %s", strerror(errno));
	interrupted(p);
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM)},
	{2, ERROR(EPERM), .state = room_only},
	{3, ERROR(EINVAL), .state = queue_and_room, .twist = zero_count},
	{4, OK(OK_EXS_QDEQUEUE), .modes = NON_BLOCKING, .peer = peer_drains, .state = connected, .run = number_of_events},
	{5, ERROR(EFAULT), .state = queue_and_room, .twist = wild_events},
	{6, ERROR(EFAULT), .state = queue_and_room, .twist = wild_timeout},
	{7, ERROR(EINVAL), .state = queue_and_room, .twist = too_many},
	{8, ERROR(EINVAL), .state = queue_and_room, .twist = bad_qhandle},
	{9, ERROR(EINVAL), .state = queue_and_room, .twist = too_many_to_wait_for},
	{10, ERROR(EINVAL), .state = queue_and_room, .twist = bad_timeout},
	{11, OK(OK_EXS_QDEQUEUE), .state = queue_and_room, .run = time_passes},
	{12, OK(OK_EXS_QDEQUEUE), .modes = NON_BLOCKING, .peer = peer_drains, .state = connected, .run = waits_for_so_many},
	{13, OK(OK_EXS_QDEQUEUE), .modes = NON_BLOCKING, .peer = peer_drains, .state = connected, .run = less_than_wanted},
	{14, ERROR(EINTR), .state = queue_and_room, .run = interrupted},
	{15, ERROR(EFAULT), .state = queue_and_room, .twist = no_events},
	{16, ERROR(EINTR), .state = queue_and_room, .run = interrupted_while_polling},
};

PROGRAM("exs_qdequeue", call)
