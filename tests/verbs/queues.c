// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Completion queues and channels, shared receive queues and their events.

#include "endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

static struct address remote;

static void post_ok(int result)
{
	CHECK(result == 0, "posting: %s", strerror(result));
}

static struct ibv_cq *get_event(struct endpoint *e, unsigned milliseconds)
{
	struct pollfd ready = {.fd = e->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *about;

	if (poll(&ready, 1, milliseconds) <= 0)
		return NULL;
	CHECK(ibv_get_cq_event(e->channel, &cq, &about) == 0, "ibv_get_cq_event: %s", strerror(errno));
	CHECK(about == e, "cq_context is wrong");
	ibv_ack_cq_events(cq, 1);
	return cq;
}

// One event for each arming, none without.
static void one_event_per_request(void)
{
	struct options options = {.channel = true};
	struct endpoint *e = open_pair(&options, NULL, NULL, &remote);

	post_ok(post(e, 1, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0));
	expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
	CHECK(!get_event(e, 100), "an event that was not asked for");
	for (int round = 0; round < 100; round++) {
		CHECK_EQ(ibv_req_notify_cq(e->send_cq, 0), 0);
		post_ok(post(e, 1, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0));
		post_ok(post(e, 2, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0));
		CHECK(get_event(e, 5000) == e->send_cq, "no event in round %d", round);
		expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
		expect_wc(e->send_cq, 2, IBV_WC_SUCCESS);
	}
	CHECK(!get_event(e, 100), "an event too many");
}

// A completion that came after the program's last poll and before it asked has its event at once.
// It stands for what is there: the queue, asked again without a poll, has no other for it.
static void late(void)
{
	struct options options = {.channel = true, .unsignaled = true};
	struct endpoint *e = open_pair(&options, NULL, NULL, &remote);
	volatile uint32_t *read = (volatile uint32_t *)e->buffer;
	struct ibv_wc wc;

	for (uint32_t round = 1; round <= 100; round++) {
		CHECK_EQ(ibv_poll_cq(e->send_cq, 1, &wc), 0);
		remote_write(0, 0, &round, sizeof(round));
		post_ok(post(e, 1, IBV_WR_RDMA_WRITE, 64, 64, &remote, 64, IBV_SEND_SIGNALED));
		// Its data are here when the WRITE before it has completed.
		post_ok(post(e, 0, IBV_WR_RDMA_READ, 0, sizeof(round), &remote, 0, 0));
		for (int wait = 0; *read != round; wait++) {
			CHECK(wait < 30000, "nothing was read in round %u", round);
			usleep(1000);
		}
		CHECK_EQ(ibv_req_notify_cq(e->send_cq, 0), 0);
		CHECK(get_event(e, 5000) == e->send_cq, "no event in round %u", round);
		// Now it stands for what is there.
		CHECK_EQ(ibv_req_notify_cq(e->send_cq, 0), 0);
		CHECK(!get_event(e, round == 1 ? 100 : 0), "a second event in round %u", round);
		post_ok(post(e, 2, IBV_WR_RDMA_WRITE, 64, 64, &remote, 64, IBV_SEND_SIGNALED));
		CHECK(get_event(e, 5000) == e->send_cq, "no event for the next in round %u", round);
		expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
		expect_wc(e->send_cq, 2, IBV_WC_SUCCESS);
	}
}

// The receiver asks for solicited completions only.
static void solicited(void)
{
	struct options options = {.channel = true};
	struct endpoint *e = open_pair(NULL, &options, NULL, &remote);

	for (int i = 0; i < 10; i++)
		CHECK_EQ(remote_post_recv(0, i, 0, 64), 0);
	CHECK_EQ(remote_arm(0, true), 0);
	post_ok(post(e, 1, IBV_WR_SEND, 0, 64, NULL, 0, 0));
	expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
	CHECK(!remote_wait_channel(0, 200), "an event for an unsolicited message");
	post_ok(post(e, 2, IBV_WR_SEND, 0, 64, NULL, 0, IBV_SEND_SOLICITED));
	expect_wc(e->send_cq, 2, IBV_WC_SUCCESS);
	CHECK(remote_wait_channel(0, 5000), "no event for a solicited message");
	CHECK_EQ(remote_pending(0, true), 2);
	// Asked for any: an unsolicited one is enough. WRITE with immediate counts like SEND.
	CHECK_EQ(remote_arm(0, false), 0);
	post_ok(post(e, 3, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 64, &remote, 0, 0));
	CHECK(remote_wait_channel(0, 5000), "no event for a WRITE with immediate");
	CHECK_EQ(remote_arm(0, true), 0);
	post_ok(post(e, 4, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 64, &remote, 0, IBV_SEND_SOLICITED));
	CHECK(remote_wait_channel(0, 5000), "no event for a solicited WRITE with immediate");
	// A completion in error is an event even where only solicited ones were asked for.
	CHECK_EQ(remote_arm(0, true), 0);
	CHECK_EQ(remote_set_state(0, IBV_QPS_ERR), 0);
	CHECK(remote_wait_channel(0, 5000), "no event for completions in error");
}

// A receiver asleep on its channel is woken, again and again.
static void wake_sleeper(void)
{
	struct options options = {.channel = true};
	struct endpoint *e = open_pair(NULL, &options, NULL, &remote);

	for (int round = 0; round < 200; round++) {
		CHECK_EQ(remote_post_recv(0, round, 0, 64), 0);
		CHECK_EQ(remote_arm(0, false), 0);
		post_ok(post(e, round, IBV_WR_SEND, 0, 64, NULL, 0, 0));
		CHECK(remote_wait_channel(0, 5000), "not woken in round %d", round);
		CHECK_EQ(remote_pending(0, true), 1);
		expect_wc(e->send_cq, round, IBV_WC_SUCCESS);
	}
}

static void channel_without_blocking(void)
{
	struct options options = {.channel = true};
	struct endpoint *e = open_pair(&options, NULL, NULL, &remote);
	struct ibv_cq *cq;
	void *about;
	int flags = fcntl(e->channel->fd, F_GETFL);

	CHECK(flags >= 0 && fcntl(e->channel->fd, F_SETFL, flags | O_NONBLOCK) == 0, "fcntl: %s", strerror(errno));
	CHECK(ibv_get_cq_event(e->channel, &cq, &about) != 0 && errno == EAGAIN, "an empty channel does not answer EAGAIN");
}

static void resize(void)
{
	struct options options = {.cqe = 16, .send_wr = 512};
	struct endpoint *e = open_pair(&options, NULL, NULL, &remote);
	int result;

	for (int i = 0; i < 8; i++)
		post_ok(post(e, i, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0));
	usleep(100000);
	result = ibv_resize_cq(e->send_cq, 600);
	if (result == ENOSYS || result == EOPNOTSUPP)
		skip("the device cannot resize completion queues");
	CHECK_EQ(result, 0);
	CHECK(e->send_cq->cqe >= 600, "cqe is %d after resizing to 600", e->send_cq->cqe);
	for (int i = 8; i < 500; i++)
		post_ok(post(e, i, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0));
	usleep(300000);
	// Too small for what is in it.
	CHECK(ibv_resize_cq(e->send_cq, 100) != 0, "shrunk below its contents");
	for (int i = 0; i < 500; i++)
		expect_wc(e->send_cq, i, IBV_WC_SUCCESS);
}

static void srq_limit(void)
{
	struct options options = {.srq_wr = 64};
	struct endpoint *e = open_pair(NULL, &options, NULL, &remote);

	for (int i = 0; i < 10; i++)
		CHECK_EQ(remote_post_recv(0, i, 0, 64), 0);
	CHECK_EQ(remote_arm_srq(0, 5), 0);
	for (int i = 0; i < 5; i++) {
		post_ok(post(e, i, IBV_WR_SEND, 0, 64, NULL, 0, 0));
		expect_wc(e->send_cq, i, IBV_WC_SUCCESS);
	}
	int first = remote_event(0, 100);

	// The connection's establishment may be reported too, where the receiver was still in RTR.
	if (first == IBV_EVENT_COMM_EST)
		first = remote_event(0, 100);
	CHECK(first == -1, "event %d while the queue is not below its limit", first);
	post_ok(post(e, 5, IBV_WR_SEND, 0, 64, NULL, 0, 0));
	expect_wc(e->send_cq, 5, IBV_WC_SUCCESS);
	CHECK_EQ(remote_event(0, 5000), IBV_EVENT_SRQ_LIMIT_REACHED);
	// Once for each arming.
	post_ok(post(e, 6, IBV_WR_SEND, 0, 64, NULL, 0, 0));
	expect_wc(e->send_cq, 6, IBV_WC_SUCCESS);
	CHECK_EQ(remote_event(0, 200), -1);
}

static void last_wqe_reached(void)
{
	struct options options = {.srq_wr = 64};
	struct endpoint *e = open_pair(NULL, &options, NULL, &remote);

	CHECK_EQ(remote_post_recv(0, 1, 0, 64), 0);
	CHECK_EQ(remote_post_recv(0, 2, 0, 64), 0);
	post_ok(post(e, 1, IBV_WR_SEND, 0, 64, NULL, 0, 0));
	expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
	remote_expect(0, true, 1, IBV_WC_SUCCESS);
	CHECK_EQ(remote_set_state(0, IBV_QPS_ERR), 0);
	int event = remote_event(0, 5000);

	if (event == IBV_EVENT_COMM_EST)
		event = remote_event(0, 5000);
	CHECK_EQ(event, IBV_EVENT_QP_LAST_WQE_REACHED);
	// What is still in the SRQ belongs to the SRQ and is not flushed.
	CHECK_EQ(remote_pending(0, true), 0);
}

static void srq_query_and_modify(void)
{
	struct options options = {.srq_wr = 64};
	struct endpoint *e = open_endpoint(&options);
	struct ibv_srq_attr attr;

	CHECK_EQ(ibv_query_srq(e->srq, &attr), 0);
	CHECK(attr.max_wr >= 64 && attr.max_sge >= 4 && attr.srq_limit == 0, "max_wr %u max_sge %u limit %u", attr.max_wr,
	      attr.max_sge, attr.srq_limit);
	// Armed below its limit, a queue would raise its event at once.
	for (int i = 0; i < 20; i++)
		CHECK_EQ(post_recv(e, i, 0, 64), 0);
	attr.srq_limit = 7;
	CHECK_EQ(ibv_modify_srq(e->srq, &attr, IBV_SRQ_LIMIT), 0);
	CHECK_EQ(ibv_query_srq(e->srq, &attr), 0);
	CHECK_EQ(attr.srq_limit, 7);
	attr.srq_limit = 100000;
	CHECK(ibv_modify_srq(e->srq, &attr, IBV_SRQ_LIMIT) != 0, "a limit above the size was taken");
}

// An overrun CQ is broken, and so are the QPs that use it.
static void overrun(void)
{
	struct options options = {.cqe = 4, .send_wr = 512};
	struct endpoint *e = open_pair(&options, NULL, NULL, &remote);
	unsigned cq_events = 0, qp_events = 0;
	void *element;
	int event;

	for (int i = 0; i < 500; i++)
		if (post(e, i, IBV_WR_RDMA_WRITE, 0, 8, &remote, 0, 0))
			break;
	while ((event = next_event(e->context, cq_events && qp_events ? 100 : 3000, &element)) >= 0) {
		if (event == IBV_EVENT_CQ_ERR && element == e->send_cq)
			cq_events++;
		if (event == IBV_EVENT_QP_FATAL && element == e->qp)
			qp_events++;
	}
	CHECK(cq_events == 1, "%u times IBV_EVENT_CQ_ERR", cq_events);
	CHECK(qp_events == 1, "%u times IBV_EVENT_QP_FATAL", qp_events);
	CHECK_EQ(state_of(e->qp), IBV_QPS_ERR);
}

PROGRAM({"one_event_per_request", one_event_per_request, 0}, {"late", late, 0}, {"solicited", solicited, 0},
	{"wake_sleeper", wake_sleeper, 0}, {"channel_without_blocking", channel_without_blocking, 0},
	{"resize", resize, 0}, {"srq_limit", srq_limit, 0}, {"last_wqe_reached", last_wqe_reached, 0},
	{"srq_query_and_modify", srq_query_and_modify, 0}, {"overrun", overrun, 0})
