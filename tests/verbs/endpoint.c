// SPDX-License-Identifier: MIT OR Apache-2.0

#include "endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAIT_MS = 30000, PORT = 1 };

static struct endpoint *endpoints[MAX_ENDPOINTS];
static int endpoint_count;

// ---------------------------------------------------------------- making

struct ibv_context *open_device(void)
{
	const char *wanted = getenv("VERBS_DEVICE") ? getenv("VERBS_DEVICE") : "ferroce0";
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context = NULL;

	CHECK(list, "ibv_get_device_list: %s", strerror(errno));
	for (int i = 0; i < count; i++)
		if (strcmp(ibv_get_device_name(list[i]), wanted) == 0)
			CHECK((context = ibv_open_device(list[i])), "ibv_open_device(%s): %s", wanted, strerror(errno));
	CHECK(context, "no device %s among %d", wanted, count);
	ibv_free_device_list(list);
	return context;
}

uint8_t gid_index(void)
{
	return getenv("GID_INDEX") ? atoi(getenv("GID_INDEX")) : 0;
}

static unsigned or_default(unsigned value, unsigned fallback)
{
	return value ? value : fallback;
}

struct endpoint *open_endpoint(const struct options *options)
{
	struct endpoint *e = calloc(1, sizeof(*e));
	struct endpoint *other = options->share_plus_one ? endpoints[options->share_plus_one - 1] : NULL;
	int mr_access = options->mr_access ? options->mr_access : ALL_ACCESS;

	CHECK(e && endpoint_count < MAX_ENDPOINTS, "too many endpoints");
	e->access = options->qp_access < 0 ? 0 : options->qp_access ? options->qp_access : ALL_ACCESS;
	e->psn = (random() ^ getpid()) & 0xffffff;
	if (other) {
		e->context = other->context;
		e->pd = other->pd;
		e->buffer = other->buffer;
		e->size = other->size;
		e->mr = other->mr;
	} else {
		e->context = open_device();
		e->size = or_default(options->size, 65536);
		e->buffer = mmap(NULL, e->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(e->buffer != MAP_FAILED, "mmap: %s", strerror(errno));
	}
	CHECK(ibv_query_gid(e->context, PORT, gid_index(), &e->gid) == 0, "ibv_query_gid: %s", strerror(errno));
	if (!other || options->own_pd) {
		CHECK((e->pd = ibv_alloc_pd(e->context)), "ibv_alloc_pd: %s", strerror(errno));
		CHECK((e->mr = ibv_reg_mr(e->pd, e->buffer, e->size, mr_access)), "ibv_reg_mr: %s", strerror(errno));
	}
	if (other && options->share_cq) {
		e->channel = other->channel;
		e->send_cq = other->send_cq;
		e->recv_cq = other->recv_cq;
	} else {
		int cqe = or_default(options->cqe, 1024);

		if (options->channel) {
			CHECK((e->channel = ibv_create_comp_channel(e->context)), "ibv_create_comp_channel: %s", strerror(errno));
		}
		e->send_cq = ibv_create_cq(e->context, cqe, e, e->channel, 0);
		e->recv_cq = ibv_create_cq(e->context, cqe, e, e->channel, 0);
		CHECK(e->send_cq && e->recv_cq, "ibv_create_cq: %s", strerror(errno));
	}
	if (options->srq_wr && other && other->srq) {
		e->srq = other->srq;
	} else if (options->srq_wr) {
		struct ibv_srq_init_attr init = {.attr = {.max_wr = options->srq_wr, .max_sge = 4}};

		CHECK((e->srq = ibv_create_srq(e->pd, &init)), "ibv_create_srq: %s", strerror(errno));
	}
	struct ibv_qp_init_attr init = {
		.qp_context = e,
		.send_cq = e->send_cq,
		.recv_cq = e->recv_cq,
		.srq = e->srq,
		.cap = {
			.max_send_wr = or_default(options->send_wr, 128),
			.max_recv_wr = e->srq ? 0 : or_default(options->recv_wr, 128),
			.max_send_sge = or_default(options->send_sge, 4),
			.max_recv_sge = e->srq ? 0 : or_default(options->recv_sge, 4),
			.max_inline_data = options->inline_data,
		},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = !options->unsignaled,
	};
	CHECK((e->qp = ibv_create_qp(e->pd, &init)), "ibv_create_qp: %s", strerror(errno));
	endpoints[endpoint_count++] = e;
	return e;
}

struct endpoint *endpoint_at(int index)
{
	CHECK(index >= 0 && index < endpoint_count, "no endpoint %d", index);
	return endpoints[index];
}

void close_endpoint(struct endpoint *e)
{
	// Of an endpoint that shares nothing.
	if (e->qp)
		CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	if (e->srq)
		CHECK_EQ(ibv_destroy_srq(e->srq), 0);
	CHECK_EQ(ibv_destroy_cq(e->send_cq), 0);
	CHECK_EQ(ibv_destroy_cq(e->recv_cq), 0);
	if (e->channel)
		CHECK_EQ(ibv_destroy_comp_channel(e->channel), 0);
	CHECK_EQ(ibv_dereg_mr(e->mr), 0);
	CHECK_EQ(ibv_dealloc_pd(e->pd), 0);
	CHECK_EQ(ibv_close_device(e->context), 0);
}

struct address address_of(const struct endpoint *e)
{
	return (struct address){
		.qpn = e->qp->qp_num,
		.psn = e->psn,
		.rkey = e->mr->rkey,
		.lkey = e->mr->lkey,
		.gid = e->gid,
		.va = (uintptr_t)e->buffer,
		.size = e->size,
	};
}

// ---------------------------------------------------------------- connecting

static int or_value(int value, int fallback)
{
	return value < 0 ? 0 : value ? value : fallback;
}

int modify_to_init(struct endpoint *e)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = e->access};

	return ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int modify_to_rtr(struct endpoint *e, const struct address *remote, const struct connection *c)
{
	struct connection none = {0};
	struct ibv_qp_attr attr;

	c = c ? c : &none;
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = c->mtu ? c->mtu : IBV_MTU_1024,
		.dest_qp_num = remote->qpn,
		.rq_psn = remote->psn,
		.max_dest_rd_atomic = or_value(c->dest_rd_atomic, 16),
		.min_rnr_timer = or_value(c->min_rnr_timer, 12),
		.ah_attr = {
			.is_global = 1,
			.port_num = PORT,
			.grh = {.dgid = remote->gid, .sgid_index = gid_index(), .hop_limit = 64},
		},
	};
	return ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int modify_to_rts(struct endpoint *e, const struct connection *c)
{
	struct connection none = {0};
	struct ibv_qp_attr attr;

	c = c ? c : &none;
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.timeout = or_value(c->timeout, 14),
		.retry_cnt = or_value(c->retry_cnt, 7),
		.rnr_retry = or_value(c->rnr_retry, 7),
		.sq_psn = e->psn,
		.max_rd_atomic = or_value(c->rd_atomic, 16),
	};
	return ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

