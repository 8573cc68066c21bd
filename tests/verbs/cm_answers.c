// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What librdmacm asks about an id is answered from what came along with the id's events. Here
// things happen to ids after that: by the program's own commands, on other channels, by the peer,
// in children. What is answered then must be what is true then. The ids have no queue pairs.

#include "cm_ids.h"
#include "own_address.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { IDS = 65536, GET_EVENT = 12, INIT_QP_ATTR = 11, LINGERS_MS = 20000 };

// The kernel's ABI, for questions that librdmacm would not ask.
struct command {
	uint32_t number;
	uint16_t in, out;
	uint64_t response;
	uint32_t id, state;
};

static int ask(int fd, uint32_t number, uint32_t id, void *answer, uint16_t room)
{
	struct command command = {.number = number, .in = number == GET_EVENT ? 8 : 16, .out = room};
	ssize_t len = 8 + command.in;

	command.response = (uintptr_t)answer;
	command.id = id;
	command.state = IBV_QPS_RTR;
	return write(fd, &command, len) == len ? 0 : errno;
}

// 0 or the errno.
static int attributes(struct rdma_cm_id *id, enum ibv_qp_state state, struct ibv_qp_attr *attr)
{
	int mask;

	attr->qp_state = state;
	return rdma_init_qp_attr(id, attr, &mask) ? errno : 0;
}

static int in_state(struct rdma_cm_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr;

	return attributes(id, state, &attr);
}

// How many ids a channel answers about; the kernel's numbers of ids are not the program's to know.
static int answers_on(int fd)
{
	char answer[512];
	int n = 0;

	for (uint32_t id = 0; id < IDS / 16; id++)
		n += !ask(fd, INIT_QP_ATTR, id, answer, sizeof(answer));
	return n;
}

static void options_count_at_once(void)
{
	struct pair p;
	struct rdma_conn_param param = parameters();
	struct ibv_qp_attr attr;
	uint8_t timeout = 21;

	request(&p);
	CHECK_EQ(attributes(p.passive, IBV_QPS_RTS, &attr), 0);
	CHECK(attr.timeout != timeout, "the timeout is %d already", timeout);
	CHECK(!rdma_set_option(p.passive, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout)),
	      "rdma_set_option: %s", strerror(errno));
	CHECK_EQ(attributes(p.passive, IBV_QPS_RTS, &attr), 0);
	CHECK_EQ(attr.timeout, timeout);

	CHECK(!rdma_accept(p.passive, &param), "rdma_accept: %s", strerror(errno));
	expect_event(p.client, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	CHECK_EQ(attributes(p.active, IBV_QPS_RTR, &attr), 0);
	CHECK_EQ(attr.dest_qp_num, param.qp_num);
}

static void refused_requests_have_no_way_on(void)
{
	struct pair p;

	request(&p);
	CHECK_EQ(in_state(p.passive, IBV_QPS_RTR), 0);
	CHECK(!rdma_reject(p.passive, NULL, 0), "rdma_reject: %s", strerror(errno));
	CHECK_EQ(in_state(p.passive, IBV_QPS_RTR), EINVAL);
}

// Of a request that is taken back before it is accepted no event tells.
static void requests_taken_back_have_no_way_on(void)
{
	struct pair p;
	struct timespec pause = {.tv_nsec = 1000000};
	int error;

	request(&p);
	CHECK_EQ(in_state(p.passive, IBV_QPS_RTR), 0);
	CHECK_EQ(rdma_destroy_id(p.active), 0);
	for (int waited = 0; !(error = in_state(p.passive, IBV_QPS_RTR)); waited++) {
		CHECK(waited < LINGERS_MS, "it is as if nothing had happened");
		nanosleep(&pause, NULL);
	}
	CHECK_EQ(error, EINVAL);
}

