// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/attributes.h"
#include "setup/peers.h"
#include "setup/twists.h"

static long call(param *p)
{
	return exs_qstatus(p->qh, p->attribute, value, value_size);
}

static void ok(param *p)
{
	long ret = call(p);

	CHECK(depth >= p->depth, "a depth of %d, less than the %d asked for", depth, p->depth);
	print_macro(p->test_number, p->test_value, p->test_name, ret, 0, 0);
}

static void count_events(param *p)
{
	struct timeval none = {0, 0};
	exs_event_t event;
	int count = -1;

	value = &count;
	p->attribute = EXS_QATTR_EVENTS;
	CHECK(!call(p) && count == 0, "%d events in a new queue", count);
	CHECK(!exs_send(p->fd, p->send_buf, p->SEND_BUFSIZE, 0, p->qh, p->ah, p->mh), "exs_send: %s", strerror(errno));
	while (count < 1)
		CHECK(!call(p), "exs_qstatus: %s", strerror(errno));
	CHECK(count == 1, "%d events of one send", count);
	CHECK(exs_qdequeue(p->qh, &event, 1, &none) == 1, "the event cannot be taken");
	print_macro(p->test_number, p->test_value, p->test_name, call(p), 0, 0);
	CHECK(count == 0, "%d events when all are taken", count);
	hang_up(p);
}

static const struct test_case all_tests[] = {
	ATTRIBUTE_TESTS,
	{9, OK(OK_EXS_QSTATUS), .state = queue_and_value, .run = ok},
	{10, OK(OK_EXS_QSTATUS), .modes = NON_BLOCKING, .peer = peer_receives, .state = connected_with_value, .run = count_events},
	{11, OK(OK_EXS_QSTATUS), .state = queue_and_value, .twist = signal_attribute},
	{12, OK(OK_EXS_QSTATUS), .state = queue_and_value, .twist = wait_attribute},
};

PROGRAM("exs_qstatus", call)
