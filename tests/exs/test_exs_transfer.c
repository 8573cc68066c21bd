// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A file from end to end, without its bytes in the memory of either program. How many MiB:
// $EXS_TEST_FILE_MIB, else 64; 5120 is the five gigabytes for which the usual limit of a file is
// lifted.

#include "setup/peers.h"
#include "setup/sending_files.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

enum { USUAL_MIB = 64, FLAT_KIB = 12 << 10, TRANSFER_LIMIT = 200, BLOCK = 1 << 20, HUGE_TEST = 2 };

// Beyond what a file may be without lifting the limit, and not in whole blocks.
#define HUGE_FILE (EXS_FILE_LIMIT + (5 << 20) + 12345)

static off_t size_of_file(const param *p)
{
	if (p->test_number == HUGE_TEST)
		return HUGE_FILE;
	const char *mib = getenv("EXS_TEST_FILE_MIB");

	return (off_t)(mib ? atoi(mib) : USUAL_MIB) << 20;
}

// Words that say where they are, so that a block in another's place is seen.
static uint64_t word(uint64_t number)
{
	return (number + 1) * 0x9e3779b97f4a7c15;
}

static void fill_file(param *p, off_t size)
{
	static uint64_t block[BLOCK / sizeof(uint64_t)];
	const size_t words = sizeof(block) / sizeof(*block);

	require(make_sparse_file(p, 0));
	for (off_t at = 0; at < size; at += BLOCK) {
		for (size_t i = 0; i < words; i++)
			block[i] = word(at / sizeof(uint64_t) + i);
		CHECK(pwrite(p->file_fd, block, BLOCK, at) == BLOCK, "%s: %s", p->path, strerror(errno));
	}
}

static void check_file(param *p, off_t size)
{
	static uint64_t block[BLOCK / sizeof(uint64_t)];
	const size_t words = sizeof(block) / sizeof(*block);
	struct stat status;

	CHECK(!fstat(p->file_fd, &status) && status.st_size == size, "a file of %lld bytes", (long long)status.st_size);
	for (off_t at = 0; at < size; at += BLOCK) {
		CHECK(pread(p->file_fd, block, BLOCK, at) == BLOCK, "%s: %s", p->path, strerror(errno));
		for (size_t i = 0; i < words; i++)
			CHECK(block[i] == word(at / sizeof(uint64_t) + i), "byte %lld is not what was sent",
			      (long long)(at + i * sizeof(uint64_t)));
	}
}

// Places in a file that is empty otherwise: both ends of it, around the limit, and in the middle of
// nowhere.
static const off_t marks[] = {
	0, 4095, BLOCK - 4, (off_t)123456789, EXS_FILE_LIMIT - 4, EXS_FILE_LIMIT + 7777, HUGE_FILE - sizeof(uint64_t),
};

static void mark_file(param *p, off_t size)
{
	require(make_sparse_file(p, size));
	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
		uint64_t mark = word(marks[i]);

		CHECK(pwrite(p->file_fd, &mark, sizeof(mark), marks[i]) == sizeof(mark), "%s: %s", p->path, strerror(errno));
	}
}

// Each is where it was, and before and after it, where nothing else was written, there is nothing.
static void check_marks(param *p, off_t size)
{
	struct stat status;

	CHECK(!fstat(p->file_fd, &status) && status.st_size == size, "a file of %lld bytes", (long long)status.st_size);
	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
		uint64_t around[3] = {0, 0, 0};
		off_t from = marks[i] ? marks[i] - (off_t)sizeof(*around) : 0;
		const uint64_t *mark = &around[marks[i] ? 1 : 0];
		ssize_t got = pread(p->file_fd, around, sizeof(around), from);

		CHECK(got >= (ssize_t)(2 * sizeof(*around)), "%s: %s", p->path, strerror(errno));
		CHECK(*mark == word(marks[i]), "the word at %lld is not what was sent", (long long)marks[i]);
		CHECK(mark == around || !around[0], "something before %lld", (long long)marks[i]);
		CHECK(!mark[1], "something after %lld", (long long)marks[i]);
	}
}

// Memory of the process's own, in KiB: what the kernel keeps of a file is not.
static long own_memory(void)
{
	char line[128];
	long kib = -1;
	FILE *status = fopen("/proc/self/status", "r");

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "RssAnon: %ld", &kib) == 1)
			break;
	if (status)
		fclose(status);
	CHECK(kib >= 0, "RssAnon is not in /proc/self/status");
	return kib;
}

static volatile int over;
static long most;

static void *watch_memory(void *unused)
{
	while (!over) {
		long now = own_memory();

		most = now > most ? now : most;
		usleep(2000);
	}
	return unused;
}

// Does it, and says by how many KiB the memory grew meanwhile.
static long growth_during(param *p, void (*what)(param *p))
{
	pthread_t watcher;
	long before = most = own_memory();

	CHECK(!pthread_create(&watcher, NULL, watch_memory, NULL), "no thread");
	what(p);
	over = 1;
	pthread_join(watcher, NULL);
	return most - before;
}

