// SPDX-License-Identifier: MIT OR Apache-2.0

//
// Many connections at once. How many: $EXS_TEST_CROWD, else 500.

#include "setup/peers.h"

enum { USUAL = 500, MOST = 4096, CROWD_LIMIT = 60 };

static int fds[MOST];

static int crowd(void)
{
	const char *number = getenv("EXS_TEST_CROWD");
	int count = number ? atoi(number) : USUAL;

	CHECK(count > 0 && count <= MOST, "a crowd of %d", count);
	return count;
}

// One word a connection.
static void send_word(param *p, uint32_t word)
{
	p->send_buf = &word;
	p->SEND_BUFSIZE = sizeof(word);
	require(ok_exs_send(p));
}

static uint32_t receive_word(param *p)
{
	uint32_t word = UINT32_MAX;

	p->recv_buf = &word;
	p->RECV_BUFSIZE = sizeof(word);
	CHECK(receive_some(p) == sizeof(word), "no whole word");
	return word;
}

static void peer_is_a_crowd(param *p)
{
	int count = crowd();

	p->depth = count;
	require(unconnected(p));
	fds[0] = p->fd;
	for (int i = 0; i < count; i++) {
		if (i)
			require(fds[i] = ok_exs_socket(p));
		p->fd = fds[i];
		if (!p->mode)
			require(ok_exs_connect(p));
		else
			CHECK(!exs_connect(p->fd, p->address, p->address_len, 0, NULL, p->qh, p->ah),
			      "exs_connect %d: %s", i, strerror(errno));
	}
	for (int i = 0; p->mode && i < count; i++) {
		exs_event_t event = next_event(p);

		CHECK(event.exs_evt_type == EXS_EVT_CONNECT && !event.exs_evt_errno, "connection %d: %s", i,
		      strerror(event.exs_evt_errno));
	}
	for (int i = 0; i < count; i++) {
		p->fd = fds[i];
		send_word(p, i);
	}
	for (int i = 0; i < count; i++) {
		p->fd = fds[i];
		CHECK(receive_word(p) == (uint32_t)i + 1, "the answer to another");
	}
	meet(p);
}

// All are there at once; each is answered for itself.
static void many_at_once(param *p)
{
	static char answered[MOST];
	int count = crowd(), listener;

	p->backlog = count;
	require(serving(p));
	listener = p->fd;
	for (int i = 0; i < count; i++) {
		p->fd = listener;
		require(ok_exs_accept(p));
		fds[i] = p->fd;
	}
	for (int i = 0; i < count; i++) {
		p->fd = fds[i];
		uint32_t word = receive_word(p);
		CHECK(word < (uint32_t)count && !answered[word]++, "a word twice, or that nobody sent");
		send_word(p, word + 1);
	}
	print_pass(0);
}

static const struct test_case all_tests[] = {
	{1, OK(OK_CROWD), "many connections at once", .peer = peer_is_a_crowd, .run = many_at_once, .limit = CROWD_LIMIT},
};

PROGRAM("crowd", NULL, .group = "5.4")
