// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Event channels as the descriptors that they are: waiting for events with poll and epoll, without
// waiting, what interrupts it, who may use a channel, its end, and having no more descriptors.

#include "cm_ids.h"
#include "interrupter.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// More than wait in the channel's own descriptor at once.
enum { MORE = 150 };

static void do_not_block(struct rdma_event_channel *channel)
{
	int flags = fcntl(channel->fd, F_GETFL);

	CHECK_EQ(fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK), 0);
}

static void channels_poll(void)
{
	struct pair p;
	struct rdma_cm_event *event;

	prepare(&p);
	CHECK(!readable(p.server, 0), "readable without an event");
	do_not_block(p.server);
	CHECK(rdma_get_cm_event(p.server, &event) == -1 && errno == EAGAIN, "without waiting: %s", strerror(errno));
	p.active = connecting(p.client, &p.address);
	CHECK(readable(p.server, EVENT_MS), "not readable with an event");
	p.passive = requested(p.server);
	CHECK(!readable(p.server, 0), "readable after the last event");
	// Unread events go with their id.
	CHECK_EQ(rdma_destroy_id(p.active), 0);
	CHECK_EQ(rdma_destroy_id(p.passive), 0);
	p.active = connecting(p.client, &p.address);
	CHECK(readable(p.server, EVENT_MS), "not readable with another event");
	CHECK_EQ(rdma_destroy_id(p.listener), 0);
	CHECK(!readable(p.server, 0), "readable though the event's id is gone");
	expect_event(p.client, RDMA_CM_EVENT_REJECTED, 28);
}

static void watch(int epoll, struct rdma_event_channel *channel, uint32_t how)
{
	struct epoll_event event = {.events = how, .data.ptr = channel};

	CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, channel->fd, &event), "epoll_ctl: %s", strerror(errno));
}

// The channel of which epoll tells, which is that there is something to read and nothing else; NULL
// for none.
static struct rdma_event_channel *told(int epoll, int milliseconds)
{
	struct epoll_event event;
	int n = epoll_wait(epoll, &event, 1, milliseconds);

	CHECK(n >= 0, "epoll_wait: %s", strerror(errno));
	if (!n)
		return NULL;
	CHECK_EQ(event.events, EPOLLIN);
	return event.data.ptr;
}

// Takes the requests that there are, of a channel that does not block.
static int drain(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;
	int n = 0;

	for (; !rdma_get_cm_event(channel, &event); n++) {
		CHECK_EQ(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
		rdma_ack_cm_event(event);
	}
	CHECK_EQ(errno, EAGAIN);
	return n;
}

// Requests that nobody has taken yet.
static void untaken(struct pair *p, int count)
{
	struct pair last;

	for (int i = 0; i < count; i++)
		connecting(p->client, &p->address);
	// A later one is there, and whoever brings events has done something else since: so these
	// are, too.
	request(&last);
	CHECK_EQ(rdma_destroy_id(last.active), 0);
}

static void epoll_tells_as_long_as_there_are_events(void)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct pair p, other;

	prepare(&p);
	prepare(&other);
	watch(epoll, p.server, EPOLLIN);
	watch(epoll, other.server, EPOLLIN);
	do_not_block(p.server);
	CHECK(!told(epoll, 0), "told without an event");
	untaken(&p, 3);
	for (int i = 0; i < 3; i++) {
		CHECK(told(epoll, EVENT_MS) == p.server, "not told of event %d", i);
		CHECK(told(epoll, 0) == p.server, "not told again of event %d", i);
		requested(p.server);
	}
	CHECK(!told(epoll, 0), "told after the last event");
	CHECK_EQ(drain(p.server), 0);
	untaken(&other, 1);
	CHECK(told(epoll, EVENT_MS) == other.server, "not told of the other channel");
}

