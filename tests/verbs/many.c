// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Many objects in one process, and what an idle one costs.

#include "endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAIRS = 500, IDLE = 1000 };

static size_t resident_bytes(void)
{
	unsigned long total = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	CHECK(file && fscanf(file, "%lu %lu", &total, &resident) == 2, "/proc/self/statm");
	fclose(file);
	return resident * sysconf(_SC_PAGESIZE);
}

// 1,000 QPs in one process, connected in pairs, all with traffic at once.
static void thousand_qps(void)
{
	struct options options = {.send_wr = 16, .recv_wr = 16, .cqe = 4096};
	static struct endpoint *ends[2 * PAIRS];
	static struct address addresses[2 * PAIRS];

	for (int i = 0; i < 2 * PAIRS; i++) {
		ends[i] = open_endpoint(&options);
		addresses[i] = address_of(ends[i]);
		options.share_plus_one = 1;
		options.share_cq = true;
	}
	for (int i = 0; i < 2 * PAIRS; i++)
		connect_endpoint(ends[i], &addresses[i ^ 1], NULL);
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 2 * PAIRS; i++)
			CHECK_EQ(post_recv(ends[i], i, 32 * (i % 1024), 32), 0);
		for (int i = 0; i < 2 * PAIRS; i++)
			CHECK_EQ(post(ends[i], i, IBV_WR_SEND, 40000, 32, NULL, 0, 0), 0);
		for (int i = 0; i < 2 * PAIRS; i++) {
			CHECK_EQ(wait_wc(ends[0]->send_cq).status, IBV_WC_SUCCESS);
			CHECK_EQ(wait_wc(ends[0]->recv_cq).status, IBV_WC_SUCCESS);
		}
	}
	for (int i = 0; i < 2 * PAIRS; i++)
		CHECK_EQ(ibv_destroy_qp(ends[i]->qp), 0);
}

// Bytes of resident memory for each connected RC QP that has nothing to do. The bound is the project's promise.
static void idle_memory(void)
{
	struct options options = {.send_wr = 128, .recv_wr = 128};
	struct address address;
	struct endpoint *e, *first = open_endpoint(&options);

	// Whatever is allocated once is allocated now.
	options.share_plus_one = 1;
	options.share_cq = true;
	for (int i = 0; i < 10; i++) {
		e = open_endpoint(&options);
		address = address_of(first);
		connect_endpoint(e, &address, NULL);
	}
	size_t before = resident_bytes();

	for (int i = 0; i < IDLE; i++) {
		e = open_endpoint(&options);
		connect_endpoint(e, &address, NULL);
	}
	size_t each = (resident_bytes() - before) / IDLE;

	// For the benchmarks, which print it.
	printf("bytes per idle RC QP: %zu\n", each);
	CHECK(each < 16384, "%zu bytes for each idle QP, not under 16 KiB", each);
}

// Objects made and destroyed again and again leave nothing behind.
static void churn(void)
{
	struct options options = {0};
	size_t before = 0;

	for (int round = 0; round < 300; round++) {
		struct endpoint *e = open_endpoint(&options);
		struct address self = address_of(e);

		connect_endpoint(e, &self, NULL);
		CHECK_EQ(post(e, 1, IBV_WR_RDMA_WRITE, 0, 1000, &self, 5000, 0), 0);
		expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
		char *buffer = e->buffer;
		size_t size = e->size;

		close_endpoint(e);
		memset(buffer, 1, size);
		if (round == 100)
			before = resident_bytes();
	}
	// The buffers themselves (64 KiB each, 200 of them) stay mapped.
	size_t grown = resident_bytes() - before;

	CHECK(grown < 200 * 65536 + (4 << 20), "%zu bytes more after 200 rounds", grown);
}

PROGRAM({"thousand_qps", thousand_qps, 120}, {"idle_memory", idle_memory, 0}, {"churn", churn, 120})
