// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Completion vectors: whichever a program's queues have, everything works as with one, and what
// belongs to a context (domains, regions, shared receive queues, address handles) serves the queue
// pairs of all of them.

#include "endpoint.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct address remote;

static int vectors(void)
{
	struct ibv_context *context = open_device();
	int number = context->num_comp_vectors;

	CHECK_EQ(ibv_close_device(context), 0);
	CHECK(number >= 2, "%d completion vectors", number);
	return number;
}

static struct options of_vector(int vector)
{
	return (struct options){.send_vector = vector, .recv_vector = vector};
}

// Each way of moving data between `e` and `peer`, which are connected.
static void move_all(struct endpoint *e, struct endpoint *peer)
{
	struct address to = address_of(peer);
	uint64_t *word = (uint64_t *)(peer->buffer + 50000);

	fill(e->buffer, 20000, 1);
	CHECK_EQ(post(e, 1, IBV_WR_RDMA_WRITE, 0, 20000, &to, 20000, 0), 0);
	expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
	check_filled(peer->buffer + 20000, 20000, 1, "WRITE");

	fill(peer->buffer, 20000, 2);
	CHECK_EQ(post(e, 2, IBV_WR_RDMA_READ, 20000, 20000, &to, 0, 0), 0);
	expect_wc(e->send_cq, 2, IBV_WC_SUCCESS);
	check_filled(e->buffer + 20000, 20000, 2, "READ");

	fill(e->buffer, 9000, 3);
	CHECK_EQ(post_recv(peer, 3, 40000, 9000), 0);
	CHECK_EQ(post(e, 4, IBV_WR_SEND, 0, 9000, NULL, 0, 0), 0);
	expect_wc(e->send_cq, 4, IBV_WC_SUCCESS);
	CHECK_EQ(expect_wc(peer->recv_cq, 3, IBV_WC_SUCCESS).byte_len, 9000);
	check_filled(peer->buffer + 40000, 9000, 3, "SEND");

	*word = 41;
	CHECK_EQ(post_atomic(e, 5, IBV_WR_ATOMIC_FETCH_AND_ADD, 50000, &to, 50000, 1, 0), 0);
	expect_wc(e->send_cq, 5, IBV_WC_SUCCESS);
	CHECK_EQ(*word, 42);
}

static void join(struct endpoint *a, struct endpoint *b)
{
	struct address to_a = address_of(a), to_b = address_of(b);

	connect_endpoint(a, &to_b, NULL);
	connect_endpoint(b, &to_a, NULL);
}

// Both ends in this process, of each pair of vectors.
static void from_each_to_each(void)
{
	int number = vectors();

	for (int i = 0; i < number; i++)
		for (int j = 0; j < number; j++) {
			struct options here = of_vector(i), there = of_vector(j);
			struct endpoint *a = open_endpoint(&here), *b = open_endpoint(&there);

			join(a, b);
			move_all(a, b);
			move_all(b, a);
			close_endpoint(a);
			close_endpoint(b);
		}
}

// From each vector to one of another process, which sleeps.
static void to_another_process(void)
{
	int number = vectors();

	for (int i = 0; i < number; i++) {
		struct options here = of_vector(i), there = of_vector(number - 1 - i);
		struct endpoint *e = open_pair(&here, &there, NULL, &remote);
		int index = last_endpoint();

		fill(e->buffer, 30000, i);
		CHECK_EQ(remote_post_recv(index, 1, 30000, 30000), 0);
		CHECK_EQ(post(e, 1, IBV_WR_SEND, 0, 30000, NULL, 0, 0), 0);
		expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
		remote_expect(index, true, 1, IBV_WC_SUCCESS);
		remote_check(index, 30000, 30000, i, "SEND");
		CHECK_EQ(post(e, 2, IBV_WR_RDMA_READ, 30000, 30000, &remote, 30000, 0), 0);
		expect_wc(e->send_cq, 2, IBV_WC_SUCCESS);
		check_filled(e->buffer + 30000, 30000, i, "READ");
	}
}

