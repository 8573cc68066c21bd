// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What programs see of a daemon that has no descriptors left, its process given in DAEMON: refusals
// that say so, and nothing lost of what there is. Processes that come anew wait until there are
// some.

#include "cm_ids.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NOTICED_MS = 20000 };

static struct rlimit usual;

static pid_t daemon_process(void)
{
	const char *daemon = getenv("DAEMON");

	CHECK(daemon && atoi(daemon) > 0, "DAEMON is to be the daemon's process");
	return atoi(daemon);
}

// From now on no number is below the limit: the daemon gets no descriptor, and keeps those that it
// has.
static void no_descriptors(void)
{
	struct rlimit none;

	CHECK(!prlimit(daemon_process(), RLIMIT_NOFILE, NULL, &usual), "prlimit: %s", strerror(errno));
	none = usual;
	none.rlim_cur = 0;
	CHECK(!prlimit(daemon_process(), RLIMIT_NOFILE, &none, NULL), "prlimit: %s", strerror(errno));
}

static void descriptors_again(void)
{
	CHECK(!prlimit(daemon_process(), RLIMIT_NOFILE, &usual, NULL), "prlimit: %s", strerror(errno));
}

static void connect_on(struct pair *p)
{
	struct rdma_conn_param param = parameters();

	p->active = connecting(p->client, &p->address);
	p->passive = requested(p->server);
	CHECK(!rdma_accept(p->passive, &param), "rdma_accept: %s", strerror(errno));
	expect_event(p->client, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	CHECK(!rdma_establish(p->active), "rdma_establish: %s", strerror(errno));
	expect_event(p->server, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void disconnect(struct pair *p)
{
	CHECK_EQ(rdma_destroy_id(p->active), 0);
	expect_event(p->server, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK_EQ(rdma_destroy_id(p->passive), 0);
}

static void new_channels_are_refused(void)
{
	struct pair before, during;

	establish(&before);
	during = before;
	no_descriptors();
	for (int i = 0; i < 100; i++) {
		// Not EMFILE: those of this process have not run out.
		CHECK(!rdma_create_event_channel() && errno == ENFILE, "channel %d: %s", i, strerror(errno));
		// What there is goes on.
		if (i % 50 == 0) {
			connect_on(&during);
			disconnect(&during);
		}
	}
	disconnect(&before);
	descriptors_again();
	establish(&before);
	disconnect(&before);
}

// A queue pair that nothing can be received for yet stays as it is.
static void receiving_is_refused(void)
{
	struct rdma_conn_param param = parameters();
	struct pair p;

	request(&p);
	make_qp(p.passive);
	no_descriptors();
	CHECK(rdma_accept(p.passive, &param) == -1 && errno == ENFILE, "rdma_accept: %s", strerror(errno));
	CHECK(!readable(p.client, 0), "an answer has been sent");
	descriptors_again();
	CHECK(!rdma_accept(p.passive, &param), "rdma_accept: %s", strerror(errno));
	expect_event(p.client, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
}

// How often the daemon's log has these words.
static int logged(const char *words)
{
	static char path[4096], text[1 << 20];
	const char *directory = getenv("FERROCE_RUNTIME_DIR");
	size_t length;
	FILE *file;
	int n = 0;

	snprintf(path, sizeof(path), "%s/ferroced.log", directory ? directory : ".");
	file = fopen(path, "r");
	CHECK(file, "%s: %s", path, strerror(errno));
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = '\0';
	for (const char *at = text; (at = strstr(at, words)); at++)
		n++;
	return n;
}

static void wait_logged(const char *words, int count)
{
	struct timespec pause = {.tv_nsec = 5000000};
	uint64_t until = now_ms() + NOTICED_MS;

	while (logged(words) < count) {
		CHECK(now_ms() < until, "\"%s\" is logged %d times, not %d", words, logged(words), count);
		nanosleep(&pause, NULL);
	}
}

static pid_t process_that(bool (*works)(void))
{
	pid_t child = fork();

	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (!child) {
		alarm(60);
		_exit(works() ? 0 : 1);
	}
	return child;
}

static bool a_device_opens(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	return devices && *devices && ibv_open_device(*devices);
}

static bool a_channel_opens(void)
{
	int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);

	return fd >= 0;
}

static void new_processes_wait(void)
{
	int shut = logged("cannot let programs in"), open = logged("lets programs in again");
	pid_t waiting[2];

	no_descriptors();
	waiting[0] = process_that(a_device_opens);
	waiting[1] = process_that(a_channel_opens);
	// Once for each of the two sockets at which they knock, however long it takes.
	wait_logged("cannot let programs in", shut + 2);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(waitpid(waiting[i], NULL, WNOHANG), 0);
	descriptors_again();
	for (int i = 0; i < 2; i++) {
		int status;

		CHECK_EQ(waitpid(waiting[i], &status, 0), waiting[i]);
		CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "process %d: wait status %#x", i, status);
	}
	wait_logged("lets programs in again", open + 2);
	CHECK_EQ(logged("cannot let programs in"), shut + 2);
}

#define T(name) {#name, name, 0}
PROGRAM(T(new_channels_are_refused), T(receiving_is_refused), T(new_processes_wait))