void connect_endpoint(struct endpoint *e, const struct address *remote, const struct connection *c)
{
	CHECK_EQ(modify_to_init(e), 0);
	CHECK_EQ(modify_to_rtr(e, remote, c), 0);
	CHECK_EQ(modify_to_rts(e, c), 0);
}

int set_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

// ---------------------------------------------------------------- work requests and completions

struct ibv_sge sge_of(const struct endpoint *e, size_t offset, size_t length)
{
	return (struct ibv_sge){(uintptr_t)e->buffer + offset, length, e->mr->lkey};
}

int post_recv(struct endpoint *e, uint64_t id, size_t offset, size_t length)
{
	struct ibv_sge sge = sge_of(e, offset, length);
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	return e->srq ? ibv_post_srq_recv(e->srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad);
}

int post(struct endpoint *e, uint64_t id, enum ibv_wr_opcode opcode, size_t offset, size_t length,
	 const struct address *remote, size_t remote_offset, unsigned flags)
{
	struct ibv_sge sge = sge_of(e, offset, length);
	struct ibv_send_wr wr = {
		.wr_id = id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = flags,
		.imm_data = 0x04030201,
	}, *bad;

	if (remote) {
		wr.wr.rdma.remote_addr = remote->va + remote_offset;
		wr.wr.rdma.rkey = remote->rkey;
	}
	return ibv_post_send(e->qp, &wr, &bad);
}

int post_atomic(struct endpoint *e, uint64_t id, enum ibv_wr_opcode opcode, size_t offset,
		const struct address *remote, size_t remote_offset, uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge sge = sge_of(e, offset, 8);
	struct ibv_send_wr wr = {
		.wr_id = id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = {remote->va + remote_offset, compare_add, swap, remote->rkey},
	}, *bad;

	return ibv_post_send(e->qp, &wr, &bad);
}

