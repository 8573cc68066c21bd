// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_server_setup.h"
#include "setup/peers.h"
#include "setup/twists.h"

static long call(param *p)
{
	return exs_listen(p->fd, p->backlog);
}

static void negative_backlog(param *p)
{
	p->backlog = -1;
}

enum { FEW = 2 };

static int serving_few(param *p)
{
	p->backlog = FEW;
	return serving(p);
}

// Connects one more socket; says whether it is held. What has no place is refused at once.
static int is_held(param *p)
{
	require(ok_exs_socket(p));
	long ret = exs_connect(p->fd, p->address, p->address_len, p->flags, p->to, queue_of(p), p->ah);
	int error = ret ? errno : 0;

	if (p->mode) {
		CHECK(ret == 0, "exs_connect answers %ld, %s", ret, strerror(error));
		error = next_event(p).exs_evt_errno;
	}
	CHECK(!error || error == ECONNREFUSED, "exs_connect: %s", strerror(error));
	return !error;
}

static void peer_connects_too_often(param *p)
{
	int held = 0;

	require(unconnected(p));
	for (int i = 0; i < FEW + 2; i++)
		held += is_held(p);
	// The system may hold fewer.
	CHECK(held >= 1 && held <= FEW, "%d connections are held, with a backlog of %d", held, FEW);
	meet(p);
	meet(p);
	CHECK(is_held(p), "no place, though one was taken");
	meet(p);
}

// Whom it does not hold is refused; once one is taken there is a place again.
static void holds_few(param *p)
{
	meet(p);
	require(ok_exs_accept(p));
	meet(p);
	print_pass(0);
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM)},
	{2, ERROR(EINVAL), .state = bound, .twist = negative_backlog},
	{3, ERROR(EINVAL), .peer = peer_accepts, .state = connected},
	{4, ERROR(EBADF), .state = bound, .twist = bad_fd},
	{5, OK(OK_EXS_LISTEN), .state = bound},
	{6, ERROR(EINVAL), .state = listening},
	{7, ERROR(EINVAL), .peer = peer_connects, .state = accepted},
	{8, ERROR(EDESTADDRREQ), .state = with_socket},
	{9, OK(OK_EXS_LISTEN), .peer = peer_connects_too_often, .state = serving_few, .run = holds_few},
};

PROGRAM("exs_listen", call)
