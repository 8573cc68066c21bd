// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Many objects in one process, and what an idle one costs.

#include "endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
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

// Bytes of resident memory for each connected RC QP that has nothing to do. The bound is the
// project's promise.
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

enum { MOST_AT_ONCE = 32768 };

// All queue pairs send in step, each a message, to one process: more than its socket holds at a
// time. QPS says how many.
static void all_at_once(void)
{
	static struct endpoint *ends[MOST_AT_ONCE];
	static struct address addresses[MOST_AT_ONCE];
	const char *wanted = getenv("QPS");
	int qps = wanted ? atoi(wanted) : 8192, failed = 0;
	struct options options = {.send_wr = 4, .recv_wr = 4};

	CHECK(qps >= 2 && qps <= MOST_AT_ONCE && qps % 2 == 0, "QPS=%d", qps);
	options.cqe = qps;
	setenv("FERROCE_LOOPBACK", "off", 1);
	for (int i = 0; i < qps; i++) {
		ends[i] = open_endpoint(&options);
		addresses[i] = address_of(ends[i]);
		options.share_plus_one = 1;
		options.share_cq = true;
	}
	for (int i = 0; i < qps; i++)
		connect_endpoint(ends[i], &addresses[i ^ 1], NULL);
	for (int i = 0; i < qps; i++)
		CHECK_EQ(post_recv(ends[i], i, 0, 32), 0);
	uint64_t began = now_ms();

	for (int i = 0; i < qps; i++)
		CHECK_EQ(post(ends[i], i, IBV_WR_SEND, 40000, 32, NULL, 0, 0), 0);
	for (int i = 0; i < qps; i++)
		failed += wait_wc(ends[0]->send_cq).status != IBV_WC_SUCCESS;
	printf("%d of %d queue pairs failed; %d ms\n", failed, qps, (int)(now_ms() - began));
	CHECK(failed == 0, "%d of %d queue pairs failed", failed, qps);
	for (int i = 0; i < qps; i++)
		CHECK_EQ(wait_wc(ends[0]->recv_cq).status, IBV_WC_SUCCESS);
}

// Processes of one device, each of which writes to all others.
enum { MOST_PROCESSES = 64, MESSAGES = 400, MESSAGE = 4096 };

struct meeting {
	struct address addresses[MOST_PROCESSES][MOST_PROCESSES];
	// What the processes have arrived at, and their memory in use and when idle.
	atomic_int arrived[4];
	atomic_size_t busy, idle;
};

// This process's part of the memory that it shares with others.
static size_t shared_bytes(void)
{
	unsigned long kilobytes = 0;
	char line[256];
	FILE *file = fopen("/proc/self/smaps_rollup", "r");

	CHECK(file, "/proc/self/smaps_rollup");
	while (fgets(line, sizeof(line), file) && sscanf(line, "Pss_Shmem: %lu kB", &kilobytes) != 1)
		;
	fclose(file);
	return kilobytes << 10;
}

static void write_to_all(struct meeting *meeting, int own, int processes)
{
	struct options options = {.size = 2 * MESSAGE, .send_wr = 16, .cqe = 256};
	// All poll, on few processors.
	struct connection patient = {.timeout = 19};
	struct endpoint *ends[MOST_PROCESSES];

	for (int other = 0; other < processes; other++) {
		ends[other] = open_endpoint(&options);
		meeting->addresses[own][other] = address_of(ends[other]);
		options.share_plus_one = 1;
		options.share_cq = true;
	}
	meet(&meeting->arrived[0], processes);
	for (int other = 0; other < processes; other++)
		connect_endpoint(ends[other], &meeting->addresses[other][own], &patient);
	meet(&meeting->arrived[1], processes);

	size_t before = shared_bytes();

	for (int n = 0; n < MESSAGES; n++) {
		for (int other = 0; other < processes; other++)
			if (other != own)
				CHECK_EQ(post(ends[other], n, IBV_WR_RDMA_WRITE, 0, MESSAGE, &ends[other]->peer, MESSAGE, 0), 0);
		for (int other = 0; other < processes - 1; other++)
			CHECK_EQ(wait_wc(ends[0]->send_cq).status, IBV_WC_SUCCESS);
	}
	meet(&meeting->arrived[2], processes);
	atomic_fetch_add(&meeting->busy, shared_bytes() - before);
	// The memory goes back by itself, some time after the last packet.
	uint64_t deadline = now_ms() + 20000;

	while (shared_bytes() > before + (size_t)processes * 16384 && now_ms() < deadline)
		usleep(50000);
	meet(&meeting->arrived[3], processes);
	size_t after = shared_bytes();

	atomic_fetch_add(&meeting->idle, after > before ? after - before : 0);
}

// What the ways between processes of one device cost: the bounds are the project's promise.
static void all_to_all_memory(void)
{
	const char *loopback = getenv("FERROCE_LOOPBACK"), *wanted = getenv("PROCESSES");
	int processes = wanted ? atoi(wanted) : 16, status;

	if (loopback && strcmp(loopback, "off") == 0)
		skip("packets go over sockets");
	CHECK(processes >= 2 && processes <= MOST_PROCESSES, "PROCESSES=%d", processes);
	struct meeting *meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(meeting != MAP_FAILED, "mmap");
	for (int own = 0; own < processes; own++) {
		pid_t child = fork();

		CHECK(child >= 0, "fork");
		if (child == 0) {
			write_to_all(meeting, own, processes);
			_exit(0);
		}
	}
	for (int own = 0; own < processes; own++)
		CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0, "a process ended with %#x", status);
	size_t ways = (size_t)processes * (processes - 1);

	printf("bytes per way in use: %zu, idle: %zu\n", meeting->busy / ways, meeting->idle / ways);
	CHECK(meeting->busy / ways < 131072, "%zu bytes for each way in use, not under 128 KiB", meeting->busy / ways);
	CHECK(meeting->idle / ways < 16384, "%zu bytes for each idle way, not under 16 KiB", meeting->idle / ways);
}

PROGRAM({"thousand_qps", thousand_qps, 120}, {"idle_memory", idle_memory, 0}, {"churn", churn, 120},
	{"all_at_once", all_at_once, 180}, {"all_to_all_memory", all_to_all_memory, 180})