// Sends complete at one vector, receives at another: who polls only one of the queues gets what is
// in it.
static void queues_of_two_vectors(void)
{
	for (int send = 0; send < 2; send++) {
		struct options options = {.send_vector = send, .recv_vector = !send};
		struct endpoint *a = open_endpoint(&options), *b = open_endpoint(&options);

		join(a, b);
		for (int round = 0; round < 20; round++)
			move_all(a, b);
		close_endpoint(a);
		close_endpoint(b);
	}
}

// A program that sleeps on a channel is woken whatever the vector, and wakes up for each event once.
static void events(void)
{
	int number = vectors();

	for (int i = 0; i < number; i++) {
		struct options options = of_vector(i);
		struct ibv_cq *cq;
		void *cookie;

		options.channel = true;
		struct endpoint *e = open_pair(&options, NULL, NULL, &remote);
		int index = last_endpoint();
		struct address self = address_of(e);

		for (int round = 1; round <= 20; round++) {
			struct pollfd fd = {.fd = e->channel->fd, .events = POLLIN};

			CHECK_EQ(ibv_req_notify_cq(e->recv_cq, 0), 0);
			CHECK_EQ(post_recv(e, round, 0, 4096), 0);
			CHECK_EQ(poll(&fd, 1, 0), 0);
			CHECK_EQ(remote_post(index, round, IBV_WR_SEND, 0, 4096, &self, 0, 0), 0);
			CHECK_EQ(poll(&fd, 1, 10000), 1);
			CHECK_EQ(ibv_get_cq_event(e->channel, &cq, &cookie), 0);
			CHECK(cq == e->recv_cq, "the event of another queue");
			ibv_ack_cq_events(cq, 1);
			expect_wc(e->recv_cq, round, IBV_WC_SUCCESS);
			remote_expect(index, false, round, IBV_WC_SUCCESS);
		}
	}
}

// One address handle serves datagram queue pairs of two vectors, and they receive.
static void datagrams(void)
{
	struct options options = {.qp_type = IBV_QPT_UD};
	struct endpoint *a = open_endpoint(&options);
	struct endpoint *target = open_endpoint(&(struct options){.qp_type = IBV_QPT_UD, .recv_vector = 1});

	options.share_plus_one = 1;
	options.send_vector = options.recv_vector = 1;
	struct endpoint *b = open_endpoint(&options);
	struct address to_a = address_of(a), to_b = address_of(b), to_target = address_of(target);

	connect_endpoint(a, &to_target, NULL);
	connect_endpoint(b, &to_target, NULL);
	connect_endpoint(target, &to_a, NULL);
	// Both are in one domain.
	CHECK_EQ(ibv_destroy_ah(b->ah), 0);
	b->ah = a->ah;
	for (int round = 0; round < 20; round++) {
		struct endpoint *from = round % 2 ? b : a;

		fill(from->buffer, 1000, round);
		CHECK_EQ(post_recv(target, round, 30000, GRH_SIZE + 1000), 0);
		CHECK_EQ(post(from, round, IBV_WR_SEND, 0, 1000, &to_target, 0, 0), 0);
		expect_wc(from->send_cq, round, IBV_WC_SUCCESS);
		struct ibv_wc wc = expect_wc(target->recv_cq, round, IBV_WC_SUCCESS);

		CHECK_EQ(wc.src_qp, from->qp->qp_num);
		check_filled(target->buffer + 30000 + GRH_SIZE, 1000, round, "datagram");
	}
	// And back, to either.
	for (int round = 0; round < 20; round++) {
		struct endpoint *to = round % 2 ? b : a;

		fill(target->buffer, 1000, round);
		CHECK_EQ(post_recv(to, round, 30000, GRH_SIZE + 1000), 0);
		CHECK_EQ(post(target, round, IBV_WR_SEND, 0, 1000, round % 2 ? &to_b : &to_a, 0, 0), 0);
		expect_wc(target->send_cq, round, IBV_WC_SUCCESS);
		expect_wc(to->recv_cq, round, IBV_WC_SUCCESS);
		check_filled(to->buffer + 30000 + GRH_SIZE, 1000, round, "datagram");
	}
}

