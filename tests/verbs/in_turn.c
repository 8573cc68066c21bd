// SPDX-License-Identifier: MIT OR Apache-2.0
//
// One program writes to another over many queue pairs, a short message on each in turn, so that all
// are at work and none has more than one request. For the benchmarks, which read what is printed.

#include "endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 10000, MEASURED_MS = 1000, UNDER_WAY = 16, MESSAGE = 64, WRITER = 0, TARGET = 1 };

struct shared {
	struct address addresses[2][MOST];
	// How many have come to an end of the stage.
	atomic_int ready, connected, done;
	double rate;
};

static void write_in_turn(struct shared *shared, struct endpoint **ends, int pairs)
{
	struct ibv_wc wc[UNDER_WAY];
	uint64_t done = 0, begin = now_ms(), now;
	int next = 0, under_way = 0;

	do {
		for (; under_way < UNDER_WAY; under_way++) {
			CHECK_EQ(post(ends[next], next, IBV_WR_RDMA_WRITE, 0, MESSAGE, &ends[next]->peer, 0, 0), 0);
			next = (next + 1) % pairs;
		}
		int got = ibv_poll_cq(ends[0]->send_cq, UNDER_WAY, wc);

		CHECK(got >= 0, "polling: %d", got);
		for (int i = 0; i < got; i++)
			CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
		done += got;
		under_way -= got;
		now = now_ms();
	} while (now - begin < MEASURED_MS);
	shared->rate = (double)done / (now - begin);
}

static void be(int own, struct shared *shared, int pairs)
{
	static struct endpoint *ends[MOST];
	struct options options = {.send_wr = 4, .recv_wr = 4, .cqe = 64};

	for (int i = 0; i < pairs; i++) {
		ends[i] = open_endpoint(&options);
		shared->addresses[own][i] = address_of(ends[i]);
		options.share_plus_one = 1;
		options.share_cq = true;
	}
	meet(&shared->ready, 2);
	for (int i = 0; i < pairs; i++)
		connect_endpoint(ends[i], &shared->addresses[!own][i], NULL);
	meet(&shared->connected, 2);
	if (own == WRITER)
		write_in_turn(shared, ends, pairs);
	meet(&shared->done, 2);
}

static void measure(int pairs)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;

	CHECK(shared != MAP_FAILED, "mmap: %s", strerror(errno));
	for (int own = WRITER; own <= TARGET; own++) {
		pid_t child = fork();

		CHECK(child >= 0, "fork: %s", strerror(errno));
		if (child == 0) {
			be(own, shared, pairs);
			_exit(0);
		}
	}
	for (int i = 0; i < 2; i++)
		CHECK(wait(&status) > 0 && status == 0, "a process ended with %#x", status);
	CHECK(shared->rate > 0, "nothing was written");
	printf("k/s: %.3f\n", shared->rate);
}

static void pairs_16(void) { measure(16); }
static void pairs_10000(void) { measure(10000); }

PROGRAM({"pairs_16", pairs_16, 0}, {"pairs_10000", pairs_10000, 0})
