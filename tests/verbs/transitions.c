// SPDX-License-Identifier: MIT OR Apache-2.0
//
// ibv_modify_qp(3) for RC: which attributes each transition takes, their ranges, and that a refused
// call changes nothing.

#include "endpoint.h"

#include <errno.h>
#include <string.h>

static struct address self;

// Good values for every attribute.
static struct ibv_qp_attr good(const struct endpoint *e, enum ibv_qp_state to)
{
	return (struct ibv_qp_attr){
		.qp_state = to,
		.cur_qp_state = IBV_QPS_RTS,
		.path_mtu = IBV_MTU_1024,
		.qp_access_flags = ALL_ACCESS,
		.dest_qp_num = e->qp->qp_num,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.port_num = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = e->gid, .sgid_index = gid_index(), .hop_limit = 64}},
	};
}

enum {
	TO_INIT = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	TO_RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	TO_RTS = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
};

static struct endpoint *in_state(enum ibv_qp_state state)
{
	struct endpoint *e = open_endpoint(&(struct options){0});

	self = address_of(e);
	if (state == IBV_QPS_RESET)
		return e;
	CHECK_EQ(modify_to_init(e), 0);
	if (state == IBV_QPS_INIT)
		return e;
	CHECK_EQ(modify_to_rtr(e, &self, NULL), 0);
	if (state == IBV_QPS_RTR)
		return e;
	CHECK_EQ(modify_to_rts(e, NULL), 0);
	if (state != IBV_QPS_RTS)
		CHECK_EQ(set_state(e->qp, state), 0);
	return e;
}

static void refused(struct endpoint *e, struct ibv_qp_attr attr, int mask, const char *why, int detail)
{
	enum ibv_qp_state before = state_of(e->qp);
	int result = ibv_modify_qp(e->qp, &attr, mask);

	CHECK(result == EINVAL, "%s %d: answer %d (%s), not EINVAL", why, detail, result, strerror(result));
	CHECK(state_of(e->qp) == before, "%s %d: refused, but the state has changed from %d to %d", why, detail, before, state_of(e->qp));
}

// Without any one of the attributes that it needs, a transition is refused; with all it succeeds.
static void each_missing(enum ibv_qp_state from, enum ibv_qp_state to, int needed)
{
	struct endpoint *e = in_state(from);
	struct ibv_qp_attr attr = good(e, to);

	for (int bit = 1; bit <= IBV_QP_RATE_LIMIT; bit <<= 1)
		if (needed & bit && bit != IBV_QP_STATE)
			refused(e, attr, needed & ~bit, "without attribute", bit);
	CHECK_EQ(ibv_modify_qp(e->qp, &attr, needed), 0);
	CHECK_EQ(state_of(e->qp), to);
}

static void missing_to_init(void) { each_missing(IBV_QPS_RESET, IBV_QPS_INIT, TO_INIT); }
static void missing_to_rtr(void) { each_missing(IBV_QPS_INIT, IBV_QPS_RTR, TO_RTR); }
static void missing_to_rts(void) { each_missing(IBV_QPS_RTR, IBV_QPS_RTS, TO_RTS); }

// What has no place in a transition is refused.
static void each_extra(enum ibv_qp_state from, enum ibv_qp_state to, int needed, int allowed)
{
	struct endpoint *e = in_state(from);
	struct ibv_qp_attr attr = good(e, to);

	for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1)
		if (!((needed | allowed | IBV_QP_CAP | IBV_QP_CUR_STATE) & bit))
			refused(e, attr, needed | bit, "with attribute", bit);
	attr.cur_qp_state = from;
	CHECK_EQ(ibv_modify_qp(e->qp, &attr, needed), 0);
}

static void extra_to_init(void)
{
	each_extra(IBV_QPS_RESET, IBV_QPS_INIT, TO_INIT, 0);
}

static void extra_to_rtr(void)
{
	each_extra(IBV_QPS_INIT, IBV_QPS_RTR, TO_RTR, IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX);
}

static void extra_to_rts(void)
{
	each_extra(IBV_QPS_RTR, IBV_QPS_RTS, TO_RTS,
		   IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE);
}

static void extra_within_rts(void)
{
	each_extra(IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_STATE,
		   IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE);
}

