// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Asynchronous events: which object they are about, and that they are waited for when it is
// destroyed. Events of failing requests are in status.c, those of shared receive queues in
// queues.c.

#include "endpoint.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static struct address remote;

static void post_ok(int result)
{
	CHECK(result == 0, "posting: %s", strerror(result));
}

// The first message reaches a QP that is still in RTR.
static void communication_established(void)
{
	struct endpoint *e = open_endpoint(&(struct options){0});
	struct address mine = address_of(e);

	remote = remote_open(&(struct options){0});
	remote_connect(0, &mine, NULL);
	CHECK_EQ(modify_to_init(e), 0);
	CHECK_EQ(post_recv(e, 9, 0, 64), 0);
	CHECK_EQ(modify_to_rtr(e, &remote, NULL), 0);
	CHECK_EQ(remote_post(0, 1, IBV_WR_SEND, 0, 64, NULL, 0, 0), 0);
	remote_expect(0, false, 1, IBV_WC_SUCCESS);
	expect_wc(e->recv_cq, 9, IBV_WC_SUCCESS);
	wait_event(e->context, IBV_EVENT_COMM_EST, e->qp);
	CHECK_EQ(modify_to_rts(e, NULL), 0);
	post_ok(post(e, 2, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0));
	expect_wc(e->send_cq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(next_event(e->context, 100, NULL), -1);
}

static void access_error(void)
{
	struct endpoint *a = open_endpoint(&(struct options){0}), *b = open_endpoint(&(struct options){0});
	struct address to_a = address_of(a), to_b = address_of(b);

	connect_endpoint(a, &to_b, NULL);
	connect_endpoint(b, &to_a, NULL);
	to_b.rkey ^= 0x00800200;
	post_ok(post(a, 1, IBV_WR_RDMA_READ, 0, 64, &to_b, 0, 0));
	expect_wc(a->send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	wait_event(b->context, IBV_EVENT_QP_ACCESS_ERR, b->qp);
	// The requester has its completion and needs no event; events go to the context of their
	// object.
	CHECK_EQ(next_event(a->context, 100, NULL), -1);
}

static void no_event_without_cause(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);

	for (int i = 0; i < 100; i++) {
		post_ok(post(e, i, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0));
		expect_wc(e->send_cq, i, IBV_WC_SUCCESS);
	}
	CHECK_EQ(set_state(e->qp, IBV_QPS_ERR), 0);
	CHECK_EQ(next_event(e->context, 200, NULL), -1);
}

struct late {
	struct ibv_async_event event;
	volatile int acknowledged;
};

static void *acknowledge_late(void *argument)
{
	struct late *late = argument;

	usleep(300000);
	late->acknowledged = 1;
	ibv_ack_async_event(&late->event);
	return NULL;
}

// ibv_destroy_qp waits until every event of the QP that was read is acknowledged.
static void destroy_waits_for_acknowledgement(void)
{
	struct endpoint *a = open_endpoint(&(struct options){0}), *b = open_endpoint(&(struct options){0});
	struct address to_a = address_of(a), to_b = address_of(b);
	struct late late = {0};
	pthread_t thread;

	connect_endpoint(a, &to_b, NULL);
	connect_endpoint(b, &to_a, NULL);
	to_b.rkey ^= 0x00800200;
	post_ok(post(a, 1, IBV_WR_RDMA_READ, 0, 64, &to_b, 0, 0));
	expect_wc(a->send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	CHECK(read_event(b->context, 10000, &late.event), "no event");
	CHECK_EQ(pthread_create(&thread, NULL, acknowledge_late, &late), 0);
	CHECK_EQ(ibv_destroy_qp(b->qp), 0);
	CHECK(late.acknowledged, "destroyed before the event was acknowledged");
	pthread_join(thread, NULL);
}

// An event that nobody has read yet disappears with its object.
static void destroy_takes_unread_events(void)
{
	struct endpoint *a = open_endpoint(&(struct options){0}), *b = open_endpoint(&(struct options){0});
	struct address to_a = address_of(a), to_b = address_of(b);

	connect_endpoint(a, &to_b, NULL);
	connect_endpoint(b, &to_a, NULL);
	to_b.rkey ^= 0x00800200;
	post_ok(post(a, 1, IBV_WR_RDMA_READ, 0, 64, &to_b, 0, 0));
	expect_wc(a->send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	struct pollfd ready = {.fd = b->context->async_fd, .events = POLLIN};

	CHECK_EQ(poll(&ready, 1, 5000), 1);
	CHECK_EQ(ibv_destroy_qp(b->qp), 0);
	CHECK_EQ(next_event(b->context, 100, NULL), -1);
}

// A channel's pipe holds 8,192 events and a context's 4,096; each of these comes only once.
static void more_than_a_pipe_holds(void)
{
	enum { MANY = 9000 };
	static struct ibv_cq *cqs[MANY];
	static unsigned char seen[MANY];
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_srq_init_attr shared = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &shared);

	CHECK(pd && channel && srq, "a domain, a channel and an SRQ: %s", strerror(errno));
	for (uintptr_t i = 0; i < MANY; i++) {
		cqs[i] = ibv_create_cq(context, 1, (void *)i, channel, 0);
		CHECK(cqs[i], "completion queue %d: %s", (int)i, strerror(errno));
		struct ibv_qp_init_attr init = {
			.send_cq = cqs[i], .recv_cq = cqs[i], .srq = srq, .cap = {.max_send_wr = 1}, .qp_type = IBV_QPT_RC};
		struct ibv_qp *qp = ibv_create_qp(pd, &init);

		CHECK(qp, "queue pair %d: %s", (int)i, strerror(errno));
		CHECK_EQ(ibv_req_notify_cq(cqs[i], 0), 0);
		CHECK_EQ(set_state(qp, IBV_QPS_ERR), 0);

		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

		post_ok(ibv_post_send(qp, &wr, &bad));
	}

	for (int i = 0; i < MANY; i++) {
		struct ibv_cq *cq;
		void *number;

		CHECK_EQ(ibv_get_cq_event(channel, &cq, &number), 0);
		CHECK(cq == cqs[(uintptr_t)number] && !seen[(uintptr_t)number]++, "an event that was there before");
		ibv_ack_cq_events(cq, 1);
	}
	for (int i = 0; i < MANY; i++) {
		struct ibv_async_event event;

		CHECK_EQ(ibv_get_async_event(context, &event), 0);
		CHECK_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
		ibv_ack_async_event(&event);
	}
}

PROGRAM({"communication_established", communication_established, 0}, {"access_error", access_error, 0},
	{"no_event_without_cause", no_event_without_cause, 0},
	{"destroy_waits_for_acknowledgement", destroy_waits_for_acknowledgement, 0},
	{"destroy_takes_unread_events", destroy_takes_unread_events, 0},
	{"more_than_a_pipe_holds", more_than_a_pipe_holds, 0})
