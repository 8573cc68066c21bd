// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Send queue drain, and what happens to posted requests when a QP leaves RTS.

#include "endpoint.h"

#include <string.h>
#include <unistd.h>

enum { COUNT = 64, MIB = 1 << 20 };

static struct address remote;

static void post_ok(int result)
{
	CHECK(result == 0, "posting: %s", strerror(result));
}

static void drain_and_resume(void)
{
	struct options options = {.size = MIB};
	struct endpoint *e = open_pair(&options, &options, NULL, &remote);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct ibv_wc wc;
	int done = 0;

	for (int i = 0; i < COUNT; i++)
		post_ok(post(e, i, IBV_WR_RDMA_WRITE, 0, MIB, &remote, 0, 0));
	CHECK_EQ(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	wait_event(e->context, IBV_EVENT_SQ_DRAINED, e->qp);
	while (ibv_poll_cq(e->send_cq, 1, &wc) == 1) {
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, done);
		done++;
	}
	// What was begun is finished, the rest rests. Posting goes on being possible.
	CHECK(done < COUNT, "all %d requests were sent although the queue was to drain", done);
	struct ibv_qp_init_attr init;

	CHECK_EQ(ibv_query_qp(e->qp, &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_SQD);
	CHECK_EQ(attr.sq_draining, 0);
	post_ok(post(e, COUNT, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0));
	expect_no_wc(e->send_cq, 200);
	CHECK_EQ(set_state(e->qp, IBV_QPS_RTS), 0);
	for (; done <= COUNT; done++)
		expect_wc(e->send_cq, done, IBV_WC_SUCCESS);
}

// The responder half goes on while the send queue is drained.
static void drained_side_serves(void)
{
	struct options options = {.size = MIB};
	struct endpoint *e = open_pair(&options, &options, NULL, &remote);

	CHECK_EQ(remote_set_state(0, IBV_QPS_SQD), 0);
	remote_fill(0, 0, MIB, 5);
	post_ok(post(e, 1, IBV_WR_RDMA_READ, 0, MIB, &remote, 0, 0));
	expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
	check_filled(e->buffer, MIB, 5, "read");
	CHECK_EQ(remote_set_state(0, IBV_QPS_RTS), 0);
}

// RESET forgets everything without a word; the QP can be connected again.
static void reset_and_reconnect(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	struct address mine;

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 4; i++)
			CHECK_EQ(remote_post_recv(0, i, 0, 64), 0);
		post_ok(post(e, 1, IBV_WR_SEND, 0, 64, NULL, 0, 0));
		expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
		remote_expect(0, true, 0, IBV_WC_SUCCESS);
		CHECK_EQ(remote_set_state(0, IBV_QPS_RESET), 0);
		CHECK_EQ(set_state(e->qp, IBV_QPS_RESET), 0);
		CHECK_EQ(remote_pending(0, true), 0);
		CHECK_EQ(state_of(e->qp), IBV_QPS_RESET);
		mine = address_of(e);
		remote_connect(0, &mine, NULL);
		connect_endpoint(e, &remote, NULL);
	}
}

// Into ERR: everything outstanding is flushed, in the order of posting.
static void error_flushes_in_order(void)
{
	struct connection patient = {.timeout = 18};
	struct endpoint *e = open_pair(NULL, NULL, &patient, &remote);

	remote_destroy_qp(0);
	for (int i = 0; i < 32; i++) {
		CHECK_EQ(post_recv(e, 100 + i, 0, 64), 0);
		post_ok(post(e, i, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0));
	}
	CHECK_EQ(set_state(e->qp, IBV_QPS_ERR), 0);
	for (int i = 0; i < 32; i++) {
		struct ibv_wc wc = expect_wc(e->send_cq, i, IBV_WC_WR_FLUSH_ERR);

		CHECK_EQ(wc.qp_num, e->qp->qp_num);
		expect_wc(e->recv_cq, 100 + i, IBV_WC_WR_FLUSH_ERR);
	}
	// Posting in the error state is taken and flushed at once.
	post_ok(post(e, 200, IBV_WR_SEND, 0, 64, NULL, 0, 0));
	expect_wc(e->send_cq, 200, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(post_recv(e, 201, 0, 64), 0);
	expect_wc(e->recv_cq, 201, IBV_WC_WR_FLUSH_ERR);
}

PROGRAM({"drain_and_resume", drain_and_resume, 0}, {"drained_side_serves", drained_side_serves, 0},
	{"reset_and_reconnect", reset_and_reconnect, 0}, {"error_flushes_in_order", error_flushes_in_order, 0})
