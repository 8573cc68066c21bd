/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * exs_bw - bandwidth of exs_send() to exs_recv(), in the manner of perftest.
 *
 * The client keeps some sends in progress, the server as many receives. As with perftest, all of them use the same
 * memory unless each is to have its own: what is measured then is the caches, too. At the end the client shuts down for
 * writing; the server answers how many bytes it has got, and then the clock stops.
 */
#include "common.h"

#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define LARGEST (1L << 23)
#define DEPTH_MAX 128
#define PAGE 4096

/* Before each measurement, from the client to the server. Big-endian. */
struct plan {
	uint64_t size;  /* bytes of a message */
	uint32_t depth; /* operations in progress at each end */
	uint32_t flags; /* PLAN_... */
};

#define PLAN_LAST 1 /* no measurement follows */
#define PLAN_OWN 2  /* each operation has memory of its own */

struct settings {
	const char *port;
	const char *bind_address;
	long size;
	long depth;
	long iterations;
	long seconds;
	int all;
	int own;
	int unregistered;
};

/* The memory of all operations in progress, one event queue and one registration for them. */
struct engine {
	exs_qhandle_t queue;
	exs_mhandle_t memory;
	char *base;
	size_t bytes;
	size_t stride; /* from one operation's memory to the next one's; 0: all have the same */
};

