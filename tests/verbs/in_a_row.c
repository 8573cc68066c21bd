// SPDX-License-Identifier: MIT OR Apache-2.0
//
// UC and UD: requests that are posted one after the other, and may wait for company. Each goes out
// all the same, whatever the program does next; and in order.

#include "endpoint.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

enum { MANY = 45, SIZE = 100 };

static struct address remote;

static struct endpoint *pair(int qp_type, bool channel)
{
	struct options there = {.qp_type = qp_type}, here = {.qp_type = qp_type, .channel = channel, .unsignaled = true};

	return open_pair(&here, &there, NULL, &remote);
}

// Requests `from` to `to` - 1, the last of them signaled. Nothing is looked at between them.
static void send_row(struct endpoint *e, int from, int to)
{
	for (int i = from; i < to; i++)
		CHECK_EQ(remote_post_recv(0, i, 1000 * i, GRH_SIZE + SIZE), 0);
	for (int i = from; i < to; i++)
		fill(e->buffer + 1000 * i, SIZE, i);
	for (int i = from; i < to; i++)
		CHECK_EQ(post(e, i, IBV_WR_SEND, 1000 * i, SIZE, NULL, 0, i + 1 == to ? IBV_SEND_SIGNALED : 0), 0);
}

static void arrived(const struct endpoint *e, int from, int to)
{
	size_t grh = e->qp->qp_type == IBV_QPT_UD ? GRH_SIZE : 0;

	for (int i = from; i < to; i++) {
		CHECK_EQ(remote_expect(0, true, i, IBV_WC_SUCCESS).byte_len, grh + SIZE);
		remote_check(0, 1000 * i + grh, SIZE, i, "sent");
	}
}

// The program waits for its peer by other means than verbs.
static void without_a_look(int qp_type)
{
	struct endpoint *e = pair(qp_type, false);

	for (int few = 1; few < MANY; few += 4) {
		send_row(e, 0, few);
		arrived(e, 0, few);
		expect_wc(e->send_cq, few - 1, IBV_WC_SUCCESS);
	}
}

// It sleeps until its last request is done. The queue is armed before they are posted.
static void asleep(int qp_type)
{
	struct endpoint *e = pair(qp_type, true);
	struct pollfd event = {.fd = e->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;

	for (int round = 0; round < 3; round++) {
		CHECK_EQ(ibv_req_notify_cq(e->send_cq, 0), 0);
		send_row(e, 0, MANY);
		CHECK_EQ(poll(&event, 1, 30000), 1);
		CHECK_EQ(ibv_get_cq_event(e->channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
		expect_wc(e->send_cq, MANY - 1, IBV_WC_SUCCESS);
		arrived(e, 0, MANY);
	}
}

static void queue_pair_ends(int qp_type)
{
	struct endpoint *e = pair(qp_type, false);
	struct ibv_qp *qp = e->qp;

	send_row(e, 0, 20);
	CHECK_EQ(set_state(qp, IBV_QPS_ERR), 0);
	arrived(e, 0, 20);
	expect_wc(e->send_cq, 19, IBV_WC_SUCCESS);
}

static void queue_pair_goes(int qp_type)
{
	struct endpoint *e = pair(qp_type, false);

	send_row(e, 0, 20);
	close_endpoint(e);
	for (int i = 0; i < 20; i++)
		remote_expect(0, true, i, IBV_WC_SUCCESS);
}

static void handle_goes(void)
{
	struct endpoint *e = pair(IBV_QPT_UD, false);
	struct ibv_ah_attr attr = ah_attr_to(&remote);
	struct ibv_ah *usual = e->ah;

	for (int round = 0; round < 3; round++) {
		e->ah = ibv_create_ah(e->pd, &attr);
		CHECK(e->ah, "ibv_create_ah: %s", strerror(errno));
		send_row(e, 0, 20);
		CHECK_EQ(ibv_destroy_ah(e->ah), 0);
		arrived(e, 0, 20);
		expect_wc(e->send_cq, 19, IBV_WC_SUCCESS);
	}
	e->ah = usual;
}

#define BOTH(name) \
	static void name##_uc(void) { name(IBV_QPT_UC); } \
	static void name##_ud(void) { name(IBV_QPT_UD); }
BOTH(without_a_look)
BOTH(asleep)
BOTH(queue_pair_ends)
BOTH(queue_pair_goes)

#define T(name) {#name, name, 0}
PROGRAM(T(without_a_look_uc), T(without_a_look_ud), T(asleep_uc), T(asleep_ud), T(queue_pair_ends_uc), T(queue_pair_ends_ud),
	T(queue_pair_goes_uc), T(queue_pair_goes_ud), T(handle_goes))
