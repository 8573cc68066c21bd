// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The completion statuses that a responder causes by refusing a request, provoked over stock
// libibverbs, with the state of both QPs afterwards and the asynchronous event at the responder
// where no completion there shows it.

#include "endpoint.h"

#include <stdlib.h>
#include <string.h>

static struct address remote;

static void post_ok(int result)
{
	CHECK(result == 0, "posting: %s", strerror(result));
}

// The responder has gone to the error state and told so by the event, unless a completion told it,
// or its device raises none (PEER_WITHOUT_EVENTS).
static void responder_failed(int event)
{
	if (!getenv("PEER_WITHOUT_EVENTS")) {
		int seen = remote_event(0, 5000);

		if (seen == IBV_EVENT_COMM_EST)
			seen = remote_event(0, 5000);
		CHECK(seen == event, "event %d at the responder, not %s", seen, ibv_event_type_str(event));
	}
	CHECK_EQ(remote_state(0), IBV_QPS_ERR);
}

// ---------------------------------------------------------------- LOC_LEN and REM_INV_REQ

// The message is longer than the receive request: the receiver's completion says LOC_LEN, the
// sender's REM_INV_REQ.
static void message_too_long(size_t sent, size_t received)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);

	CHECK_EQ(remote_post_recv(0, 7, 0, received), 0);
	CHECK_EQ(remote_post_recv(0, 8, 0, received), 0);
	post_ok(post(e, 1, IBV_WR_SEND, 0, sent, NULL, 0, 0));
	post_ok(post(e, 2, IBV_WR_SEND, 0, 1, NULL, 0, 0));
	expect_wc(e->send_cq, 1, IBV_WC_REM_INV_REQ_ERR);
	expect_flushes(e, 2, 3);
	remote_expect(0, true, 7, IBV_WC_LOC_LEN_ERR);
	remote_expect(0, true, 8, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(remote_state(0), IBV_QPS_ERR);
}

static void loc_len_one_packet(void) { message_too_long(101, 100); }
static void loc_len_many_packets(void) { message_too_long(60000, 30000); }
static void loc_len_nothing_posted_for(void) { message_too_long(1, 0); }

static void rem_inv_req_atomic_misaligned(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);

	post_ok(post_atomic(e, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &remote, 4, 1, 0));
	expect_wc(e->send_cq, 1, IBV_WC_REM_INV_REQ_ERR);
	expect_flushes(e, 2, 2);
	responder_failed(IBV_EVENT_QP_REQ_ERR);
}

// What the responder's QP is not enabled for is an invalid request, however good the key.
static void not_enabled(int qp_access, enum ibv_wr_opcode opcode)
{
	struct options options = {.qp_access = qp_access};
	struct endpoint *e = open_pair(NULL, &options, NULL, &remote);

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		post_ok(post_atomic(e, 1, opcode, 0, &remote, 0, 1, 0));
	else
		post_ok(post(e, 1, opcode, 0, 64, &remote, 0, 0));
	expect_wc(e->send_cq, 1, IBV_WC_REM_INV_REQ_ERR);
	expect_flushes(e, 2, 2);
	responder_failed(IBV_EVENT_QP_REQ_ERR);
}

static void rem_inv_req_write_not_enabled(void)
{
	not_enabled(IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_WRITE);
}

static void rem_inv_req_read_not_enabled(void)
{
	not_enabled(IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_READ);
}

static void rem_inv_req_atomic_not_enabled(void)
{
	not_enabled(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, IBV_WR_ATOMIC_CMP_AND_SWP);
}

static void rem_inv_req_no_responder_resources(void)
{
	struct endpoint *e = open_endpoint(&(struct options){0});
	struct connection none = {.dest_rd_atomic = -1};
	struct address mine = address_of(e);

	remote = remote_open(&(struct options){0});
	remote_connect(0, &mine, &none);
	connect_endpoint(e, &remote, NULL);
	post_ok(post(e, 1, IBV_WR_RDMA_READ, 0, 64, &remote, 0, 0));
	expect_wc(e->send_cq, 1, IBV_WC_REM_INV_REQ_ERR);
	expect_flushes(e, 2, 2);
}

// ---------------------------------------------------------------- REM_ACCESS

