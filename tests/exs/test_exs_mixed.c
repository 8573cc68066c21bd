// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Both forms of the operations in one program: in each mode what the tests of the single functions
// leave to the other one. In blocking mode operations with events, in non-blocking mode operations
// that wait, and in both the abbreviations of those.

#include "setup/exs_blocking_accept_setup.h"
#include "setup/exs_blocking_close_setup.h"
#include "setup/exs_blocking_connect_setup.h"
#include "setup/exs_blocking_recv_setup.h"
#include "setup/exs_blocking_recvfile_setup.h"
#include "setup/exs_blocking_send_setup.h"
#include "setup/exs_blocking_sendfile_setup.h"
#include "setup/exs_mderegister_setup.h"
#include "setup/exs_qdelete_setup.h"
#include "setup/exs_qdequeue_setup.h"
#include "setup/exs_qmodify_setup.h"
#include "setup/exs_qstatus_setup.h"
#include "setup/exs_read_setup.h"
#include "setup/exs_recvfile_setup.h"
#include "setup/exs_write_setup.h"
#include "setup/peers.h"
#include "setup/sending_files.h"

#include <time.h>
#include <unistd.h>

static void turn(param *p)
{
	p->mode = !p->mode;
	p->flags = p->mode ? 0 : EXS_BLOCK;
}

// With events in either mode.
static void with_events(param *p)
{
	p->mode = 1;
	p->flags = 0;
}

// The two ends of a stream, each with all that it does in one form. First a message there, then one
// back from registered memory, a file there, one back, and the end.
static void converse_as_server(param *p)
{
	require(accepted(p));
	CHECK(ok_exs_recv(p) == TEST_BUFSIZE && !memcmp(p->recv_buf, p->send_buf, TEST_BUFSIZE), "not the message that was sent");
	require(ok_exs_mregister(p, p->send_store, TEST_BUFSIZE));
	require(ok_exs_send(p));
	require(ok_exs_mderegister(p));
	p->mh = EXS_MHANDLE_UNREGISTERED;
	require(make_sparse_file(p, 0));
	by_descriptor(p, 0, TEST_FILE);
	CHECK(ok_exs_recvfile(p) == TEST_FILE, "not the whole file");
	by_descriptor(p, 0, 0);
	require(ok_exs_sendfile(p, TEST_FILE));
	CHECK(ok_exs_recv(p) == 0, "something behind the file");
	require(ok_exs_close(p));
	meet(p);
}

static void peer_converses(param *p)
{
	turn(p);
	converse_as_server(p);
}

static void peer_converses_with_events(param *p)
{
	with_events(p);
	converse_as_server(p);
}

// The file that came back is that which was sent.
static void check_returned(param *p)
{
	static unsigned char bytes[TEST_FILE + 1];

	CHECK(pread(p->file_fd, bytes, sizeof(bytes), 0) == TEST_FILE, "not the whole file");
	for (int i = 0; i < TEST_FILE; i++)
		CHECK(bytes[i] == pattern(i), "byte %d is not what was sent", i);
}

static void converse_as_client(param *p)
{
	require(connected(p));
	require(ok_exs_send(p));
	require(ok_exs_mregister(p, p->recv_store, TEST_BUFSIZE));
	CHECK(ok_exs_recv(p) == TEST_BUFSIZE && !memcmp(p->recv_buf, p->send_buf, TEST_BUFSIZE), "not the message that was sent");
	require(ok_exs_mderegister(p));
	p->mh = EXS_MHANDLE_UNREGISTERED;
	require(make_file(p, TEST_FILE));
	require(ok_exs_sendfile(p, TEST_FILE));
	require(make_sparse_file(p, 0));
	by_descriptor(p, 0, TEST_FILE);
	CHECK(ok_exs_recvfile(p) == TEST_FILE, "not the whole file");
	check_returned(p);
	p->how = SHUT_WR;
	require(ok_exs_shutdown(p));
	require(ok_exs_close(p));
	print_pass(0);
}

static void converses(param *p)
{
	turn(p);
	converse_as_client(p);
}

static void converses_with_events(param *p)
{
	with_events(p);
	converse_as_client(p);
}

