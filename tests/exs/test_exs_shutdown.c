// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_server_setup.h"
#include "setup/peers.h"
#include "setup/twists.h"

static long call(param *p)
{
	return exs_shutdown(p->fd, p->how, p->flags, p->qh, p->ah);
}

static int connected_for_both(param *p)
{
	p->how = SHUT_RDWR;
	return connected(p);
}

static void bad_direction(param *p)
{
	p->how = 77;
}

// All is refused afterwards in the directions that were shut.
static void ok(param *p)
{
	require(ok_exs_shutdown(p));
	if (p->mode)
		expect_no_event(p);
	if (p->how != SHUT_RD)
		CHECK(exs_write(p->fd, p->send_buf, 1) == -1 && errno == EPIPE, "exs_write: %s", strerror(errno));
	if (p->how != SHUT_WR)
		CHECK(exs_read(p->fd, p->recv_buf, 1) == 0, "exs_read: %s", strerror(errno));
	print_pass(0);
}

static int connected_for_writing(param *p)
{
	p->how = SHUT_WR;
	return connected(p);
}

static int connected_for_reading(param *p)
{
	p->how = SHUT_RD;
	return connected(p);
}

// What was sent before arrives before the end does.
static void after_sending(param *p)
{
	require(ok_exs_send(p));
	ok(p);
	CHECK(exs_read(p->fd, p->recv_buf, 1) == 1, "the other direction: %s", strerror(errno));
}

static void peer_answers(param *p)
{
	require(accepted(p));
	CHECK(receive_to_the_end(p, 0) == TEST_BUFSIZE, "not all that was sent before the end");
	p->SEND_BUFSIZE = 1;
	require(ok_exs_send(p));
	meet(p);
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM)},
	{2, ERROR(EINVAL), .peer = peer_accepts, .state = connected_for_both, .twist = bad_flag},
	{3, ERROR(EINVAL), .peer = peer_accepts, .state = connected_for_both, .twist = bad_qhandle},
	{4, ERROR(EBADF), .peer = peer_accepts, .state = connected_for_both, .twist = bad_fd},
	{5, OK(OK_EXS_SHUTDOWN), .peer = peer_accepts, .state = connected_for_both, .run = ok},
	{6, ERROR(EINVAL), .peer = peer_accepts, .state = connected, .twist = bad_direction},
	{7, ERROR(ENOTCONN), .state = with_socket},
	{8, OK(OK_EXS_SHUTDOWN), .peer = peer_answers, .state = connected_for_writing, .run = after_sending},
	{9, OK(OK_EXS_SHUTDOWN), .peer = peer_accepts, .state = connected_for_reading, .run = ok},
};

PROGRAM("exs_shutdown", call)