static void edges_tell_once_of_what_is_new(void)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct pair p;

	prepare(&p);
	watch(epoll, p.server, EPOLLIN | EPOLLET);
	do_not_block(p.server);
	untaken(&p, 3);
	CHECK(told(epoll, EVENT_MS) == p.server, "not told");
	CHECK(!told(epoll, 0), "told twice");
	requested(p.server);
	CHECK(!told(epoll, 0), "told of what is not new");
	CHECK(readable(p.server, 0), "not readable with two events");
	untaken(&p, 1);
	CHECK(told(epoll, EVENT_MS) == p.server, "not told of what is new");
	CHECK_EQ(drain(p.server), 3);
	CHECK(!told(epoll, 0), "told after the last event");
	// Whoever begins to watch is told of what there is.
	untaken(&p, 1);
	CHECK(told(epoll, EVENT_MS) == p.server, "not told");
	CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_DEL, p.server->fd, NULL), 0);
	watch(epoll, p.server, EPOLLIN | EPOLLET);
	CHECK(told(epoll, 0) == p.server, "not told of what was there before");
	CHECK_EQ(drain(p.server), 1);
}

// Who takes all there is whenever it is told, and nothing in between, gets everything.
static void no_edge_is_missing(void)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), taken = 0;
	struct pair p;

	prepare(&p);
	watch(epoll, p.server, EPOLLIN | EPOLLET);
	do_not_block(p.server);
	untaken(&p, MORE);
	while (taken < MORE) {
		CHECK(told(epoll, EVENT_MS) == p.server, "not told after %d of %d", taken, MORE);
		taken += drain(p.server);
	}
	CHECK_EQ(taken, MORE);
	CHECK(!told(epoll, 0), "told after the last event");
}

static void interrupted(int signal)
{
	(void)signal;
}

static void waiting_is_interrupted(void)
{
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_event *event;
	struct sigaction action = {.sa_handler = interrupted};

	sigaction(SIGALRM, &action, NULL);
	ualarm(200000, 0);
	CHECK(rdma_get_cm_event(channel, &event) == -1 && errno == EINTR, "%s", strerror(errno));
}

// A thread that has just taken a step of a connection does not sleep at first.
static void waiting_for_an_answer_is_interrupted(void)
{
	enum { ROUNDS = 100 };
	struct pair p;
	int again = 0;

	prepare(&p);
	handle(0);
	for (int round = 0; round < ROUNDS; round++) {
		struct rdma_cm_event *event;

		p.active = connecting(p.client, &p.address);
		begin_wait(interrupt, 5 + round % 20 * 10);
		int result = rdma_get_cm_event(p.client, &event), why = errno;

		end_wait();
		CHECK(result == -1 && why == EINTR, "%d, %s", result, strerror(why));
		CHECK_EQ(atomic_exchange(&handled, 0), sent);
		again += sent > 1;
		p.passive = requested(p.server);
		CHECK_EQ(rdma_destroy_id(p.active), 0);
		CHECK_EQ(rdma_destroy_id(p.passive), 0);
	}
	CHECK(again <= ROUNDS / 10, "%d of %d first signals did not end the wait", again, ROUNDS);
}

// The id of the request that is not answered yet.
static struct rdma_cm_id *asking;

static void *signal_and_reject(void *unused)
{
	(void)unused;
	signal_waiter();
	sleep_us(2000);
	CHECK(!rdma_reject(asking, NULL, 0), "rdma_reject: %s", strerror(errno));
	return NULL;
}

static void a_handler_that_restarts_does_not(void)
{
	struct pair p;

	prepare(&p);
	handle(SA_RESTART);
	for (int round = 0; round < 50; round++) {
		struct rdma_cm_event *event;

		p.active = connecting(p.client, &p.address);
		asking = requested(p.server);
		begin_wait(signal_and_reject, round * 4);
		CHECK(!rdma_get_cm_event(p.client, &event), "rdma_get_cm_event: %s", strerror(errno));
		CHECK_EQ(event->event, RDMA_CM_EVENT_REJECTED);
		rdma_ack_cm_event(event);
		end_wait();
		CHECK_EQ(atomic_exchange(&handled, 0), 1);
		CHECK_EQ(rdma_destroy_id(p.active), 0);
		CHECK_EQ(rdma_destroy_id(asking), 0);
	}
}

