// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The completion statuses that a requester comes to by itself, provoked over stock libibverbs:
// flushes, local errors, exhausted retries. Those that the responder causes are in refusals.c.

#include "endpoint.h"

#include <string.h>

static struct address remote;

static void post_ok(int result)
{
	CHECK(result == 0, "posting: %s", strerror(result));
}

static void flush_on_error_state(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);

	for (int i = 0; i < 10; i++)
		CHECK_EQ(post_recv(e, i, 0, 64), 0);
	CHECK_EQ(set_state(e->qp, IBV_QPS_ERR), 0);
	for (int i = 0; i < 10; i++)
		expect_wc(e->recv_cq, i, IBV_WC_WR_FLUSH_ERR);
	post_ok(post(e, 10, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0));
	expect_flushes(e, 10, 11);
}

// ---------------------------------------------------------------- LOC_PROT

static void bad_local_key(enum ibv_wr_opcode opcode, struct ibv_sge sge, struct endpoint *e)
{
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .wr.rdma = {remote.va, remote.rkey},
	}, *bad;

	CHECK_EQ(remote_post_recv(0, 1, 0, 65536), 0);
	post_ok(post(e, 0, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0));
	post_ok(ibv_post_send(e->qp, &wr, &bad));
	post_ok(post(e, 2, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0));
	post_ok(post(e, 3, IBV_WR_SEND, 0, 64, NULL, 0, 0));
	expect_wc(e->send_cq, 0, IBV_WC_SUCCESS);
	expect_wc(e->send_cq, 1, IBV_WC_LOC_PROT_ERR);
	expect_flushes(e, 2, 4);
	CHECK_EQ(remote_pending(0, true), 0);
}

static void loc_prot_unknown_key(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	struct ibv_sge sge = sge_of(e, 0, 64);

	sge.lkey ^= 0x00400100;
	bad_local_key(IBV_WR_SEND, sge, e);
}

static void loc_prot_out_of_bounds(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	struct ibv_sge sge = sge_of(e, e->size - 63, 64);

	bad_local_key(IBV_WR_RDMA_WRITE, sge, e);
}

// Long enough for many packets: nothing may be sent before all of it has been checked.
static void loc_prot_out_of_bounds_long(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	struct ibv_sge sge = sge_of(e, 1, e->size);

	bad_local_key(IBV_WR_SEND, sge, e);
}

static void loc_prot_wraps_around(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	struct ibv_sge sge = {UINT64_MAX - 10, 64, e->mr->lkey};

	bad_local_key(IBV_WR_SEND, sge, e);
}

static void loc_prot_other_pd(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	struct ibv_pd *pd = ibv_alloc_pd(e->context);
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, e->buffer, e->size, ALL_ACCESS) : NULL;

	CHECK(mr, "another PD and MR");
	struct ibv_sge sge = {(uintptr_t)e->buffer, 64, mr->lkey};

	bad_local_key(IBV_WR_RDMA_WRITE, sge, e);
}

static void loc_prot_deregistered(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	struct ibv_mr *mr = ibv_reg_mr(e->pd, e->buffer, e->size, ALL_ACCESS);
	struct ibv_sge sge = {(uintptr_t)e->buffer, 64, mr->lkey};

	CHECK_EQ(ibv_dereg_mr(mr), 0);
	bad_local_key(IBV_WR_RDMA_WRITE, sge, e);
}

// The answer to a READ needs a region that may be written locally.
static void loc_prot_read_into_read_only(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	struct ibv_mr *mr = ibv_reg_mr(e->pd, e->buffer, e->size, IBV_ACCESS_REMOTE_READ);

	CHECK(mr, "ibv_reg_mr");
	struct ibv_sge sge = {(uintptr_t)e->buffer, 64, mr->lkey};

	bad_local_key(IBV_WR_RDMA_READ, sge, e);
}

// ---------------------------------------------------------------- LOC_QP_OP

// A READ from a QP that may have none outstanding can never be sent.
static void loc_qp_op_read_without_resources(void)
{
	struct connection none = {.rd_atomic = -1};
	struct endpoint *e = open_pair(NULL, NULL, &none, &remote);

	post_ok(post(e, 1, IBV_WR_RDMA_READ, 0, 64, &remote, 0, 0));
	post_ok(post(e, 2, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0));
	expect_wc(e->send_cq, 1, IBV_WC_LOC_QP_OP_ERR);
	expect_flushes(e, 2, 3);
}

static void loc_qp_op_invalidate_unknown_key(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = 0x12345678}, *bad;

	post_ok(ibv_post_send(e->qp, &wr, &bad));
	expect_wc(e->send_cq, 1, IBV_WC_LOC_QP_OP_ERR);
	expect_flushes(e, 2, 2);
}

// ---------------------------------------------------------------- RETRY_EXC, RNR_RETRY_EXC