// States cannot be skipped or gone back, except to RESET and ERR.
static void forbidden_transitions(void)
{
	static const struct { enum ibv_qp_state from, to; int mask; } pairs[] = {
		{IBV_QPS_RESET, IBV_QPS_RTR, TO_RTR}, {IBV_QPS_RESET, IBV_QPS_RTS, TO_RTS},
		{IBV_QPS_RESET, IBV_QPS_SQD, IBV_QP_STATE}, {IBV_QPS_INIT, IBV_QPS_RTS, TO_RTS},
		{IBV_QPS_INIT, IBV_QPS_SQD, IBV_QP_STATE}, {IBV_QPS_RTR, IBV_QPS_INIT, TO_INIT},
		{IBV_QPS_RTR, IBV_QPS_SQD, IBV_QP_STATE}, {IBV_QPS_RTR, IBV_QPS_RTR, TO_RTR},
		{IBV_QPS_RTS, IBV_QPS_INIT, TO_INIT}, {IBV_QPS_RTS, IBV_QPS_RTR, TO_RTR},
		{IBV_QPS_ERR, IBV_QPS_INIT, TO_INIT}, {IBV_QPS_ERR, IBV_QPS_RTR, TO_RTR},
		{IBV_QPS_ERR, IBV_QPS_RTS, TO_RTS}, {IBV_QPS_RTS, IBV_QPS_SQE, IBV_QP_STATE},
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		struct endpoint *e = in_state(pairs[i].from);

		refused(e, good(e, pairs[i].to), pairs[i].mask, "transition", i);
	}
}

static void always_to_reset_and_error(void)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR};

	for (int i = 0; i < 6; i++) {
		// From RESET, ERR is optional for a device: rdma-core's table allows it.
		CHECK_EQ(set_state(in_state(states[i])->qp, IBV_QPS_ERR), 0);
		struct endpoint *e = in_state(states[i]);

		CHECK_EQ(set_state(e->qp, IBV_QPS_RESET), 0);
		CHECK_EQ(state_of(e->qp), IBV_QPS_RESET);
	}
}

static void values_to_init(void)
{
	struct endpoint *e = in_state(IBV_QPS_RESET);
	struct ibv_qp_attr attr = good(e, IBV_QPS_INIT);

	attr.port_num = 0;
	refused(e, attr, TO_INIT, "port", 0);
	attr.port_num = 2;
	refused(e, attr, TO_INIT, "port", 2);
	attr = good(e, IBV_QPS_INIT);
	attr.pkey_index = 1000;
	refused(e, attr, TO_INIT, "P_Key index", 1000);
}

static void values_to_rtr(void)
{
	struct endpoint *e = in_state(IBV_QPS_INIT);
	struct ibv_device_attr device;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_device(e->context, &device), 0);
	attr = good(e, IBV_QPS_RTR);
	attr.path_mtu = 0;
	refused(e, attr, TO_RTR, "path MTU", 0);
	attr.path_mtu = 6;
	refused(e, attr, TO_RTR, "path MTU", 6);
	attr = good(e, IBV_QPS_RTR);
	attr.ah_attr.grh.sgid_index = 255;
	refused(e, attr, TO_RTR, "GID index", 255);
	attr = good(e, IBV_QPS_RTR);
	attr.ah_attr.port_num = 2;
	refused(e, attr, TO_RTR, "port of the address vector", 2);
	attr = good(e, IBV_QPS_RTR);
	attr.ah_attr.is_global = 0;
	refused(e, attr, TO_RTR, "is_global", 0);
	if (device.max_qp_rd_atom < 255) {
		attr = good(e, IBV_QPS_RTR);
		attr.max_dest_rd_atomic = device.max_qp_rd_atom + 1;
		refused(e, attr, TO_RTR, "max_dest_rd_atomic", attr.max_dest_rd_atomic);
	}
	attr = good(e, IBV_QPS_RTR);
	attr.dest_qp_num = 1 << 24;
	refused(e, attr, TO_RTR, "destination QP", 1 << 24);
	// Five bits of it are looked at, as by adapters.
	attr = good(e, IBV_QPS_RTR);
	attr.min_rnr_timer = 32 + 7;
	CHECK_EQ(ibv_modify_qp(e->qp, &attr, TO_RTR), 0);
	CHECK_EQ(ibv_query_qp(e->qp, &attr, IBV_QP_MIN_RNR_TIMER, &init), 0);
	CHECK_EQ(attr.min_rnr_timer, 7);
}

static void values_to_rts(void)
{
	struct endpoint *e = in_state(IBV_QPS_RTR);
	struct ibv_device_attr device;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_device(e->context, &device), 0);
	attr = good(e, IBV_QPS_RTS);
	attr.timeout = 32;
	refused(e, attr, TO_RTS, "timeout", 32);
	attr = good(e, IBV_QPS_RTS);
	attr.retry_cnt = 8;
	refused(e, attr, TO_RTS, "retry_cnt", 8);
	attr = good(e, IBV_QPS_RTS);
	attr.rnr_retry = 8;
	refused(e, attr, TO_RTS, "rnr_retry", 8);
	if (device.max_qp_init_rd_atom < 255) {
		attr = good(e, IBV_QPS_RTS);
		attr.max_rd_atomic = device.max_qp_init_rd_atom + 1;
		refused(e, attr, TO_RTS, "max_rd_atomic", attr.max_rd_atomic);
	}
	CHECK_EQ(modify_to_rts(e, NULL), 0);
}

