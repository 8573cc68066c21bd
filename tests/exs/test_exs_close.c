// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_close_setup.h"
#include "setup/peers.h"
#include "setup/twists.h"

static long call(param *p)
{
	return exs_close(p->fd, p->flags, p->qh, p->ah);
}

// Closed: there is no such socket any more.
static void ok(param *p)
{
	require(ok_exs_close(p));
	if (p->mode)
		expect_no_event(p);
	CHECK(exs_blocking_close(p->fd) == -1 && errno == EBADF, "the socket is still there: %s", strerror(errno));
	print_pass(0);
}

static void closed_before(param *p)
{
	require(ok_exs_close(p));
}

// A close that does not wait, and of which nobody wants to hear.
static void no_event_wanted(param *p)
{
	p->flags = 0;
	p->qh = NULL;
	print_macro(p->test_number, p->test_value, p->test_name, call(p), 0, 0);
}

// Sends that are in progress come to their end first.
static void with_sends(param *p)
{
	enum { COUNT = 100 };

	p->SEND_BUFSIZE = 80;
	for (int i = 0; i < COUNT; i++, p->send_buf = (char *)p->send_buf + 80)
		CHECK(!exs_send(p->fd, p->send_buf, 80, EXS_UNSIGNALED, p->qh, p->ah, p->mh), "exs_send: %s", strerror(errno));
	ok(p);
}

static void peer_counts(param *p)
{
	require(accepted(p));
	CHECK(receive_to_the_end(p, 0) == 8000, "not all that was sent before the end");
	meet(p);
}

static void port_is_free(param *p)
{
	require(ok_exs_close(p));
	require(ok_exs_socket(p));
	require(ok_exs_bind(p));
	require(ok_exs_listen(p));
	print_pass(0);
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM)},
	{2, ERROR(EINVAL), .state = with_socket, .twist = bad_flag},
	{3, ERROR(EINVAL), .state = with_socket, .twist = bad_qhandle},
	{4, ERROR(EBADF), .state = with_socket, .twist = bad_fd},
	{5, OK(OK_EXS_CLOSE), .peer = peer_accepts, .state = connected, .run = ok},
	{6, ERROR(EBADF), .state = with_socket, .twist = closed_before},
	{7, OK(OK_EXS_CLOSE), .state = with_socket, .run = ok},
	{8, OK(OK_EXS_CLOSE), .state = listening, .run = port_is_free},
	{9, OK(OK_EXS_CLOSE), .state = with_socket, .run = no_event_wanted},
	{10, OK(OK_EXS_CLOSE), .modes = NON_BLOCKING, .peer = peer_counts, .state = connected, .run = with_sends},
};

PROGRAM("exs_close", call)
