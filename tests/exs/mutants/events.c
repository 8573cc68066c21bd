// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Memory and event queues.

#include "mutant.h"

#include <pthread.h>

exs_mhandle_t exs_mregister(void *address, size_t size, int flags)
{
	static exs_mhandle_t first;
	static unsigned char elsewhere[1 << 16];

	if (broken("mregister.flags"))
		flags &= EXS_MRF_SHARED | EXS_MRF_SEND_DISABLE | EXS_MRF_RECV_DISABLE;
	if (broken("mregister.empty") && !size)
		size = 1;
	exs_mhandle_t ret = REAL(exs_mregister)(address, size, flags);

	if (ret == EXS_MHANDLE_INVALID && errno == EACCES && broken("mregister.access"))
		return REAL(exs_mregister)(elsewhere, sizeof(elsewhere), 0);
	if (ret == EXS_MHANDLE_INVALID)
		return (exs_mhandle_t)answered("mregister", -1);
	if (broken("mregister.same"))
		first = first ? first : ret;
	return first ? first : ret;
}

int exs_mderegister(exs_mhandle_t handle, int flags)
{
	if (broken("mderegister.flags"))
		flags = 0;
	int ret = REAL(exs_mderegister)(handle, flags);

	if (let_through("mderegister.busy", ret, EBUSY) || (!flags && let_through("mderegister.again", ret, EINVAL)))
		return 0;
	return answered("mderegister", ret);
}

exs_qhandle_t exs_qcreate(int depth)
{
	if (broken("qcreate.depth") && depth < 0)
		depth = 0;
	exs_qhandle_t ret = REAL(exs_qcreate)(depth);

	return ret == EXS_QHANDLE_INVALID ? (exs_qhandle_t)answered("qcreate", -1) : ret;
}

int exs_qdelete(exs_qhandle_t queue)
{
	int depth;

	if (broken("qdelete.nothing") && !REAL(exs_qstatus)(queue, EXS_QATTR_DEPTH, &depth, sizeof(depth)))
		return 0;
	int ret = REAL(exs_qdelete)(queue);

	return let_through("qdelete.busy", ret, EBUSY) ? 0 : answered("qdelete", ret);
}

int exs_qmodify(exs_qhandle_t queue, int attribute, const void *value, size_t size)
{
	long now[8];

	if (broken("qmodify.nothing") && size <= sizeof(now) && !REAL(exs_qstatus)(queue, attribute, now, size))
		return 0;
	return answered("qmodify", REAL(exs_qmodify)(queue, attribute, value, size));
}

int exs_qstatus(exs_qhandle_t queue, int attribute, void *value, size_t size)
{
	int ret = REAL(exs_qstatus)(queue, attribute, value, size);

	if (!ret && attribute == EXS_QATTR_DEPTH && broken("qstatus.depth"))
		*(int *)value = 1;
	if (!ret && attribute == EXS_QATTR_EVENTS && broken("qstatus.events"))
		++*(int *)value;
	return answered("qstatus", ret);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	exs_qhandle_t queue;
	exs_event_t event;
} posted[64];
static int posted_count;

void post(exs_qhandle_t queue, exs_event_t event)
{
	pthread_mutex_lock(&lock);
	if (posted_count < 64) {
		posted[posted_count].queue = queue;
		posted[posted_count++].event = event;
	}
	pthread_mutex_unlock(&lock);
}

static bool take_posted(exs_qhandle_t queue, exs_event_t *event)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < posted_count && !found; i++)
		if (posted[i].queue == queue) {
			*event = posted[i].event;
			posted[i] = posted[--posted_count];
			found = true;
		}
	pthread_mutex_unlock(&lock);
	return found;
}

static void change_accept(exs_event_t *event)
{
	exs_evt_accept_t *accept = &event->exs_evt_union.exs_evt_accept;

	if (broken("qdequeue.newsocket"))
		accept->exs_evt_newsocket = event->exs_evt_socket;
	if (broken("qdequeue.addr"))
		accept->exs_evt_addr = (struct sockaddr *)event;
	if (broken("qdequeue.addrlen"))
		accept->exs_evt_addrlen--;
}

