// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A request's place in its queue comes back when its completion is polled, or that of a later one:
// a program that does not look, or never asks, is refused as by an adapter, though all is done.

#include "endpoint.h"

#include <errno.h>
#include <poll.h>

enum { ROOM = 16 };

static struct address remote;

// Something has completed that the queue was armed for; nothing is polled.
static void await_event(struct endpoint *e)
{
	struct pollfd ready = {.fd = e->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;

	CHECK(poll(&ready, 1, 30000) == 1, "no completion event");
	CHECK_EQ(ibv_get_cq_event(e->channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
}

static struct endpoint *open_with_room(enum ibv_qp_type type, bool unsignaled)
{
	struct options mine = {
		.qp_type = type, .send_wr = ROOM, .recv_wr = ROOM, .channel = true, .unsignaled = unsignaled,
	};
	struct options theirs = {.qp_type = type};
	struct endpoint *e = open_pair(&mine, &theirs, NULL, &remote);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(e->qp, &attr, IBV_QP_CAP, &init), 0);
	CHECK_EQ(attr.cap.max_send_wr, ROOM);
	CHECK_EQ(attr.cap.max_recv_wr, ROOM);
	return e;
}

static int send_one(struct endpoint *e, uint64_t id, unsigned flags)
{
	bool datagrams = e->qp->qp_type == IBV_QPT_UD;
	enum ibv_wr_opcode opcode = datagrams ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;

	return post(e, id, opcode, 0, 8, datagrams ? NULL : &remote, 0, flags);
}

static void send_side(enum ibv_qp_type type)
{
	struct endpoint *e = open_with_room(type, false);

	CHECK_EQ(ibv_req_notify_cq(e->send_cq, 0), 0);
	for (int i = 0; i < ROOM; i++)
		CHECK_EQ(send_one(e, i, 0), 0);
	await_event(e);
	CHECK_EQ(send_one(e, 99, 0), ENOMEM);
	// One by one.
	for (int i = 0; i < ROOM; i++) {
		expect_wc(e->send_cq, i, IBV_WC_SUCCESS);
		CHECK_EQ(send_one(e, ROOM + i, 0), 0);
		CHECK_EQ(send_one(e, 99, 0), ENOMEM);
	}
	// All at once.
	for (int i = 0; i < ROOM; i++)
		expect_wc(e->send_cq, ROOM + i, IBV_WC_SUCCESS);
	for (int i = 0; i < ROOM; i++)
		CHECK_EQ(send_one(e, i, 0), 0);
	CHECK_EQ(send_one(e, 99, 0), ENOMEM);
}

static void sends(void)
{
	send_side(IBV_QPT_RC);
}

static void sends_of_uc(void)
{
	send_side(IBV_QPT_UC);
}

static void datagrams(void)
{
	send_side(IBV_QPT_UD);
}

static void unsignaled(void)
{
	struct endpoint *e = open_with_room(IBV_QPT_RC, true);

	// One completion stands for all before it, and for none after.
	CHECK_EQ(ibv_req_notify_cq(e->send_cq, 0), 0);
	for (int i = 0; i < ROOM; i++)
		CHECK_EQ(send_one(e, i, i == ROOM - 3 ? IBV_SEND_SIGNALED : 0), 0);
	await_event(e);
	CHECK_EQ(send_one(e, 99, 0), ENOMEM);
	expect_wc(e->send_cq, ROOM - 3, IBV_WC_SUCCESS);
	for (int i = 0; i < ROOM - 2; i++)
		CHECK_EQ(send_one(e, i, 0), 0);
	CHECK_EQ(send_one(e, 99, 0), ENOMEM);

	// Nobody will know that these are done.
	expect_no_wc(e->send_cq, 20);
	CHECK_EQ(send_one(e, 99, 0), ENOMEM);

	// A queue pair that is reset begins anew.
	CHECK_EQ(set_state(e->qp, IBV_QPS_RESET), 0);
	connect_endpoint(e, &remote, NULL);
	for (int i = 0; i < ROOM; i++)
		CHECK_EQ(send_one(e, i, 0), 0);
	CHECK_EQ(send_one(e, 99, 0), ENOMEM);
}

static void receives(void)
{
	struct endpoint *e = open_with_room(IBV_QPT_RC, false);
	struct address mine = address_of(e);

	for (int i = 0; i < ROOM; i++)
		CHECK_EQ(post_recv(e, i, 0, 8), 0);
	CHECK_EQ(post_recv(e, 99, 0, 8), ENOMEM);
	CHECK_EQ(ibv_req_notify_cq(e->recv_cq, 0), 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(remote_post(0, i, IBV_WR_SEND, 0, 8, &mine, 0, 0), 0);
	await_event(e);
	CHECK_EQ(post_recv(e, 99, 0, 8), ENOMEM);
	for (int i = 0; i < 4; i++) {
		expect_wc(e->recv_cq, i, IBV_WC_SUCCESS);
		CHECK_EQ(post_recv(e, ROOM + i, 0, 8), 0);
		CHECK_EQ(post_recv(e, 99, 0, 8), ENOMEM);
	}
}

// A completion queue that both ends of a queue pair share, and another queue pair, gives each its
// own.
static void queues_share_completions(void)
{
	struct options first = {.send_wr = ROOM}, second = {.share_plus_one = 1, .share_cq = true, .send_wr = ROOM};
	struct endpoint *a = open_endpoint(&first), *b = open_endpoint(&second);
	struct address to_a = address_of(a), to_b = address_of(b);
	struct ibv_wc wc[ROOM];

	connect_endpoint(a, &to_b, NULL);
	connect_endpoint(b, &to_a, NULL);
	for (int i = 0; i < ROOM; i++) {
		CHECK_EQ(post(a, i, IBV_WR_RDMA_WRITE, 0, 8, &to_b, 8, 0), 0);
		CHECK_EQ(post(b, 100 + i, IBV_WR_RDMA_WRITE, 0, 8, &to_a, 8, 0), 0);
	}
	for (int taken = 0, n; taken < 2 * ROOM; taken += n) {
		n = ibv_poll_cq(a->send_cq, 5, wc);
		CHECK(n >= 0, "polling failed");
		for (int i = 0; i < n; i++) {
			struct endpoint *e = wc[i].qp_num == a->qp->qp_num ? a : b;

			CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
			CHECK_EQ(post(e, 200, IBV_WR_RDMA_WRITE, 0, 8, e == a ? &to_b : &to_a, 8, 0), 0);
		}
		for (int i = 0; i < 2 && n > 0; i++)
			CHECK_EQ(post(i ? a : b, 99, IBV_WR_RDMA_WRITE, 0, 8, i ? &to_b : &to_a, 8, 0), ENOMEM);
	}
}

#define T(name) {#name, name, 0}
PROGRAM(T(sends), T(sends_of_uc), T(datagrams), T(unsignaled), T(receives), T(queues_share_completions))