static void retry_exc_no_such_qp(void)
{
	struct connection quick = {.timeout = 12, .retry_cnt = 2};
	struct endpoint *e = open_pair(NULL, NULL, &quick, &remote);

	remote_destroy_qp(0);
	for (int i = 1; i < 5; i++)
		post_ok(post(e, i, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0));
	uint64_t start = now_ms();
	struct ibv_wc wc = expect_wc(e->send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	uint64_t took = now_ms() - start;

	CHECK_EQ(wc.qp_num, e->qp->qp_num);
	// 4.096 us * 2^12 = 16.8 ms; three expiries of between one and four times that.
	CHECK(took >= 33 && took < 3000, "gave up after %llu ms", (unsigned long long)took);
	expect_flushes(e, 2, 5);
}

static void retry_exc_error_state(void)
{
	struct connection quick = {.timeout = 12, .retry_cnt = 1};
	struct endpoint *e = open_pair(NULL, NULL, &quick, &remote);

	CHECK_EQ(remote_set_state(0, IBV_QPS_ERR), 0);
	post_ok(post(e, 1, IBV_WR_SEND, 0, 64, NULL, 0, 0));
	expect_wc(e->send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	expect_flushes(e, 2, 2);
}

static void retry_exc_process_killed(void)
{
	struct connection quick = {.timeout = 12, .retry_cnt = 3};
	struct endpoint *e = open_pair(NULL, NULL, &quick, &remote);

	post_ok(post(e, 0, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0));
	expect_wc(e->send_cq, 0, IBV_WC_SUCCESS);
	peer_kill();
	post_ok(post(e, 1, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0));
	post_ok(post(e, 2, IBV_WR_RDMA_READ, 0, 64, &remote, 0, 0));
	expect_wc(e->send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	expect_flushes(e, 2, 3);
}

static void retry_exc_wrong_address(void)
{
	struct connection quick = {.timeout = 12, .retry_cnt = 1};
	struct endpoint *e = open_endpoint(&(struct options){0});
	struct address nobody = address_of(e);

	// A host that is not there, in the same loopback or link network.
	nobody.gid.raw[15] ^= 0x40;
	connect_endpoint(e, &nobody, &quick);
	post_ok(post(e, 1, IBV_WR_RDMA_WRITE, 0, 64, &nobody, 0, 0));
	expect_wc(e->send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	expect_flushes(e, 2, 2);
}

static void rnr_retry_exc(void)
{
	// RNR timer code 14 is 1.28 ms.
	struct connection quick = {.rnr_retry = 3, .min_rnr_timer = 14};
	struct endpoint *e = open_pair(NULL, NULL, &quick, &remote);
	uint64_t start = now_ms();

	post_ok(post(e, 1, IBV_WR_SEND, 0, 64, NULL, 0, 0));
	post_ok(post(e, 2, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0));
	expect_wc(e->send_cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	CHECK(now_ms() - start >= 3, "gave up after %llu ms", (unsigned long long)(now_ms() - start));
	expect_flushes(e, 2, 3);
	// The responder has done nothing wrong.
	CHECK_EQ(remote_state(0), IBV_QPS_RTS);
}

static void rnr_retry_exc_at_once(void)
{
	struct connection none = {.rnr_retry = -1};
	struct endpoint *e = open_pair(NULL, NULL, &none, &remote);

	post_ok(post(e, 1, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 64, &remote, 0, 0));
	expect_wc(e->send_cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	expect_flushes(e, 2, 2);
}

// With 7 the sender waits for ever: a late receive request is in time.
static void rnr_patience(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);

	fill(e->buffer, 20000, 4);
	post_ok(post(e, 1, IBV_WR_SEND, 0, 20000, NULL, 0, 0));
	expect_no_wc(e->send_cq, 300);
	CHECK_EQ(remote_post_recv(0, 5, 0, 20000), 0);
	expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
	remote_expect(0, true, 5, IBV_WC_SUCCESS);
	remote_check(0, 0, 20000, 4, "late");
}

// What was posted unsignalled shows itself when it fails.
static void unsignaled_failure_shows(void)
{
	struct options options = {.unsignaled = true};
	struct endpoint *e = open_pair(&options, NULL, NULL, &remote);
	struct address wrong = remote;

	wrong.rkey ^= 0x00800200;
	post_ok(post(e, 1, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0));
	post_ok(post(e, 2, IBV_WR_RDMA_WRITE, 0, 64, &wrong, 0, 0));
	post_ok(post(e, 3, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0));
	expect_wc(e->send_cq, 2, IBV_WC_REM_ACCESS_ERR);
	expect_flushes(e, 3, 4);
}

#define T(name) {#name, name, 0}
PROGRAM(T(flush_on_error_state), T(loc_prot_unknown_key), T(loc_prot_out_of_bounds), T(loc_prot_out_of_bounds_long),
	T(loc_prot_wraps_around), T(loc_prot_other_pd), T(loc_prot_deregistered), T(loc_prot_read_into_read_only),
	T(loc_qp_op_read_without_resources), T(loc_qp_op_invalidate_unknown_key), T(retry_exc_no_such_qp),
	T(retry_exc_error_state), T(retry_exc_process_killed), T(retry_exc_wrong_address), T(rnr_retry_exc),
	T(rnr_retry_exc_at_once), T(rnr_patience), T(unsignaled_failure_shows))