// The same by the abbreviations. The address is that of whom the other process is.
static void peer_abbreviates(param *p)
{
	struct sockaddr_storage from;
	socklen_t length = sizeof(from);

	require(serving(p));
	int fd = exs_blocking_accept(p->fd, (struct sockaddr *)&from, &length);
	check_socket(fd);
	CHECK(fd != p->fd, "the new socket is the one that listens");
	p->fd = fd;
	CHECK(length == p->address_len, "an address of %u bytes", length);
	require(aim(p, p->peer_addr));
	CHECK(same_host((struct sockaddr *)&from, p->address), "the address is not the peer's");
	require(ok_exs_blocking_recv(p));
	CHECK(!memcmp(p->recv_buf, p->send_buf, TEST_BUFSIZE), "not the message that was sent");
	require(ok_exs_write(p));
	require(make_sparse_file(p, 0));
	by_descriptor(p, 0, TEST_FILE);
	CHECK(ok_exs_blocking_recvfile(p) == TEST_FILE, "not the whole file");
	check_returned(p);
	char byte;
	CHECK(exs_read(p->fd, &byte, 1) == 0, "something behind the file");
	require(ok_exs_blocking_close(p));
	CHECK(exs_blocking_close(p->fd) == -1 && errno == EBADF, "the socket is still there");
	meet(p);
}

static void abbreviates(param *p)
{
	require(unconnected(p));
	require(ok_exs_blocking_connect(p));
	require(ok_exs_blocking_send(p));
	require(ok_exs_read(p));
	CHECK(!memcmp(p->recv_buf, p->send_buf, TEST_BUFSIZE), "not the message that was sent");
	require(make_file(p, TEST_FILE));
	require(ok_exs_blocking_sendfile(p));
	require(ok_exs_blocking_close(p));
	CHECK(exs_blocking_close(p->fd) == -1 && errno == EBADF, "the socket is still there");
	print_pass(0);
}

