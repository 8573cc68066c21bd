// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef SENDING_H
#define SENDING_H

#include "exs_fcntl_setup.h"
#include "exs_mregister_setup.h"
#include "peers.h"
#include "twists.h"

// What exs_send(), exs_blocking_send() and exs_write() have in common, each through the call of its
// program.

// The call once, to its end: the number of bytes, or -1 and errno.
static inline ssize_t send_once(param *p)
{
	ssize_t ret = p->call(p);

	if (ret == 0 && p->mode) {
		exs_event_t event = take_event(p, EXS_EVT_SEND, p->fd, 0);
		ret = transferred(&event, p->send_buf, p->mh);
	}
	return ret;
}

// All bytes go in one call.
static inline void ok_send(param *p)
{
	ssize_t ret = send_once(p);

	print_macro(p->test_number, p->test_value, p->test_name, ret, p->SEND_BUFSIZE, 0);
	hang_up(p);
}

static inline void ok_send_registered(param *p)
{
	require(ok_exs_mregister(p, p->send_store, TEST_BUFSIZE));
	ok_send(p);
}

// The other process dies without a word: sooner or later that is the answer, and then always.
static inline void reset_while_sending(param *p)
{
	exs_event_t event = {0};
	long ret;

	kill_peer();
	do {
		errno = 0;
		ret = p->call(p);
		if (ret == 0 && p->mode)
			event = next_event(p);
	} while (ret >= 0 && !event.exs_evt_errno);
	if (p->mode) {
		// Between two sends it is the second that is told, at once; otherwise it is the
		// event of one.
		if (ret >= 0) {
			CHECK(event.exs_evt_errno == ECONNRESET, "the send's event: %s", strerror(event.exs_evt_errno));
			errno = 0;
			ret = p->call(p);
		}
		int error = errno;
		expect_no_event(p);
		errno = error;
	}
	print_macro(p->test_number, p->test_value, p->test_name, ret, -1, ECONNRESET);
}

// The other process does not receive. What may be in progress is bounded; a call that may not wait
// is refused then.
static inline void no_send_credits(param *p)
{
	enum { LARGE = 65536, MANY = 100000 };
	static unsigned char large[LARGE];
	int count = 0;

	p->send_buf = large;
	p->SEND_BUFSIZE = LARGE;
	if (!p->mode)
		require(do_not_wait(p));
	while (count < MANY && p->call(p) >= 0)
		count++;
	int error = errno;
	if (p->mode) {
		CHECK(count == EXS_SENDS_MAX, "%d sends are in progress, not %d", count, EXS_SENDS_MAX);
		expect_no_event(p);
	}
	errno = error;
	print_macro(p->test_number, p->test_value, p->test_name, count < MANY ? -1 : 0, -1, EBUSY);
}

// Closes at once, and says so at the second meeting; the third is the end.
static inline void peer_closes(param *p)
{
	require(accepted(p));
	require(ok_exs_close(p));
	meet(p);
	meet(p);
}

static inline void peer_has_closed(param *p)
{
	exs_event_t event = {0};
	long ret = 0;

	meet(p);
	// The news may be on its way still; what is sent until then is lost.
	do {
		errno = event.exs_evt_errno;
		ret = errno ? -1 : p->call(p);
		if (ret == 0 && p->mode)
			event = next_event(p);
	} while (ret >= 0);
	print_macro(p->test_number, p->test_value, p->test_name, ret, -1, EPIPE);
}

// The registration is of the first half of the buffer only.
static inline void half_registered(param *p)
{
	require(ok_exs_mregister(p, p->send_store, TEST_BUFSIZE / 2));
}

static inline void cannot_be_sent_from(param *p)
{
	p->mh = exs_mregister(p->send_store, TEST_BUFSIZE, EXS_MRF_SEND_DISABLE);
}

static inline void both_flags_in_the_general_form(param *p)
{
	errno = 0;
	print_macro(p->test_number, p->test_value, p->test_name,
		    exs_send(p->fd, p->send_buf, p->SEND_BUFSIZE, EXS_UNSIGNALED | EXS_BLOCK, p->qh, p->ah, p->mh), -1, EINVAL);
}

#endif
