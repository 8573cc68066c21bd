// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Tag matching: messages that find their buffer, those that do not, rendezvous, and the agreement
// on unexpected messages.

#include "answers.h"
#include "endpoint.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/tm_types.h>
#include <string.h>

enum { TAGS = 16, SLOT = 4096, ORDINARY = 32 * SLOT, SIZE = 64 * SLOT };

static const struct options sender = {.size = SIZE};
static struct ibv_cq_ex *cq;
static struct ibv_srq *srq;
static struct address remote;
static uint32_t unexpected;

// The receiver is here: a queue pair on a queue that matches tags, with `ordinary` requests posted.
// The sender is the peer.
static struct endpoint *open_receiver(unsigned ordinary)
{
	struct endpoint *e = open_endpoint(&sender);
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 256, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO};
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 64, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = e->pd,
		.tm_cap = {.max_num_tags = TAGS, .max_ops = 16},
	};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC};
	struct address mine;

	cq = ibv_create_cq_ex(e->context, &cq_attr);
	CHECK(cq, "ibv_create_cq_ex: %s", strerror(errno));
	attr.cq = ibv_cq_ex_to_cq(cq);
	srq = ibv_create_srq_ex(e->context, &attr);
	CHECK(srq, "ibv_create_srq_ex: %s", strerror(errno));
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
	init.srq = srq;
	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	e->qp = ibv_create_qp(e->pd, &init);
	CHECK(e->qp, "ibv_create_qp: %s", strerror(errno));
	remote = remote_open(&sender);
	connect_endpoint(e, &remote, NULL);
	mine = address_of(e);
	remote_connect(0, &mine, NULL);
	for (unsigned i = 0; i < ordinary; i++) {
		struct ibv_sge sge = sge_of(e, ORDINARY + i * SLOT, SLOT);
		struct ibv_recv_wr wr = {.wr_id = 1000 + i, .sg_list = &sge, .num_sge = 1}, *bad;

		CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
	}
	return e;
}

static int add(struct endpoint *e, uint64_t id, uint64_t tag, uint64_t mask, size_t offset, size_t length, int flags,
	       uint32_t *handle)
{
	struct ibv_sge sge = sge_of(e, offset, length);
	struct ibv_ops_wr wr = {
		.wr_id = 500 + id,
		.opcode = IBV_WR_TAG_ADD,
		.flags = flags | IBV_OPS_TM_SYNC,
		.tm = {.unexpected_cnt = unexpected,
		       .add = {.recv_wr_id = id, .sg_list = &sge, .num_sge = 1, .tag = tag, .mask = mask}},
	}, *bad = NULL;
	int result = ibv_post_srq_ops(srq, &wr, &bad);

	CHECK(!result == !bad, "bad_wr is wrong");
	if (handle)
		*handle = wr.tm.handle;
	return result;
}

static int operate(enum ibv_ops_wr_opcode opcode, uint64_t id, uint32_t handle)
{
	struct ibv_ops_wr wr = {
		.wr_id = id,
		.opcode = opcode,
		.flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC,
		.tm = {.unexpected_cnt = unexpected, .handle = handle},
	}, *bad;

	return ibv_post_srq_ops(srq, &wr, &bad);
}

struct seen {
	uint64_t id, tag;
	uint32_t app_ctx, length;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	unsigned flags;
};

static bool poll_once(struct seen *seen)
{
	struct ibv_poll_cq_attr attr = {0};
	struct ibv_wc_tm_info info;

	if (ibv_start_poll(cq, &attr))
		return false;
	ibv_wc_read_tm_info(cq, &info);
	*seen = (struct seen){cq->wr_id, info.tag, info.priv, ibv_wc_read_byte_len(cq), cq->status, ibv_wc_read_opcode(cq),
			      ibv_wc_read_wc_flags(cq)};
	ibv_end_poll(cq);
	return true;
}

static struct seen expect(uint64_t id, enum ibv_wc_opcode opcode, unsigned flags)
{
	struct seen seen;
	uint64_t deadline = now_ms() + 30000;

