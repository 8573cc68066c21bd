// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Transfers.

#include "mutant.h"

// A transfer that does not wait answers 0.
static long started(const char *name, int flags, long answer)
{
	return !(flags & EXS_BLOCK) && answer == 0 && broken(name) ? 1 : answer;
}

// For a call that was refused an event all the same.
static void refused(const char *name, long answer, int type, int fd, exs_qhandle_t queue, exs_ahandle_t ahandle)
{
	int error = errno;

	if (answer == -1 && queue && broken(name))
		post(queue, (exs_event_t){.exs_evt_type = type, .exs_evt_socket = fd, .exs_evt_errno = error, .exs_evt_ahandle = ahandle});
	errno = error;
}

ssize_t exs_send(int fd, const void *buffer, size_t length, int flags, exs_qhandle_t queue, exs_ahandle_t ahandle,
		 exs_mhandle_t memory)
{
	const void *bytes = buffer;
	size_t less = length;

	if (broken("send.flags"))
		flags &= EXS_BLOCK | EXS_UNSIGNALED;
	if (broken("send.unsignaled") && queue)
		flags &= ~EXS_UNSIGNALED;
	if (broken("send.byte") && length && length <= EXS_LENGTH_MAX && (uintptr_t)buffer > 4096) {
		bytes = spoiled_copy(buffer, length);
		memory = NULL;
	}
	if (broken("send.short") && length > 1)
		less--;
	if (broken("send.nothing") && flags & EXS_BLOCK && length > 1 && length < EXS_LENGTH_MAX)
		return length;
	ssize_t ret = REAL(exs_send)(fd, bytes, less, flags, queue, ahandle, memory);

	refused("send.refused", ret, EXS_EVT_SEND, fd, queue, ahandle);
	if (let_through("send.shut", ret, EPIPE))
		return flags & EXS_BLOCK ? (ssize_t)length : 0;
	// Nobody is told that it was less.
	if (ret == (ssize_t)less && broken("send.short"))
		ret = length;
	return counted("send", started("send.started", flags, ret));
}

ssize_t exs_recv(int fd, void *buffer, size_t length, int flags, exs_qhandle_t queue, exs_ahandle_t ahandle, exs_mhandle_t memory)
{
	if (broken("recv.flags"))
		flags &= EXS_BLOCK | EXS_UNSIGNALED | MSG_WAITALL;
	if (broken("recv.all"))
		flags &= ~MSG_WAITALL;
	ssize_t ret = REAL(exs_recv)(fd, buffer, length, flags, queue, ahandle, memory);

	refused("recv.refused", ret, EXS_EVT_RECV, fd, queue, ahandle);
	if (ret == 0 && flags & EXS_BLOCK && broken("recv.end")) {
		errno = EPIPE;
		return -1;
	}
	if (ret > 0 && broken("recv.byte"))
		spoil(buffer, ret);
	return counted("recv", started("recv.started", flags, ret));
}

ssize_t exs_blocking_send(int fd, const void *buffer, size_t length, int flags, exs_mhandle_t memory)
{
	bool less = broken("blocking_send.short") && length > 1;

	if (broken("blocking_send.byte") && length && (uintptr_t)buffer > 4096) {
		buffer = spoiled_copy(buffer, length);
		memory = NULL;
	}
	ssize_t ret = REAL(exs_blocking_send)(fd, buffer, length - less, flags, memory);

	return counted("blocking_send", ret > 0 ? ret + less : ret);
}

ssize_t exs_blocking_recv(int fd, void *buffer, size_t length, int flags, exs_mhandle_t memory)
{
	ssize_t ret = REAL(exs_blocking_recv)(fd, buffer, length, flags, memory);

	if (ret > 0 && broken("blocking_recv.byte"))
		spoil(buffer, ret);
	return counted("blocking_recv", ret);
}

ssize_t exs_write(int fd, const void *buffer, size_t length)
{
	bool less = broken("write.short") && length > 1;

	if (broken("write.byte") && length && (uintptr_t)buffer > 4096)
		buffer = spoiled_copy(buffer, length);
	ssize_t ret = REAL(exs_write)(fd, buffer, length - less);

	return counted("write", ret > 0 ? ret + less : ret);
}

ssize_t exs_read(int fd, void *buffer, size_t length)
{
	ssize_t ret = REAL(exs_read)(fd, buffer, length);

	if (ret > 0 && broken("read.byte"))
		spoil(buffer, ret);
	return counted("read", ret);
}

ssize_t exs_sendfile(int fd, exs_xferfile_t *vector, int count, int flags, exs_qhandle_t queue, exs_ahandle_t ahandle)
{
	ssize_t ret = REAL(exs_sendfile)(fd, other_vector("sendfile", vector, count), count, flags, queue, ahandle);

	refused("sendfile.refused", ret, EXS_EVT_SENDFILE, fd, queue, ahandle);
	return answered("sendfile", ret);
}

ssize_t exs_recvfile(int fd, exs_xferfile_t *vector, int count, int flags, exs_qhandle_t queue, exs_ahandle_t ahandle)
{
	ssize_t ret = REAL(exs_recvfile)(fd, vector, count, flags, queue, ahandle);

	refused("recvfile.refused", ret, EXS_EVT_RECVFILE, fd, queue, ahandle);
	if (ret > 0 && broken("recvfile.byte"))
		spoil_file(vector);
	return counted("recvfile", ret);
}

ssize_t exs_blocking_sendfile(int fd, exs_xferfile_t *vector, int count, int flags)
{
	return answered("blocking_sendfile",
			REAL(exs_blocking_sendfile)(fd, other_vector("blocking_sendfile", vector, count), count, flags));
}

ssize_t exs_blocking_recvfile(int fd, exs_xferfile_t *vector, int count, int flags)
{
	ssize_t ret = REAL(exs_blocking_recvfile)(fd, vector, count, flags);

	if (ret > 0 && broken("blocking_recvfile.byte"))
		spoil_file(vector);
	return counted("blocking_recvfile", ret);
}