// Threads, each with a vector of its own, receive from one shared receive queue into one region and
// count in one word.
enum { THREADS = 4, MESSAGES = 3000 };

struct worker {
	pthread_t thread;
	struct endpoint *from, *to;
	uint64_t *sum;
};

static void *work(void *argument)
{
	struct worker *w = argument;
	struct address to = address_of(w->to);
	int sent = 0, added = 0, received = 0;
	struct ibv_wc wc;

	while (sent < MESSAGES || added < MESSAGES || received < MESSAGES) {
		// At most some are on their way, so that the shared queue always has requests.
		if (sent < MESSAGES && sent - received < 16 && sent - added < 16) {
			CHECK_EQ(post(w->from, 2 * sent, IBV_WR_SEND, 0, 64, NULL, 0, 0), 0);
			CHECK_EQ(post_atomic(w->from, 2 * sent + 1, IBV_WR_ATOMIC_FETCH_AND_ADD, 128, &to,
					     (char *)w->sum - w->to->buffer, 1, 0),
				 0);
			sent++;
		}
		while (ibv_poll_cq(w->from->send_cq, 1, &wc) == 1) {
			CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
			added += wc.wr_id & 1;
		}
		while (ibv_poll_cq(w->to->recv_cq, 1, &wc) == 1) {
			CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
			CHECK_EQ(wc.byte_len, 64);
			CHECK_EQ(post_recv(w->to, 0, 4096, 64), 0);
			received++;
		}
	}
	return NULL;
}

static void threads(void)
{
	struct worker workers[THREADS];
	int number = vectors();

	for (int i = 0; i < THREADS; i++) {
		struct options from = of_vector(i % number), to = of_vector((i + 1) % number);

		from.share_plus_one = to.share_plus_one = i ? 1 : 0;
		// All take part in the first one's context, domain, region and shared receive queue.
		from.srq_wr = to.srq_wr = 1024;
		workers[i].from = open_endpoint(&from);
		to.share_plus_one = 1;
		workers[i].to = open_endpoint(&to);
		workers[i].sum = (uint64_t *)(workers[0].from->buffer + 2048);
		join(workers[i].from, workers[i].to);
	}
	for (int i = 0; i < THREADS * 32; i++)
		CHECK_EQ(post_recv(workers[0].from, 0, 4096, 64), 0);
	*workers[0].sum = 0;
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(workers[i].thread, NULL), 0);
	// IBV_ATOMIC_HCA: atomics of one adapter are atomic to each other.
	CHECK_EQ(*workers[0].sum, THREADS * MESSAGES);
}

// A child has nothing of it; the parent goes on.
static void fork_between(void)
{
	struct options first = of_vector(0), second = of_vector(1);
	struct endpoint *a = open_endpoint(&first), *b = open_endpoint(&second);
	int status;

	join(a, b);
	move_all(a, b);
	pid_t child = fork();

	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (child == 0) {
		// Its own device, with vectors of its own.
		struct endpoint *own = open_endpoint(&second), *other = open_endpoint(&first);

		join(own, other);
		move_all(own, other);
		_exit(0);
	}
	move_all(b, a);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %d", status);
	move_all(a, b);
}

PROGRAM({"from_each_to_each", from_each_to_each, 0}, {"to_another_process", to_another_process, 0},
	{"queues_of_two_vectors", queues_of_two_vectors, 0}, {"events", events, 0}, {"datagrams", datagrams, 0},
	{"threads", threads, 0}, {"fork_between", fork_between, 0})
