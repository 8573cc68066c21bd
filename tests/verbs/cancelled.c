// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Threads that are cancelled while they use verbs. Those that post and poll are no cancellation
// points (on an adapter no system call is in them), nor are those that make something and end it
// (ioctl is none): a thread ends where it says itself that it may, or where it waits for an event,
// and what it used can be used by others.

#include "endpoint.h"
#include "interrupter.h"

#include <errno.h>
#include <string.h>

enum { ROUNDS = 200 };

static struct address remote;
static struct endpoint *endpoint;

static void setup(void)
{
	struct options options = {0};

	endpoint = open_pair(&options, &options, NULL, &remote);
}

static void write_one(int i)
{
	CHECK_EQ(post(endpoint, i, IBV_WR_RDMA_WRITE, 0, 8, &remote, 0, IBV_SEND_SIGNALED), 0);
}

UNGUARDED static void *write_for_ever(void *unused)
{
	struct ibv_wc wc;

	(void)unused;
	for (int i = 0;; i++) {
		write_one(i);
		atomic_store(&waits, 1);
		while (ibv_poll_cq(endpoint->send_cq, 1, &wc) == 0) {
		}
		// All is done and nothing is on its way.
		pthread_testcancel();
	}
	return NULL;
}

UNGUARDED static void *poll_for_ever(void *unused)
{
	struct ibv_wc wc;

	(void)unused;
	for (;;) {
		CHECK_EQ(ibv_poll_cq(endpoint->send_cq, 1, &wc), 0);
		atomic_store(&waits, 1);
		pthread_testcancel();
	}
	return NULL;
}

static void make_and_end(void)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
	struct ibv_cq *cq = ibv_create_cq(endpoint->context, 1, NULL, NULL, 0);
	struct ibv_qp *qp;
	struct ibv_mr *mr;

	CHECK(cq, "ibv_create_cq: %s", strerror(errno));
	attr.send_cq = attr.recv_cq = cq;
	qp = ibv_create_qp(endpoint->pd, &attr);
	CHECK(qp, "ibv_create_qp: %s", strerror(errno));
	mr = ibv_reg_mr(endpoint->pd, endpoint->buffer, endpoint->size, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr, "ibv_reg_mr: %s", strerror(errno));
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

UNGUARDED static void *make_for_ever(void *unused)
{
	(void)unused;
	for (;;) {
		make_and_end();
		atomic_store(&waits, 1);
		pthread_testcancel();
	}
	return NULL;
}

UNGUARDED static void *wait_for_asynchronous_events(void *unused)
{
	struct ibv_async_event event;

	(void)unused;
	atomic_store(&waits, 1);
	ibv_get_async_event(endpoint->context, &event);
	return NULL;
}

static void cancel_often(void *(*thread)(void *))
{
	setup();
	for (int round = 0; round < ROUNDS; round++) {
		cancel(thread, NULL, round % 50);
		write_one(round);
		expect_wc(endpoint->send_cq, round, IBV_WC_SUCCESS);
		make_and_end();
	}
}

static void a_thread_that_writes(void)
{
	cancel_often(write_for_ever);
}

static void a_thread_that_polls(void)
{
	cancel_often(poll_for_ever);
}

static void a_thread_that_makes_and_ends(void)
{
	cancel_often(make_for_ever);
}

static void a_thread_that_waits(void)
{
	cancel_often(wait_for_asynchronous_events);
}

#define T(name) {#name, name, 0}
PROGRAM(T(a_thread_that_writes), T(a_thread_that_polls), T(a_thread_that_makes_and_ends), T(a_thread_that_waits))
