// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Programs that fork: the parent's objects go on working, and a child can open the device for
// itself.

#include "endpoint.h"
#include "own_address.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct address remote;

static void post_ok(int result)
{
	CHECK(result == 0, "posting: %s", strerror(result));
}

static void traffic(struct endpoint *e, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		fill(e->buffer, 20000, i);
		post_ok(post(e, i, IBV_WR_RDMA_WRITE, 0, 20000, &remote, 0, 0));
		expect_wc(e->send_cq, i, IBV_WC_SUCCESS);
		remote_check(0, 0, 20000, i, "written");
	}
}

static void reap(pid_t child, const char *what)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s ended with status %#x", what, status);
}

// A child that lives beside, and one that exits through all its exit handlers.
static void child_beside(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);

	traffic(e, 20);
	pid_t child = fork();

	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (child == 0) {
		usleep(500000);
		exit(0);
	}
	traffic(e, 50);
	reap(child, "the child");
	traffic(e, 50);
}

static void child_execs(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);

	traffic(e, 5);
	for (int i = 0; i < 10; i++) {
		pid_t child = fork();

		CHECK(child >= 0, "fork: %s", strerror(errno));
		if (child == 0) {
			execl("/bin/true", "true", NULL);
			_exit(1);
		}
		traffic(e, 5);
		reap(child, "true");
	}
}

// The child uses the device on its own while the parent goes on.
static void child_opens_device(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);

	traffic(e, 5);
	pid_t child = fork();

	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (child == 0) {
		struct endpoint *a = open_endpoint(&(struct options){0}), *b = open_endpoint(&(struct options){0});
		struct address to_a = address_of(a), to_b = address_of(b);

		connect_endpoint(a, &to_b, NULL);
		connect_endpoint(b, &to_a, NULL);
		for (int i = 0; i < 50; i++) {
			fill(a->buffer, 20000, i);
			post_ok(post(a, i, IBV_WR_RDMA_WRITE, 0, 20000, &to_b, 0, 0));
			expect_wc(a->send_cq, i, IBV_WC_SUCCESS);
			check_filled(b->buffer, 20000, i, "in the child");
		}
		_exit(0);
	}
	traffic(e, 50);
	reap(child, "the child");
	traffic(e, 5);
}

enum { SIBLINGS = 3, NUMBERS = 4, RESOLVED_MS = 2000 };

// What a process has that nobody is to guess from another's.
struct numbers {
	uint32_t rkeys[NUMBERS];
	// Without the slot, which is the process's own anyway.
	uint32_t qpns[NUMBERS];
	// Those that connections of rdma_cm would begin with.
	uint32_t psns[NUMBERS];
};

static void await(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	CHECK(!rdma_get_cm_event(channel, &event), "rdma_get_cm_event: %s", strerror(errno));
	CHECK(event->event == wanted, "%s, not %s", rdma_event_str(event->event), rdma_event_str(wanted));
	rdma_ack_cm_event(event);
}

static uint32_t first_psn(struct rdma_event_channel *channel, struct sockaddr_in *to)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	struct rdma_cm_id *id;
	int mask;

	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id: %s", strerror(errno));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)to, RESOLVED_MS), "rdma_resolve_addr: %s", strerror(errno));
	await(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_init_qp_attr(id, &attr, &mask), "rdma_init_qp_attr: %s", strerror(errno));
	CHECK_EQ(rdma_destroy_id(id), 0);
	return attr.rq_psn;
}

static struct numbers draw(void)
{
	struct numbers numbers;

	for (int i = 0; i < NUMBERS; i++) {
		struct endpoint *e = open_endpoint(&(struct options){0});

		numbers.rkeys[i] = e->mr->rkey;
		numbers.qpns[i] = e->qp->qp_num & 0xffff;
	}
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in address = own_address(1);

	CHECK(channel, "rdma_create_event_channel: %s", strerror(errno));
	for (int i = 0; i < NUMBERS; i++) {
		numbers.psns[i] = first_psn(channel, &address);
		CHECK(numbers.psns[i] >> 24 == 0, "PSN %#x", numbers.psns[i]);
	}
	rdma_destroy_event_channel(channel);
	return numbers;
}

enum { ASKED = 300 };

// Commands whose answers differ from process to process, so that one who took another's notices.
static void ask_much(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in address = own_address(0);

	CHECK(channel, "rdma_create_event_channel: %s", strerror(errno));
	for (int i = 0; i < ASKED; i++) {
		struct rdma_cm_id *id;

		CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id: %s", strerror(errno));
		CHECK(!rdma_bind_addr(id, (struct sockaddr *)&address), "rdma_bind_addr: %s", strerror(errno));
		CHECK_EQ(rdma_destroy_id(id), 0);
	}
	rdma_destroy_event_channel(channel);
}

// The first process of a PID namespace: so is its child, in the next one.
static void be_first(void)
{
	CHECK_EQ(getpid(), 1);
	ask_much();
	CHECK(!unshare(CLONE_NEWPID), "unshare: %s", strerror(errno));
	pid_t child = fork();

	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (child == 0) {
		CHECK_EQ(getpid(), 1);
		ask_much();
		_exit(0);
	}
	ask_much();
	reap(child, "the child");
}

// A child whose number is its parent's has a connection to the daemon of its own all the same.
static void child_of_the_same_number(void)
{
	if (unshare(CLONE_NEWPID) && unshare(CLONE_NEWUSER | CLONE_NEWPID))
		skip("PID namespaces are not allowed here");
	pid_t child = fork();

	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (child == 0) {
		be_first();
		_exit(0);
	}
	reap(child, "the first process");
}

