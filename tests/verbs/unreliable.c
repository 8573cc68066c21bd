// SPDX-License-Identifier: MIT OR Apache-2.0
//
// UC: what arrives, and what does not. Nobody tells the sender of an unreliable connection that its
// message was of no use: its request completes well, the message is dropped as a whole, both queue
// pairs go on, and the next message is as good as the first.

#include "answers.h"
#include "endpoint.h"
#include "full_queues.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static struct address remote;

static struct endpoint *pair(void)
{
	struct options options = {.qp_type = IBV_QPT_UC};

	return open_pair(&options, &options, NULL, &remote);
}

// A message arrives, so the connection is in good order.
static void works(struct endpoint *e, uint64_t id)
{
	fill(e->buffer, 3000, id);
	CHECK_EQ(remote_post_recv(0, id, 30000, 3000), 0);
	CHECK_EQ(post(e, id, IBV_WR_SEND, 0, 3000, NULL, 0, 0), 0);
	expect_wc(e->send_cq, id, IBV_WC_SUCCESS);
	struct ibv_wc wc = remote_expect(0, true, id, IBV_WC_SUCCESS);

	CHECK_EQ(wc.byte_len, 3000);
	remote_check(0, 30000, 3000, id, "SEND");
	CHECK_EQ(state_of(e->qp), IBV_QPS_RTS);
	CHECK_EQ(remote_state(0), IBV_QPS_RTS);
}

static void operations(void)
{
	struct endpoint *e = pair();

	fill(e->buffer, 10000, 1);
	CHECK_EQ(post(e, 1, IBV_WR_RDMA_WRITE, 0, 10000, &remote, 0, 0), 0);
	expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(remote_post_recv(0, 2, 0, 0), 0);
	CHECK_EQ(post(e, 2, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 5000, &remote, 20000, 0), 0);
	expect_wc(e->send_cq, 2, IBV_WC_SUCCESS);
	struct ibv_wc wc = remote_expect(0, true, 2, IBV_WC_SUCCESS);

	CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK(wc.wc_flags & IBV_WC_WITH_IMM && wc.imm_data == 0x04030201, "the immediate data is %#x", wc.imm_data);
	CHECK_EQ(wc.byte_len, 5000);
	// What was sent before was placed before.
	remote_check(0, 0, 10000, 1, "WRITE");
	remote_check(0, 20000, 5000, 1, "WRITE with immediate");
	CHECK_EQ(remote_post_recv(0, 3, 30000, 8), 0);
	CHECK_EQ(post(e, 3, IBV_WR_SEND_WITH_IMM, 0, 8, NULL, 0, IBV_SEND_SOLICITED), 0);
	expect_wc(e->send_cq, 3, IBV_WC_SUCCESS);
	wc = remote_expect(0, true, 3, IBV_WC_SUCCESS);
	CHECK(wc.wc_flags & IBV_WC_WITH_IMM && wc.imm_data == 0x04030201, "the immediate data is %#x", wc.imm_data);
	works(e, 4);
}

// What the service does not have is refused where it is posted.
static void no_such_operation(void)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV, IBV_WR_TSO,
	};
	struct endpoint *e = pair();

	for (size_t i = 0; i < sizeof(opcodes) / sizeof(*opcodes); i++) {
		struct ibv_sge sge = sge_of(e, 0, 8);
		struct ibv_send_wr good = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					   .wr.rdma = {remote.va, remote.rkey}};
		struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = opcodes[i],
					 .wr.atomic = {.remote_addr = remote.va, .rkey = remote.rkey}}, *bad = NULL;

		good.next = &wr;
		REFUSED(ibv_post_send(e->qp, &good, &bad), EINVAL);
		CHECK(bad == &wr, "bad_wr of opcode %d is not the refused request", opcodes[i]);
		expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
	}
	expect_no_wc(e->send_cq, 20);
	works(e, 9);
}

static void no_receive_request(void)
{
	struct endpoint *e = pair();
	// Of all programs there were.
	long long before = remote_counter("rx_no_receive");

	for (int i = 0; i < 5; i++) {
		CHECK_EQ(post(e, i, IBV_WR_SEND, 0, 3000, NULL, 0, 0), 0);
		expect_wc(e->send_cq, i, IBV_WC_SUCCESS);
	}
	CHECK_EQ(post(e, 5, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 8, &remote, 0, 0), 0);
	expect_wc(e->send_cq, 5, IBV_WC_SUCCESS);
	// All of the same path: what was sent before has come when this has.
	CHECK_EQ(post(e, 6, IBV_WR_RDMA_WRITE, 0, 8, &remote, 50000, 0), 0);
	expect_wc(e->send_cq, 6, IBV_WC_SUCCESS);
	remote_counter_reaches("rx_no_receive", before + 6);
	CHECK_EQ(remote_pending(0, true), 0);
	works(e, 9);
}

