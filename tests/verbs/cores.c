// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What two threads move that have nothing to do with each other, each on a processor of its own
// with a pair of queue pairs: of one completion vector, of two, and in two processes. For the
// benchmarks, which read what is printed.

#include "endpoint.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MEASURED_MS = 1000, WORKERS = 2 };

struct load {
	size_t size;
	int depth;
};

static const struct connection widest = {.mtu = IBV_MTU_4096};

static const struct load large = {65536, 16}, small = {2, 64};

struct worker {
	pthread_t thread;
	struct load load;
	int vector, processor;
	// Shared by all, between processes too.
	pthread_barrier_t *start;
	double *rate;
};

static void pin(int processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	// On a machine with one processor they share it.
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		CHECK(errno == EINVAL, "sched_setaffinity: %s", strerror(errno));
}

// WRITEs from one queue pair to the other for a while; leaves bytes a millisecond.
static void *work(void *argument)
{
	struct worker *w = argument;
	struct options options = {
		.size = 2 * large.size, .send_vector = w->vector, .recv_vector = w->vector};
	struct endpoint *a, *b;
	struct ibv_wc wc[16];
	uint64_t done = 0, begin, now;
	int on_their_way = 0;

	pin(w->processor);
	// The harness's list of endpoints is not for threads.
	static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&making);
	a = open_endpoint(&options);
	b = open_endpoint(&options);
	pthread_mutex_unlock(&making);
	struct address to_a = address_of(a), to_b = address_of(b);

	connect_endpoint(a, &to_b, &widest);
	connect_endpoint(b, &to_a, &widest);
	fill(a->buffer, w->load.size, w->processor);
	pthread_barrier_wait(w->start);
	begin = now_ms();
	do {
		for (; on_their_way < w->load.depth; on_their_way++)
			CHECK_EQ(post(a, 1, IBV_WR_RDMA_WRITE, 0, w->load.size, &to_b, 0, 0), 0);
		int got = ibv_poll_cq(a->send_cq, 16, wc);

		CHECK(got >= 0, "polling: %d", got);
		for (int i = 0; i < got; i++)
			check_wc(&wc[i], 1, IBV_WC_SUCCESS);
		on_their_way -= got;
		done += got;
		now = now_ms();
	} while (now < begin + MEASURED_MS);
	*w->rate = (double)done * w->load.size / (now - begin);
	check_filled(b->buffer, w->load.size, w->processor, "WRITE");
	return NULL;
}

struct shared {
	pthread_barrier_t start;
	double rates[WORKERS];
};

static void measure(struct load load, int workers, int vectors, bool processes)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct worker all[WORKERS];
	pthread_barrierattr_t between;
	double sum = 0;

	CHECK(shared != MAP_FAILED, "mmap: %s", strerror(errno));
	CHECK_EQ(pthread_barrierattr_init(&between), 0);
	CHECK_EQ(pthread_barrierattr_setpshared(&between, PTHREAD_PROCESS_SHARED), 0);
	CHECK_EQ(pthread_barrier_init(&shared->start, &between, workers), 0);
	for (int i = 0; i < workers; i++)
		all[i] = (struct worker){
			.load = load,
			.vector = i % vectors,
			.processor = i,
			.start = &shared->start,
			.rate = &shared->rates[i],
		};
	for (int i = 0; i < workers; i++) {
		if (!processes) {
			CHECK_EQ(pthread_create(&all[i].thread, NULL, work, &all[i]), 0);
		} else if (fork() == 0) {
			work(&all[i]);
			_exit(0);
		}
	}
	for (int i = 0; i < workers; i++) {
		int status = 0;

		if (processes)
			CHECK(wait(&status) > 0 && status == 0, "a process ended with %d", status);
		else
			CHECK_EQ(pthread_join(all[i].thread, NULL), 0);
	}
	for (int i = 0; i < workers; i++)
		sum += shared->rates[i];
	CHECK(sum > 0, "nothing was moved");
	printf("Gb/s: %.3f\n", sum * 8e-6);
	printf("M/s: %.4f\n", sum * 1e-3 / load.size);
}

static void one_thread_64k(void) { measure(large, 1, 1, false); }
static void one_vector_64k(void) { measure(large, 2, 1, false); }
static void two_vectors_64k(void) { measure(large, 2, 2, false); }
static void two_processes_64k(void) { measure(large, 2, 1, true); }
static void one_thread_2(void) { measure(small, 1, 1, false); }
static void one_vector_2(void) { measure(small, 2, 1, false); }
static void two_vectors_2(void) { measure(small, 2, 2, false); }
static void two_processes_2(void) { measure(small, 2, 1, true); }

PROGRAM({"one_thread_64k", one_thread_64k, 0}, {"one_vector_64k", one_vector_64k, 0},
	{"two_vectors_64k", two_vectors_64k, 0}, {"two_processes_64k", two_processes_64k, 0},
	{"one_thread_2", one_thread_2, 0}, {"one_vector_2", one_vector_2, 0}, {"two_vectors_2", two_vectors_2, 0},
	{"two_processes_2", two_processes_2, 0})
