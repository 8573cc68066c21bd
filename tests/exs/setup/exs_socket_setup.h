// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_SOCKET_SETUP_H
#define EXS_SOCKET_SETUP_H

#include "exs_qcreate_setup.h"

#include <fcntl.h>

// What a call answers that makes a socket: a descriptor that is in use, and a socket of the
// library's.
static inline void check_socket(int fd)
{
	CHECK(fd >= 0 && fcntl(fd, F_GETFD) >= 0, "%d is no descriptor", fd);
	CHECK(exs_fcntl(fd, F_GETFL) == O_RDWR, "descriptor %d is no new socket: %s", fd, strerror(errno));
}

static inline int ok_exs_socket(param *p)
{
	p->fd = exs_socket(p->family, p->socktype, p->protocol);
	if (p->fd < 0) {
		print_error("ok_exs_socket");
		return -1;
	}
	check_socket(p->fd);
	return p->fd;
}

static inline int with_socket(param *p)
{
	if (initialized(p) < 0 || ok_exs_socket(p) < 0)
		return -1;
	return aim(p, p->addr);
}

// The names of the tests, by number.
static const char *const all_socket_tests[] = {
	[1 - 1] = "exs_socket(PF_INET, SOCK_STREAM, IPPROTO_TCP) [no exs_init]",
	[2 - 1] = "exs_socket(PF_UNSPEC, SOCK_STREAM, 0)",
	[3 - 1] = "exs_socket(PF_UNIX, SOCK_STREAM, 0)",
	[4 - 1] = "exs_socket(PF_AX25, SOCK_STREAM, 0)",
	[5 - 1] = "exs_socket(PF_IPX, SOCK_STREAM, 0)",
	[6 - 1] = "exs_socket(PF_APPLETALK, SOCK_STREAM, 0)",
	[7 - 1] = "exs_socket(PF_NETROM, SOCK_STREAM, 0)",
	[8 - 1] = "exs_socket(PF_BRIDGE, SOCK_STREAM, 0)",
	[9 - 1] = "exs_socket(PF_X25, SOCK_STREAM, 0)",
	[10 - 1] = "exs_socket(PF_DECnet, SOCK_STREAM, 0)",
	[11 - 1] = "exs_socket(PF_KEY, SOCK_STREAM, 0)",
	[12 - 1] = "exs_socket(PF_NETLINK, SOCK_STREAM, 0)",
	[13 - 1] = "exs_socket(PF_PACKET, SOCK_STREAM, 0)",
	[14 - 1] = "exs_socket(PF_RDS, SOCK_STREAM, 0)",
	[15 - 1] = "exs_socket(PF_BLUETOOTH, SOCK_STREAM, 0)",
	[16 - 1] = "exs_socket(PF_INET, SOCK_STREAM, IPPROTO_TCP)",
	[17 - 1] = "exs_socket(PF_INET, SOCK_DGRAM, 0)",
	[18 - 1] = "exs_socket(PF_INET, SOCK_STREAM, IPPROTO_UDP)",
	[19 - 1] = "exs_socket(PF_INET, SOCK_SEQPACKET, IPPROTO_TCP)",
	[20 - 1] = "exs_socket(PF_INET, SOCK_STREAM, 0) [no descriptor left]",
	[21 - 1] = "exs_socket(PF_INET6, SOCK_STREAM, 0)",
	[22 - 1] = "exs_socket(PF_INET, SOCK_SEQPACKET, 0)",
	[23 - 1] = "exs_socket(PF_INET, SOCK_STREAM, 0) [a hundred of them]",
};

TEST_NAMES(socket, SOCKET)

#endif
