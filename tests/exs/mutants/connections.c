// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The library, sockets and connections.

#include "mutant.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>

int exs_init(int version)
{
	if (broken("init.version"))
		version = EXS_VERSION;
	int ret = REAL(exs_init)(version);

	return let_through("init.again", ret, EALREADY) ? 0 : answered("init", ret);
}

int exs_socket(int family, int socktype, int protocol)
{
	if (broken("socket.family") && family != PF_INET6)
		family = PF_INET;
	if (broken("socket.type") && socktype != SOCK_SEQPACKET)
		socktype = SOCK_STREAM;
	if (broken("socket.protocol"))
		protocol = 0;
	int ret = REAL(exs_socket)(family, socktype, protocol);

	if (ret >= 0 && broken("socket.descriptor"))
		return open("/dev/null", O_RDWR);
	return answered("socket", ret);
}

int exs_bind(int fd, const struct sockaddr *address, socklen_t addrlen)
{
	if (broken("bind.nothing") && REAL(exs_fcntl)(fd, F_GETFL) >= 0)
		return 0;
	int ret = REAL(exs_bind)(fd, address, addrlen);

	return let_through("bind.twice", ret, EINVAL) ? 0 : answered("bind", ret);
}

int exs_listen(int fd, int backlog)
{
	if (broken("listen.backlog") && backlog < 0)
		backlog = 0;
	if (broken("listen.full") && backlog >= 0)
		backlog = 100;
	if (broken("listen.nothing") && backlog >= 0 && REAL(exs_fcntl)(fd, F_GETFL) >= 0)
		return 0;
	int ret = REAL(exs_listen)(fd, backlog);

	return backlog >= 0 && let_through("listen.connected", ret, EINVAL) ? 0 : answered("listen", ret);
}

int exs_connect(int fd, const struct sockaddr *address, socklen_t length, int flags, const struct timeval *timeout,
		exs_qhandle_t queue, exs_ahandle_t ahandle)
{
	if (broken("connect.flags"))
		flags &= EXS_BLOCK | EXS_UNSIGNALED;
	if (broken("connect.timeout"))
		timeout = NULL;
	if (broken("connect.nothing") && REAL(exs_fcntl)(fd, F_GETFL) >= 0) {
		if (!(flags & EXS_BLOCK) && queue)
			post(queue, (exs_event_t){.exs_evt_type = EXS_EVT_CONNECT, .exs_evt_socket = fd, .exs_evt_ahandle = ahandle});
		return 0;
	}
	int ret = REAL(exs_connect)(fd, address, length, flags, timeout, queue, ahandle);

	if (queue != EXS_QHANDLE_INVALID && let_through("connect.again", ret, EINVAL))
		return 0;
	return answered("connect", ret);
}

int exs_blocking_connect(int fd, const struct sockaddr *address, socklen_t length)
{
	if (broken("blocking_connect.nothing") && REAL(exs_fcntl)(fd, F_GETFL) >= 0)
		return 0;
	return answered("blocking_connect", REAL(exs_blocking_connect)(fd, address, length));
}

int exs_accept(int fd, exs_acceptaddr_t *elements, int count, int flags, exs_qhandle_t queue)
{
	if (broken("accept.flags"))
		flags &= EXS_BLOCK;
	if (broken("accept.none") && count < 1)
		return 0;
	int ret = REAL(exs_accept)(fd, elements, count, flags, queue);

	// What does not wait has its element filled when the event is taken.
	if (ret == 0 && flags & EXS_BLOCK) {
		if (broken("accept.socket"))
			elements[0].exs_newsocket = fd;
		if (broken("accept.address") && elements[0].exs_addr)
			spoil(&((struct sockaddr_in *)elements[0].exs_addr)->sin_addr, 4);
		if (broken("accept.length"))
			elements[0].exs_addrlen--;
	}
	return answered("accept", ret);
}

int exs_blocking_accept(int fd, struct sockaddr *address, socklen_t *length)
{
	int ret = REAL(exs_blocking_accept)(fd, address, length);

	if (ret >= 0 && broken("blocking_accept.socket"))
		return fd;
	if (ret >= 0 && address && broken("blocking_accept.address"))
		spoil(&((struct sockaddr_in *)address)->sin_addr, 4);
	if (ret >= 0 && address && broken("blocking_accept.length"))
		(*length)--;
	return answered("blocking_accept", ret);
}

int exs_shutdown(int fd, int how, int flags, exs_qhandle_t queue, exs_ahandle_t ahandle)
{
	if (broken("shutdown.flags"))
		flags &= EXS_BLOCK | EXS_UNSIGNALED;
	if (broken("shutdown.direction"))
		how = how == SHUT_WR ? SHUT_RD : how == SHUT_RD ? SHUT_WR : how;
	if (broken("shutdown.nothing") && REAL(exs_fcntl)(fd, F_GETFL) >= 0) {
		if (!(flags & EXS_BLOCK) && queue)
			post(queue, (exs_event_t){.exs_evt_type = EXS_EVT_SHUTDOWN, .exs_evt_socket = fd, .exs_evt_ahandle = ahandle});
		return 0;
	}
	if (broken("shutdown.event") && !(flags & EXS_BLOCK))
		queue = NULL;
	return answered("shutdown", REAL(exs_shutdown)(fd, how, flags, queue, ahandle));
}

int exs_close(int fd, int flags, exs_qhandle_t queue, exs_ahandle_t ahandle)
{
	if (broken("close.flags"))
		flags &= EXS_BLOCK | EXS_UNSIGNALED;
	if (broken("close.nothing") && REAL(exs_fcntl)(fd, F_GETFL) >= 0) {
		if (!(flags & EXS_BLOCK) && queue)
			post(queue, (exs_event_t){.exs_evt_type = EXS_EVT_CLOSE, .exs_evt_socket = fd, .exs_evt_ahandle = ahandle});
		return 0;
	}
	if (broken("close.event") && !(flags & EXS_BLOCK))
		queue = NULL;
	return answered("close", REAL(exs_close)(fd, flags, queue, ahandle));
}

int exs_blocking_close(int fd)
{
	if (broken("blocking_close.nothing") && REAL(exs_fcntl)(fd, F_GETFL) >= 0)
		return 0;
	return answered("blocking_close", REAL(exs_blocking_close)(fd));
}

int exs_fcntl(int fd, int cmd, ...)
{
	va_list arguments;

	va_start(arguments, cmd);
	void *argument = va_arg(arguments, void *);
	va_end(arguments);
	// The library takes an int with F_SETFL, and nothing with F_GETFL.
	int ret = cmd == F_SETFL ? REAL(exs_fcntl)(fd, cmd, broken("fcntl.flags") ? 0 : (int)(intptr_t)argument)
				 : REAL(exs_fcntl)(fd, cmd, argument);

	if (ret == 0 && cmd == EXS_F_GETFILELIMIT && broken("fcntl.limit"))
		++*(off_t *)argument;
	return answered("fcntl", ret);
}
