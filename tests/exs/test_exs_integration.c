// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Combinations of functions.

#include "setup/exs_blocking_accept_setup.h"
#include "setup/exs_mregister_setup.h"
#include "setup/one_process.h"
#include "setup/peers.h"

enum { ROUNDS = 200, LARGEST = 1 << 20, MESSAGES = 60, QUEUED = 64, ALL = 8 << 20 };

static unsigned char large[LARGEST];

// The same on both sides.
static uint32_t random_state = 12345;

static size_t random_size(void)
{
	random_state = random_state * 1664525 + 1013904223;
	// As many small ones as large ones.
	return 1 + (random_state >> 8) % ((size_t)1 << (4 + (random_state >> 28) + (random_state >> 27) % 2));
}

static void fill(unsigned char *buffer, size_t length, uint64_t from)
{
	for (size_t i = 0; i < length; i++)
		buffer[i] = pattern(from + i);
}

static void check(const unsigned char *buffer, size_t length, uint64_t from)
{
	for (size_t i = 0; i < length; i++)
		CHECK(buffer[i] == pattern(from + i), "byte %llu is not what was sent", (unsigned long long)(from + i));
}

// Figure 4-5: a message there and back, again and again.
static void ping_pong(param *p, int is_first)
{
	p->SEND_BUFSIZE = p->RECV_BUFSIZE = 64;
	for (int i = 0; i < ROUNDS; i++) {
		memset(p->send_store, i, 64);
		if (is_first)
			require(ok_exs_send(p));
		CHECK(receive_some(p) == 64, "not a whole message");
		CHECK(p->recv_store[0] == (unsigned char)i && p->recv_store[63] == (unsigned char)i, "another round's message");
		if (!is_first)
			require(ok_exs_send(p));
	}
}

static void peer_pongs(param *p)
{
	require(accepted(p));
	ping_pong(p, 0);
	meet(p);
}

static void pings(param *p)
{
	require(connected(p));
	ping_pong(p, 1);
	print_pass(0);
}

// Sizes from one byte to a mebibyte, every other one from registered memory. A stream: the other
// side's buffers are cut elsewhere.
static void peer_sends_all_sizes(param *p)
{
	uint64_t at = 0;

	require(connected(p));
	require(ok_exs_mregister(p, large, sizeof(large)));
	exs_mhandle_t mh = p->mh;
	p->send_buf = large;
	for (int i = 0; i < MESSAGES; i++, at += p->SEND_BUFSIZE) {
		p->SEND_BUFSIZE = i == MESSAGES / 2 ? LARGEST : random_size();
		p->mh = i % 2 ? mh : EXS_MHANDLE_UNREGISTERED;
		fill(large, p->SEND_BUFSIZE, at);
		require(ok_exs_send(p));
	}
	hang_up(p);
	meet(p);
}

static void all_sizes(param *p)
{
	uint64_t at = 0, wanted = 0;
	ssize_t got;

	for (int i = 0; i < MESSAGES; i++)
		wanted += i == MESSAGES / 2 ? LARGEST : random_size();
	require(accepted(p));
	require(ok_exs_mregister(p, large, sizeof(large)));
	exs_mhandle_t mh = p->mh;
	p->recv_buf = large;
	do {
		p->RECV_BUFSIZE = random_size();
		p->mh = p->RECV_BUFSIZE % 2 ? mh : EXS_MHANDLE_UNREGISTERED;
		require(got = receive_some(p));
		check(large, got, at);
		at += got;
	} while (got);
	CHECK(at == wanted, "%llu bytes of %llu", (unsigned long long)at, (unsigned long long)wanted);
	print_pass(0);
}

// SOCK_SEQPACKET: a message a receive, whatever the sizes.
static void peer_sends_messages(param *p)
{
	p->socktype = SOCK_SEQPACKET;
	require(connected(p));
	p->send_buf = large;
	for (int i = 0; i < MESSAGES; i++) {
		p->SEND_BUFSIZE = random_size();
		fill(large, p->SEND_BUFSIZE, i);
		require(ok_exs_send(p));
	}
	hang_up(p);
	meet(p);
}

static void messages(param *p)
{
	p->socktype = SOCK_SEQPACKET;
	require(accepted(p));
	p->recv_buf = large;
	p->RECV_BUFSIZE = LARGEST;
	for (int i = 0; i < MESSAGES; i++) {
		size_t size = random_size();
		ssize_t got = receive_some(p);

		CHECK(got == (ssize_t)size, "message %d has %zd bytes, not %zu", i, got, size);
		check(large, size, i);
	}
	CHECK(receive_some(p) == 0, "another message");
	print_pass(0);
}

// A message that does not fit is cut, and said to be; the next one is whole.
static void peer_sends_two_messages(param *p)
{
	p->socktype = SOCK_SEQPACKET;
	require(connected(p));
	require(ok_exs_send(p));
	p->SEND_BUFSIZE = 10;
	require(ok_exs_send(p));
	meet(p);
}

