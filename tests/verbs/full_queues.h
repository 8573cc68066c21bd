// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Queues filled to the brim, the same for UC and UD. With RC it is the peer who empties a queue:
// see queues.c.

#ifndef FULL_QUEUES_H
#define FULL_QUEUES_H

#include "endpoint.h"

#include <errno.h>

// With the queue stopped, so that it fills. The operation is one that the peer need not be ready
// for.
static void fill_send_queue(struct endpoint *e, enum ibv_wr_opcode opcode, const struct address *to)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(set_state(e->qp, IBV_QPS_SQD), 0);
	CHECK_EQ(ibv_query_qp(e->qp, &attr, IBV_QP_CAP, &init), 0);
	for (unsigned i = 0; i < attr.cap.max_send_wr; i++)
		CHECK_EQ(post(e, i, opcode, 0, 8, to, 0, 0), 0);
	CHECK_EQ(post(e, 9999, opcode, 0, 8, to, 0, 0), ENOMEM);
	CHECK_EQ(set_state(e->qp, IBV_QPS_RTS), 0);
	for (unsigned i = 0; i < attr.cap.max_send_wr; i++)
		expect_wc(e->send_cq, i, IBV_WC_SUCCESS);
	expect_no_wc(e->send_cq, 20);
}

static void fill_receive_queue(struct endpoint *e)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(e->qp, &attr, IBV_QP_CAP, &init), 0);
	for (unsigned i = 0; i < attr.cap.max_recv_wr; i++)
		CHECK_EQ(post_recv(e, i, 0, 8), 0);
	CHECK_EQ(post_recv(e, 9999, 0, 8), ENOMEM);
	CHECK_EQ(set_state(e->qp, IBV_QPS_ERR), 0);
	for (unsigned i = 0; i < attr.cap.max_recv_wr; i++)
		expect_wc(e->recv_cq, i, IBV_WC_WR_FLUSH_ERR);
	expect_no_wc(e->recv_cq, 20);
}

// More messages than the receiver's CQ holds: it is broken, and the device says so.
static void fill_completion_queue(enum ibv_qp_type type, struct address *remote)
{
	struct options theirs = {.qp_type = type, .cqe = 4};
	struct options mine = {.qp_type = type};
	struct endpoint *e = open_pair(&mine, &theirs, NULL, remote);
	int event;

	for (int i = 0; i < 64; i++)
		CHECK_EQ(remote_post_recv(0, i, 0, 4096), 0);
	for (int i = 0; i < 64; i++) {
		CHECK_EQ(post(e, i, IBV_WR_SEND, 0, 8, NULL, 0, 0), 0);
		expect_wc(e->send_cq, i, IBV_WC_SUCCESS);
	}
	do {
		event = remote_event(0, 5000);
		CHECK(event >= 0, "no IBV_EVENT_CQ_ERR");
	} while (event != IBV_EVENT_CQ_ERR);
}

#endif