UNGUARDED static void *wait_for_an_event(void *channel)
{
	struct rdma_cm_event *event;

	atomic_store(&waits, 1);
	rdma_get_cm_event(channel, &event);
	return NULL;
}

// As rping ends its threads.
static void a_thread_that_waits_is_cancelled(void)
{
	struct pair p;

	prepare(&p);
	for (int round = 0; round < 50; round++) {
		cancel(wait_for_an_event, p.client, round * 4);
		CHECK_EQ(rdma_destroy_id(new_id(p.client)), 0);
	}
	p.active = connecting(p.client, &p.address);
	p.passive = requested(p.server);
}

static void a_child_cannot_use_its_parents_channel(void)
{
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id;
	int status;
	pid_t child = fork();

	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (!child) {
		struct rdma_event_channel *own;

		if (!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) || errno != EACCES)
			_exit(1);
		own = rdma_create_event_channel();
		_exit(!own || rdma_create_id(own, &id, NULL, RDMA_PS_TCP) ? 2 : 0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(WEXITSTATUS(status), 0);
	id = new_id(channel);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

static void no_more_descriptors(void)
{
	struct rdma_event_channel *channels[64], *channel = new_channel();
	struct rlimit limit;
	int n = 0;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = channel->fd + 16;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	while (n < 64 && (channels[n] = rdma_create_event_channel()))
		n++;
	CHECK(n < 64 && errno == EMFILE, "after %d channels: %s", n, strerror(errno));
	// Those that there are go on to work.
	for (int i = 0; i < n; i++) {
		CHECK_EQ(rdma_destroy_id(new_id(channels[i])), 0);
		rdma_destroy_event_channel(channels[i]);
	}
	channels[0] = rdma_create_event_channel();
	CHECK(channels[0], "after some were closed: %s", strerror(errno));
}

static struct rdma_event_channel *last_channel;
static atomic_bool last_closed;

static void *come_for_an_event(void *unused)
{
	struct rdma_cm_event *event;

	(void)unused;
	while (!last_closed)
		;
	rdma_get_cm_event(last_channel, &event);
	exit(255);
}

// As rping ends: it closes the channel while a thread of its may come back for the next event, and
// takes an error for the end.
static void ending_with_a_thread_at_the_channel(void)
{
	pid_t child = fork();
	pthread_t thread;
	int status;

	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (!child) {
		last_channel = rdma_create_event_channel();
		if (!last_channel || pthread_create(&thread, NULL, come_for_an_event, NULL))
			_exit(1);
		close(last_channel->fd);
		last_closed = true;
		usleep(50000);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "wait status %#x", status);
}

static void a_closed_channel(void)
{
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	struct stat about;
	int other, copy = dup(channel->fd);

	CHECK_EQ(close(channel->fd), 0);
	CHECK(rdma_get_cm_event(channel, &event) == -1 && errno == EBADF, "an event: %s", strerror(errno));
	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == -1 && errno == EBADF, "an id: %s", strerror(errno));
	// The error is late, and what is waited for until then is a cancellation point.
	cancel(wait_for_an_event, channel, 20000);
	// The number is another file's now, and what is written goes there.
	other = open("/dev/null", O_WRONLY);
	CHECK_EQ(other, channel->fd);
	CHECK(!fstat(other, &about) && S_ISCHR(about.st_mode), "what it is");
	CHECK_EQ(write(other, "0123456789abcdef", 16), 16);
	// A copy is the channel still.
	channel->fd = copy;
	CHECK_EQ(rdma_destroy_id(new_id(channel)), 0);
	rdma_destroy_event_channel(channel);
	CHECK_EQ(close(other), 0);
}

#define T(name) {#name, name, 0}
PROGRAM(T(channels_poll), T(epoll_tells_as_long_as_there_are_events), T(edges_tell_once_of_what_is_new), T(no_edge_is_missing),
	T(waiting_is_interrupted), T(waiting_for_an_answer_is_interrupted), T(a_handler_that_restarts_does_not),
	T(a_thread_that_waits_is_cancelled),
	T(a_child_cannot_use_its_parents_channel), T(no_more_descriptors),
	T(ending_with_a_thread_at_the_channel), T(a_closed_channel))