	while (!poll_once(&seen))
		CHECK(now_ms() < deadline, "no completion of %llu", (unsigned long long)id);
	CHECK(seen.status == IBV_WC_SUCCESS, "%llu: status %d", (unsigned long long)seen.id, seen.status);
	CHECK_EQ(seen.id, id);
	CHECK_EQ(seen.opcode, opcode);
	CHECK_EQ(seen.flags, flags);
	return seen;
}

static void expect_nothing(void)
{
	struct seen seen;
	uint64_t until = now_ms() + 50;

	while (now_ms() < until)
		CHECK(!poll_once(&seen), "a completion of %llu, opcode %d, flags %#x", (unsigned long long)seen.id, seen.opcode,
		      seen.flags);
}

// The peer sends a message of `length` bytes after its header.
static void send_tagged(enum ibv_tmh_op opcode, uint64_t tag, size_t length, uint32_t seed)
{
	struct ibv_tmh header = {.opcode = opcode, .app_ctx = htonl(0xc0ffee), .tag = htobe64(tag)};

	remote_fill(0, sizeof(header), length, seed);
	remote_write(0, 0, &header, sizeof(header));
	CHECK_EQ(remote_post(0, 7, IBV_WR_SEND, 0, sizeof(header) + length, NULL, 0, 0), 0);
	remote_expect(0, false, 7, IBV_WC_SUCCESS);
}

static void announce_only(uint64_t tag, size_t offset, size_t length)
{
	struct {
		struct ibv_tmh tmh;
		struct ibv_rvh rvh;
	} header = {{.opcode = IBV_TMH_RNDV, .app_ctx = htonl(0xc0ffee), .tag = htobe64(tag)},
		    {.va = htobe64(remote.va + offset), .rkey = htonl(remote.rkey), .len = htonl(length)}};

	remote_write(0, 0, &header, sizeof(header));
	CHECK_EQ(remote_post(0, 7, IBV_WR_SEND, 0, sizeof(header), NULL, 0, 0), 0);
}

static void announce(uint64_t tag, size_t offset, size_t length)
{
	announce_only(tag, offset, length);
	remote_expect(0, false, 7, IBV_WC_SUCCESS);
}

static const unsigned BOTH = IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID;

static void messages_find_their_buffers(void)
{
	struct endpoint *e = open_receiver(4);

	for (int i = 0; i < 8; i++) {
		CHECK_EQ(add(e, i, 100 + i, 0xffff, i * SLOT, SLOT, IBV_OPS_SIGNALED, NULL), 0);
		expect(500 + i, IBV_WC_TM_ADD, 0);
	}
	for (int i = 7; i >= 0; i--) {
		send_tagged(IBV_TMH_EAGER, 0xab0000 | (100 + i), 1000, i);
		struct seen seen = expect(i, IBV_WC_TM_RECV, BOTH);

		CHECK_EQ(seen.tag, 0xab0000 | (100 + i));
		CHECK_EQ(seen.app_ctx, 0xc0ffee);
		CHECK_EQ(seen.length, 1000);
		check_filled(e->buffer + i * SLOT, 1000, i, "matched");
	}
	// Of two that match, the older takes it; and one with an empty mask takes anything.
	CHECK_EQ(add(e, 20, 5, 0xffff, 0, SLOT, 0, NULL), 0);
	CHECK_EQ(add(e, 21, 0, 0, SLOT, SLOT, 0, NULL), 0);
	CHECK_EQ(add(e, 22, 5, 0xffff, 2 * SLOT, SLOT, 0, NULL), 0);
	for (int i = 20; i < 23; i++) {
		send_tagged(IBV_TMH_EAGER, 5, 0, 0);
		CHECK_EQ(expect(i, IBV_WC_TM_RECV, BOTH).length, 0);
	}
	expect_nothing();
}