#define REFUSED_WITH(call, code)                                                                            \
	do {                                                                                                \
		errno = 0;                                                                                  \
		long answer = (call);                                                                       \
		CHECK(answer == -1 && errno == (code), #call " answers %ld, %s", answer, strerror(errno));  \
	} while (0)

// Each abbreviation of a socket that is not connected, or is none.
static void abbreviations_refused(param *p)
{
	enum { NONE = 9999 };

	REFUSED_WITH(exs_blocking_connect(NONE, p->address, p->address_len), EBADF);
	REFUSED_WITH(exs_blocking_accept(NONE, NULL, NULL), EBADF);
	REFUSED_WITH(exs_blocking_send(p->fd, p->send_buf, 1, 0, NULL), ENOTCONN);
	REFUSED_WITH(exs_blocking_recv(p->fd, p->recv_buf, 1, 0, NULL), ENOTCONN);
	REFUSED_WITH(exs_write(p->fd, p->send_buf, 1), ENOTCONN);
	REFUSED_WITH(exs_read(p->fd, p->recv_buf, 1), ENOTCONN);
	require(make_file(p, 1));
	REFUSED_WITH(exs_blocking_sendfile(p->fd, p->sendvec, 1, 0), ENOTCONN);
	REFUSED_WITH(exs_blocking_recvfile(p->fd, p->sendvec, 1, 0), ENOTCONN);
	REFUSED_WITH(exs_blocking_close(NONE), EBADF);
	print_pass(0);
}

// Each operation with events that is refused at once posts none.
static void operations_refused(param *p)
{
	enum { BAD = 2 };

	require(connected(p));
	REFUSED_WITH(exs_connect(p->fd, p->address, p->address_len, BAD, NULL, p->qh, p->ah), EINVAL);
	REFUSED_WITH(exs_connect(p->fd, p->address, p->address_len, 0, NULL, p->qh, p->ah), EINVAL);
	REFUSED_WITH(exs_accept(p->fd, p->acceptaddr, 1, BAD, p->qh), EINVAL);
	REFUSED_WITH(exs_accept(p->fd, p->acceptaddr, 0, 0, p->qh), EINVAL);
	REFUSED_WITH(exs_send(p->fd, p->send_buf, 1, BAD, p->qh, p->ah, NULL), EOPNOTSUPP);
	REFUSED_WITH(exs_recv(p->fd, p->recv_buf, 1, BAD, p->qh, p->ah, NULL), EOPNOTSUPP);
	require(make_file(p, 1));
	REFUSED_WITH(exs_sendfile(p->fd, p->sendvec, 1, BAD, p->qh, p->ah), EINVAL);
	REFUSED_WITH(exs_recvfile(p->fd, p->sendvec, 1, BAD, p->qh, p->ah), EINVAL);
	REFUSED_WITH(exs_shutdown(p->fd, SHUT_WR, BAD, p->qh, p->ah), EINVAL);
	REFUSED_WITH(exs_close(p->fd, BAD, p->qh, p->ah), EINVAL);
	expect_no_event(p);
	print_pass(0);
}

static void operations_refused_with_events(param *p)
{
	with_events(p);
	operations_refused(p);
}

static void peer_with_events(param *p)
{
	with_events(p);
	peer_accepts(p);
}

// The number of events that come within a time that is waited for to its end.
static int takes_all_its_time(const param *p, int count)
{
	static const struct timeval some = {0, 200000};
	struct timespec from, now;
	exs_event_t events[3];

	clock_gettime(CLOCK_MONOTONIC, &from);
	int ret = exs_qdequeue(p->qh, events, count, &some);
	clock_gettime(CLOCK_MONOTONIC, &now);
	long took = (now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000;
	CHECK(took >= 199, "gave up after %ld ms of 200", took);
	return ret;
}

// Several sends in progress: their events, in their order, one each; a wait for so many; and no
// more than there are.
static void events_in_order(param *p)
{
	enum { COUNT = 6 };
	static const struct timeval at_once = {0, 0};
	exs_event_t events[COUNT + 1];

	with_events(p);
	require(connected(p));
	for (uintptr_t i = 0; i < COUNT; i++)
		CHECK(!exs_send(p->fd, p->send_store + 16 * i, 16, 0, p->qh, (exs_ahandle_t)(i + 1), NULL), "exs_send: %s",
		      strerror(errno));
	p->evtvec = events;
	p->evtvec_cnt = -COUNT;
	CHECK(ok_exs_qdequeue(p) == COUNT, "not all events");
	for (uintptr_t i = 0; i < COUNT; i++) {
		CHECK(events[i].exs_evt_type == EXS_EVT_SEND && !events[i].exs_evt_errno, "event %zu: %s", (size_t)i,
		      strerror(events[i].exs_evt_errno));
		CHECK((uintptr_t)events[i].exs_evt_ahandle == i + 1, "events in another order");
	}
	CHECK(takes_all_its_time(p, 1) == 0, "another event");
	// One is there, and more are waited for.
	CHECK(!exs_send(p->fd, p->send_store, 16, 0, p->qh, p->ah, NULL), "exs_send: %s", strerror(errno));
	for (int count = 0; !count;)
		CHECK(!exs_qstatus(p->qh, EXS_QATTR_EVENTS, &count, sizeof(count)), "exs_qstatus: %s", strerror(errno));
	CHECK(takes_all_its_time(p, -3) == 1, "not one event");
	REFUSED_WITH(exs_qdequeue(p->qh, events, 0, &at_once), EINVAL);
	p->how = SHUT_WR;
	require(ok_exs_shutdown(p));
	print_pass(0);
}

// A failure comes in the event: nobody listens there.
static void failure_in_event(param *p)
{
	with_events(p);
	require(unconnected(p));
	aim_port(p, 7);
	CHECK(!exs_connect(p->fd, p->address, p->address_len, 0, NULL, p->qh, p->ah), "exs_connect: %s", strerror(errno));
	take_event(p, EXS_EVT_CONNECT, p->fd, ECONNREFUSED);
	print_pass(0);
}

// A message longer than its buffer is said to be cut; a receive at the end says that it is the end.
static void peer_sends_a_message(param *p)
{
	with_events(p);
	p->socktype = SOCK_SEQPACKET;
	require(connected(p));
	require(ok_exs_send(p));
	require(ok_exs_close(p));
	meet(p);
}

static void cut_and_end(param *p)
{
	with_events(p);
	p->socktype = SOCK_SEQPACKET;
	require(accepted(p));
	p->RECV_BUFSIZE = 100;
	CHECK(!exs_recv(p->fd, p->recv_buf, 100, 0, p->qh, p->ah, p->mh), "exs_recv: %s", strerror(errno));
	exs_event_t event = take_event(p, EXS_EVT_RECV, p->fd, 0);
	CHECK(transferred(&event, p->recv_buf, p->mh) == 100, "not 100 bytes");
	CHECK(event.exs_evt_union.exs_evt_xfer.exs_evt_flags & MSG_TRUNC, "the event does not say MSG_TRUNC");
	CHECK(ok_exs_recv(p) == 0, "another message");
	print_pass(0);
}

// The event of an accept has the peer's address, where it was wanted, with its length, and the new
// socket.
static void accept_event(param *p)
{
	static struct sockaddr_storage from;

	with_events(p);
	require(serving(p));
	p->acceptaddr[0] = (exs_acceptaddr_t){(struct sockaddr *)&from, sizeof(from), -1, p->ah};
	CHECK(!exs_accept(p->fd, p->acceptaddr, 1, 0, p->qh), "exs_accept: %s", strerror(errno));
	exs_event_t event = take_event(p, EXS_EVT_ACCEPT, p->fd, 0);
	const exs_evt_accept_t *accept = &event.exs_evt_union.exs_evt_accept;
	check_socket(accept->exs_evt_newsocket);
	CHECK(accept->exs_evt_newsocket == p->acceptaddr[0].exs_newsocket, "event and element name different sockets");
	CHECK(accept->exs_evt_addr == (struct sockaddr *)&from, "the event names another address");
	CHECK(accept->exs_evt_addrlen == p->address_len, "an address of %u bytes", accept->exs_evt_addrlen);
	require(aim(p, p->peer_addr));
	CHECK(same_host((struct sockaddr *)&from, p->address), "the address is not the peer's");
	print_pass(0);
}

// The element of an accept that waits has them, too.
static void accept_element(param *p)
{
	static struct sockaddr_storage from;
	exs_acceptaddr_t element = {(struct sockaddr *)&from, sizeof(from), -1, NULL};

	require(serving(p));
	CHECK(!exs_accept(p->fd, &element, 1, EXS_BLOCK, NULL), "exs_accept: %s", strerror(errno));
	check_socket(element.exs_newsocket);
	CHECK(element.exs_newsocket != p->fd, "the new socket is the one that listens");
	CHECK(element.exs_addrlen == p->address_len, "an address of %u bytes", element.exs_addrlen);
	require(aim(p, p->peer_addr));
	CHECK(same_host((struct sockaddr *)&from, p->address), "the address is not the peer's");
	print_pass(0);
}

// What is in use stays: a queue and memory, while a receive has them. What is not, goes once.
static void busy(param *p)
{
	with_events(p);
	require(connected(p));
	require(ok_exs_mregister(p, p->recv_store, TEST_BUFSIZE));
	CHECK(!exs_recv(p->fd, p->recv_buf, p->RECV_BUFSIZE, 0, p->qh, p->ah, p->mh), "exs_recv: %s", strerror(errno));
	REFUSED_WITH(exs_qdelete(p->qh), EBUSY);
	REFUSED_WITH(exs_mderegister(p->mh, 0), EBUSY);
	hang_up(p);
	take_event(p, EXS_EVT_RECV, p->fd, ECANCELED);
	require(ok_exs_mderegister(p));
	REFUSED_WITH(exs_mderegister(p->mh, 0), EINVAL);
	p->depth = 77;
	require(ok_exs_qmodify(p));
	p->depth = 0;
	require(ok_exs_qstatus(p));
	CHECK(p->depth >= 77, "a depth of %d", p->depth);
	require(ok_exs_qdelete(p));
	REFUSED_WITH(exs_qdelete(p->qh), EINVAL);
	print_pass(0);
}

// Nobody is told of what nobody wants to be told of; all else is told. The number of events says so
// before they are taken.
static void unsignaled(param *p)
{
	int count = -1;

	with_events(p);
	require(connected(p));
	CHECK(!exs_send(p->fd, p->send_buf, 10, EXS_UNSIGNALED, p->qh, NULL, NULL), "exs_send: %s", strerror(errno));
	CHECK(!exs_send(p->fd, p->send_buf, 10, 0, p->qh, p->ah, NULL), "exs_send: %s", strerror(errno));
	while (count < 1)
		CHECK(!exs_qstatus(p->qh, EXS_QATTR_EVENTS, &count, sizeof(count)), "exs_qstatus: %s", strerror(errno));
	take_event(p, EXS_EVT_SEND, p->fd, 0);
	CHECK(!exs_qstatus(p->qh, EXS_QATTR_EVENTS, &count, sizeof(count)) && count == 0, "%d events of one", count);
	expect_no_event(p);
	hang_up(p);
	print_pass(0);
}

static const struct test_case all_tests[] = {
	{1, OK(OK_MIXED), "all operations in the other form", .peer = peer_converses, .run = converses},
	{2, OK(OK_MIXED), "all abbreviations", .peer = peer_abbreviates, .run = abbreviates},
	{3, OK(OK_MIXED), "all abbreviations are refused", .state = with_socket, .run = abbreviations_refused},
	{4, OK(OK_MIXED), "all operations with events are refused", .peer = peer_with_events, .run = operations_refused_with_events},
	{5, OK(OK_MIXED), "several sends and their events", .peer = peer_drains, .run = events_in_order},
	{6, OK(OK_MIXED), "a failure is told in the event", .peer = peer_listens, .run = failure_in_event},
	{7, OK(OK_MIXED), "a message is cut, the stream ends", .peer = peer_sends_a_message, .run = cut_and_end},
	{8, OK(OK_MIXED), "exs_accept() with an event", .peer = peer_connects, .run = accept_event},
	{9, OK(OK_MIXED), "exs_accept() that waits", .peer = peer_connects, .run = accept_element},
	{10, OK(OK_MIXED), "memory and queue are in use", .peer = peer_accepts, .run = busy},
	{11, OK(OK_MIXED), "sends with and without an event", .peer = peer_drains, .run = unsignaled},
	{12, OK(OK_MIXED), "all operations with events", .peer = peer_converses_with_events, .run = converses_with_events},
};

PROGRAM("mixed", NULL, .group = "5.4")
