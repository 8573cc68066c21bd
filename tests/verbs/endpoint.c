// SPDX-License-Identifier: MIT OR Apache-2.0

#include "endpoint.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WAIT_MS = 30000, PORT = 1 };

static struct endpoint *endpoints[MAX_ENDPOINTS];
static int endpoint_count;

// ---------------------------------------------------------------- making

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
	e->qkey = or_default(options->qkey, TEST_QKEY);
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
		e->send_cq = ibv_create_cq(e->context, cqe, e, e->channel, options->send_vector);
		e->recv_cq = ibv_create_cq(e->context, cqe, e, e->channel, options->recv_vector);
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
		.qp_type = or_default(options->qp_type, IBV_QPT_RC),
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

int last_endpoint(void)
{
	return endpoint_count - 1;
}

void close_endpoint(struct endpoint *e)
{
	// Of an endpoint that shares nothing.
	if (e->qp)
		CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	if (e->ah)
		CHECK_EQ(ibv_destroy_ah(e->ah), 0);
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
		.qkey = e->qkey,
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

struct ibv_ah_attr ah_attr_to(const struct address *remote)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = PORT,
		.grh = {.dgid = remote->gid, .sgid_index = gid_index(), .hop_limit = 64},
	};
}

int modify_to_init(struct endpoint *e)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = e->access, .qkey = e->qkey,
	};
	int last = e->qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;

	return ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last);
}

// RC or XRC: a device takes what XRC's other half would need off the mask.
static bool is_reliable(const struct endpoint *e)
{
	return e->qp->qp_type == IBV_QPT_RC || e->qp->qp_type == IBV_QPT_XRC_SEND || e->qp->qp_type == IBV_QPT_XRC_RECV;
}

int modify_to_rtr(struct endpoint *e, const struct address *remote, const struct connection *c)
{
	enum { CONNECTED = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN };
	struct connection none = {0};
	struct ibv_qp_attr attr;
	int mask = IBV_QP_STATE;

	c = c ? c : &none;
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = c->mtu ? c->mtu : IBV_MTU_1024,
		.dest_qp_num = remote->qpn,
		.rq_psn = remote->psn,
		.max_dest_rd_atomic = or_value(c->dest_rd_atomic, 16),
		.min_rnr_timer = or_value(c->min_rnr_timer, 12),
		.ah_attr = ah_attr_to(remote),
	};
	if (e->qp->qp_type != IBV_QPT_UD)
		mask |= CONNECTED;
	if (is_reliable(e))
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(e->qp, &attr, mask);
}

int modify_to_rts(struct endpoint *e, const struct connection *c)
{
	enum { RELIABLE = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC };
	struct connection none = {0};
	struct ibv_qp_attr attr;
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	c = c ? c : &none;
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.timeout = or_value(c->timeout, 14),
		.retry_cnt = or_value(c->retry_cnt, 7),
		.rnr_retry = or_value(c->rnr_retry, 7),
		.sq_psn = e->psn,
		.max_rd_atomic = or_value(c->rd_atomic, 16),
	};
	if (is_reliable(e))
		mask |= RELIABLE;
	return ibv_modify_qp(e->qp, &attr, mask);
}

void connect_endpoint(struct endpoint *e, const struct address *remote, const struct connection *c)
{
	CHECK_EQ(modify_to_init(e), 0);
	CHECK_EQ(modify_to_rtr(e, remote, c), 0);
	CHECK_EQ(modify_to_rts(e, c), 0);
	e->peer = *remote;
	if (e->qp->qp_type == IBV_QPT_UD) {
		struct ibv_ah_attr attr = ah_attr_to(remote);

		CHECK((e->ah = ibv_create_ah(e->pd, &attr)), "ibv_create_ah: %s", strerror(errno));
	}
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

	if (e->qp->qp_type == IBV_QPT_UD) {
		remote = remote && remote->qpn ? remote : &e->peer;
		wr.wr.ud.ah = e->ah;
		wr.wr.ud.remote_qpn = remote->qpn;
		wr.wr.ud.remote_qkey = remote->qkey;
	} else if (remote) {
		wr.wr.rdma.remote_addr = remote->va + remote_offset;
		wr.wr.rdma.rkey = remote->rkey;
		if (opcode == IBV_WR_SEND_WITH_INV)
			wr.invalidate_rkey = remote->rkey;
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

void check_wc(const struct ibv_wc *wc, uint64_t id, enum ibv_wc_status status)
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

void expect_flushes(struct endpoint *e, uint64_t from, uint64_t to)
{
	for (uint64_t id = from; id < to; id++)
		expect_wc(e->send_cq, id, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(state_of(e->qp), IBV_QPS_ERR);
	expect_no_wc(e->send_cq, 20);
}

bool read_event(struct ibv_context *context, unsigned milliseconds, struct ibv_async_event *event)
{
	struct pollfd ready = {.fd = context->async_fd, .events = POLLIN};
	uint64_t deadline = now_ms() + milliseconds;

	for (;;) {
		uint64_t now = now_ms();

		if (poll(&ready, 1, now < deadline ? (int)(deadline - now) : 0) <= 0)
			return false;
		CHECK(ibv_get_async_event(context, event) == 0, "ibv_get_async_event: %s", strerror(errno));
		if (event->event_type != IBV_EVENT_GID_CHANGE)
			return true;
		ibv_ack_async_event(event);
	}
}

int next_event(struct ibv_context *context, unsigned milliseconds, void **element)
{
	struct ibv_async_event event;

	if (!read_event(context, milliseconds, &event))
		return -1;
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

long long counter(const char *name)
{
	char path[200], text[32] = "";

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%d/hw_counters/%s", device_name(), PORT, name);
	FILE *file = fopen(path, "r");

	// rdma_rxe has this one among the port's attributes only.
	if (!file && !strcmp(name, "qkey_viol")) {
		struct ibv_context *context = open_device();
		struct ibv_port_attr port;

		CHECK_EQ(ibv_query_port(context, PORT, &port), 0);
		ibv_close_device(context);
		return port.qkey_viol_cntr;
	}
	CHECK(file, "%s: %s", path, strerror(errno));
	CHECK(fgets(text, sizeof(text), file), "%s cannot be read", path);
	fclose(file);
	return atoll(text);
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
