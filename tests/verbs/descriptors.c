// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Programs whose descriptors, threads and root are not as they were when the device was opened: the
// first thread has ended, a thread has descriptors of its own, there is no /proc, all descriptors
// are closed and their numbers are those of other files, or no file can be opened any more.

#include "endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Makes a channel and has an event come by it, twice: the second one goes back unread.
static void channel_works(void)
{
	struct endpoint *a = open_endpoint(&(struct options){.channel = true});
	struct endpoint *b = open_endpoint(&(struct options){.channel = true});
	struct address to_a = address_of(a), to_b = address_of(b);
	struct pollfd look = {.fd = b->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *of;

	connect_endpoint(a, &to_b, NULL);
	connect_endpoint(b, &to_a, NULL);
	for (int k = 0; k < 2; k++) {
		CHECK_EQ(ibv_req_notify_cq(b->recv_cq, 0), 0);
		CHECK_EQ(post_recv(b, k, 0, 64), 0);
		CHECK_EQ(post(a, k, IBV_WR_SEND, 0, 64, NULL, 0, 0), 0);
		expect_wc(b->recv_cq, k, IBV_WC_SUCCESS);
		CHECK(poll(&look, 1, 5000) == 1, "no event %d", k);
		if (k != 0)
			continue;
		CHECK(!ibv_get_cq_event(b->channel, &cq, &of) && cq == b->recv_cq, "%s", strerror(errno));
		ibv_ack_cq_events(cq, 1);
	}
	CHECK_EQ(ibv_destroy_qp(b->qp), 0);
	CHECK_EQ(ibv_destroy_cq(b->recv_cq), 0);
	CHECK(poll(&look, 1, 0) == 0, "the event of a queue that is gone is there still");
}

static void channel_is_made(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	CHECK(channel, "ibv_create_comp_channel: %s", strerror(errno));
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, channel, 0);

	CHECK(cq, "ibv_create_cq: %s", strerror(errno));
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
}

static void cm_works(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	CHECK(channel, "rdma_create_event_channel: %s", strerror(errno));
	rdma_destroy_event_channel(channel);
}

static void *goes_on(void *opened)
{
	while (!__atomic_load_n((int *)opened, __ATOMIC_ACQUIRE))
		usleep(1000);
	channel_works();
	cm_works();
	_exit(0);
}

