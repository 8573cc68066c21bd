// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The other process is killed at a random moment of each operation. The operation ends, with the
// right errno, and leaves nothing behind: no registration in use, no queue in use, no descriptor.
// The moments come from $EXS_TEST_SEED, else from 1.

#include "setup/one_process.h"
#include "setup/peers.h"
#include "setup/sending_files.h"
#include "setup/exs_mregister_setup.h"

#include <dirent.h>
#include <pthread.h>

enum { LATEST = 30000, LARGE = 1 << 20, AFTERWARDS = 9, DONE_SECONDS = 10, REFUSALS = 50 };

static unsigned char large[LARGE];

// SplitMix64 of the seed and the test's number.
static unsigned moment(const param *p)
{
	const char *seed = getenv("EXS_TEST_SEED");
	uint64_t x = (seed ? strtoull(seed, NULL, 0) : 1) * 1000 + p->test_number;

	x = (x + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return (x ^ (x >> 31)) % LATEST;
}

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	CHECK(dir, "/proc/self/fd: %s", strerror(errno));
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

// Fewer than there were: at once, or when the device below is done with a connection that has
// ended. It has seconds.
static void check_descriptors(int before)
{
	int now;

	for (int tries = 0; (now = descriptors()) >= before; tries++) {
		CHECK(tries < DONE_SECONDS * 100, "descriptors are lost: %d, %d before", now, before);
		usleep(10000);
	}
}

// What the operation must end with.
static int is_reset(int error)
{
	return error == ECONNRESET;
}

// Nobody is there any more, or was when it began and is no more.
static int is_refused(int error)
{
	return error == ECONNREFUSED || error == ECONNRESET || error == ETIMEDOUT;
}

// Again and again, until it fails; its errno.
static int until_it_fails(param *p, long (*operation)(param *p))
{
	for (;;) {
		errno = 0;
		long ret = operation(p);
		if (ret < 0)
			return errno;
		if (!p->mode)
			continue;
		exs_event_t event = next_event(p);
		if (event.exs_evt_errno)
			return event.exs_evt_errno;
	}
}

static long sends(param *p)
{
	return exs_send(p->fd, large, LARGE, p->flags, p->qh, p->ah, p->mh);
}

// Nothing comes, and the end of the stream is not the end of this stream.
static long receives(param *p)
{
	return exs_recv(p->fd, large, LARGE, p->flags, p->qh, p->ah, p->mh);
}

static long sends_a_file(param *p)
{
	return exs_sendfile(p->fd, p->sendvec, 1, p->flags, p->qh, p->ah);
}

static long receives_a_file(param *p)
{
	by_descriptor(p, 0, LARGE);
	return exs_recvfile(p->fd, p->sendvec, 1, p->flags, p->qh, p->ah);
}

// One connection after the other, as long as there is somebody.
static long connects(param *p)
{
	if (p->fd >= 0 && exs_blocking_close(p->fd))
		return -1;
	p->fd = exs_socket(p->family, p->socktype, 0);
	return exs_connect(p->fd, p->address, p->address_len, p->flags, NULL, p->qh, p->ah);
}

static void peer_receives_for_ever(param *p)
{
	require(accepted(p));
	p->recv_buf = large;
	p->RECV_BUFSIZE = LARGE;
	while (receive_some(p) > 0)
		;
}

static void peer_sends_for_ever(param *p)
{
	require(connected(p));
	p->send_buf = large;
	p->SEND_BUFSIZE = LARGE;
	while (ok_exs_send(p) > 0)
		;
}

static void peer_connects_for_ever(param *p)
{
	require(unconnected(p));
	for (;;) {
		require(ok_exs_connect(p));
		require(ok_exs_close(p));
		require(ok_exs_socket(p));
	}
}

static void peer_accepts_for_ever(param *p)
{
	p->backlog = 100;
	require(serving(p));
	for (int listener = p->fd;; p->fd = listener) {
		require(ok_exs_accept(p));
		require(ok_exs_close(p));
	}
}

// Closed and freed, nothing is left in use; a connection of the same process works as ever, and no
// descriptor is lost of the `before` that there were.
static void check_remains(param *p, int before)
{
	exs_mhandle_t mh = p->mh;

	hang_up(p);
	CHECK(mh == EXS_MHANDLE_UNREGISTERED || !exs_mderegister(mh, 0), "exs_mderegister: %s", strerror(errno));
	CHECK(!p->mode || !exs_qdelete(p->qh), "exs_qdelete: %s", strerror(errno));
	check_descriptors(before);
	p->mh = EXS_MHANDLE_UNREGISTERED;
	require(ok_exs_qcreate(p));
	converse_in_one_process(p, AFTERWARDS);
	CHECK(!exs_qdelete(p->qh), "exs_qdelete: %s", strerror(errno));
	check_descriptors(before);
	print_pass(0);
}

// A transfer that is refused is over, and its queue free, when the call returns.
static void refused(param *p, long (*operation)(param *p))
{
	for (int i = 0; i < REFUSALS; i++) {
		if (operation(p) >= 0)
			CHECK(next_event(p).exs_evt_errno, "there is nobody any more");
		CHECK(!exs_qdelete(p->qh), "exs_qdelete after a refusal: %s", strerror(errno));
		require(ok_exs_qcreate(p));
	}
}

static void killed(param *p, long (*operation)(param *p), int (*is_right)(int error))
{
	int before = descriptors();

	kill_peer_later(moment(p));
	int error = until_it_fails(p, operation);
	kill_peer();
	CHECK(is_right(error), "ended with %s", strerror(error));
	if (p->mode && (operation == sends_a_file || operation == receives_a_file))
		refused(p, operation);
	check_remains(p, before);
}

static void while_sending(param *p)
{
	require(connected(p));
	require(ok_exs_mregister(p, large, LARGE));
	killed(p, sends, is_reset);
}

static void while_receiving(param *p)
{
	require(accepted(p));
	require(ok_exs_mregister(p, large, LARGE));
	killed(p, receives, is_reset);
}

static void while_sending_a_file(param *p)
{
	require(connected(p));
	require(make_file(p, 4 * LARGE));
	killed(p, sends_a_file, is_reset);
}

static void while_receiving_a_file(param *p)
{
	require(accepted(p));
	require(make_sparse_file(p, 0));
	killed(p, receives_a_file, is_reset);
}

static void while_connecting(param *p)
{
	require(unconnected(p));
	// The first connection has made all that is made once.
	require(connects(p));
	if (p->mode)
		take_event(p, EXS_EVT_CONNECT, p->fd, 0);
	killed(p, connects, is_refused);
}

// One that comes when the other process is dead, so that an accept has an end: it alone sends a
// byte.
static void *comes_afterwards(void *of)
{
	const param *p = of;

	kill_peer();
	int fd = exs_socket(p->family, p->socktype, 0);
	CHECK(!exs_connect(fd, p->address, p->address_len, EXS_BLOCK, NULL, NULL, NULL), "exs_connect: %s",
	      strerror(errno));
	CHECK(exs_send(fd, "!", 1, EXS_BLOCK, NULL, NULL, NULL) == 1, "exs_send: %s", strerror(errno));
	CHECK(!exs_blocking_close(fd), "exs_blocking_close: %s", strerror(errno));
	return NULL;
}

// Whether the next connection is that one. The dead one's end in any way.
static int accepts_the_last(param *p)
{
	int listener = p->fd;
	char byte;

	require(ok_exs_accept(p));
	ssize_t got = exs_recv(p->fd, &byte, 1, EXS_BLOCK, NULL, NULL, NULL);
	CHECK(got >= 0 || is_reset(errno), "exs_recv: %s", strerror(errno));
	hang_up(p);
	p->fd = listener;
	return got > 0;
}

static void while_accepting(param *p)
{
	pthread_t last;

	p->backlog = 100;
	require(serving(p));
	CHECK(!accepts_the_last(p), "a byte that nobody sent");
	int before = descriptors();
	kill_peer_later(moment(p));
	CHECK(!pthread_create(&last, NULL, comes_afterwards, p), "no thread");
	while (!accepts_the_last(p))
		;
	pthread_join(last, NULL);
	check_remains(p, before);
}

// Closing and shutting down come to an end, well or with the news.
static int ends_anyhow(param *p, long (*operation)(param *p))
{
	require(connected(p));
	int before = descriptors();
	for (int i = 0; i < 8; i++)
		CHECK(!exs_send(p->fd, large, LARGE, EXS_UNSIGNALED, NULL, NULL, NULL), "exs_send: %s", strerror(errno));
	kill_peer_later(moment(p) / 4);
	errno = 0;
	long ret = operation(p);
	CHECK(ret == 0 || is_reset(errno), "answers %ld, %s", ret, strerror(errno));
	if (p->mode && ret == 0) {
		exs_event_t event = next_event(p);
		CHECK(!event.exs_evt_errno || is_reset(event.exs_evt_errno), "ended with %s", strerror(event.exs_evt_errno));
	}
	kill_peer();
	return before;
}

static long closes(param *p)
{
	return exs_close(p->fd, p->flags, p->qh, p->ah);
}

static long shuts_down(param *p)
{
	return exs_shutdown(p->fd, SHUT_WR, p->flags, p->qh, p->ah);
}

static void while_closing(param *p)
{
	int before = ends_anyhow(p, closes);

	CHECK(exs_blocking_close(p->fd) == -1 && errno == EBADF, "the socket is still there");
	// Another in its place.
	require(ok_exs_socket(p));
	check_remains(p, before);
}

static void while_shutting_down(param *p)
{
	check_remains(p, ends_anyhow(p, shuts_down));
}

// Three moments each.
#define MOMENTS(number, text, the_peer, what)                                        \
	{number, OK(OK_KILLED), text " [1]", .peer = the_peer, .run = what},         \
	{number + 1, OK(OK_KILLED), text " [2]", .peer = the_peer, .run = what},     \
	{number + 2, OK(OK_KILLED), text " [3]", .peer = the_peer, .run = what}

static const struct test_case all_tests[] = {
	MOMENTS(1, "the peer is killed while this side sends", peer_receives_for_ever, while_sending),
	MOMENTS(4, "the peer is killed while this side receives", peer_sends_for_ever, while_receiving),
	MOMENTS(7, "the peer is killed while this side sends a file", peer_receives_for_ever, while_sending_a_file),
	MOMENTS(10, "the peer is killed while this side receives into a file", peer_sends_for_ever, while_receiving_a_file),
	MOMENTS(13, "the peer is killed while this side connects", peer_accepts_for_ever, while_connecting),
	MOMENTS(16, "the peer is killed while this side closes", peer_receives_for_ever, while_closing),
	MOMENTS(19, "the peer is killed while this side shuts down", peer_receives_for_ever, while_shutting_down),
	MOMENTS(22, "the peer is killed while this side accepts", peer_connects_for_ever, while_accepting),
};

PROGRAM("killed", NULL, .group = "5.4")
