// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_bind_setup.h"
#include "setup/twists.h"

static long call(param *p)
{
	return exs_bind(p->fd, p->address, p->address_len);
}

// Bound before, to another port: it is not the address that is refused.
static void bound_before(param *p)
{
	require(ok_exs_bind(p));
	aim_port(p, 1);
}

// Another socket listens there.
static void port_in_use(param *p)
{
	require(ok_exs_bind(p));
	CHECK(!exs_listen(p->fd, 1), "exs_listen: %s", strerror(errno));
	require(ok_exs_socket(p));
}

// One of the addresses for documentation: nobody's.
static void address_of_nobody(param *p)
{
	require(aim(p, p->family == PF_INET6 ? "2001:db8::1" : "192.0.2.1"));
}

// Where one address has the port, all of them cannot have it, and the other way round.
static void port_in_use_at_all(param *p)
{
	const char *any = p->family == PF_INET6 ? "::" : "0.0.0.0";

	require(ok_exs_bind(p));
	int first = p->fd;
	require(ok_exs_socket(p));
	require(aim(p, any));
	CHECK(exs_bind(p->fd, p->address, p->address_len) == -1 && errno == EADDRINUSE, "at all: %s", strerror(errno));
	CHECK(!exs_blocking_close(first), "exs_blocking_close: %s", strerror(errno));
	require(ok_exs_bind(p));
	require(ok_exs_socket(p));
	require(aim(p, p->addr));
}

// As of any sockets, a port of one family is not one of the other.
static void other_family(param *p)
{
	require(ok_exs_bind(p));
	p->family = p->family == PF_INET6 ? PF_INET : PF_INET6;
	require(ok_exs_socket(p));
	require(aim(p, p->family == PF_INET6 ? "::1" : "127.0.0.1"));
}

static void null_address(param *p)
{
	CHECK(exs_bind(p->fd, NULL, p->address_len) == -1 && errno == EFAULT, "exs_bind(fd, NULL): %s", strerror(errno));
	errno = 0;
	print_macro(p->test_number, p->test_value, p->test_name, exs_bind(p->fd, (void *)64, p->address_len), -1, EFAULT);
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM), .state = not_initialized},
	{2, ERROR(EBADF), .state = with_socket, .twist = bad_fd},
	{3, ERROR(EINVAL), .state = with_socket, .twist = bound_before},
	{4, OK(OK_EXS_BIND), .state = with_socket},
	{5, ERROR(EADDRINUSE), .state = with_socket, .twist = port_in_use},
	{6, ERROR(EADDRNOTAVAIL), .state = with_socket, .twist = address_of_nobody},
	{7, ERROR(EAFNOSUPPORT), .state = with_socket, .twist = bad_address},
	{8, ERROR(EINVAL), .state = with_socket, .twist = short_address},
	{9, ERROR(EFAULT), .state = with_socket, .run = null_address},
	{10, ERROR(EADDRINUSE), .state = with_socket, .twist = port_in_use_at_all},
	{11, OK(OK_EXS_BIND), .state = with_socket, .twist = other_family},
};

PROGRAM("exs_bind", call)