static void connections_that_ended_have_no_way_on(void)
{
	struct pair p;

	establish(&p);
	CHECK_EQ(in_state(p.active, IBV_QPS_RTS), 0);
	CHECK(!rdma_disconnect(p.passive), "rdma_disconnect: %s", strerror(errno));
	expect_event(p.client, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK(!rdma_disconnect(p.active), "rdma_disconnect: %s", strerror(errno));
	CHECK_EQ(in_state(p.active, IBV_QPS_RTS), EINVAL);
}

static void a_new_id_has_nothing_of_an_old_one(void)
{
	struct pair p;
	struct rdma_cm_id *fresh;

	request(&p);
	CHECK_EQ(in_state(p.passive, IBV_QPS_RTR), 0);
	// The listener is one, too.
	CHECK_EQ(answers_on(p.server->fd), 2);
	CHECK_EQ(rdma_destroy_id(p.passive), 0);
	CHECK_EQ(answers_on(p.server->fd), 1);
	// One of them has the number of the one that went.
	for (int i = 0; i < 8; i++) {
		fresh = new_id(p.server);
		CHECK_EQ(in_state(fresh, IBV_QPS_INIT), EINVAL);
	}
	CHECK_EQ(answers_on(p.server->fd), 1);
}

static void answers_move_with_their_id(void)
{
	struct pair p;
	struct rdma_event_channel *other = new_channel();
	struct ibv_qp_attr before, after;
	char answer[512];

	request(&p);
	CHECK_EQ(attributes(p.passive, IBV_QPS_RTR, &before), 0);
	CHECK_EQ(answers_on(other->fd), 0);
	CHECK(!rdma_migrate_id(p.passive, other), "rdma_migrate_id: %s", strerror(errno));
	CHECK_EQ(attributes(p.passive, IBV_QPS_RTR, &after), 0);
	CHECK_EQ(after.dest_qp_num, before.dest_qp_num);
	CHECK_EQ(after.rq_psn, before.rq_psn);
	CHECK_EQ(answers_on(p.server->fd), 1);
	CHECK_EQ(answers_on(other->fd), 1);
	CHECK_EQ(ask(other->fd, INIT_QP_ATTR, IDS, answer, sizeof(answer)), ENOENT);
}

static void copies_of_a_channel_are_the_channel(void)
{
	struct pair p;
	char answer[512];
	int copy;

	request(&p);
	copy = dup(p.server->fd);
	CHECK(copy >= 0, "dup: %s", strerror(errno));
	CHECK_EQ(answers_on(copy), 2);
	CHECK_EQ(rdma_destroy_id(connecting(p.client, &p.address)), 0);
	// What is taken through one is not there for the other.
	CHECK(readable(p.server, EVENT_MS), "no request");
	CHECK_EQ(ask(copy, GET_EVENT, 0, answer, sizeof(answer)), 0);
	CHECK(!readable(p.server, 0), "the event is there twice");
	CHECK_EQ(rdma_destroy_id(p.passive), 0);
	CHECK_EQ(close(copy), 0);
}

static void a_child_is_told_nothing(void)
{
	struct pair p;
	struct rdma_cm_id *second;
	int status;
	pid_t child;

	request(&p);
	second = connecting(p.client, &p.address);
	CHECK(readable(p.server, EVENT_MS), "no request");
	CHECK_EQ(in_state(p.passive, IBV_QPS_RTR), 0);
	child = fork();
	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (!child) {
		char answer[512];
		struct pair own;

		if (in_state(p.passive, IBV_QPS_RTR) != EACCES)
			_exit(1);
		if (ask(p.server->fd, GET_EVENT, 0, answer, sizeof(answer)) != EACCES)
			_exit(2);
		// With channels of its own it is like any other process.
		request(&own);
		_exit(in_state(own.passive, IBV_QPS_RTR) ? 3 : 0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "the child: %#x", status);
	// The event is still there.
	CHECK_EQ(rdma_destroy_id(requested(p.server)), 0);
	CHECK_EQ(rdma_destroy_id(second), 0);
}

static void events_stay_when_there_is_no_place_for_them(void)
{
	struct pair p;
	struct rdma_cm_event *event;
	char answer[512];

	prepare(&p);
	p.active = connecting(p.client, &p.address);
	CHECK(readable(p.server, EVENT_MS), "no request");
	CHECK_EQ(ask(p.server->fd, GET_EVENT, 0, (void *)8, sizeof(answer)), EFAULT);
	CHECK_EQ(ask(p.server->fd, GET_EVENT, 0, answer, 16), ENOSPC);
	event = event_of(p.server, RDMA_CM_EVENT_CONNECT_REQUEST);
	p.passive = event->id;
	rdma_ack_cm_event(event);
	CHECK_EQ(in_state(p.passive, IBV_QPS_INIT), 0);
	// Nor does an answer go where there is no place.
	for (uint32_t id = 0, found = 0; !found; id++) {
		CHECK(id < IDS, "no id is answered about");
		found = !ask(p.server->fd, INIT_QP_ATTR, id, answer, sizeof(answer));
		if (found)
			CHECK_EQ(ask(p.server->fd, INIT_QP_ATTR, id, (void *)8, sizeof(answer)), EFAULT);
	}
}

// Four requests, every other of which goes with its listener.
static void events_of_others_stay_in_order(void)
{
	struct pair p, last;
	struct rdma_cm_id *other, *active[4];
	struct rdma_cm_event *event;
	struct sockaddr_in address = own_address(0);

	prepare(&p);
	other = listener_on(p.server, &address);
	for (int i = 0; i < 4; i++) {
		struct rdma_conn_param param = parameters();

		active[i] = resolved(p.client, i % 2 ? &address : &p.address);
		param.private_data = &i;
		param.private_data_len = sizeof(i);
		CHECK(!rdma_connect(active[i], &param), "rdma_connect: %s", strerror(errno));
	}
	// When another one has come, they have too.
	request(&last);
	CHECK_EQ(rdma_destroy_id(p.listener), 0);
	expect_event(p.client, RDMA_CM_EVENT_REJECTED, 28);
	expect_event(p.client, RDMA_CM_EVENT_REJECTED, 28);
	for (int i = 1; i < 4; i += 2) {
		event = event_of(p.server, RDMA_CM_EVENT_CONNECT_REQUEST);
		CHECK(event->listen_id == other, "another listener's");
		CHECK_EQ(*(const int *)event->param.conn.private_data, i);
		CHECK_EQ(in_state(event->id, IBV_QPS_RTR), 0);
		rdma_ack_cm_event(event);
	}
	CHECK(!readable(p.server, 0), "an event too many");
	// All that was taken has been acknowledged, so this does not wait.
	CHECK_EQ(rdma_destroy_id(other), 0);
}

// A listener of one waiting request has room again as soon as that is taken; a request that finds
// none comes again seconds later.
static void a_request_that_is_taken_makes_room(void)
{
	struct pair p;
	struct sockaddr_in address = own_address(0);

	prepare(&p);
	CHECK_EQ(rdma_destroy_id(p.listener), 0);
	p.listener = new_id(p.server);
	CHECK(!rdma_bind_addr(p.listener, (struct sockaddr *)&address), "rdma_bind_addr: %s", strerror(errno));
	CHECK(!rdma_listen(p.listener, 1), "rdma_listen: %s", strerror(errno));
	address.sin_port = rdma_get_src_port(p.listener);
	for (int i = 0; i < 5; i++) {
		connecting(p.client, &address);
		CHECK(readable(p.server, 3000), "request %d is not there", i);
		requested(p.server);
	}
}

// Events have the peer's two depths the other way round: what one side may have outstanding is what
// the other has room for.
static void depths_are_the_peers_turned_round(void)
{
	struct pair p;
	struct rdma_conn_param asks = parameters(), answers = parameters();
	struct rdma_cm_event *event;
	struct ibv_qp_attr attr;

	prepare(&p);
	p.active = resolved(p.client, &p.address);
	asks.responder_resources = 4;
	asks.initiator_depth = 2;
	CHECK(!rdma_connect(p.active, &asks), "rdma_connect: %s", strerror(errno));
	event = event_of(p.server, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK_EQ(event->param.conn.responder_resources, 2);
	CHECK_EQ(event->param.conn.initiator_depth, 4);
	p.passive = event->id;
	rdma_ack_cm_event(event);

	answers.responder_resources = 1;
	answers.initiator_depth = 3;
	CHECK(!rdma_accept(p.passive, &answers), "rdma_accept: %s", strerror(errno));
	event = event_of(p.client, RDMA_CM_EVENT_CONNECT_RESPONSE);
	CHECK_EQ(event->param.conn.responder_resources, 3);
	CHECK_EQ(event->param.conn.initiator_depth, 1);
	rdma_ack_cm_event(event);

	CHECK_EQ(attributes(p.active, IBV_QPS_RTR, &attr), 0);
	CHECK_EQ(attr.max_dest_rd_atomic, 3);
	CHECK_EQ(attributes(p.active, IBV_QPS_RTS, &attr), 0);
	CHECK_EQ(attr.max_rd_atomic, 1);
	CHECK_EQ(attributes(p.passive, IBV_QPS_RTR, &attr), 0);
	CHECK_EQ(attr.max_dest_rd_atomic, 1);
	CHECK_EQ(attributes(p.passive, IBV_QPS_RTS, &attr), 0);
	CHECK_EQ(attr.max_rd_atomic, 3);
}

// Whether READs are answered is known from the own request on.
static void a_request_says_whether_reads_are_answered(void)
{
	static const int reads = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct rdma_event_channel *server = new_channel(), *client = new_channel();
	struct sockaddr_in address = own_address(0);
	struct ibv_qp_attr attr;

	listener_on(server, &address);
	for (int resources = 0; resources <= 4; resources += 4) {
		struct rdma_cm_id *active = resolved(client, &address);
		struct rdma_conn_param param = parameters();

		param.responder_resources = resources;
		CHECK(!rdma_connect(active, &param), "rdma_connect: %s", strerror(errno));
		CHECK_EQ(attributes(active, IBV_QPS_INIT, &attr), 0);
		CHECK_EQ(attr.qp_access_flags, IBV_ACCESS_REMOTE_WRITE | (resources ? reads : 0));
		CHECK_EQ(rdma_destroy_id(requested(server)), 0);
		expect_event(client, RDMA_CM_EVENT_REJECTED, 28);
		CHECK_EQ(rdma_destroy_id(active), 0);
	}
}

#define T(name) {#name, name, 0}
PROGRAM(T(options_count_at_once), T(refused_requests_have_no_way_on), T(requests_taken_back_have_no_way_on),
	T(connections_that_ended_have_no_way_on), T(a_new_id_has_nothing_of_an_old_one), T(answers_move_with_their_id),
	T(copies_of_a_channel_are_the_channel), T(a_child_is_told_nothing),
	T(events_stay_when_there_is_no_place_for_them), T(events_of_others_stay_in_order),
	T(a_request_that_is_taken_makes_room), T(depths_are_the_peers_turned_round),
	T(a_request_says_whether_reads_are_answered))
