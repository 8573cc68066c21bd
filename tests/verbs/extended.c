// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Extended completion queues: what may be asked for, the times of completions, overruns that are
// ignored; and the moderation of completion events.

#include "answers.h"
#include "endpoint.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

static struct address remote;
static const struct options defaults;

enum { TIMES = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK };

static uint64_t nanoseconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static uint64_t device_clock(struct ibv_context *context)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	CHECK_EQ(ibv_query_rt_values_ex(context, &values), 0);
	CHECK_EQ(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	CHECK_EQ(values.raw_clock.tv_sec, 0);
	return values.raw_clock.tv_nsec;
}

// An endpoint whose queue pair completes into an extended queue, connected to the peer's endpoint
// 0.
static struct endpoint *open_extended(struct ibv_cq_init_attr_ex *attr, struct ibv_cq_ex **cq)
{
	struct endpoint *e = open_endpoint(&defaults);
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 64, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 4},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct address mine;

	*cq = ibv_create_cq_ex(e->context, attr);
	CHECK(*cq, "ibv_create_cq_ex: %s", strerror(errno));
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(*cq);
	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	e->qp = ibv_create_qp(e->pd, &init);
	CHECK(e->qp, "ibv_create_qp: %s", strerror(errno));
	remote = remote_open(&defaults);
	connect_endpoint(e, &remote, NULL);
	mine = address_of(e);
	remote_connect(0, &mine, NULL);
	return e;
}

static void write_once(struct endpoint *e, uint64_t id)
{
	int result = post(e, id, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0);

	CHECK(result == 0, "posting: %s", strerror(result));
}

// Begins to poll; the first completion is current then.
static void start_poll(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = {0};
	uint64_t deadline = now_ms() + 30000;

	while (ibv_start_poll(cq, &attr))
		CHECK(now_ms() < deadline, "no completion");
}

static void creation_is_checked(void)
{
	struct endpoint *e = open_endpoint(&defaults);
	struct ibv_device_attr device;
	struct ibv_cq_init_attr_ex attr = {.cqe = 16};
	static const uint64_t absent[] = {IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG, 1ull << 40};

	for (size_t i = 0; i < sizeof(absent) / sizeof(*absent); i++) {
		attr.wc_flags = absent[i];
		CHECK(!ibv_create_cq_ex(e->context, &attr) && errno == EOPNOTSUPP, "field %zu: %s", i, strerror(errno));
	}
	attr.wc_flags = 0;
	attr.comp_vector = e->context->num_comp_vectors;
	CHECK(!ibv_create_cq_ex(e->context, &attr) && errno == EINVAL, "vector: %s", strerror(errno));
	attr.comp_vector = 0;
	attr.comp_mask = 1 << 5;
	CHECK(!ibv_create_cq_ex(e->context, &attr) && errno == EOPNOTSUPP, "mask: %s", strerror(errno));
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = 1 << 5;
	CHECK(!ibv_create_cq_ex(e->context, &attr) && errno == EOPNOTSUPP, "flags: %s", strerror(errno));
	attr.flags = 0;
	CHECK_EQ(ibv_query_device(e->context, &device), 0);
	attr.cqe = device.max_cqe + 1;
	CHECK(!ibv_create_cq_ex(e->context, &attr) && errno == EINVAL, "size: %s", strerror(errno));
	attr.cqe = 0;
	CHECK(!ibv_create_cq_ex(e->context, &attr) && errno == EINVAL, "empty: %s", strerror(errno));
}