static void change_transfer(exs_event_t *event)
{
	exs_evt_xfer_t *transfer = &event->exs_evt_union.exs_evt_xfer;
	bool receive = event->exs_evt_type == EXS_EVT_RECV;

	if (receive && broken("recv.byte"))
		spoil(transfer->exs_evt_buffer, transfer->exs_evt_length);
	if (broken("qdequeue.buffer"))
		transfer->exs_evt_buffer = (char *)transfer->exs_evt_buffer + 1;
	if (broken("qdequeue.length") && transfer->exs_evt_length)
		transfer->exs_evt_length--;
	if (broken("qdequeue.mhandle"))
		transfer->exs_evt_mhandle = EXS_MHANDLE_INVALID;
	if (broken("qdequeue.end"))
		transfer->exs_evt_flags &= ~EXS_EVF_EOF;
	if (broken("qdequeue.cut"))
		transfer->exs_evt_flags &= ~MSG_TRUNC;
}

static void change_file(exs_event_t *event)
{
	exs_evt_xferfile_t *transfer = &event->exs_evt_union.exs_evt_xferfile;

	if (event->exs_evt_type == EXS_EVT_RECVFILE && transfer->exs_evt_length && broken("recvfile.byte"))
		spoil_file(transfer->exs_evt_xfervec);
	if (broken("qdequeue.vector"))
		transfer->exs_evt_xfervec++;
	if (broken("qdequeue.elements"))
		transfer->exs_evt_xfervec_cnt++;
	if (broken("qdequeue.bytes") && transfer->exs_evt_length)
		transfer->exs_evt_length--;
}

static void change(exs_event_t *event)
{
	if (event->exs_evt_errno && broken("qdequeue.silence"))
		event->exs_evt_errno = 0;
	else if (event->exs_evt_errno && broken("qdequeue.reason"))
		event->exs_evt_errno = ENXIO;
	else if (!event->exs_evt_errno && broken("qdequeue.success"))
		event->exs_evt_errno = EIO;
	switch (event->exs_evt_type) {
	case EXS_EVT_ACCEPT:
		change_accept(event);
		break;
	case EXS_EVT_SEND: case EXS_EVT_RECV:
		change_transfer(event);
		break;
	case EXS_EVT_SENDFILE: case EXS_EVT_RECVFILE:
		change_file(event);
		break;
	}
	if (broken("qdequeue.type"))
		event->exs_evt_type = event->exs_evt_type == EXS_EVT_SEND ? EXS_EVT_RECV : EXS_EVT_SEND;
	if (broken("qdequeue.socket"))
		event->exs_evt_socket++;
	if (broken("qdequeue.ahandle"))
		event->exs_evt_ahandle = event;
}

// So many events in the other order.
static void reverse(exs_event_t *events, int count)
{
	for (int i = 0; i < count / 2; i++) {
		exs_event_t other = events[i];

		events[i] = events[count - 1 - i];
		events[count - 1 - i] = other;
	}
}

int exs_qdequeue(exs_qhandle_t queue, exs_event_t *events, int count, const struct timeval *timeout)
{
	static const struct timeval none = {0, 0};

	if (broken("qdequeue.none") && !count)
		return 0;
	if (posted_count && count && take_posted(queue, events))
		return 1;
	if (broken("qdequeue.all") && count < -1 && count >= -EXS_EVTVEC_MAX)
		count = -count;
	if (broken("qdequeue.time") && timeout && (uintptr_t)timeout > 4096 && timeout->tv_usec < 1000000)
		timeout = &none;
	int ret = REAL(exs_qdequeue)(queue, events, count, timeout);

	if (ret > 0 && broken("qdequeue.loses"))
		return 0;
	for (int i = 0; i < ret; i++)
		change(&events[i]);
	if (ret > 0 && broken("qdequeue.order"))
		reverse(events, ret);
	if (ret > 0 && broken("qdequeue.twice"))
		post(queue, events[ret - 1]);
	if (ret > 0 && broken("qdequeue.count"))
		return ret + 1;
	return answered("qdequeue", ret);
}
