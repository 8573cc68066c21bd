// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_blocking_accept_setup.h"
#include "setup/peers.h"
#include "setup/twists.h"

#include <fcntl.h>

static struct sockaddr_storage from;
static socklen_t from_length;

static long call(param *p)
{
	from_length = sizeof(from);
	return exs_blocking_accept(p->fd, (struct sockaddr *)&from, &from_length);
}

// The blocking form abbreviates this one, which alone has these arguments.
static void general(param *p, int count, int flags, exs_qhandle_t qh)
{
	print_macro(p->test_number, p->test_value, p->test_name, exs_accept(p->fd, p->acceptaddr, count, flags, qh), -1, EINVAL);
}

static void unsupported_flags(param *p)
{
	general(p, 1, EXS_BLOCK | BAD_FLAG, NULL);
}

static void no_addresses(param *p)
{
	general(p, 0, EXS_BLOCK, NULL);
}

static void not_a_queue(param *p)
{
	general(p, 1, EXS_BLOCK, EXS_QHANDLE_INVALID);
}

static void nobody_there(param *p)
{
	CHECK(!exs_fcntl(p->fd, F_SETFL, O_NONBLOCK), "exs_fcntl: %s", strerror(errno));
}

static void ok(param *p)
{
	int fd = call(p);

	CHECK(fd >= 0, "exs_blocking_accept: %s", strerror(errno));
	check_socket(fd);
	CHECK(fd != p->fd, "the new socket is the one that listens");
	require(aim(p, p->peer_addr));
	CHECK(from_length == p->address_len, "an address of %u bytes", from_length);
	CHECK(same_host((struct sockaddr *)&from, p->address), "the address is not the peer's");
	print_pass(0);
}

static void no_address_wanted(param *p)
{
	require(ok_exs_blocking_accept(p));
	print_pass(0);
}

static void no_room_for_length(param *p)
{
	print_macro(p->test_number, p->test_value, p->test_name, exs_blocking_accept(p->fd, (struct sockaddr *)&from, NULL),
		    -1, EFAULT);
}

// Refused before anybody is taken: whoever waits is there for the next call.
static void refused_and_kept(param *p, void *address, const socklen_t *length)
{
	errno = 0;
	long ret = exs_blocking_accept(p->fd, address, (socklen_t *)length);
	int error = errno;

	require(ok_exs_blocking_accept(p));
	errno = error;
	print_macro(p->test_number, p->test_value, p->test_name, ret, -1, EFAULT);
}

static void wild_room(param *p)
{
	from_length = sizeof(from);
	refused_and_kept(p, (void *)64, &from_length);
}

static void wild_length(param *p)
{
	refused_and_kept(p, &from, (void *)64);
}

static void constant_length(param *p)
{
	static const socklen_t length = sizeof(from);

	refused_and_kept(p, &from, &length);
}

// As with accept(2), the length counts where there is an address.
static void length_without_address(param *p)
{
	int fd = exs_blocking_accept(p->fd, NULL, (void *)64);

	CHECK(fd >= 0, "exs_blocking_accept: %s", strerror(errno));
	check_socket(fd);
	print_pass(0);
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM)},
	{2, ERROR(EINVAL), .state = bound},
	{3, OK(OK_EXS_BLOCKING_ACCEPT), .peer = peer_connects, .state = serving, .run = ok},
	{4, ERROR(EINVAL), .state = listening, .run = unsupported_flags},
	{5, ERROR(EINVAL), .state = listening, .run = no_addresses},
	{6, ERROR(EINVAL), .state = listening, .run = not_a_queue},
	{7, ERROR(EBADF), .state = listening, .twist = bad_fd},
	{8, ERROR(EAGAIN), .state = listening, .twist = nobody_there},
	{9, OK(OK_EXS_BLOCKING_ACCEPT), .peer = peer_connects, .state = serving, .run = no_address_wanted},
	{10, ERROR(EFAULT), .state = listening, .run = no_room_for_length},
	{11, ERROR(EFAULT), .peer = peer_connects, .state = serving, .run = wild_room},
	{12, ERROR(EFAULT), .peer = peer_connects, .state = serving, .run = wild_length},
	{13, ERROR(EFAULT), .peer = peer_connects, .state = serving, .run = constant_length},
	{14, OK(OK_EXS_BLOCKING_ACCEPT), .peer = peer_connects, .state = serving, .run = length_without_address},
};

PROGRAM("exs_blocking_accept", call, .is_blocking_only = 1)
