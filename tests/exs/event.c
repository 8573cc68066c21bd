// SPDX-License-Identifier: MIT OR Apache-2.0

#include "event.h"

#include "process.h"

// An event comes in three quarters of the time that a test has.
exs_event_t next_event(const param *p)
{
	struct timeval limit = {(test_limit(0) * 3 + 3) / 4, 0};
	exs_event_t event;
	int count;

	memset(&event, 0x5a, sizeof(event));
	do
		count = exs_qdequeue(p->qh, &event, 1, &limit);
	while (count < 0 && errno == EINTR); // the other process has ended
	CHECK(count >= 0, "exs_qdequeue: %s", strerror(errno));
	CHECK(count == 1, "an operation has no end");
	return event;
}

exs_event_t take_event(param *p, int type, int fd, int error)
{
	exs_event_t event = next_event(p);

	CHECK(event.exs_evt_type == type, "event of type %d, not %d", event.exs_evt_type, type);
	CHECK(event.exs_evt_errno == error, "event of type %d: %s, not %s", type, strerror(event.exs_evt_errno),
	      strerror(error));
	CHECK(event.exs_evt_socket == fd, "event of type %d is of another socket", type);
	CHECK(event.exs_evt_ahandle == p->ah, "event of type %d has another ahandle", type);
	return event;
}

long reset_again(param *p, int type)
{
	errno = 0;
	long ret = p->call(p);

	if (ret == 0) {
		take_event(p, type, p->fd, ECONNRESET);
		errno = ECONNRESET;
		ret = -1;
	}
	return ret;
}

void expect_no_event(param *p)
{
	struct timeval none = {0, 0};
	exs_event_t event;
	int count = exs_qdequeue(p->qh, &event, 1, &none);

	CHECK(count == 0, "exs_qdequeue of an empty queue: %d %s", count, count < 0 ? strerror(errno) : "events");
}

size_t transferred(const exs_event_t *event, const void *buffer, exs_mhandle_t mh)
{
	const exs_evt_xfer_t *transfer = &event->exs_evt_union.exs_evt_xfer;

	CHECK(transfer->exs_evt_buffer == buffer, "the event names another buffer");
	CHECK(transfer->exs_evt_mhandle == mh, "the event names another memory handle");
	return transfer->exs_evt_length;
}

off_t transferred_file(const exs_event_t *event, const exs_xferfile_t *vector, int count)
{
	const exs_evt_xferfile_t *transfer = &event->exs_evt_union.exs_evt_xferfile;

	CHECK(transfer->exs_evt_xfervec == vector, "the event names another vector");
	CHECK(transfer->exs_evt_xfervec_cnt == count, "the event names another count");
	return transfer->exs_evt_length;
}