// The test's own process: what ends is the first thread of a child.
static void first_thread_ended(void)
{
	static int ended;
	pthread_t thread;
	pid_t child = fork();
	int status;

	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (child == 0) {
		pthread_create(&thread, NULL, goes_on, &ended);
		__atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
		// Not by way of exit handlers, and not with the process.
		syscall(SYS_exit, 0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0, "it ended with %#x", status);
}

static void *with_its_own(void *opened)
{
	int low;

	CHECK(!unshare(CLONE_FILES), "unshare: %s", strerror(errno));
	// From here on the numbers mean other files than in the process's first thread.
	for (int k = 0; k < 20; k++) {
		low = open("/dev/null", O_RDWR | O_CLOEXEC);
		CHECK(low >= 0, "/dev/null: %s", strerror(errno));
	}
	// A connection's sockets would be of no use to the helper, whose descriptors are the others.
	channel_is_made(opened);
	cm_works();
	return NULL;
}

static void own_descriptors(void)
{
	struct ibv_context *context = open_device();
	pthread_t thread;

	pthread_create(&thread, NULL, with_its_own, context);
	pthread_join(thread, NULL);
	CHECK_EQ(ibv_close_device(context), 0);
}

static void no_proc(void)
{
	char empty[] = "/tmp/ferroce-root-XXXXXX";

	if (geteuid() != 0)
		skip("chroot(2) needs root");
	CHECK(mkdtemp(empty), "mkdtemp: %s", strerror(errno));
	struct ibv_context *context = open_device();
	int refused = chroot(empty);

	CHECK(!refused && !chdir("/"), "chroot: %s", strerror(errno));
	channel_is_made(context);
	CHECK_EQ(ibv_close_device(context), 0);
}

// As it was when there were files.
static void has_gids(struct ibv_context *context, const struct ibv_gid_entry *wanted)
{
	struct ibv_gid_entry entry, table[256];
	union ibv_gid gid;
	bool found = false;
	ssize_t n;

	CHECK(!ibv_query_gid(context, 1, gid_index(), &gid), "ibv_query_gid: %s", strerror(errno));
	CHECK(!memcmp(&gid, &wanted->gid, sizeof(gid)), "another GID");
	CHECK_EQ(ibv_query_gid_ex(context, 1, gid_index(), &entry, 0), 0);
	CHECK(!memcmp(&entry, wanted, sizeof(entry)), "another entry");
	n = ibv_query_gid_table(context, table, 256, 0);
	CHECK(n > 0, "ibv_query_gid_table: %zd", n);
	for (ssize_t i = 0; i < n; i++)
		found |= !memcmp(&table[i], wanted, sizeof(*wanted));
	CHECK(found, "GID %u is not in the table", gid_index());
	CHECK_EQ(ibv_query_gid_ex(context, 1, 9999, &entry, 0), EINVAL);
	CHECK_EQ(ibv_query_gid_ex(context, 9, 0, &entry, 0), EINVAL);
}

// The kernel answers on the open device file, whatever paths lead to, for whoever asks.
static void no_files(void)
{
	struct ibv_context *context = open_device();
	char empty[] = "/tmp/ferroce-root-XXXXXX";
	struct ibv_gid_entry entry;
	struct rlimit limit, none;
	int refused;

	CHECK_EQ(ibv_query_gid_ex(context, 1, gid_index(), &entry, 0), 0);
	has_gids(context, &entry);
	CHECK(!getrlimit(RLIMIT_NOFILE, &limit), "getrlimit: %s", strerror(errno));
	none = (struct rlimit){.rlim_cur = 3, .rlim_max = limit.rlim_max};
	CHECK(!setrlimit(RLIMIT_NOFILE, &none), "setrlimit: %s", strerror(errno));
	has_gids(context, &entry);
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit), "setrlimit: %s", strerror(errno));
	if (geteuid() == 0) {
		CHECK(mkdtemp(empty), "mkdtemp: %s", strerror(errno));
		refused = chroot(empty);
		CHECK(!refused && !chdir("/"), "chroot: %s", strerror(errno));
		has_gids(context, &entry);
		CHECK(!setgid(65534) && !setuid(65534), "setuid: %s", strerror(errno));
		has_gids(context, &entry);
	}
	CHECK_EQ(ibv_close_device(context), 0);
}

enum { FILES = 100 };

// Opens the device, closes all descriptors and opens files. What has become of those is the exit
// code: the harness is told nothing by a process without its descriptors.
_Noreturn static void close_all(void)
{
	struct endpoint *e = open_endpoint(&(struct options){.channel = true});
	struct stat then[FILES], now;
	int files[FILES];

	if (!e->channel || syscall(SYS_close_range, 3, ~0u, 0))
		_exit(2);
	for (int k = 0; k < FILES; k++) {
		char name[] = "/tmp/ferroce-file-XXXXXX";

		files[k] = mkstemp(name);
		if (files[k] < 0 || fstat(files[k], &then[k]) || unlink(name))
			_exit(3);
	}
	// By then the helper has noticed, and done what it would do.
	usleep(300000);
	for (int k = 0; k < FILES; k++) {
		if (fstat(files[k], &now) || now.st_ino != then[k].st_ino)
			_exit(4);
		if (now.st_size != 0)
			_exit(5);
	}
	// Another device can be opened, and the files stay.
	channel_works();
	for (int k = 0; k < FILES; k++)
		if (fstat(files[k], &now) || now.st_ino != then[k].st_ino || now.st_size != 0)
			_exit(6);
	_exit(0);
}

static void all_closed(void)
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (child == 0)
		close_all();
	CHECK(waitpid(child, &status, 0) == child && status == 0, "it ended with %#x", status);
}

#define T(name) {#name, name, 0}
PROGRAM(T(first_thread_ended), T(own_descriptors), T(no_proc), T(no_files), T(all_closed))