// A generator that is copied by fork() would give each child the keys and numbers of the others.
static void children_draw_apart(void)
{
	struct numbers of[SIBLINGS + 1];
	int ends[2];

	draw();
	for (int i = 0; i < SIBLINGS; i++) {
		CHECK(pipe(ends) == 0, "pipe: %s", strerror(errno));
		pid_t child = fork();

		CHECK(child >= 0, "fork: %s", strerror(errno));
		if (child == 0) {
			struct numbers own = draw();

			_exit(write(ends[1], &own, sizeof(own)) != sizeof(own));
		}
		reap(child, "a child");
		CHECK_EQ(read(ends[0], &of[i], sizeof(of[i])), sizeof(of[i]));
	}
	of[SIBLINGS] = draw();
	for (int i = 0; i <= SIBLINGS; i++)
		for (int j = 0; j < i; j++) {
			CHECK(memcmp(of[i].rkeys, of[j].rkeys, sizeof(of[i].rkeys)) != 0, "%d and %d have the same R_Keys", j, i);
			CHECK(memcmp(of[i].qpns, of[j].qpns, sizeof(of[i].qpns)) != 0, "%d and %d have the same QPNs", j, i);
			CHECK(memcmp(of[i].psns, of[j].psns, sizeof(of[i].psns)) != 0, "%d and %d have the same PSNs", j, i);
		}
}

// A child closes what it inherited, as servers do that fork for each client: an event that waits is
// the parent's all the same.
static void child_destroys(void)
{
	struct options options = {.channel = true};
	struct endpoint *e = open_pair(&options, NULL, NULL, &remote);
	struct ibv_cq *cq;
	void *context;

	CHECK_EQ(ibv_req_notify_cq(e->send_cq, 0), 0);
	fill(e->buffer, 100, 1);
	post_ok(post(e, 1, IBV_WR_RDMA_WRITE, 0, 100, &remote, 0, 0));
	struct pollfd event = {.fd = e->channel->fd, .events = POLLIN};

	CHECK(poll(&event, 1, 20000) == 1, "no event");
	pid_t child = fork();

	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (child == 0)
		_exit(ibv_destroy_qp(e->qp) || ibv_destroy_cq(e->send_cq));
	reap(child, "the child");
	CHECK(poll(&event, 1, 0) == 1, "the child took the event");
	CHECK(!ibv_get_cq_event(e->channel, &cq, &context) && cq == e->send_cq, "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
	traffic(e, 20);
}

enum { HIGHEST = 256 };

static int close_each(void)
{
	for (int fd = 3; fd < HIGHEST; fd++)
		close(fd);
	return 0;
}

static int close_range_of_all(void)
{
	return close_range(3, ~0U, 0);
}

// What is opened then gets the numbers of what was closed.
static int open_others(void)
{
	close_each();
	for (int fd = 3; fd < 64; fd++)
		if (open("/dev/null", O_WRONLY) != fd || write(fd, "x", 1) != 1)
			return 1;
	return 0;
}

static int put_others_there(void)
{
	for (int fd = 3; fd < HIGHEST; fd++)
		if (dup2(0, fd) != fd)
			return 1;
	return 0;
}

// A child that has its parent's memory until it becomes another program, as those of Python's
// subprocess, changes its own descriptors; what the parent has open is open still.
static void children_of_vfork_close_all(void)
{
	static int (*const ways[])(void) = {close_each, close_range_of_all, open_others, put_others_there};
	struct options options = {.channel = true};
	struct endpoint *e = open_pair(&options, NULL, NULL, &remote);
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in address = own_address(1);

	CHECK(channel, "rdma_create_event_channel: %s", strerror(errno));
	for (size_t way = 0; way < sizeof(ways) / sizeof(*ways); way++) {
		int (*const close_all)(void) = ways[way];
		pid_t child = vfork();

		CHECK(child >= 0, "vfork: %s", strerror(errno));
		if (child == 0) {
			if (close_all() == 0)
				execl("/bin/true", "true", NULL);
			_exit(1);
		}
		reap(child, "the child");

		struct ibv_comp_channel *another = ibv_create_comp_channel(e->context);

		CHECK(another, "ibv_create_comp_channel: %s", strerror(errno));
		CHECK_EQ(ibv_destroy_comp_channel(another), 0);
		first_psn(channel, &address);
		CHECK_EQ(ibv_req_notify_cq(e->send_cq, 0), 0);
		fill(e->buffer, 100, way);
		post_ok(post(e, way, IBV_WR_RDMA_WRITE, 0, 100, &remote, 0, 0));
		struct ibv_cq *cq;
		void *context;

		CHECK(!ibv_get_cq_event(e->channel, &cq, &context) && cq == e->send_cq, "ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
		expect_wc(e->send_cq, way, IBV_WC_SUCCESS);
	}
	rdma_destroy_event_channel(channel);
}

// ibv_fork_init() before everything, as MPI libraries call it.
static void with_fork_init(void)
{
	CHECK_EQ(ibv_fork_init(), 0);
	child_beside();
}

PROGRAM({"child_beside", child_beside, 0}, {"child_execs", child_execs, 0},
	{"child_opens_device", child_opens_device, 0}, {"children_draw_apart", children_draw_apart, 0}, {"child_of_the_same_number", child_of_the_same_number, 0}, {"child_destroys", child_destroys, 0}, {"children_of_vfork_close_all", children_of_vfork_close_all, 0},
	{"with_fork_init", with_fork_init, 0})