// A message of many packets: the match is told with the first, the data with the last.
static void long_messages_complete_twice(void)
{
	struct endpoint *e = open_receiver(0);
	size_t length = 20 * SLOT;

	CHECK_EQ(add(e, 1, 77, ~0ull, 0, length, 0, NULL), 0);
	send_tagged(IBV_TMH_EAGER, 77, length, 3);
	CHECK_EQ(expect(1, IBV_WC_TM_RECV, IBV_WC_TM_MATCH).tag, 77);
	CHECK_EQ(expect(1, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID).length, length);
	check_filled(e->buffer, length, 3, "matched");
}

static void others_are_the_programs(void)
{
	struct endpoint *e = open_receiver(3);
	struct ibv_tmh header;

	CHECK_EQ(add(e, 1, 77, ~0ull, 0, SLOT, 0, NULL), 0);
	// Header and all, in an ordinary buffer.
	send_tagged(IBV_TMH_EAGER, 78, 100, 1);
	CHECK_EQ(expect(1000, IBV_WC_TM_RECV, 0).length, sizeof(header) + 100);
	memcpy(&header, e->buffer + ORDINARY, sizeof(header));
	CHECK_EQ(be64toh(header.tag), 78);
	check_filled(e->buffer + ORDINARY + sizeof(header), 100, 1, "unexpected");
	// Without a tag there is nothing to match, though the bytes are there.
	send_tagged(IBV_TMH_NO_TAG, 77, 100, 2);
	expect(1001, IBV_WC_TM_NO_TAG, 0);
	// Too short for a header.
	CHECK_EQ(remote_post(0, 7, IBV_WR_SEND, 0, 3, NULL, 0, 0), 0);
	CHECK_EQ(expect(1002, IBV_WC_TM_NO_TAG, 0).length, 3);
}

// A buffer added before the program has heard of a message must not be given to a later one.
static void agreement(void)
{
	struct endpoint *e = open_receiver(4);
	uint32_t handle;

	send_tagged(IBV_TMH_EAGER, 5, 10, 1);
	// The program has not polled: to it, no message was unexpected yet.
	CHECK_EQ(add(e, 1, 5, ~0ull, 0, SLOT, IBV_OPS_SIGNALED, &handle), 0);
	send_tagged(IBV_TMH_EAGER, 5, 20, 2);
	expect(1000, IBV_WC_TM_RECV, 0);
	expect(501, IBV_WC_TM_ADD, IBV_WC_TM_SYNC_REQ);
	CHECK_EQ(expect(1001, IBV_WC_TM_RECV, 0).length, sizeof(struct ibv_tmh) + 20);
	// It finds the first message for that buffer and takes it out.
	unexpected = 1;
	CHECK_EQ(operate(IBV_WR_TAG_DEL, 601, handle), 0);
	expect(601, IBV_WC_TM_DEL, IBV_WC_TM_SYNC_REQ);
	unexpected = 2;
	CHECK_EQ(operate(IBV_WR_TAG_SYNC, 602, 0), 0);
	expect(602, IBV_WC_TM_SYNC, 0);
	CHECK_EQ(add(e, 2, 5, ~0ull, 0, SLOT, 0, NULL), 0);
	send_tagged(IBV_TMH_EAGER, 5, 30, 3);
	expect(2, IBV_WC_TM_RECV, BOTH);
	// What was added without agreement matches when it is reached.
	send_tagged(IBV_TMH_EAGER, 6, 0, 0);
	CHECK_EQ(add(e, 3, 7, ~0ull, 0, SLOT, 0, NULL), 0);
	expect(1002, IBV_WC_TM_RECV, 0);
	unexpected = 3;
	CHECK_EQ(operate(IBV_WR_TAG_SYNC, 603, 0), 0);
	expect(603, IBV_WC_TM_SYNC, 0);
	send_tagged(IBV_TMH_EAGER, 7, 0, 0);
	expect(3, IBV_WC_TM_RECV, BOTH);
}