// Times lie between the clock before and the clock after, in the order of the completions.
static void times(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS | TIMES};
	struct ibv_cq_ex *cq;
	struct endpoint *e = open_extended(&attr, &cq);
	uint64_t clock = device_clock(e->context), wall = nanoseconds(CLOCK_REALTIME), before = clock;

	for (int i = 0; i < 20; i++)
		write_once(e, i);
	for (int i = 0; i < 20; i++) {
		start_poll(cq);
		uint64_t ts = ibv_wc_read_completion_ts(cq), wall_ts = ibv_wc_read_completion_wallclock_ns(cq);

		CHECK_EQ(cq->wr_id, i);
		CHECK(ts >= clock, "completion %d is %llu ns early", i, (unsigned long long)(clock - ts));
		CHECK(wall_ts >= wall, "completion %d is %llu ns early by the wall clock", i, (unsigned long long)(wall - wall_ts));
		clock = ts;
		wall = wall_ts;
		ibv_end_poll(cq);
	}
	uint64_t after = device_clock(e->context);

	CHECK(clock <= after, "the last completion is %llu ns in the future", (unsigned long long)(clock - after));
	CHECK(wall <= nanoseconds(CLOCK_REALTIME), "the last completion is in the future by the wall clock");
	CHECK(after > before, "the clock stands still");
}

// A tick is what hca_core_clock says (kHz), measured against the system's clock.
static void clock_runs_as_announced(void)
{
	struct ibv_context *c = open_device();
	struct ibv_device_attr_ex device;
	struct ibv_values_ex values = {.comp_mask = 1 << 7};

	REFUSED(ibv_query_rt_values_ex(c, &values), EINVAL);
	CHECK_EQ(ibv_query_device_ex(c, NULL, &device), 0);
	uint64_t ticks = device_clock(c), system = nanoseconds(CLOCK_MONOTONIC);
	struct pollfd none;

	poll(&none, 0, 200);
	ticks = device_clock(c) - ticks;
	system = nanoseconds(CLOCK_MONOTONIC) - system;
	double khz = ticks * 1e6 / system;

	CHECK(khz > 0.9 * device.hca_core_clock && khz < 1.1 * device.hca_core_clock, "%.0f kHz, not %llu", khz,
	      (unsigned long long)device.hca_core_clock);
	CHECK_EQ(ibv_close_device(c), 0);
}

// A queue that was told to ignore overruns keeps the newest completions and stays usable.
static void overrun_ignored(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 4,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN | IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
	};
	struct ibv_cq_ex *cq;
	struct endpoint *e = open_extended(&attr, &cq);
	uint64_t deadline = now_ms() + 30000;

	for (int i = 0; i < 40; i++)
		write_once(e, i);
	// They complete in order, so the last one's bytes are there only when all are done.
	memset(e->buffer, 0x5a, 64);
	CHECK_EQ(post(e, 40, IBV_WR_RDMA_WRITE, 0, 64, &remote, 4096, 0), 0);
	for (char byte = 0; byte != 0x5a;) {
		remote_read(0, 4096, &byte, 1);
		CHECK(now_ms() < deadline, "the last request is not carried out");
	}
	struct pollfd none;

	poll(&none, 0, 200); // its acknowledgement
	start_poll(cq);
	for (int i = 37; i <= 40; i++) {
		CHECK_EQ(cq->wr_id, i);
		CHECK_EQ(cq->status, IBV_WC_SUCCESS);
		CHECK_EQ(ibv_next_poll(cq), i == 40 ? ENOENT : 0);
	}
	ibv_end_poll(cq);
	CHECK_EQ(next_event(e->context, 0, NULL), -1);
	CHECK_EQ(state_of(e->qp), IBV_QPS_RTS);
}

static bool readable(struct endpoint *e, unsigned milliseconds)
{
	struct pollfd ready = {.fd = e->channel->fd, .events = POLLIN};

	return poll(&ready, 1, milliseconds) == 1;
}

static void take_event(struct endpoint *e)
{
	struct ibv_cq *cq;
	void *about;

	CHECK_EQ(ibv_get_cq_event(e->channel, &cq, &about), 0);
	CHECK(cq == e->send_cq, "event of another queue");
	ibv_ack_cq_events(cq, 1);
}

static int moderate(struct endpoint *e, unsigned count, unsigned period)
{
	struct ibv_modify_cq_attr attr = {IBV_CQ_ATTR_MODERATE, {count, period}};

	return ibv_modify_cq(e->send_cq, &attr);
}

