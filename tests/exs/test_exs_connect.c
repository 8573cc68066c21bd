// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_server_setup.h"
#include "setup/peers.h"
#include "setup/twists.h"

static long call(param *p)
{
	return exs_connect(p->fd, (struct sockaddr *)&p->address, p->address_len, p->flags, p->to, p->qh, p->ah);
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

static void both_timeouts(param *p)
{
	static const struct timeval timeout = {15, 0};

	p->to = &timeout;
	ok(p);
}

// The other process is there, but asleep: its daemon has the request, and nobody answers it. Later somebody does.
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

static void bound_first(param *p)
{
	// A client may say from where it connects.
	require(aim(p, p->addr));
	aim_port(p, 8);
	require(ok_exs_bind(p));
	require(aim(p, p->peer_addr));
	ok(p);
}

#define CALL "exs_connect(fd, ai_addr, ai_addrlen, flags, to, qh, ah)"

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM), CALL " [no exs_init]", .state = not_initialized},
	{2, ERROR(EINVAL), "exs_connect(fd, ai_addr, ai_addrlen, -1, to, qh, ah)", .state = with_socket, .twist = all_flags},
	{3, ERROR(EINVAL), "exs_connect(fd, ai_addr, ai_addrlen, BAD_FLAG, to, qh, ah)", .state = with_socket, .twist = bad_flag},
	{4, ERROR(EBADF), "exs_connect(BAD_FD, ai_addr, ai_addrlen, flags, to, qh, ah)", .state = with_socket, .twist = bad_fd},
	{5, ERROR(EINVAL), "exs_connect(CONNECTED_FD, ai_addr, ai_addrlen, flags, to, qh, ah)", .peer = peer_accepts, .state = connected},
	{6, OK(OK_EXS_CONNECT), CALL, .peer = peer_accepts, .state = unconnected, .run = ok},
	{7, ERROR(EINVAL), "exs_connect(LISTENING_FD, ai_addr, ai_addrlen, flags, to, qh, ah)", .state = listening},
	{8, ERROR(EINVAL), "exs_connect(fd, ai_addr, ai_addrlen, flags, to, INVALID_QHANDLE, ah)", .state = with_socket, .twist = bad_qhandle},
	{9, ERROR(EINVAL), "exs_connect(fd, ai_addr, ai_addrlen, 0, to, NULL, ah)", .state = with_socket, .twist = no_qhandle},
	{10, ERROR(ECONNREFUSED), CALL " [nobody listens]", .state = with_socket, .run = nobody_listens},
	{11, ERROR(EAFNOSUPPORT), "exs_connect(fd, ADDRESS_OF_AF_UNIX, ai_addrlen, flags, to, qh, ah)", .state = with_socket, .twist = bad_address},
	{12, ERROR(EINVAL), "exs_connect(fd, ai_addr, SHORT_LENGTH, flags, to, qh, ah)", .state = with_socket, .twist = short_address},
	{13, ERROR(EFAULT), "exs_connect(fd, BAD_ADDRESS, ai_addrlen, flags, to, qh, ah)", .state = with_socket, .run = wild_address},
	{14, ERROR(EINVAL), "exs_connect(fd, ai_addr, ai_addrlen, flags, BAD_TIMEOUT, qh, ah)", .state = with_socket, .twist = bad_timeout},
	{15, OK(OK_EXS_CONNECT), "exs_connect(fd, ai_addr, ai_addrlen, flags, TIMEOUT, qh, ah)", .peer = peer_accepts, .state = unconnected, .run = both_timeouts},
	{16, OK(OK_EXS_CONNECT), CALL " [bound]", .peer = peer_accepts, .state = unconnected, .run = bound_first},
	{17, ERROR(ETIMEDOUT), "exs_connect(fd, ai_addr, ai_addrlen, flags, TIMEOUT, qh, ah) [the peer does not answer]", .peer = peer_accepts, .state = unconnected, .run = nobody_answers},
};

PROGRAM("exs_connect", call)
