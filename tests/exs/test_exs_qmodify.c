// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/attributes.h"
#include "setup/peers.h"
#include "setup/twists.h"

#include <signal.h>

static long call(param *p)
{
	return exs_qmodify(p->qh, p->attribute, value, value_size);
}

static void deeper(param *p)
{
	int seen = 0;

	depth = 500;
	long ret = call(p);
	CHECK(!exs_qstatus(p->qh, EXS_QATTR_DEPTH, &seen, sizeof(seen)) && seen >= 500, "a depth of %d", seen);
	print_macro(p->test_number, p->test_value, p->test_name, ret, 0, 0);
}

static void negative_depth(param *p)
{
	depth = -1;
	(void)p;
}

static void too_deep(param *p)
{
	depth = EXS_QDEPTH_MAX + 1;
	(void)p;
}

static void count_cannot_be_set(param *p)
{
	p->attribute = EXS_QATTR_EVENTS;
}

static void bad_wait(param *p)
{
	p->attribute = EXS_QATTR_WAIT;
	depth = 77;
}

static void bad_signal(param *p)
{
	signal_attribute(p);
	signal_value = (exs_signal_t){.exs_sig_state = EXS_SIG_ENABLE, .exs_sig_signo = 12345};
}

// Each way of waiting waits.
static void ways_to_wait(param *p)
{
	static const int ways[] = {EXS_WAIT_NOTIFY, EXS_WAIT_BUSY_POLL, EXS_WAIT_ADAPTIVE};

	p->attribute = EXS_QATTR_WAIT;
	p->SEND_BUFSIZE = 1000;
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		int seen = -1;

		depth = ways[i];
		CHECK(!call(p), "exs_qmodify: %s", strerror(errno));
		CHECK(!exs_qstatus(p->qh, EXS_QATTR_WAIT, &seen, sizeof(seen)) && seen == ways[i], "way %d is %d", ways[i], seen);
		require(ok_exs_send(p));
		p->send_buf = (char *)p->send_buf + p->SEND_BUFSIZE;
	}
	hang_up(p);
	print_pass(0);
}

static volatile sig_atomic_t signals;

static void on_signal(int number, siginfo_t *info, void *context)
{
	if (number == SIGUSR1 && info->si_value.sival_int == 4711)
		signals++;
	(void)context;
}

// Once for each event, with the value that was given; no more once it is disabled.
static void signal_for_an_event(param *p)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
	sigset_t mask, old;

	sigaction(SIGUSR1, &action, NULL);
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	sigprocmask(SIG_BLOCK, &mask, &old);
	signal_attribute(p);
	signal_value = (exs_signal_t){EXS_SIG_ENABLE, SIGUSR1, {.sival_int = 4711}};
	CHECK(!call(p), "exs_qmodify: %s", strerror(errno));
	CHECK(!exs_send(p->fd, p->send_buf, p->SEND_BUFSIZE, 0, p->qh, p->ah, p->mh), "exs_send: %s", strerror(errno));
	while (!signals)
		sigsuspend(&old);
	take_event(p, EXS_EVT_SEND, p->fd, 0);
	CHECK(signals == 1, "%d signals for one event", (int)signals);
	signal_value.exs_sig_state = EXS_SIG_DISABLE;
	CHECK(!call(p), "exs_qmodify: %s", strerror(errno));
	require(ok_exs_send(p));
	sigprocmask(SIG_SETMASK, &old, NULL);
	CHECK(signals == 1, "a signal that was disabled");
	hang_up(p);
	print_pass(0);
}

static const struct test_case all_tests[] = {
	ATTRIBUTE_TESTS,
	{9, OK(OK_EXS_QMODIFY), .state = queue_and_value, .run = deeper},
	{10, ERROR(EINVAL), .state = queue_and_value, .twist = negative_depth},
	{11, ERROR(EINVAL), .state = queue_and_value, .twist = too_deep},
	{12, ERROR(EINVAL), .state = queue_and_value, .twist = count_cannot_be_set},
	{13, ERROR(EINVAL), .state = queue_and_value, .twist = bad_wait},
	{14, ERROR(EINVAL), .state = queue_and_value, .twist = bad_signal},
	{15, OK(OK_EXS_QMODIFY), .modes = NON_BLOCKING, .peer = peer_receives, .state = connected_with_value, .run = ways_to_wait},
	{16, OK(OK_EXS_QMODIFY), .modes = NON_BLOCKING, .peer = peer_drains, .state = connected_with_value, .run = signal_for_an_event},
};

PROGRAM("exs_qmodify", call)
