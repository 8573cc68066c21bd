// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Several threads: each with a connection of its own, both directions of one connection, one queue
// for all.

#include "setup/peers.h"

#include <pthread.h>

enum { THREADS = 4, BLOCKS = 100 };

struct worker {
	pthread_t thread;
	param p;
	int index;
};

static struct worker workers[THREADS];

static void start_workers(const param *p, void *(*work)(void *worker))
{
	for (int i = 0; i < THREADS; i++) {
		struct worker *worker = &workers[i];

		worker->p = *p;
		worker->index = i;
		// What points into the parameters points into its own.
		worker->p.send_buf = worker->p.send_store;
		worker->p.recv_buf = worker->p.recv_store;
		if (p->mode)
			require(ok_exs_qcreate(&worker->p));
		CHECK(!pthread_create(&worker->thread, NULL, work, worker), "no thread");
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
}

// Exactly so many bytes, each of which is the pattern's.
static void receive_blocks(param *p, int blocks)
{
	uint64_t at = 0, all = (uint64_t)blocks * TEST_BUFSIZE;

	while (at < all) {
		p->RECV_BUFSIZE = all - at < TEST_BUFSIZE ? all - at : TEST_BUFSIZE;
		ssize_t got = receive_some(p);
		CHECK(got > 0, "the stream ends early");
		for (ssize_t i = 0; i < got; i++, at++)
			CHECK(((unsigned char *)p->recv_buf)[i] == pattern(at % TEST_BUFSIZE), "byte %llu is not what was sent",
			      (unsigned long long)at);
	}
}

static void send_blocks(param *p, int blocks)
{
	for (int i = 0; i < blocks; i++)
		require(ok_exs_send(p));
}

static void *connect_and_talk(void *argument)
{
	param *p = &((struct worker *)argument)->p;

	require(ok_exs_socket(p));
	require(ok_exs_connect(p));
	send_blocks(p, BLOCKS);
	receive_blocks(p, BLOCKS);
	hang_up(p);
	return NULL;
}

static void *accept_and_talk(void *argument)
{
	param *p = &((struct worker *)argument)->p;

	// All accept at one socket.
	require(ok_exs_accept(p));
	receive_blocks(p, BLOCKS);
	send_blocks(p, BLOCKS);
	return NULL;
}

static void peer_with_threads(param *p)
{
	require(initialized(p));
	require(aim(p, p->peer_addr));
	meet(p);
	start_workers(p, connect_and_talk);
	meet(p);
}

static void connection_each(param *p)
{
	require(serving(p));
	start_workers(p, accept_and_talk);
	print_pass(0);
}

static void *receive_in_thread(void *argument)
{
	receive_blocks(argument, BLOCKS);
	return NULL;
}

// Sends while another thread receives.
static void both_directions(param *p)
{
	static param other;
	pthread_t thread;

	other = *p;
	other.recv_buf = other.recv_store;
	if (p->mode)
		require(ok_exs_qcreate(&other));
	CHECK(!pthread_create(&thread, NULL, receive_in_thread, &other), "no thread");
	send_blocks(p, BLOCKS);
	pthread_join(thread, NULL);
}

static void peer_in_both_directions(param *p)
{
	require(connected(p));
	both_directions(p);
	meet(p);
}

static void full_duplex(param *p)
{
	require(accepted(p));
	both_directions(p);
	print_pass(0);
}

static int taken[THREADS * BLOCKS];
static exs_qhandle_t shared_queue;

static void *take_events(void *argument)
{
	(void)argument;
	for (int i = 0; i < BLOCKS; i++) {
		exs_event_t event;

		CHECK(exs_qdequeue(shared_queue, &event, 1, NULL) == 1, "exs_qdequeue: %s", strerror(errno));
		uintptr_t which = (uintptr_t)event.exs_evt_ahandle;
		CHECK(which < THREADS * BLOCKS && !event.exs_evt_errno, "event %zu: %s", (size_t)which, strerror(event.exs_evt_errno));
		CHECK(!__atomic_fetch_add(&taken[which], 1, __ATOMIC_RELAXED), "one event for two threads");
	}
	return NULL;
}

// Threads that wait at one queue share its events: each event is one thread's.
static void one_queue(param *p)
{
	pthread_t threads[THREADS];

	require(connected(p));
	require(with_own_queue(p));
	shared_queue = p->qh;
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, take_events, NULL), "no thread");
	for (uintptr_t i = 0; i < THREADS * BLOCKS; i++)
		while (exs_send(p->fd, p->send_buf, 100, 0, shared_queue, (void *)i, NULL) < 0)
			CHECK(errno == EBUSY, "exs_send: %s", strerror(errno));
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	hang_up(p);
	print_pass(0);
}

// A close ends what another thread waits in.
static void *wait_for_data(void *argument)
{
	param *p = argument;

	errno = 0;
	ssize_t got = exs_recv(p->fd, p->recv_buf, p->RECV_BUFSIZE, EXS_BLOCK, NULL, NULL, NULL);
	return got < 0 ? (void *)(uintptr_t)errno : NULL;
}

static void closed_by_another(param *p)
{
	pthread_t thread;
	void *error = NULL;

	require(accepted(p));
	CHECK(!pthread_create(&thread, NULL, wait_for_data, p), "no thread");
	// It may come to the close before the receive does: then there is no such socket.
	hang_up(p);
	pthread_join(thread, &error);
	CHECK((uintptr_t)error == ECANCELED || (uintptr_t)error == EBADF, "%s", strerror((uintptr_t)error));
	print_pass(0);
}

static const struct test_case all_tests[] = {
	{1, OK(OK_THREADS), "four threads, a connection each", .peer = peer_with_threads, .run = connection_each},
	{2, OK(OK_THREADS), "one thread sends, another receives, on one connection", .peer = peer_in_both_directions, .run = full_duplex},
	{3, OK(OK_THREADS), "four threads take the events of one queue", .peer = peer_drains, .run = one_queue},
	{4, OK(OK_THREADS), "one thread closes the socket that another receives from", .peer = peer_connects, .run = closed_by_another},
};

PROGRAM("threads", NULL, .group = "5.4")