static void wrong_current_state(void)
{
	struct endpoint *e = in_state(IBV_QPS_RTS);
	struct ibv_qp_attr attr = good(e, IBV_QPS_RTS);

	attr.cur_qp_state = IBV_QPS_SQD;
	refused(e, attr, IBV_QP_STATE | IBV_QP_CUR_STATE, "current state", IBV_QPS_SQD);
	attr.cur_qp_state = IBV_QPS_RTS;
	CHECK_EQ(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
}

// What was set can be queried.
static void query_answers_what_was_set(void)
{
	struct connection c = {.timeout = 9, .retry_cnt = 5, .rnr_retry = 4, .min_rnr_timer = 11, .rd_atomic = 3, .dest_rd_atomic = 2, .mtu = IBV_MTU_512};
	struct options options = {.qp_access = IBV_ACCESS_REMOTE_READ, .send_wr = 33, .recv_wr = 44, .inline_data = 64};
	struct endpoint *e = open_endpoint(&options);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	self = address_of(e);
	connect_endpoint(e, &self, &c);
	CHECK_EQ(ibv_query_qp(e->qp, &attr, IBV_QP_STATE | TO_INIT | TO_RTR | TO_RTS | IBV_QP_CAP, &init), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_RTS);
	CHECK_EQ(attr.qp_access_flags, IBV_ACCESS_REMOTE_READ);
	CHECK_EQ(attr.path_mtu, IBV_MTU_512);
	CHECK_EQ(attr.timeout, 9);
	CHECK_EQ(attr.retry_cnt, 5);
	CHECK_EQ(attr.rnr_retry, 4);
	CHECK_EQ(attr.min_rnr_timer, 11);
	CHECK_EQ(attr.max_rd_atomic, 3);
	CHECK_EQ(attr.max_dest_rd_atomic, 2);
	CHECK_EQ(attr.dest_qp_num, e->qp->qp_num);
	CHECK_EQ(attr.rq_psn, e->psn);
	CHECK_EQ(attr.sq_psn, e->psn);
	CHECK_EQ(attr.port_num, 1);
	CHECK(memcmp(&attr.ah_attr.grh.dgid, &e->gid, 16) == 0, "the destination GID is another");
	CHECK(attr.cap.max_send_wr >= 33 && attr.cap.max_recv_wr >= 44 && attr.cap.max_inline_data >= 64, "capacities are too small");
	CHECK(init.send_cq == e->send_cq && init.recv_cq == e->recv_cq && init.qp_type == IBV_QPT_RC && init.sq_sig_all == 1,
	      "the initial attributes are others");
}

// After so many packets from a queue pair to itself.
static void expect_psns(struct endpoint *e, uint32_t packets)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(e->qp, &attr, IBV_QP_SQ_PSN | IBV_QP_RQ_PSN, &init), 0);
	CHECK_EQ(attr.sq_psn, (e->psn + packets) & 0xffffff);
	// Datagrams come in no order that anybody could expect.
	if (e->qp->qp_type != IBV_QPT_UD)
		CHECK_EQ(attr.rq_psn, (e->psn + packets) & 0xffffff);
}

// PSNs are those of now, of both queues, not those that they began with.
static void psns_go_on(void)
{
	static const int types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

	for (int i = 0; i < 3; i++) {
		struct options options = {.qp_type = types[i]};
		struct endpoint *e = open_endpoint(&options);
		struct connection c = {.mtu = IBV_MTU_1024};
		uint32_t sent = 0;

		self = address_of(e);
		connect_endpoint(e, &self, &c);
		for (int k = 0; k < 5; k++) {
			// Of a connection's messages, each but the first takes two packets.
			size_t length = k && types[i] != IBV_QPT_UD ? 2000 : 100;

			CHECK_EQ(post_recv(e, k, 4000, 4000), 0);
			CHECK_EQ(post(e, k, IBV_WR_SEND, 0, length, &self, 0, IBV_SEND_SIGNALED), 0);
			expect_wc(e->send_cq, k, IBV_WC_SUCCESS);
			expect_wc(e->recv_cq, k, IBV_WC_SUCCESS);
			sent += length > 1024 ? 2 : 1;
			expect_psns(e, sent);
		}
		CHECK_EQ(set_state(e->qp, IBV_QPS_ERR), 0);
		expect_psns(e, sent);
		CHECK_EQ(set_state(e->qp, IBV_QPS_RESET), 0);
		close_endpoint(e);
	}
}

#define T(name) {#name, name, 0}
PROGRAM(T(missing_to_init), T(missing_to_rtr), T(missing_to_rts), T(extra_to_init), T(extra_to_rtr), T(extra_to_rts),
	T(extra_within_rts), T(forbidden_transitions), T(always_to_reset_and_error), T(values_to_init), T(values_to_rtr),
	T(values_to_rts), T(wrong_current_state), T(query_answers_what_was_set), T(psns_go_on))