// Bytes that the transfer's event names. Waits as long as that takes, which may be more than the
// usual time for an event.
static off_t bytes_of_event(param *p)
{
	exs_event_t event;

	CHECK(exs_qdequeue(p->qh, &event, 1, NULL) == 1 && !event.exs_evt_errno, "the event: %s",
	      strerror(event.exs_evt_errno));
	return transferred_file(&event, p->sendvec, 1);
}

static void send_whole_file(param *p)
{
	off_t none = 0;

	if (size_of_file(p) > EXS_FILE_LIMIT)
		CHECK(exs_sendfile(p->fd, p->sendvec, 1, p->flags, p->qh, p->ah) == -1 && errno == EFBIG, "within the limit: %s",
		      strerror(errno));
	CHECK(!exs_fcntl(p->fd, EXS_F_SETFILELIMIT, &none), "exs_fcntl: %s", strerror(errno));
	CHECK(!exs_sendfile(p->fd, p->sendvec, 1, p->flags, p->qh, p->ah), "exs_sendfile: %s", strerror(errno));
	CHECK(!p->mode || bytes_of_event(p) == size_of_file(p), "less is sent than there is");
	hang_up(p);
}

static void receive_whole_file(param *p)
{
	off_t got = exs_recvfile(p->fd, p->sendvec, 1, p->flags, p->qh, p->ah);

	CHECK(got >= 0, "exs_recvfile: %s", strerror(errno));
	if (p->mode)
		got = bytes_of_event(p);
	CHECK(got == size_of_file(p), "%lld bytes of %lld", (long long)got, (long long)size_of_file(p));
}

static void peer_sends_whole_file(param *p)
{
	require(unconnected(p));
	require(ok_exs_connect(p));
	if (p->test_number == HUGE_TEST)
		mark_file(p, size_of_file(p));
	else
		fill_file(p, size_of_file(p));
	long growth = growth_during(p, send_whole_file);
	CHECK(growth < FLAT_KIB, "the sender's memory grows by %ld KiB", growth);
	meet(p);
}

static void end_to_end(param *p)
{
	require(accepted(p));
	require(make_sparse_file(p, 0));
	long growth = growth_during(p, receive_whole_file);
	CHECK(growth < FLAT_KIB, "the receiver's memory grows by %ld KiB", growth);
	if (p->test_number == HUGE_TEST)
		check_marks(p, size_of_file(p));
	else
		check_file(p, size_of_file(p));
	print_pass(0);
}

// All of a vector is a message, and the next one is another.
static void peer_sends_messages(param *p)
{
	enum { FIRST = 1000 };

	p->socktype = SOCK_SEQPACKET;
	require(connected_with_file(p));
	require(ok_exs_sendfile(p, TEST_FILE));
	by_path(p, FIRST, 0);
	p->sendvec[1] = p->sendvec[0];
	p->sendvec[0] = (exs_xferfile_t){
		.exs_xfv_type = EXS_IOVEC,
		.exs_xfv.exs_iov = {.exs_iov_base = p->send_store, .exs_iov_len = FIRST},
	};
	p->sendvec_cnt = 2;
	require(ok_exs_sendfile(p, TEST_FILE));
	hang_up(p);
	meet(p);
}

static off_t receive_message_into_file(param *p)
{
	off_t got = exs_recvfile(p->fd, p->sendvec, 1, p->flags, p->qh, p->ah);

	CHECK(got >= 0, "exs_recvfile: %s", strerror(errno));
	return p->mode ? bytes_of_event(p) : got;
}

static void check_pattern(const unsigned char *bytes, ssize_t length)
{
	CHECK(length == TEST_FILE, "%zd bytes of %d", length, TEST_FILE);
	for (ssize_t i = 0; i < length; i++)
		CHECK(bytes[i] == pattern(i), "byte %zd is not what was sent", i);
}

// The first into a file, the second into memory, and no third.
static void files_of_messages(param *p)
{
	static unsigned char bytes[TEST_FILE + 1];

	p->socktype = SOCK_SEQPACKET;
	require(accepted(p));
	require(make_sparse_file(p, 0));
	CHECK(receive_message_into_file(p) == TEST_FILE, "not one whole message");
	check_pattern(bytes, pread(p->file_fd, bytes, sizeof(bytes), 0));
	memset(bytes, 0, sizeof(bytes));
	p->recv_buf = bytes;
	p->RECV_BUFSIZE = sizeof(bytes);
	check_pattern(bytes, receive_some(p));
	CHECK(receive_message_into_file(p) == 0, "another message");
	print_pass(0);
}

static const struct test_case all_tests[] = {
	{1, OK(OK_TRANSFER), "exs_sendfile() to exs_recvfile()", .peer = peer_sends_whole_file, .run = end_to_end, .limit = TRANSFER_LIMIT},
	{HUGE_TEST, OK(OK_TRANSFER), "exs_sendfile() to exs_recvfile() [more than 1 GB, the limit is lifted]", NON_BLOCKING, .peer = peer_sends_whole_file, .run = end_to_end, .limit = TRANSFER_LIMIT},
	{3, OK(OK_TRANSFER), "exs_sendfile() to exs_recvfile() [SOCK_SEQPACKET, memory and files are one message]", .peer = peer_sends_messages, .run = files_of_messages},
};

PROGRAM("transfer", NULL, .group = "5.4")