static void engine_open(struct engine *e, size_t size, long depth, int own, int unregistered)
{
	size_t pages = (size + PAGE - 1) / PAGE * PAGE;

	e->stride = own ? pages : 0;
	e->bytes = own ? pages * (size_t)depth : pages;
	e->base = mmap(NULL, e->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (e->base == MAP_FAILED)
		fail("memory for the transfers");
	memset(e->base, 0x5a, e->bytes);
	e->queue = exs_qcreate((int)depth);
	if (e->queue == EXS_QHANDLE_INVALID)
		fail("exs_qcreate");
	e->memory = NULL;
	if (!unregistered) {
		e->memory = exs_mregister(e->base, e->bytes, 0);
		if (e->memory == EXS_MHANDLE_INVALID)
			fail("exs_mregister");
	}
}

static void engine_close(struct engine *e)
{
	if (e->memory && exs_mderegister(e->memory, 0) < 0)
		fail("exs_mderegister");
	if (exs_qdelete(e->queue) < 0)
		fail("exs_qdelete");
	munmap(e->base, e->bytes);
}

/* Waits for at least one event and hands over the transfers' halves of what came; ends the program at a failure. */
static int take(struct engine *e, exs_event_t *events)
{
	int n = exs_qdequeue(e->queue, events, DEPTH_MAX, NULL);

	if (n < 0)
		fail("exs_qdequeue");
	for (int i = 0; i < n; i++) {
		if (events[i].exs_evt_errno) {
			errno = events[i].exs_evt_errno;
			fail("a transfer");
		}
	}
	return n;
}

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Receives until the end of the stream; the bytes. */
static uint64_t receive(int fd, const struct plan *plan)
{
	exs_event_t events[DEPTH_MAX];
	uint64_t total = 0;
	struct engine e;
	long in_progress = 0;
	int ended = 0;

	engine_open(&e, plan->size, plan->depth, plan->flags & PLAN_OWN, 0);
	for (; in_progress < plan->depth; in_progress++) {
		char *buffer = e.base + e.stride * (size_t)in_progress;

		if (exs_recv(fd, buffer, plan->size, MSG_WAITALL, e.queue, NULL, e.memory) < 0)
			fail("exs_recv");
	}
	while (in_progress > 0) {
		int n = take(&e, events);

		for (int i = 0; i < n; i++) {
			const exs_evt_xfer_t *done = &events[i].exs_evt_union.exs_evt_xfer;

			in_progress--;
			total += done->exs_evt_length;
			if (done->exs_evt_length < plan->size)
				ended = 1;
			if (ended)
				continue;
			if (exs_recv(fd, done->exs_evt_buffer, plan->size, MSG_WAITALL, e.queue, NULL, e.memory) < 0)
				fail("exs_recv");
			in_progress++;
		}
	}
	engine_close(&e);
	return total;
}

static void serve(const struct settings *s)
{
	int door = listening(s->bind_address, s->port, SOCK_STREAM);
	int last = 0;

	while (!last) {
		struct plan plan;
		uint64_t total;
		int fd = exs_blocking_accept(door, NULL, NULL);

		if (fd < 0)
			fail("exs_blocking_accept");
		read_all(fd, &plan, sizeof(plan));
		plan.size = be64toh(plan.size);
		plan.depth = be32toh(plan.depth);
		plan.flags = be32toh(plan.flags);
		last = plan.flags & PLAN_LAST;
		if (plan.size < 1 || plan.size > LARGEST || plan.depth < 1 || plan.depth > DEPTH_MAX)
			refuse("the client wants what this program does not know");
		total = htobe64(receive(fd, &plan));
		if (exs_write(fd, &total, sizeof(total)) < 0)
			fail("answering");
		if (exs_blocking_close(fd) < 0)
			fail("exs_blocking_close");
	}
	exs_blocking_close(door);
}

/* Sends as long as is wanted; the messages. */
static long stream(int fd, const struct settings *s, long size, struct engine *e)
{
	double end = seconds_now() + (double)s->seconds;
	exs_event_t events[DEPTH_MAX];
	long sent = 0, done = 0;

	for (;;) {
		int more = s->seconds ? seconds_now() < end : sent < s->iterations;

		while (more && sent - done < s->depth && (s->seconds || sent < s->iterations)) {
			char *buffer = e->base + e->stride * (size_t)(sent % s->depth);

			if (exs_send(fd, buffer, (size_t)size, 0, e->queue, NULL, e->memory) < 0)
				fail("exs_send");
			sent++;
		}
		if (done == sent)
			return sent;
		done += take(e, events);
	}
}

static void measure(const char *host, const struct settings *s, long size, int last)
{
	struct plan plan = {
		.size = htobe64((uint64_t)size),
		.depth = htobe32((uint32_t)s->depth),
		.flags = htobe32((last ? PLAN_LAST : 0) | (s->own ? PLAN_OWN : 0)),
	};
	int fd = connected(host, s->port, SOCK_STREAM);
	double start, elapsed;
	struct engine e;
	uint64_t got;
	long sent;

	if (exs_write(fd, &plan, sizeof(plan)) < 0)
		fail("sending the plan");
	engine_open(&e, (size_t)size, s->depth, s->own, s->unregistered);
	start = seconds_now();
	sent = stream(fd, s, size, &e);
	if (exs_shutdown(fd, SHUT_WR, EXS_BLOCK, NULL, NULL) < 0)
		fail("exs_shutdown");
	read_all(fd, &got, sizeof(got));
	elapsed = seconds_now() - start;
	got = be64toh(got);
	if (got != (uint64_t)sent * (uint64_t)size)
		refuse("%ld messages of %ld bytes were sent, %llu bytes received", sent, size, (unsigned long long)got);
	engine_close(&e);
	if (exs_blocking_close(fd) < 0)
		fail("exs_blocking_close");
	printf(" %-10ld %-14ld %-17.2f %.6f\n", size, sent, (double)got * 8 / elapsed / 1e9,
	       (double)sent / elapsed / 1e6);
	finish_output();
}

static _Noreturn void usage(int status)
{
	fprintf(status ? stderr : stdout,
		"usage: exs_bw [OPTIONS]          the server\n"
		"       exs_bw [OPTIONS] HOST     the client, which prints the table\n"
		"  -s, --size N        bytes of a message, 1 to 8388608 (65536)\n"
		"  -a, --all           sizes from 2 to 8388608, powers of two\n"
		"  -n, --iters N       messages (5000)\n"
		"  -D, --duration N    seconds instead of a number of messages\n"
		"  -t, --depth N       operations in progress, 1 to 128 (32)\n"
		"  -o, --own           each operation in progress has memory of its own\n"
		"  -u, --unregistered  the client's memory is not registered\n"
		"  -p, --port N        port (" DEFAULT_PORT ")\n"
		"  -b, --bind ADDRESS  the server's address (all)\n"
		"  -h, --help          this text\n");
	if (status == 0)
		finish_output();
	exit(status);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "size", required_argument, NULL, 's' },     { "all", no_argument, NULL, 'a' },
		{ "iters", required_argument, NULL, 'n' },    { "duration", required_argument, NULL, 'D' },
		{ "depth", required_argument, NULL, 't' },    { "own", no_argument, NULL, 'o' },
		{ "unregistered", no_argument, NULL, 'u' },   { "port", required_argument, NULL, 'p' },
		{ "bind", required_argument, NULL, 'b' },     { "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct settings s = { .port = DEFAULT_PORT, .size = 65536, .depth = 32, .iterations = 5000 };
	int option;

	while ((option = getopt_long(argc, argv, "s:an:D:t:oup:b:h", options, NULL)) != -1) {
		switch (option) {
		case 's':
			s.size = number(optarg, "--size", 1, LARGEST);
			break;
		case 'a':
			s.all = 1;
			break;
		case 'n':
			s.iterations = number(optarg, "--iters", 1, 1L << 40);
			break;
		case 'D':
			s.seconds = number(optarg, "--duration", 1, 86400);
			break;
		case 't':
			s.depth = number(optarg, "--depth", 1, DEPTH_MAX);
			break;
		case 'o':
			s.own = 1;
			break;
		case 'u':
			s.unregistered = 1;
			break;
		case 'p':
			number(optarg, "--port", 1, 65535);
			s.port = optarg;
			break;
		case 'b':
			s.bind_address = optarg;
			break;
		case 'h':
			usage(0);
		default:
			usage(2);
		}
	}
	if (argc - optind > 1)
		usage(2);
	if (exs_init(EXS_VERSION) < 0)
		fail("exs_init");
	if (argc == optind) {
		serve(&s);
		return 0;
	}
	printf(" #bytes     #iterations    BW average[Gb/s]  MsgRate[Mpps]\n");
	if (!s.all)
		measure(argv[optind], &s, s.size, 1);
	else
		for (long size = 2; size <= LARGEST; size *= 2)
			measure(argv[optind], &s, size, size == LARGEST);
	return 0;
}