struct ibv_wc wait_wc(struct ibv_cq *cq)
{
	uint64_t deadline = now_ms() + WAIT_MS;
	struct ibv_wc wc;
	int got;

	while ((got = ibv_poll_cq(cq, 1, &wc)) == 0)
		CHECK(now_ms() < deadline, "no completion in 30 s");
	CHECK(got == 1, "ibv_poll_cq answers %d", got);
	return wc;
}

static void check_wc(const struct ibv_wc *wc, uint64_t id, enum ibv_wc_status status)
{
	CHECK(wc->status == status && wc->wr_id == id, "completion of %llu is %d (%s), wanted: of %llu, %d (%s)",
	      (unsigned long long)wc->wr_id, wc->status, ibv_wc_status_str(wc->status),
	      (unsigned long long)id, status, ibv_wc_status_str(status));
}

struct ibv_wc expect_wc(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc = wait_wc(cq);

	check_wc(&wc, id, status);
	return wc;
}

void expect_no_wc(struct ibv_cq *cq, unsigned milliseconds)
{
	uint64_t deadline = now_ms() + milliseconds;
	struct ibv_wc wc;

	do {
		int got = ibv_poll_cq(cq, 1, &wc);

		CHECK(got == 0, "a completion too many: %d of %llu, status %d (%s)", got, (unsigned long long)wc.wr_id,
		      wc.status, ibv_wc_status_str(wc.status));
	} while (now_ms() < deadline);
}

int next_event(struct ibv_context *context, unsigned milliseconds, void **element)
{
	struct pollfd ready = {.fd = context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	if (poll(&ready, 1, milliseconds) <= 0)
		return -1;
	CHECK(ibv_get_async_event(context, &event) == 0, "ibv_get_async_event: %s", strerror(errno));
	if (element)
		*element = event.element.qp;
	ibv_ack_async_event(&event);
	return event.event_type;
}

int wait_event(struct ibv_context *context, int wanted, void *element)
{
	void *about = NULL;
	int event = next_event(context, 10000, &about);

	CHECK(event == wanted, "event %d (%s), not %d (%s)", event, event < 0 ? "none" : ibv_event_type_str(event),
	      wanted, ibv_event_type_str(wanted));
	CHECK(!element || about == element, "event %s is about another object", ibv_event_type_str(wanted));
	return event;
}

static unsigned char pattern(size_t offset, uint32_t seed)
{
	return (offset * 2654435761u >> 13) ^ (offset >> 8) ^ seed * 37;
}

void fill(void *buffer, size_t length, uint32_t seed)
{
	unsigned char *bytes = buffer;

	for (size_t i = 0; i < length; i++)
		bytes[i] = pattern(i, seed);
}

void check_filled(const void *buffer, size_t length, uint32_t seed, const char *what)
{
	const unsigned char *bytes = buffer;

	for (size_t i = 0; i < length; i++)
		CHECK(bytes[i] == pattern(i, seed), "%s: byte %zu of %zu is %#x, not %#x", what, i, length, bytes[i],
		      pattern(i, seed));
}

// ---------------------------------------------------------------- remote control

enum op {
	OPEN, CONNECT, RECV, POST, WC, PENDING, EVENT, STATE, SET_STATE, FILL, VERIFY, READ, WRITE, DESTROY, ARM,
	CHANNEL, SPIN, REGISTER, DEREGISTER, ARM_SRQ,
};

struct command {
	enum op op;
	int index, number;
	unsigned flags, ms;
	uint64_t id, offset, length, remote_offset;
	uint32_t key;
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

static void serve(int fd, const struct command *c)
{
	struct endpoint *e = c->op == OPEN ? NULL : endpoint_at(c->index);
	struct reply reply = {0};
	struct ibv_sge sge;
	struct ibv_wc wc;

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
		reply.wc = wait_wc(c->flags ? e->recv_cq : e->send_cq);
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

	// The other process gives its own reason before it ends; this one is only for its silent death.
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

struct endpoint *open_pair(const struct options *local, const struct options *remote,
			   const struct connection *connection, struct address *remote_address)
{
	static const struct options none;
	struct endpoint *e = open_endpoint(local ? local : &none);
	struct address mine = address_of(e);

	*remote_address = remote_open(remote ? remote : &none);
	remote_connect(endpoint_count - 1, &mine, connection);
	connect_endpoint(e, remote_address, connection);
	return e;
}
