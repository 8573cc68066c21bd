// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Remote control of endpoints in the other process: each call is a command over its socket and a
// reply.

#include "endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum op {
	OPEN, CONNECT, RECV, POST, WC, PENDING, EVENT, STATE, SET_STATE, FILL, VERIFY, READ, WRITE, DESTROY, ARM,
	CHANNEL, SPIN, REGISTER, DEREGISTER, ARM_SRQ,
	COUNTER,
};

struct command {
	enum op op;
	int index, number;
	unsigned flags, ms;
	uint64_t id, offset, length, remote_offset;
	uint32_t key;
	char name[32];
	struct options options;
	struct address address;
	struct connection connection;
};

struct reply {
	long long number;
	struct address address;
	struct ibv_wc wc;
};

static struct ibv_mr *extra_mr[MAX_ENDPOINTS];

static int wait_channel(struct endpoint *e, unsigned milliseconds)
{
	struct pollfd ready = {.fd = e->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *about;

	if (poll(&ready, 1, milliseconds) <= 0)
		return 0;
	CHECK(ibv_get_cq_event(e->channel, &cq, &about) == 0, "ibv_get_cq_event: %s", strerror(errno));
	CHECK(cq == e->recv_cq || cq == e->send_cq, "a completion event for an unknown CQ");
	ibv_ack_cq_events(cq, 1);
	return 1;
}

static long long spin(struct endpoint *e, size_t offset, uint32_t value, unsigned milliseconds)
{
	const uint32_t *word = (const uint32_t *)(e->buffer + offset);
	uint64_t start = now_ms();

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
		if (now_ms() - start > milliseconds)
			return -1;
	return now_ms() - start;
}

// Field by field: what is sent must not have the bytes between them, which nobody has written.
static void copy_wc(struct ibv_wc *to, const struct ibv_wc *wc)
{
	to->wr_id = wc->wr_id;
	to->status = wc->status;
	to->opcode = wc->opcode;
	to->vendor_err = wc->vendor_err;
	to->byte_len = wc->byte_len;
	to->imm_data = wc->imm_data;
	to->qp_num = wc->qp_num;
	to->src_qp = wc->src_qp;
	to->wc_flags = wc->wc_flags;
	to->pkey_index = wc->pkey_index;
	to->slid = wc->slid;
	to->sl = wc->sl;
	to->dlid_path_bits = wc->dlid_path_bits;
}

static void serve(int fd, const struct command *c)
{
	struct endpoint *e = c->op == OPEN || c->op == COUNTER ? NULL : endpoint_at(c->index);
	struct reply reply;
	struct ibv_sge sge;
	struct ibv_wc wc;

	memset(&reply, 0, sizeof(reply));
	switch (c->op) {
	case OPEN:
		reply.address = address_of(open_endpoint(&c->options));
		break;
	case CONNECT:
		connect_endpoint(e, &c->address, &c->connection);
		break;
	case RECV:
		sge = sge_of(e, c->offset, c->length);
		if (c->key)
			sge.lkey = c->key;
		{
			struct ibv_recv_wr wr = {.wr_id = c->id, .sg_list = &sge, .num_sge = 1}, *bad;

			reply.number = e->srq ? ibv_post_srq_recv(e->srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad);
		}
		break;
	case POST:
		reply.number = post(e, c->id, c->number, c->offset, c->length, &c->address, c->remote_offset, c->flags);
		break;
	case WC:
		wc = wait_wc(c->flags ? e->recv_cq : e->send_cq);
		copy_wc(&reply.wc, &wc);
		break;
	case PENDING:
		while (ibv_poll_cq(c->flags ? e->recv_cq : e->send_cq, 1, &wc) == 1)
			reply.number++;
		break;
	case EVENT:
		reply.number = next_event(e->context, c->ms, NULL);
		break;
	case STATE:
		reply.number = state_of(e->qp);
		break;
	case SET_STATE:
		reply.number = set_state(e->qp, c->number);
		break;
	case FILL:
		fill(e->buffer + c->offset, c->length, c->key);
		break;
	case VERIFY:
		check_filled(e->buffer + c->offset, c->length, c->key, "at the other side");
		break;
	case READ:
		send_all(fd, e->buffer + c->offset, c->length);
		break;
	case WRITE:
		CHECK(receive_all(fd, e->buffer + c->offset, c->length), "the control connection broke");
		break;
	case DESTROY:
		CHECK_EQ(ibv_destroy_qp(e->qp), 0);
		e->qp = NULL;
		break;
	case ARM:
		reply.number = ibv_req_notify_cq(e->recv_cq, c->flags);
		break;
	case CHANNEL:
		reply.number = wait_channel(e, c->ms);
		break;
	case SPIN:
		reply.number = spin(e, c->offset, c->key, c->ms);
		break;
	case REGISTER:
		extra_mr[c->index] = ibv_reg_mr(e->pd, e->buffer + c->offset, c->length, c->flags);
		CHECK(extra_mr[c->index], "ibv_reg_mr: %s", strerror(errno));
		reply.address = address_of(e);
		reply.address.rkey = extra_mr[c->index]->rkey;
		reply.address.lkey = extra_mr[c->index]->lkey;
		reply.address.va = (uintptr_t)e->buffer + c->offset;
		reply.address.size = c->length;
		break;
	case DEREGISTER:
		CHECK_EQ(ibv_dereg_mr(extra_mr[c->index]), 0);
		break;
	case ARM_SRQ: {
		struct ibv_srq_attr attr = {.srq_limit = c->number};

		reply.number = ibv_modify_srq(e->srq, &attr, IBV_SRQ_LIMIT);
		break;
	}
	case COUNTER:
		reply.number = counter(c->name);
		break;
	}
	send_all(fd, &reply, sizeof(reply));
}

void peer_serve(int fd)
{
	struct command command;

	fcntl(fd, F_SETFD, FD_CLOEXEC);
	while (receive_all(fd, &command, sizeof(command)))
		serve(fd, &command);
}

static struct reply finish(void)
{
	struct reply reply;

	// The other process gives its own reason before it ends; this one is only for its silent
	// death.
	if (!receive_all(peer_socket(), &reply, sizeof(reply))) {
		usleep(100000);
		fail("the other process ended");
	}
	return reply;
}

static struct reply ask(struct command command)
{
	send_all(peer_socket(), &command, sizeof(command));
	return finish();
}

struct address remote_open(const struct options *options)
{
	return ask((struct command){.op = OPEN, .options = *options}).address;
}

void remote_connect(int index, const struct address *to, const struct connection *connection)
{
	struct command command = {.op = CONNECT, .index = index, .address = *to};

	if (connection)
		command.connection = *connection;
	ask(command);
}

int remote_post_recv(int index, uint64_t id, size_t offset, size_t length)
{
	return remote_post_recv_key(index, id, offset, length, 0);
}

int remote_post_recv_key(int index, uint64_t id, size_t offset, size_t length, uint32_t lkey)
{
	return ask((struct command){.op = RECV, .index = index, .id = id, .offset = offset, .length = length, .key = lkey}).number;
}

int remote_post(int index, uint64_t id, enum ibv_wr_opcode opcode, size_t offset, size_t length,
		const struct address *to, size_t to_offset, unsigned flags)
{
	struct command command = {
		.op = POST, .index = index, .id = id, .number = opcode, .offset = offset, .length = length,
		.remote_offset = to_offset, .flags = flags,
	};

	if (to)
		command.address = *to;
	return ask(command).number;
}

struct ibv_wc remote_wc(int index, bool receive)
{
	return ask((struct command){.op = WC, .index = index, .flags = receive}).wc;
}

struct ibv_wc remote_expect(int index, bool receive, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc = remote_wc(index, receive);

	check_wc(&wc, id, status);
	return wc;
}

int remote_pending(int index, bool receive)
{
	return ask((struct command){.op = PENDING, .index = index, .flags = receive}).number;
}

int remote_event(int index, unsigned milliseconds)
{
	return ask((struct command){.op = EVENT, .index = index, .ms = milliseconds}).number;
}

int remote_state(int index)
{
	return ask((struct command){.op = STATE, .index = index}).number;
}

int remote_set_state(int index, enum ibv_qp_state state)
{
	return ask((struct command){.op = SET_STATE, .index = index, .number = state}).number;
}

void remote_fill(int index, size_t offset, size_t length, uint32_t seed)
{
	ask((struct command){.op = FILL, .index = index, .offset = offset, .length = length, .key = seed});
}

void remote_check(int index, size_t offset, size_t length, uint32_t seed, const char *what)
{
	(void)what;
	ask((struct command){.op = VERIFY, .index = index, .offset = offset, .length = length, .key = seed});
}

void remote_read(int index, size_t offset, void *data, size_t length)
{
	struct command command = {.op = READ, .index = index, .offset = offset, .length = length};

	send_all(peer_socket(), &command, sizeof(command));
	CHECK(receive_all(peer_socket(), data, length), "the other process ended");
	finish();
}

void remote_write(int index, size_t offset, const void *data, size_t length)
{
	struct command command = {.op = WRITE, .index = index, .offset = offset, .length = length};

	send_all(peer_socket(), &command, sizeof(command));
	send_all(peer_socket(), data, length);
	finish();
}

void remote_destroy_qp(int index)
{
	ask((struct command){.op = DESTROY, .index = index});
}

int remote_arm(int index, bool solicited_only)
{
	return ask((struct command){.op = ARM, .index = index, .flags = solicited_only}).number;
}

int remote_wait_channel(int index, unsigned milliseconds)
{
	return ask((struct command){.op = CHANNEL, .index = index, .ms = milliseconds}).number;
}

int remote_spin(int index, size_t offset, uint32_t value, unsigned milliseconds)
{
	return ask((struct command){.op = SPIN, .index = index, .offset = offset, .key = value, .ms = milliseconds}).number;
}

struct address remote_register(int index, size_t offset, size_t length, int access)
{
	return ask((struct command){.op = REGISTER, .index = index, .offset = offset, .length = length, .flags = access}).address;
}

void remote_deregister(int index)
{
	ask((struct command){.op = DEREGISTER, .index = index});
}

int remote_arm_srq(int index, unsigned limit)
{
	return ask((struct command){.op = ARM_SRQ, .index = index, .number = limit}).number;
}

long long remote_counter(const char *name)
{
	struct command command = {.op = COUNTER};

	strncpy(command.name, name, sizeof(command.name) - 1);
	return ask(command).number;
}

void remote_counter_reaches(const char *name, long long value)
{
	uint64_t deadline = now_ms() + 5000;
	long long seen;

	while ((seen = remote_counter(name)) < value && now_ms() < deadline)
		usleep(20000);
	CHECK(seen == value, "%s is %lld, not %lld", name, seen, value);
}

struct endpoint *open_pair(const struct options *local, const struct options *remote,
			   const struct connection *connection, struct address *remote_address)
{
	static const struct options none;
	struct endpoint *e = open_endpoint(local ? local : &none);
	struct address mine = address_of(e);

	*remote_address = remote_open(remote ? remote : &none);
	remote_connect(last_endpoint(), &mine, connection);
	connect_endpoint(e, remote_address, connection);
	return e;
}