static void complete(struct endpoint *e, int first, int count)
{
	for (int i = first; i < first + count; i++)
		write_once(e, i);
	for (int i = first; i < first + count; i++)
		expect_wc(e->send_cq, i, IBV_WC_SUCCESS);
}

// With a period that does not end meanwhile, the event comes with the last of `count` completions
// and not before.
static void moderated_by_count(void)
{
	struct options options = {.channel = true};
	struct endpoint *e = open_pair(&options, NULL, NULL, &remote);

	CHECK_EQ(moderate(e, 5, 60000), 0);
	for (int round = 0; round < 5; round++) {
		uint64_t began = now_ms();

		CHECK_EQ(ibv_req_notify_cq(e->send_cq, 0), 0);
		complete(e, 0, 4);
		// On a machine so busy that the period is over, nothing can be said.
		if (readable(e, 0) && now_ms() - began < 60)
			fail("an event after 4 completions of 5");
		complete(e, 4, 1);
		CHECK(readable(e, 5000), "no event after 5 completions");
		take_event(e);
		CHECK(!readable(e, 0), "two events for one request");
	}
}

// Fewer completions than `count`: the event comes when the period is over.
static void moderated_by_period(void)
{
	struct options options = {.channel = true};
	struct endpoint *e = open_pair(&options, NULL, NULL, &remote);

	CHECK_EQ(moderate(e, 1000, 50000), 0);
	for (int round = 0; round < 3; round++) {
		CHECK_EQ(ibv_req_notify_cq(e->send_cq, 0), 0);
		uint64_t began = now_ms();

		complete(e, 0, 1);
		CHECK(readable(e, 5000), "no event though the period is over");
		CHECK(now_ms() - began >= 49, "the event came after %llu ms", (unsigned long long)(now_ms() - began));
		take_event(e);
	}
	// Without a completion there is nothing to tell.
	CHECK_EQ(ibv_req_notify_cq(e->send_cq, 0), 0);
	CHECK(!readable(e, 200), "an event without a completion");
}

static void moderation_can_change(void)
{
	struct options options = {.channel = true};
	struct endpoint *e = open_pair(&options, NULL, NULL, &remote);
	struct ibv_modify_cq_attr unknown = {.attr_mask = 1 << 4};
	uint64_t began;

	REFUSED(ibv_modify_cq(e->send_cq, &unknown), EOPNOTSUPP);
	// What is held back goes out when nothing is to be held back any more.
	CHECK_EQ(moderate(e, 1000, 65535), 0);
	CHECK_EQ(ibv_req_notify_cq(e->send_cq, 0), 0);
	complete(e, 0, 2);
	CHECK_EQ(moderate(e, 0, 0), 0);
	CHECK(readable(e, 0), "the event is still held back");
	take_event(e);
	// Either of them zero is no moderation: an event must not wait for ever.
	CHECK_EQ(moderate(e, 1000, 0), 0);
	CHECK_EQ(ibv_req_notify_cq(e->send_cq, 0), 0);
	complete(e, 0, 1);
	// As with an adapter, who polls may see the completion a moment before its event goes out.
	CHECK(readable(e, 5000), "held back without a period");
	take_event(e);
	// A queue that goes takes what it held back with it.
	CHECK_EQ(moderate(e, 1000, 65535), 0);
	CHECK_EQ(ibv_req_notify_cq(e->send_cq, 0), 0);
	began = now_ms();
	complete(e, 0, 1);
	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	CHECK_EQ(ibv_destroy_cq(e->send_cq), 0);
	// On a machine so busy that the period was over before, the event is rightly there.
	if (now_ms() - began < 60)
		CHECK(!readable(e, 150), "an event of a queue that is gone");
}

#define T(name) {#name, name, 0}
PROGRAM(T(creation_is_checked), T(times), T(clock_runs_as_announced), T(overrun_ignored), T(moderated_by_count),
	T(moderated_by_period), T(moderation_can_change))
