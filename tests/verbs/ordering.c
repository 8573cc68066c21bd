// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What programs that poll memory rely on: bytes of a WRITE appear in address order, what was
// written before is there when a flag is, and all of it happens while the target's process sleeps
// or computes.

#include "endpoint.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

static struct address remote;

static void post_ok(int result)
{
	CHECK(result == 0, "posting: %s", strerror(result));
}

// Both ends in this process: a thread polls the last byte of the target while the other writes.
struct poller {
	volatile unsigned char *target;
	size_t size;
	int rounds;
	volatile int round, bad;
};

static void *poll_last_byte(void *argument)
{
	struct poller *p = argument;

	for (int round = 1; round <= p->rounds; round++) {
		while (__atomic_load_n(&p->target[p->size - 1], __ATOMIC_ACQUIRE) != (unsigned char)round)
			;
		for (size_t i = 0; i < p->size; i++)
			if (p->target[i] != (unsigned char)round)
				p->bad++;
		p->round = round;
	}
	return NULL;
}

static void last_byte(size_t size, int rounds)
{
	struct options options = {.size = 4 * MIB};
	struct endpoint *a = open_endpoint(&options), *b = open_endpoint(&options);
	struct address to_a = address_of(a), to_b = address_of(b);
	struct poller poller = {.target = (unsigned char *)b->buffer, .size = size, .rounds = rounds};
	pthread_t thread;

	connect_endpoint(a, &to_b, NULL);
	connect_endpoint(b, &to_a, NULL);
	CHECK_EQ(pthread_create(&thread, NULL, poll_last_byte, &poller), 0);
	for (int round = 1; round <= rounds; round++) {
		memset(a->buffer, round, size);
		post_ok(post(a, round, IBV_WR_RDMA_WRITE, 0, size, &to_b, 0, 0));
		expect_wc(a->send_cq, round, IBV_WC_SUCCESS);
		while (poller.round != round)
			usleep(10);
		CHECK(poller.bad == 0, "in round %d %d bytes came later than the last one", round, poller.bad);
	}
	pthread_join(thread, NULL);
}

static void last_byte_small(void) { last_byte(61, 2000); }
static void last_byte_packets(void) { last_byte(40000, 200); }
static void last_byte_large(void) { last_byte(4 * MIB, 20); }

// Data, then a flag in a second WRITE: who sees the flag sees the data. The other process computes
// and makes no verbs call, so placement cannot wait for it.
static void flag_while_computing(void)
{
	struct options options = {.size = 2 * MIB};
	struct endpoint *e = open_pair(&options, &options, NULL, &remote);
	uint32_t *flag = (uint32_t *)(e->buffer + MIB);

	for (uint32_t round = 1; round <= 50; round++) {
		fill(e->buffer, MIB, round);
		*flag = round;
		post_ok(post(e, 1, IBV_WR_RDMA_WRITE, 0, MIB, &remote, 0, 0));
		post_ok(post(e, 2, IBV_WR_RDMA_WRITE, MIB, 4, &remote, MIB, 0));
		CHECK(remote_spin(0, MIB, round, 5000) >= 0, "the flag did not appear while the target computed");
		remote_check(0, 0, MIB, round, "before the flag");
		expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
		expect_wc(e->send_cq, 2, IBV_WC_SUCCESS);
	}
}

// The requester posts and then computes too: neither side makes another verbs call until the data
// is there.
static void neither_side_polls(void)
{
	struct options options = {.size = 2 * MIB};
	struct endpoint *e = open_pair(&options, &options, NULL, &remote);
	uint32_t *flag = (uint32_t *)(e->buffer + MIB);

	for (uint32_t round = 1; round <= 20; round++) {
		fill(e->buffer, MIB, round);
		*flag = round;
		post_ok(post(e, 1, IBV_WR_RDMA_WRITE, 0, MIB, &remote, 0, 0));
		post_ok(post(e, 2, IBV_WR_RDMA_WRITE, MIB, 4, &remote, MIB, 0));
		CHECK(remote_spin(0, MIB, round, 5000) >= 0, "the flag did not appear while both computed");
		remote_check(0, 0, MIB, round, "before the flag");
		expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
		expect_wc(e->send_cq, 2, IBV_WC_SUCCESS);
	}
}

// READ, ATOMIC and WRITE are served by a process that sleeps in recv().
static void target_sleeps(void)
{
	struct options options = {.size = 8 * MIB};
	struct endpoint *e = open_pair(&options, &options, NULL, &remote);

	remote_fill(0, 0, 8 * MIB, 6);
	usleep(300000);
	for (int round = 0; round < 5; round++) {
		memset(e->buffer, 0, e->size);
		post_ok(post(e, round, IBV_WR_RDMA_READ, 0, 8 * MIB, &remote, 0, 0));
		expect_wc(e->send_cq, round, IBV_WC_SUCCESS);
		check_filled(e->buffer, 8 * MIB, 6, "read from a sleeper");
		usleep(20000);
	}
	for (int round = 0; round < 100; round++) {
		post_ok(post_atomic(e, round, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &remote, 0, 1, 0));
		expect_wc(e->send_cq, round, IBV_WC_SUCCESS);
	}
}

// Operations of one QP take effect in the order in which they were posted.
static void write_then_read(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);

	for (uint32_t round = 1; round <= 500; round++) {
		fill(e->buffer, 5000, round);
		post_ok(post(e, 1, IBV_WR_RDMA_WRITE, 0, 5000, &remote, 0, 0));
		post_ok(post(e, 2, IBV_WR_RDMA_READ, 20000, 5000, &remote, 0, 0));
		expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
		expect_wc(e->send_cq, 2, IBV_WC_SUCCESS);
		check_filled(e->buffer + 20000, 5000, round, "read back");
	}
}

// A receive completion comes after all data written before, and receives complete in order.
static void write_then_send(void)
{
	struct options options = {.size = 2 * MIB};
	struct endpoint *e = open_pair(&options, &options, NULL, &remote);

	for (uint32_t round = 0; round < 50; round++) {
		CHECK_EQ(remote_post_recv(0, round, MIB, 16), 0);
		fill(e->buffer, 300000, round);
		post_ok(post(e, 1, IBV_WR_RDMA_WRITE, 0, 300000, &remote, 0, 0));
		post_ok(post(e, 2, IBV_WR_SEND, MIB, 16, NULL, 0, 0));
		remote_expect(0, true, round, IBV_WC_SUCCESS);
		remote_check(0, 0, 300000, round, "before the message");
		expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
		expect_wc(e->send_cq, 2, IBV_WC_SUCCESS);
	}
}

PROGRAM({"last_byte_small", last_byte_small, 0}, {"last_byte_packets", last_byte_packets, 0},
	{"last_byte_large", last_byte_large, 0}, {"flag_while_computing", flag_while_computing, 0},
	{"neither_side_polls", neither_side_polls, 0}, {"target_sleeps", target_sleeps, 0},
	{"write_then_read", write_then_read, 0}, {"write_then_send", write_then_send, 0})
