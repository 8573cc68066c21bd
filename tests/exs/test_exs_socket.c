// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_socket_setup.h"

#include <netinet/in.h>
#include <sys/resource.h>

static long call(param *p)
{
	return exs_socket(p->family, p->socktype, p->protocol);
}

// The families that are not supported, from the second test on.
static const int families[] = {
	PF_UNSPEC, PF_UNIX,   PF_AX25, PF_IPX,     PF_APPLETALK, PF_NETROM, PF_BRIDGE,
	PF_X25,    PF_DECnet, PF_KEY,  PF_NETLINK, PF_PACKET,    PF_RDS,    PF_BLUETOOTH,
};

static void bad_family(param *p)
{
	p->family = families[p->test_number - 2];
}

static void datagram(param *p)
{
	p->socktype = SOCK_DGRAM;
}

static void tcp(param *p)
{
	p->protocol = IPPROTO_TCP;
}

static void udp(param *p)
{
	p->protocol = IPPROTO_UDP;
}

static void inet6(param *p)
{
	p->family = PF_INET6;
}

static void packets(param *p)
{
	p->socktype = SOCK_SEQPACKET;
}

static void packets_over_tcp(param *p)
{
	p->socktype = SOCK_SEQPACKET;
	p->protocol = IPPROTO_TCP;
}

// No more descriptors than there are.
static void no_descriptors(param *p)
{
	struct rlimit none = {3, 3};

	setrlimit(RLIMIT_NOFILE, &none);
	(void)p;
}

// Sockets are as many as were asked for, each with a descriptor of its own, which can be had again.
static void many(param *p)
{
	enum { COUNT = 100 };
	int fds[COUNT];

	for (int i = 0; i < COUNT; i++) {
		fds[i] = ok_exs_socket(p);
		require(fds[i]);
		for (int j = 0; j < i; j++)
			CHECK(fds[i] != fds[j], "one descriptor for two sockets");
	}
	for (int i = 0; i < COUNT; i++)
		CHECK(!exs_blocking_close(fds[i]), "closing socket %d: %s", i, strerror(errno));
	CHECK(ok_exs_socket(p) == fds[0], "the descriptor of a closed socket is not free");
	print_pass(0);
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM), .twist = tcp},
	{2, ERROR(EAFNOSUPPORT), .state = ok_exs_init, .twist = bad_family},
	{3, ERROR(EAFNOSUPPORT), .state = ok_exs_init, .twist = bad_family},
	{4, ERROR(EAFNOSUPPORT), .state = ok_exs_init, .twist = bad_family},
	{5, ERROR(EAFNOSUPPORT), .state = ok_exs_init, .twist = bad_family},
	{6, ERROR(EAFNOSUPPORT), .state = ok_exs_init, .twist = bad_family},
	{7, ERROR(EAFNOSUPPORT), .state = ok_exs_init, .twist = bad_family},
	{8, ERROR(EAFNOSUPPORT), .state = ok_exs_init, .twist = bad_family},
	{9, ERROR(EAFNOSUPPORT), .state = ok_exs_init, .twist = bad_family},
	{10, ERROR(EAFNOSUPPORT), .state = ok_exs_init, .twist = bad_family},
	{11, ERROR(EAFNOSUPPORT), .state = ok_exs_init, .twist = bad_family},
	{12, ERROR(EAFNOSUPPORT), .state = ok_exs_init, .twist = bad_family},
	{13, ERROR(EAFNOSUPPORT), .state = ok_exs_init, .twist = bad_family},
	{14, ERROR(EAFNOSUPPORT), .state = ok_exs_init, .twist = bad_family},
	{15, ERROR(EAFNOSUPPORT), .state = ok_exs_init, .twist = bad_family},
	{16, OK(OK_EXS_SOCKET), .answer = A_SOCKET, .state = ok_exs_init, .twist = tcp},
	{17, ERROR(ESOCKTNOSUPPORT), .state = ok_exs_init, .twist = datagram},
	{18, ERROR(EPROTONOSUPPORT), .state = ok_exs_init, .twist = udp},
	{19, ERROR(EPROTONOSUPPORT), .state = ok_exs_init, .twist = packets_over_tcp},
	{20, ERROR(EMFILE), .state = ok_exs_init, .twist = no_descriptors},
	{21, OK(OK_EXS_SOCKET), .answer = A_SOCKET, .state = ok_exs_init, .twist = inet6},
	{22, OK(OK_EXS_SOCKET), .answer = A_SOCKET, .state = ok_exs_init, .twist = packets},
	{23, OK(OK_EXS_SOCKET), .state = ok_exs_init, .run = many},
};

PROGRAM("exs_socket", call)