static void rendezvous(void)
{
	struct endpoint *e = open_receiver(4);
	size_t length = 10 * SLOT;
	struct ibv_tmh end;
	struct seen seen;

	for (int round = 0; round < 50; round++) {
		CHECK_EQ(remote_post_recv(0, round, 40 * SLOT, SLOT), 0);
		remote_fill(0, SLOT, length, round);
		CHECK_EQ(add(e, round, round, ~0ull, 0, SIZE / 2, 0, NULL), 0);
		announce(round, SLOT, length);
		CHECK_EQ(expect(round, IBV_WC_TM_RECV, IBV_WC_TM_MATCH).tag, round);
		CHECK_EQ(expect(round, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID).length, length);
		check_filled(e->buffer, length, round, "read");
		// The sender is told that its buffer is free.
		CHECK_EQ(remote_expect(0, true, round, IBV_WC_SUCCESS).byte_len, sizeof(struct ibv_tmh) + sizeof(struct ibv_rvh));
		remote_read(0, 40 * SLOT, &end, sizeof(end));
		CHECK_EQ(end.opcode, IBV_TMH_FIN);
		CHECK_EQ(be64toh(end.tag), round);
	}
	// An announcement that nobody waits for.
	announce(999, SLOT, length);
	CHECK_EQ(expect(1000, IBV_WC_TM_RECV, 0).length, sizeof(struct ibv_tmh) + sizeof(struct ibv_rvh));
	unexpected = 1;
	// More data than the buffer holds: matched, and the headers are in it for the program to go
	// on with.
	CHECK_EQ(add(e, 1, 1, ~0ull, 0, 64, 0, NULL), 0);
	memset(e->buffer, 0, 64);
	announce(1, SLOT, length);
	uint64_t deadline = now_ms() + 30000;

	while (!poll_once(&seen))
		CHECK(now_ms() < deadline, "no completion");
	CHECK_EQ(seen.id, 1);
	CHECK_EQ(seen.status, IBV_WC_TM_RNDV_INCOMPLETE);
	memcpy(&end, e->buffer, sizeof(end));
	CHECK_EQ(end.opcode, IBV_TMH_RNDV);
	CHECK_EQ(be64toh(end.tag), 1);
	CHECK_EQ(state_of(e->qp), IBV_QPS_RTS);
	// Announced under a key that does not open: the connection fails, as it does for a READ of
	// one's own.
	remote.rkey ^= 0x00800200;
	CHECK_EQ(add(e, 2, 2, ~0ull, 0, SIZE / 2, 0, NULL), 0);
	announce_only(2, SLOT, length);
	expect(2, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
	while (!poll_once(&seen))
		CHECK(now_ms() < deadline, "no completion");
	CHECK_EQ(seen.id, 2);
	CHECK_EQ(seen.status, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(state_of(e->qp), IBV_QPS_ERR);
}

// Several at once, more than the queue pair reads at a time.
static void many_rendezvous(void)
{
	struct endpoint *e = open_receiver(0);

	for (int i = 0; i < TAGS; i++) {
		CHECK_EQ(remote_post_recv(0, i, 40 * SLOT, SLOT), 0);
		CHECK_EQ(add(e, i, i, ~0ull, i * SLOT, SLOT, 0, NULL), 0);
		remote_fill(0, (1 + i) * SLOT, SLOT, i);
	}
	for (int i = 0; i < TAGS; i++)
		announce(i, (1 + i) * SLOT, SLOT);
	unsigned matched = 0, valid = 0;

	while (valid < TAGS) {
		struct seen seen;
		uint64_t deadline = now_ms() + 30000;

		while (!poll_once(&seen))
			CHECK(now_ms() < deadline, "%u matched, %u read", matched, valid);
		CHECK_EQ(seen.status, IBV_WC_SUCCESS);
		// Each kind in order.
		if (seen.flags == IBV_WC_TM_MATCH)
			CHECK_EQ(seen.id, matched++);
		else
			CHECK_EQ(seen.id, valid++);
	}
	CHECK_EQ(matched, TAGS);
	for (int i = 0; i < TAGS; i++) {
		check_filled(e->buffer + i * SLOT, SLOT, i, "read");
		remote_expect(0, true, i, IBV_WC_SUCCESS);
	}
}

static void bad_input(void)
{
	struct endpoint *e = open_receiver(1);
	struct ibv_device_attr_ex device;
	struct ibv_ops_wr second = {.opcode = 9}, first = {.opcode = IBV_WR_TAG_SYNC, .next = &second}, *bad = NULL;
	struct ibv_sge list[64] = {{0}};
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 64, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = e->pd,
		.cq = e->send_cq,
		.tm_cap = {.max_num_tags = 0, .max_ops = 1},
	};
	uint32_t handle;

	CHECK_EQ(ibv_query_device_ex(e->context, NULL, &device), 0);
	CHECK(device.tm_caps.flags & IBV_TM_CAP_RC, "no tag matching");
	CHECK(!ibv_create_srq_ex(e->context, &attr) && errno == EINVAL, "no tags: %s", strerror(errno));
	attr.tm_cap.max_num_tags = device.tm_caps.max_num_tags + 1;
	CHECK(!ibv_create_srq_ex(e->context, &attr) && errno == EINVAL, "many tags: %s", strerror(errno));
	attr.tm_cap.max_num_tags = 1;
	attr.tm_cap.max_ops = device.tm_caps.max_ops + 1;
	CHECK(!ibv_create_srq_ex(e->context, &attr) && errno == EINVAL, "many operations: %s", strerror(errno));
	attr.comp_mask &= ~IBV_SRQ_INIT_ATTR_CQ;
	CHECK(!ibv_create_srq_ex(e->context, &attr) && errno == EINVAL, "no queue: %s", strerror(errno));

	REFUSED(ibv_post_srq_ops(srq, &first, &bad), EINVAL);
	CHECK(bad == &second, "bad_wr is wrong");
	second.opcode = IBV_WR_TAG_SYNC;
	second.flags = 1 << 7;
	REFUSED(ibv_post_srq_ops(srq, &second, &bad), EINVAL);
	second = (struct ibv_ops_wr){.opcode = IBV_WR_TAG_ADD, .tm.add = {.num_sge = device.tm_caps.max_sge + 1, .sg_list = list}};
	REFUSED(ibv_post_srq_ops(srq, &second, &bad), EINVAL);
	second.tm.add.num_sge = -1;
	REFUSED(ibv_post_srq_ops(srq, &second, &bad), EINVAL);
	for (int i = 0; i < TAGS; i++)
		CHECK_EQ(add(e, i, i, ~0ull, 0, SLOT, 0, &handle), 0);
	CHECK_EQ(add(e, TAGS, TAGS, ~0ull, 0, SLOT, 0, NULL), ENOMEM);
	CHECK_EQ(operate(IBV_WR_TAG_DEL, 1, handle), 0);
	expect(1, IBV_WC_TM_DEL, 0);
	CHECK_EQ(operate(IBV_WR_TAG_DEL, 2, handle), 0);
	struct seen seen;

	CHECK(poll_once(&seen) && seen.id == 2 && seen.status == IBV_WC_TM_ERR, "removed twice");
	// The send queue is not the program's.
	CHECK_EQ(post(e, 1, IBV_WR_SEND, 0, 0, NULL, 0, 0), EINVAL);
	expect_nothing();
	// In use, then not.
	REFUSED(ibv_destroy_srq(srq), EBUSY);
	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	REFUSED(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), EBUSY);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

// An ordinary queue takes no such operations.
static void ordinary_queues_have_no_tags(void)
{
	struct endpoint *e = open_endpoint(&(struct options){.srq_wr = 16});
	struct ibv_ops_wr wr = {.opcode = IBV_WR_TAG_SYNC}, *bad;

	REFUSED(ibv_post_srq_ops(e->srq, &wr, &bad), EINVAL);
}

#define T(name) {#name, name, 0}
PROGRAM(T(messages_find_their_buffers), T(long_messages_complete_twice), T(others_are_the_programs), T(agreement),
	T(rendezvous), T(many_rendezvous), T(bad_input), T(ordinary_queues_have_no_tags))
