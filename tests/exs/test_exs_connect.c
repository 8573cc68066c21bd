// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_server_setup.h"
#include "setup/peers.h"
#include "setup/twists.h"

#include <arpa/inet.h>
#include <unistd.h>

static long call(param *p)
{
	return exs_connect(p->fd, p->address, p->address_len, p->flags, p->to, p->qh, p->ah);
}

static void all_flags(param *p)
{
	p->flags = -1;
}

static void wild_address(param *p)
{
	print_macro(p->test_number, p->test_value, p->test_name,
		    exs_connect(p->fd, (void *)64, p->address_len, p->flags, p->to, p->qh, p->ah), -1, EFAULT);
}

static void bad_timeout(param *p)
{
	static const struct timeval timeout = {1, 1000000};

	p->to = &timeout;
}

static void ok(param *p)
{
	require(ok_exs_connect(p));
	print_pass(0);
}

// Nobody listens: an answer that comes later, as an event where the call does not wait for it.
static void nobody_listens(param *p)
{
	require(aim(p, p->peer_addr));
	aim_port(p, 7);
	long ret = call(p);
	if (p->mode) {
		CHECK(ret == 0, "exs_connect answers %ld, %s", ret, strerror(errno));
		take_event(p, EXS_EVT_CONNECT, p->fd, ECONNREFUSED);
		errno = ECONNREFUSED;
		ret = -1;
	}
	print_macro(p->test_number, p->test_value, p->test_name, ret, -1, ECONNREFUSED);
}

static void of_a_group(param *p)
{
	if (p->address->sa_family == AF_INET)
		((struct sockaddr_in *)p->address)->sin_addr.s_addr = htonl(0xef010203);
	else
		((struct sockaddr_in6 *)p->address)->sin6_addr.s6_addr[0] = 0xff;
}

static void both_timeouts(param *p)
{
	static const struct timeval timeout = {15, 0};

	p->to = &timeout;
	ok(p);
}

// The other process is there, but asleep: its daemon has the request, and nobody answers it. Later
// somebody does.
static void nobody_answers(param *p)
{
	static const struct timeval timeout = {0, 200000};

	stop_peer();
	p->to = &timeout;
	errno = 0;
	long ret = call(p);
	if (p->mode) {
		CHECK(ret == 0, "exs_connect answers %ld, %s", ret, strerror(errno));
		take_event(p, EXS_EVT_CONNECT, p->fd, ETIMEDOUT);
		errno = ETIMEDOUT;
		ret = -1;
	}
	int error = errno;

	continue_peer();
	p->to = NULL;
	require(ok_exs_connect(p));
	errno = error;
	print_macro(p->test_number, p->test_value, p->test_name, ret, -1, ETIMEDOUT);
}

enum { MUCH = 30 * TEST_BUFSIZE };

// A timeout is over with its connect. Nobody listens at first; the socket's next connection is not
// cut, though it is being closed when that time is up.
static void after_a_timeout(param *p)
{
	static const struct timeval timeout = {0, 700000};
	static unsigned char much[MUCH];

	for (int i = 0; i < MUCH; i++)
		much[i] = pattern(i);
	aim_port(p, 7);
	CHECK(exs_connect(p->fd, p->address, p->address_len, EXS_BLOCK, &timeout, NULL, NULL) == -1, "somebody listens");
	require(aim(p, p->peer_addr));
	require(ok_exs_connect(p));
	for (int i = 0; i < MUCH; i += TEST_BUFSIZE)
		CHECK(!exs_send(p->fd, much + i, TEST_BUFSIZE, EXS_UNSIGNALED, p->qh, p->ah, p->mh), "exs_send: %s",
		      strerror(errno));
	CHECK(!exs_close(p->fd, 0, NULL, NULL), "exs_close: %s", strerror(errno));
	meet(p);
	print_pass(0);
}

// More than the connection holds, so that some is still to be sent when that time is up.
static void peer_receives_late(param *p)
{
	require(accepted(p));
	meet(p);
	usleep(1000000);
	uint64_t got = receive_to_the_end(p, 0);
	CHECK(got == MUCH, "%llu bytes of %d", (unsigned long long)got, MUCH);
	meet(p);
}

static void bound_first(param *p)
{
	// A client may say from where it connects.
	require(aim(p, p->addr));
	aim_port(p, 8);
	require(ok_exs_bind(p));
	require(aim(p, p->peer_addr));
	ok(p);
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM), .state = not_initialized},
	{2, ERROR(EINVAL), .state = with_socket, .twist = all_flags},
	{3, ERROR(EINVAL), .state = with_socket, .twist = bad_flag},
	{4, ERROR(EBADF), .state = with_socket, .twist = bad_fd},
	{5, ERROR(EINVAL), .peer = peer_accepts, .state = connected},
	{6, OK(OK_EXS_CONNECT), .peer = peer_accepts, .state = unconnected, .run = ok},
	{7, ERROR(EINVAL), .state = listening},
	{8, ERROR(EINVAL), .state = with_socket, .twist = bad_qhandle},
	{9, ERROR(EINVAL), .state = with_socket, .twist = no_qhandle},
	{10, ERROR(ECONNREFUSED), .state = with_socket, .run = nobody_listens},
	{11, ERROR(EAFNOSUPPORT), .state = with_socket, .twist = bad_address},
	{12, ERROR(EINVAL), .state = with_socket, .twist = short_address},
	{13, ERROR(EFAULT), .state = with_socket, .run = wild_address},
	{14, ERROR(EINVAL), .state = with_socket, .twist = bad_timeout},
	{15, OK(OK_EXS_CONNECT), .peer = peer_accepts, .state = unconnected, .run = both_timeouts},
	{16, OK(OK_EXS_CONNECT), .peer = peer_accepts, .state = unconnected, .run = bound_first},
	{17, ERROR(ETIMEDOUT), .peer = peer_accepts, .state = unconnected, .run = nobody_answers},
	{18, OK(OK_EXS_CONNECT), .peer = peer_receives_late, .state = unconnected, .run = after_a_timeout},
	{19, ERROR(ENETUNREACH), .state = with_socket, .twist = of_a_group},
};

PROGRAM("exs_connect", call)