static void cut_message(param *p)
{
	p->socktype = SOCK_SEQPACKET;
	require(accepted(p));
	p->RECV_BUFSIZE = 100;
	CHECK(!exs_recv(p->fd, p->recv_buf, 100, 0, p->qh, p->ah, p->mh), "exs_recv: %s", strerror(errno));
	exs_event_t event = take_event(p, EXS_EVT_RECV, p->fd, 0);
	CHECK(transferred(&event, p->recv_buf, p->mh) == 100, "not 100 bytes");
	CHECK(event.exs_evt_union.exs_evt_xfer.exs_evt_flags & MSG_TRUNC, "the event does not say MSG_TRUNC");
	check(p->recv_buf, 100, 0);
	CHECK(receive_some(p) == 10, "the next message is not whole");
	check(p->recv_buf, 10, 0);
	print_pass(0);
}

// The sender posts all that it may; the receiver takes it in small pieces, beginning when the
// sender has been held back.
static void peer_is_slow(param *p)
{
	uint64_t at = 0;
	ssize_t got;

	require(accepted(p));
	// The sender has come to where it cannot go on.
	meet(p);
	p->RECV_BUFSIZE = 1000;
	while ((got = receive_some(p)) > 0) {
		check(p->recv_buf, got, at);
		at += got;
	}
	CHECK(at == (uint64_t)ALL, "%llu bytes of %d", (unsigned long long)at, ALL);
	meet(p);
}

static void slow_receiver(param *p)
{
	static unsigned char all[ALL];
	int held_back = 0;

	fill(all, ALL, 0);
	require(connected(p));
	require(with_own_queue(p));
	for (uint64_t at = 0; at < ALL;) {
		if (!exs_send(p->fd, all + at, 16384, EXS_UNSIGNALED, NULL, NULL, NULL)) {
			at += 16384;
			continue;
		}
		CHECK(errno == EBUSY, "exs_send: %s", strerror(errno));
		if (!held_back++)
			meet(p);
	}
	CHECK(held_back, "nothing holds the sender back");
	hang_up(p);
	print_pass(0);
}

static void one_process(param *p)
{
	require(initialized(p));
	converse_in_one_process(p, 0);
	print_pass(0);
}

// Connections come and go, and take nothing with them.
static void peer_accepts_again(param *p)
{
	// Nobody is refused, however far this side is behind.
	p->backlog = QUEUED;
	require(serving(p));
	for (int i = 0, listener = p->fd; i < QUEUED; i++) {
		p->fd = listener;
		require(ok_exs_accept(p));
		CHECK(receive_some(p) == 1, "not a byte");
		CHECK(receive_some(p) == 0, "not the end");
		hang_up(p);
	}
	meet(p);
}

static void again_and_again(param *p)
{
	int first = -1;

	require(unconnected(p));
	p->SEND_BUFSIZE = 1;
	for (int i = 0; i < QUEUED; i++) {
		if (i)
			require(ok_exs_socket(p));
		require(ok_exs_connect(p));
		require(ok_exs_send(p));
		first = i ? first : p->fd;
		CHECK(p->fd == first, "descriptor %d, after %d: one is lost", p->fd, first);
		require(ok_exs_close(p));
	}
	print_pass(0);
}

// Blocking and asynchronous calls by turns on one socket.
static void mixed_modes(param *p)
{
	require(connected(p));
	require(with_own_queue(p));
	p->SEND_BUFSIZE = 512;
	for (int i = 0; i < TEST_BUFSIZE / 512; i++, p->send_buf = (char *)p->send_buf + 512) {
		if (i % 2) {
			CHECK(exs_send(p->fd, p->send_buf, 512, EXS_BLOCK, NULL, NULL, p->mh) == 512, "exs_send: %s", strerror(errno));
			continue;
		}
		CHECK(!exs_send(p->fd, p->send_buf, 512, 0, p->qh, p->ah, p->mh), "exs_send: %s", strerror(errno));
		take_event(p, EXS_EVT_SEND, p->fd, 0);
	}
	hang_up(p);
	print_pass(0);
}

static const struct test_case all_tests[] = {
	{1, OK(OK_INTEGRATION), "a message there and back", .peer = peer_pongs, .run = pings},
	{2, OK(OK_INTEGRATION), "all sizes, registered or not", .peer = peer_sends_all_sizes, .run = all_sizes},
	{3, OK(OK_INTEGRATION), "SOCK_SEQPACKET keeps messages apart", .peer = peer_sends_messages, .run = messages},
	{4, OK(OK_INTEGRATION), "SOCK_SEQPACKET cuts what does not fit", NON_BLOCKING, .peer = peer_sends_two_messages, .run = cut_message},
	{5, OK(OK_INTEGRATION), "a slow receiver holds the sender back and loses nothing", .peer = peer_is_slow, .run = slow_receiver},
	{6, OK(OK_INTEGRATION), "client and server in one process, one queue", NON_BLOCKING, .run = one_process},
	{7, OK(OK_INTEGRATION), "connections come and go", .peer = peer_accepts_again, .run = again_and_again},
	{8, OK(OK_INTEGRATION), "blocking and asynchronous calls by turns", .peer = peer_receives, .run = mixed_modes},
};

PROGRAM("integration", NULL, .group = "5.4")
