// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A thread that reads a completion channel, where events follow each other closely: whatever it
// does instead of sleeping, signals and cancellation do to it what they do to one that sleeps.

#include "endpoint.h"
#include "interrupter.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

// What makes the next wait one that is expected to be short.
enum { WARM_UP = 40 };

static struct address remote;
static struct endpoint *endpoint;

static void setup(void)
{
	struct options there = {0}, here = {.channel = true};

	endpoint = open_pair(&here, &there, NULL, &remote);
}

UNGUARDED static int get_event(void)
{
	struct ibv_cq *cq;
	void *context;
	int result = ibv_get_cq_event(endpoint->channel, &cq, &context);

	if (!result)
		ibv_ack_cq_events(cq, 1);
	return result;
}

static void arm(void)
{
	CHECK_EQ(ibv_req_notify_cq(endpoint->send_cq, 0), 0);
}

static void write_one(int i)
{
	CHECK_EQ(post(endpoint, i, IBV_WR_RDMA_WRITE, 0, 8, &remote, 0, IBV_SEND_SIGNALED), 0);
}

static void warm_up(void)
{
	for (int i = 0; i < WARM_UP; i++) {
		arm();
		write_one(i);
		CHECK_EQ(get_event(), 0);
		expect_wc(endpoint->send_cq, i, IBV_WC_SUCCESS);
	}
}

static void a_signal_ends_the_wait(void)
{
	enum { ROUNDS = 200 };
	int again = 0;

	setup();
	handle(0);
	for (int round = 0; round < ROUNDS; round++) {
		warm_up();
		arm();
		begin_wait(interrupt, 5 + round % 20 * 3);
		int result = get_event(), why = errno;

		end_wait();
		CHECK(result == -1 && why == EINTR, "%d, %s", result, strerror(why));
		CHECK_EQ(atomic_exchange(&handled, 0), sent);
		again += sent > 1;
		// What was armed is still.
		write_one(round);
		CHECK_EQ(get_event(), 0);
		expect_wc(endpoint->send_cq, round, IBV_WC_SUCCESS);
	}
	CHECK(again <= ROUNDS / 10, "%d of %d first signals did not end the wait", again, ROUNDS);
}

static void *signal_and_write(void *unused)
{
	(void)unused;
	signal_waiter();
	sleep_us(2000);
	write_one(0);
	return NULL;
}

static void a_handler_that_restarts_does_not(void)
{
	setup();
	handle(SA_RESTART);
	for (int round = 0; round < 50; round++) {
		warm_up();
		arm();
		begin_wait(signal_and_write, round * 2);
		CHECK_EQ(get_event(), 0);
		end_wait();
		CHECK_EQ(atomic_exchange(&handled, 0), 1);
		expect_wc(endpoint->send_cq, 0, IBV_WC_SUCCESS);
	}
}

static void *wait_for_ever(void *unused)
{
	(void)unused;
	warm_up();
	arm();
	atomic_store(&waits, 1);
	get_event();
	return NULL;
}

static void a_thread_is_cancelled(void)
{
	setup();
	for (int round = 0; round < 50; round++) {
		cancel(wait_for_ever, NULL, round * 2);
		// Nothing is locked for good.
		write_one(round);
		CHECK_EQ(get_event(), 0);
		expect_wc(endpoint->send_cq, round, IBV_WC_SUCCESS);
	}
}

static void a_channel_that_does_not_block_is_not_waited_for(void)
{
	int flags;

	setup();
	warm_up();
	flags = fcntl(endpoint->channel->fd, F_GETFL);
	CHECK_EQ(fcntl(endpoint->channel->fd, F_SETFL, flags | O_NONBLOCK), 0);
	arm();
	for (int i = 0; i < 100; i++)
		CHECK(get_event() == -1 && errno == EAGAIN, "%s", strerror(errno));
	CHECK_EQ(fcntl(endpoint->channel->fd, F_SETFL, flags), 0);
	write_one(0);
	CHECK_EQ(get_event(), 0);
	expect_wc(endpoint->send_cq, 0, IBV_WC_SUCCESS);
}

static atomic_int armed;

// Its first access to registered memory is made while it waits awake.
static void *receives_with_all_blocked(void *unused)
{
	enum { SIZE = 4096 };
	char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(endpoint->pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = SIZE};
	struct ibv_send_wr *bad, wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = {.remote_addr = remote.va, .rkey = remote.rkey},
	};
	sigset_t all;

	(void)unused;
	CHECK(memory != MAP_FAILED && mr, "memory: %s", strerror(errno));
	sge.lkey = mr->lkey;
	sigfillset(&all);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
	for (int i = 0; i < 10 * WARM_UP; i++) {
		arm();
		atomic_fetch_add(&armed, 1);
		CHECK_EQ(get_event(), 0);
		expect_wc(endpoint->send_cq, i, IBV_WC_SUCCESS);
	}
	// What is sent is read by who posts.
	CHECK_EQ(mprotect(memory, SIZE, PROT_NONE), 0);
	CHECK_EQ(ibv_post_send(endpoint->qp, &wr, &bad), 0);
	expect_wc(endpoint->send_cq, 1, IBV_WC_LOC_PROT_ERR);
	return NULL;
}

// The kernel ends a process for a fault that it cannot deliver. What was unblocked for that stays
// so after a wait, during which other signals are blocked.
static void a_fault_is_an_error_where_all_is_blocked(void)
{
#ifndef __x86_64__
	skip("accesses are guarded on x86-64 only");
#endif
	// Whether a thread receives while it waits, or the helper does, is a matter of time.
	for (int round = 0; round < 8; round++) {
		pthread_t thread;

		setup();
		atomic_store(&armed, 0);
		CHECK_EQ(pthread_create(&thread, NULL, receives_with_all_blocked, NULL), 0);
		for (int i = 0; i < 10 * WARM_UP; i++) {
			while (atomic_load(&armed) <= i)
				sched_yield();
			spin_us(5);
			write_one(i);
		}
		CHECK_EQ(pthread_join(thread, NULL), 0);
	}
}

#define T(name) {#name, name, 0}
PROGRAM(T(a_signal_ends_the_wait), T(a_handler_that_restarts_does_not), T(a_thread_is_cancelled),
	T(a_channel_that_does_not_block_is_not_waited_for), T(a_fault_is_an_error_where_all_is_blocked))