static void longer_than_the_receive_request(void)
{
	struct endpoint *e = pair();

	CHECK_EQ(remote_post_recv(0, 1, 0, 2000), 0);
	remote_fill(0, 2000, 4000, 77);
	CHECK_EQ(post(e, 1, IBV_WR_SEND, 0, 6000, NULL, 0, 0), 0);
	expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
	// The receive request waits for a message that fits.
	fill(e->buffer, 1500, 3);
	CHECK_EQ(post(e, 2, IBV_WR_SEND, 0, 1500, NULL, 0, 0), 0);
	expect_wc(e->send_cq, 2, IBV_WC_SUCCESS);
	struct ibv_wc wc = remote_expect(0, true, 1, IBV_WC_SUCCESS);

	CHECK_EQ(wc.byte_len, 1500);
	remote_check(0, 0, 1500, 3, "SEND");
	remote_check(0, 2000, 4000, 77, "behind the receive request");
	works(e, 9);
}

static void no_right_to_write(void)
{
	struct endpoint *e = pair();
	struct address to = remote;

	remote_fill(0, 0, 65536, 5);
	fill(e->buffer, 20000, 1);
	to.rkey ^= 0x5a5a00;
	CHECK_EQ(post(e, 1, IBV_WR_RDMA_WRITE, 0, 9000, &to, 0, 0), 0);
	to = remote_register(0, 4096, 4096, IBV_ACCESS_LOCAL_WRITE);
	CHECK_EQ(post(e, 2, IBV_WR_RDMA_WRITE, 0, 100, &to, 0, 0), 0);
	to = remote_register(0, 4096, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	// The first packets would fit.
	CHECK_EQ(post(e, 3, IBV_WR_RDMA_WRITE, 0, 4097, &to, 0, 0), 0);
	for (int i = 1; i <= 3; i++)
		expect_wc(e->send_cq, i, IBV_WC_SUCCESS);
	works(e, 9);
	remote_check(0, 0, 30000, 5, "memory without a right");
}

static void bad_local_key(void)
{
	struct endpoint *e = pair();
	struct ibv_sge sge = sge_of(e, 0, 3000);
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	sge.lkey ^= 0x5a5a00;
	CHECK_EQ(remote_post_recv(0, 1, 0, 4000), 0);
	CHECK_EQ(ibv_post_send(e->qp, &wr, &bad), 0);
	expect_wc(e->send_cq, 1, IBV_WC_LOC_PROT_ERR);
	// Only the send queue has stopped, and can go on.
	CHECK_EQ(state_of(e->qp), IBV_QPS_SQE);
	CHECK_EQ(post(e, 2, IBV_WR_SEND, 0, 8, NULL, 0, 0), 0);
	expect_wc(e->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(remote_pending(0, true), 0);
	CHECK_EQ(set_state(e->qp, IBV_QPS_RTS), 0);
	fill(e->buffer, 3000, 7);
	CHECK_EQ(post(e, 3, IBV_WR_SEND, 0, 3000, NULL, 0, 0), 0);
	expect_wc(e->send_cq, 3, IBV_WC_SUCCESS);
	remote_expect(0, true, 1, IBV_WC_SUCCESS);
	remote_check(0, 0, 3000, 7, "SEND");
}

// A peer that is not there is no error either.
static void nobody_there(void)
{
	struct endpoint *e = pair();

	remote_destroy_qp(0);
	for (int i = 0; i < 50; i++) {
		CHECK_EQ(post(e, i, IBV_WR_SEND, 0, 3000, NULL, 0, 0), 0);
		expect_wc(e->send_cq, i, IBV_WC_SUCCESS);
	}
	CHECK_EQ(state_of(e->qp), IBV_QPS_RTS);
}

static void send_queue_full(void)
{
	struct endpoint *e = pair();

	fill_send_queue(e, IBV_WR_RDMA_WRITE, &remote);
	works(e, 9);
}

static void receive_queue_full(void)
{
	fill_receive_queue(pair());
}

static void completion_queue_full(void)
{
	fill_completion_queue(IBV_QPT_UC, &remote);
}

// A message of many packets, again and again: each that arrives is whole.
static void long_messages(void)
{
	enum { SIZE = 1 << 20, ROUNDS = 20 };
	struct options options = {.qp_type = IBV_QPT_UC, .size = SIZE};
	struct endpoint *e = open_pair(&options, &options, NULL, &remote);

	for (int i = 0; i < ROUNDS; i++) {
		fill(e->buffer, SIZE, i);
		CHECK_EQ(remote_post_recv(0, i, 0, SIZE), 0);
		CHECK_EQ(post(e, i, IBV_WR_SEND, 0, SIZE, NULL, 0, 0), 0);
		expect_wc(e->send_cq, i, IBV_WC_SUCCESS);
		struct ibv_wc wc = remote_expect(0, true, i, IBV_WC_SUCCESS);

		CHECK_EQ(wc.byte_len, SIZE);
		remote_check(0, 0, SIZE, i, "SEND");
	}
}

static atomic_bool over;

static void *poll_until_over(void *cq)
{
	struct ibv_wc wc[32];

	while (!atomic_load(&over))
		CHECK(ibv_poll_cq(cq, 32, wc) >= 0, "polling failed");
	return NULL;
}

// Completions of a queue pair that come within some milliseconds; others are passed over.
static int completions_of(uint32_t qp_num, struct ibv_cq *cq)
{
	uint64_t end = now_ms() + 4;
	int count = 0;

	do {
		struct ibv_wc wc[32];
		int n = ibv_poll_cq(cq, 32, wc);

		CHECK(n >= 0, "polling failed");
		for (int i = 0; i < n; i++)
			count += wc[i].qp_num == qp_num;
	} while (now_ms() < end);
	return count;
}

// One with requests left, for which another thread has received something and is yet to answer,
// completes nothing after its end. The next queue pair has room.
static void destroyed_while_it_sends(void)
{
	enum { ROUNDS = 100, MANY = 400 };
	struct options options = {.qp_type = IBV_QPT_UC, .send_wr = MANY, .cqe = 8192};
	struct ibv_cq *sends = open_endpoint(&options)->send_cq, *polled = endpoint_at(0)->recv_cq;
	pthread_t poller;

	options.share_plus_one = 1;
	options.share_cq = true;
	CHECK_EQ(pthread_create(&poller, NULL, poll_until_over, polled), 0);
	for (int round = 0; round < ROUNDS; round++) {
		struct endpoint *a = open_endpoint(&options), *b = open_endpoint(&options), *next;
		struct address to_a = address_of(a), to_b = address_of(b);

		connect_endpoint(a, &to_b, NULL);
		connect_endpoint(b, &to_a, NULL);
		for (int i = 0; i < MANY; i++) {
			CHECK_EQ(post(a, i, IBV_WR_RDMA_WRITE, 0, 65536, &to_b, 0, 0), 0);
			if (i % 4 == 0)
				CHECK_EQ(post(b, i, IBV_WR_RDMA_WRITE, 0, 8, &to_a, 0, 0), 0);
		}
		for (int i = 0; i < 40; i++)
			CHECK_EQ(post(b, i, IBV_WR_RDMA_WRITE, 0, 8, &to_a, 0, 0), 0);
		CHECK_EQ(ibv_destroy_qp(a->qp), 0);
		next = open_endpoint(&options);
		CHECK_EQ(completions_of(to_a.qpn, sends), 0);
		connect_endpoint(next, &to_b, NULL);
		CHECK_EQ(post(next, 1, IBV_WR_RDMA_WRITE, 0, 8, &to_b, 0, 0), 0);
		// Some of the other end's may be left.
		while (wait_wc(sends).qp_num != next->qp->qp_num)
			;
		CHECK_EQ(ibv_destroy_qp(next->qp), 0);
		CHECK_EQ(ibv_destroy_qp(b->qp), 0);
	}
	atomic_store(&over, true);
	CHECK_EQ(pthread_join(poller, NULL), 0);
}

#define T(name) {#name, name, 0}
PROGRAM(T(operations), T(no_such_operation), T(no_receive_request), T(longer_than_the_receive_request),
	T(no_right_to_write), T(bad_local_key), T(nobody_there), T(send_queue_full),
	T(receive_queue_full), T(completion_queue_full), T(long_messages),
	T(destroyed_while_it_sends))
