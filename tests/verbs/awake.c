// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A thread that reads a completion channel, where events follow each other closely: whatever it
// does instead of sleeping, signals and cancellation do to it what they do to one that sleeps.

#include "endpoint.h"
#include "interrupter.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

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

#define T(name) {#name, name, 0}
PROGRAM(T(a_signal_ends_the_wait), T(a_handler_that_restarts_does_not), T(a_thread_is_cancelled),
	T(a_channel_that_does_not_block_is_not_waited_for))