static void refused(struct endpoint *e, enum ibv_wr_opcode opcode, const struct address *target, size_t offset, size_t length)
{
	post_ok(post(e, 1, opcode, 0, length, target, offset, 0));
	post_ok(post(e, 2, IBV_WR_RDMA_WRITE, 0, 64, &remote, 0, 0));
	expect_wc(e->send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	expect_flushes(e, 2, 3);
	responder_failed(IBV_EVENT_QP_ACCESS_ERR);
}

static void refused_key(enum ibv_wr_opcode opcode)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	struct address wrong = remote;

	wrong.rkey ^= 0x00800200;
	refused(e, opcode, &wrong, 0, 64);
}

static void rem_access_write_unknown_key(void) { refused_key(IBV_WR_RDMA_WRITE); }
static void rem_access_read_unknown_key(void) { refused_key(IBV_WR_RDMA_READ); }

static void rem_access_out_of_bounds(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);

	refused(e, IBV_WR_RDMA_WRITE, &remote, remote.size - 63, 64);
}

// The first packet would fit: the whole range counts, and nothing of it is written.
static void rem_access_out_of_bounds_long(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);

	memset(e->buffer, 0xee, e->size);
	remote_fill(0, 0, remote.size, 3);
	refused(e, IBV_WR_RDMA_WRITE, &remote, remote.size - 20000, 20001);
	remote_check(0, 0, remote.size, 3, "untouched");
}

static void rem_access_below(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	struct address part = remote_register(0, 4096, 8192, ALL_ACCESS);

	part.va -= 1;
	refused(e, IBV_WR_RDMA_READ, &part, 0, 64);
}

static void rem_access_wraps_around(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	struct address wrong = remote;

	wrong.va = UINT64_MAX - 10;
	refused(e, IBV_WR_RDMA_WRITE, &wrong, 0, 64);
}

static void without_right(int access, enum ibv_wr_opcode opcode)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	struct address part = remote_register(0, 0, 4096, access);

	refused(e, opcode, &part, 0, 64);
}

static void rem_access_write_to_readable(void)
{
	without_right(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_WRITE);
}

static void rem_access_read_from_writable(void)
{
	without_right(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_READ);
}

static void rem_access_atomic_without_right(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	struct address part = remote_register(0, 0, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);

	post_ok(post_atomic(e, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &part, 0, 1, 0));
	expect_wc(e->send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	expect_flushes(e, 2, 2);
	responder_failed(IBV_EVENT_QP_ACCESS_ERR);
}

static void rem_access_deregistered(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	struct address part = remote_register(0, 0, 4096, ALL_ACCESS);

	post_ok(post(e, 0, IBV_WR_RDMA_WRITE, 0, 64, &part, 0, 0));
	expect_wc(e->send_cq, 0, IBV_WC_SUCCESS);
	remote_deregister(0);
	refused(e, IBV_WR_RDMA_WRITE, &part, 0, 64);
}

// The key is that of another PD than the QP's.
static void rem_access_other_pd(void)
{
	struct options second = {.share_plus_one = 1, .own_pd = true};
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	struct address foreign = remote_open(&second);

	refused(e, IBV_WR_RDMA_WRITE, &foreign, 0, 64);
}

// ---------------------------------------------------------------- REM_OP

static void rem_op_bad_receive(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);

	CHECK_EQ(remote_post_recv_key(0, 7, 0, 64, remote.lkey ^ 0x00400100), 0);
	post_ok(post(e, 1, IBV_WR_SEND, 0, 64, NULL, 0, 0));
	expect_wc(e->send_cq, 1, IBV_WC_REM_OP_ERR);
	expect_flushes(e, 2, 2);
	remote_expect(0, true, 7, IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(remote_state(0), IBV_QPS_ERR);
}

#define T(name) {#name, name, 0}
PROGRAM(T(loc_len_one_packet), T(loc_len_many_packets), T(loc_len_nothing_posted_for),
	T(rem_inv_req_atomic_misaligned), T(rem_inv_req_write_not_enabled), T(rem_inv_req_read_not_enabled),
	T(rem_inv_req_atomic_not_enabled), T(rem_inv_req_no_responder_resources), T(rem_access_write_unknown_key),
	T(rem_access_read_unknown_key), T(rem_access_out_of_bounds), T(rem_access_out_of_bounds_long),
	T(rem_access_below), T(rem_access_wraps_around), T(rem_access_write_to_readable),
	T(rem_access_read_from_writable), T(rem_access_atomic_without_right), T(rem_access_deregistered),
	T(rem_access_other_pd), T(rem_op_bad_receive))
