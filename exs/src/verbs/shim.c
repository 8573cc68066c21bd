/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The verbs and connection manager calls of the library, with plain arguments.
 *
 * In C because many of them are inline functions over tables inside <infiniband/verbs.h>: compiled against the
 * installed headers, they are right for whatever version those are of. Nothing is decided here.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define CHAIN 16

struct xv_event {
	uint64_t context;
	void *id;
	int32_t type;
	int32_t status;
	uint32_t private_len;
	uint8_t private_data[64];
};

struct xv_work {
	uint64_t wr_id;
	uint64_t address[2];
	uint64_t remote;
	uint32_t length[2];
	uint32_t lkey[2];
	uint32_t rkey;
	uint32_t opcode; /* 0 SEND, 1 WRITE, 2 READ, 3 WRITE and 4 SEND with immediate data */
	uint32_t pieces;
	uint32_t flags; /* 1: inline */
	uint32_t immediate;
};

struct xv_completion {
	uint64_t wr_id;
	uint32_t status;
	uint32_t length;
	uint32_t immediate;
	uint32_t immediate_of; /* 0: there is none, 1: of a SEND, 2: of an RDMA WRITE */
};

/* Rust sees these by their layout. */
_Static_assert(sizeof(struct xv_event) == 96, "xv_event");
_Static_assert(sizeof(struct xv_work) == 72, "xv_work");
_Static_assert(sizeof(struct xv_completion) == 24, "xv_completion");

static int nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? -1 : 0;
}

void *xv_cm_channel(int *fd)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	if (!channel)
		return NULL;
	if (nonblocking(channel->fd)) {
		rdma_destroy_event_channel(channel);
		return NULL;
	}
	*fd = channel->fd;
	return channel;
}

/* 1: an event; 0: none; -1: errno. The event is acknowledged before it is returned. */
int xv_cm_event(void *channel, struct xv_event *out)
{
	struct rdma_cm_event *event;
	const struct rdma_conn_param *conn;

	if (rdma_get_cm_event(channel, &event))
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	memset(out, 0, sizeof(*out));
	out->id = event->id;
	out->context = (uintptr_t)event->id->context;
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		out->context = (uintptr_t)event->listen_id->context;
	out->type = event->event;
	out->status = event->status;
	conn = &event->param.conn;
	if ((event->event == RDMA_CM_EVENT_CONNECT_REQUEST || event->event == RDMA_CM_EVENT_ESTABLISHED) &&
	    conn->private_data) {
		out->private_len = conn->private_data_len < 64 ? conn->private_data_len : 64;
		memcpy(out->private_data, conn->private_data, out->private_len);
	}
	rdma_ack_cm_event(event);
	return 1;
}

void *xv_id_create(void *channel, uint64_t context)
{
	struct rdma_cm_id *id;

	return rdma_create_id(channel, &id, (void *)(uintptr_t)context, RDMA_PS_TCP) ? NULL : id;
}

void xv_id_context(struct rdma_cm_id *id, uint64_t context)
{
	id->context = (void *)(uintptr_t)context;
}

void xv_id_destroy(struct rdma_cm_id *id)
{
	rdma_destroy_id(id);
}

int xv_id_bind(struct rdma_cm_id *id, struct sockaddr *address)
{
	return rdma_bind_addr(id, address);
}

static int turn_on(struct rdma_cm_id *id, int option)
{
	int on = 1;

	return rdma_set_option(id, RDMA_OPTION_ID, option, &on, sizeof(on));
}

int xv_id_reuse(struct rdma_cm_id *id)
{
	return turn_on(id, RDMA_OPTION_ID_REUSEADDR);
}

int xv_id_own_family(struct rdma_cm_id *id)
{
	return turn_on(id, RDMA_OPTION_ID_AFONLY);
}

int xv_id_listen(struct rdma_cm_id *id)
{
	return rdma_listen(id, 0);
}

int xv_id_resolve_address(struct rdma_cm_id *id, struct sockaddr *address, int ms)
{
	return rdma_resolve_addr(id, NULL, address, ms);
}

int xv_id_resolve_route(struct rdma_cm_id *id, int ms)
{
	return rdma_resolve_route(id, ms);
}

static void parameters(struct rdma_conn_param *conn, const void *data, uint8_t length)
{
	memset(conn, 0, sizeof(*conn));
	conn->private_data = data;
	conn->private_data_len = length;
	conn->responder_resources = RDMA_MAX_RESP_RES;
	conn->initiator_depth = RDMA_MAX_INIT_DEPTH;
	conn->flow_control = 1;
	conn->retry_count = 7;
	conn->rnr_retry_count = 7;
}

int xv_id_connect(struct rdma_cm_id *id, const void *data, uint8_t length)
{
	struct rdma_conn_param conn;

	parameters(&conn, data, length);
	return rdma_connect(id, &conn);
}

int xv_id_accept(struct rdma_cm_id *id, const void *data, uint8_t length)
{
	struct rdma_conn_param conn;

	parameters(&conn, data, length);
	return rdma_accept(id, &conn);
}

int xv_id_reject(struct rdma_cm_id *id)
{
	return rdma_reject(id, NULL, 0);
}

int xv_id_disconnect(struct rdma_cm_id *id)
{
	return rdma_disconnect(id);
}

void *xv_id_verbs(struct rdma_cm_id *id)
{
	return id->verbs;
}

void xv_id_peer(struct rdma_cm_id *id, struct sockaddr_storage *address)
{
	memcpy(address, &id->route.addr.dst_storage, sizeof(*address));
}

/* The contexts of all devices, which stay open for good. */
int xv_devices(void **contexts, int room)
{
	int count = 0;
	struct ibv_context **list = rdma_get_devices(&count);

	if (!list)
		return 0;
	if (count > room)
		count = room;
	memcpy(contexts, list, sizeof(*contexts) * count);
	rdma_free_devices(list);
	return count;
}

void *xv_pd(struct ibv_context *verbs)
{
	return ibv_alloc_pd(verbs);
}

void *xv_channel(struct ibv_context *verbs, int *fd)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(verbs);

	if (!channel)
		return NULL;
	if (nonblocking(channel->fd)) {
		ibv_destroy_comp_channel(channel);
		return NULL;
	}
	*fd = channel->fd;
	return channel;
}

/* Takes one event; 0: none. */
int xv_channel_event(struct ibv_comp_channel *channel, uint64_t *context)
{
	struct ibv_cq *cq;
	void *cq_context;

	if (ibv_get_cq_event(channel, &cq, &cq_context))
		return 0;
	ibv_ack_cq_events(cq, 1);
	*context = (uintptr_t)cq_context;
	return 1;
}

void *xv_cq(struct ibv_context *verbs, int entries, uint64_t context, struct ibv_comp_channel *channel)
{
	struct ibv_device_attr attr;

	if (!ibv_query_device(verbs, &attr) && attr.max_cqe > 0 && entries > attr.max_cqe)
		entries = attr.max_cqe;
	return ibv_create_cq(verbs, entries, (void *)(uintptr_t)context, channel, 0);
}

int xv_cq_entries(struct ibv_cq *cq)
{
	return cq->cqe;
}

int xv_cq_arm(struct ibv_cq *cq)
{
	return ibv_req_notify_cq(cq, 0);
}

int xv_cq_poll(struct ibv_cq *cq, struct xv_completion *out, int room)
{
	struct ibv_wc wc[CHAIN * 2];
	int count, i;

	count = ibv_poll_cq(cq, room < CHAIN * 2 ? room : CHAIN * 2, wc);
	for (i = 0; i < count; i++) {
		out[i].wr_id = wc[i].wr_id;
		out[i].status = wc[i].status;
		out[i].length = wc[i].status == IBV_WC_SUCCESS ? wc[i].byte_len : 0;
		if (wc[i].status == IBV_WC_SUCCESS && wc[i].wc_flags & IBV_WC_WITH_IMM) {
			out[i].immediate_of = wc[i].opcode == IBV_WC_RECV_RDMA_WITH_IMM ? 2 : 1;
			out[i].immediate = ntohl(wc[i].imm_data);
		} else {
			out[i].immediate_of = 0;
		}
	}
	return count;
}

/* access: 1 local write and remote write, 2 remote read */
void *xv_mr(struct ibv_pd *pd, void *address, size_t length, int access, uint32_t *lkey, uint32_t *rkey)
{
	int flags = (access & 1 ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0) |
		    (access & 2 ? IBV_ACCESS_REMOTE_READ : 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, address, length, flags);

	if (!mr)
		return NULL;
	*lkey = mr->lkey;
	*rkey = mr->rkey;
	return mr;
}

void xv_mr_free(struct ibv_mr *mr)
{
	ibv_dereg_mr(mr);
}

/* Makes the queue pair of an id; *can_inline in: wanted bytes, out: what it has. */
int xv_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_cq *cq, int sends, int receives, uint32_t *can_inline)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = sends,
			 .max_recv_wr = receives,
			 .max_send_sge = 2,
			 .max_recv_sge = 1,
			 .max_inline_data = *can_inline },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	if (rdma_create_qp(id, pd, &attr)) {
		attr.cap.max_inline_data = 0;
		if (rdma_create_qp(id, pd, &attr))
			return -1;
	}
	*can_inline = attr.cap.max_inline_data;
	return 0;
}

void xv_qp_destroy(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
}

int xv_post(struct rdma_cm_id *id, const struct xv_work *works, int count)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						      IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND_WITH_IMM };
	struct ibv_send_wr wr[CHAIN], *bad;
	struct ibv_sge sge[CHAIN][2];
	int i, n;
	uint32_t piece;

	while (count > 0) {
		n = count < CHAIN ? count : CHAIN;
		memset(wr, 0, sizeof(wr[0]) * n);
		for (i = 0; i < n; i++, works++) {
			for (piece = 0; piece < works->pieces; piece++) {
				sge[i][piece].addr = works->address[piece];
				sge[i][piece].length = works->length[piece];
				sge[i][piece].lkey = works->lkey[piece];
			}
			wr[i].wr_id = works->wr_id;
			wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
			wr[i].sg_list = sge[i];
			wr[i].num_sge = works->pieces;
			wr[i].send_flags = IBV_SEND_SIGNALED | (works->flags & 1 ? IBV_SEND_INLINE : 0);
			wr[i].opcode = opcodes[works->opcode];
			wr[i].imm_data = htonl(works->immediate);
			wr[i].wr.rdma.remote_addr = works->remote;
			wr[i].wr.rdma.rkey = works->rkey;
		}
		n = ibv_post_send(id->qp, wr, &bad);
		if (n)
			return n;
		count -= CHAIN;
	}
	return 0;
}

int xv_post_receive(struct rdma_cm_id *id, uint64_t wr_id, uint64_t address, uint32_t length, uint32_t lkey)
{
	struct ibv_sge sge = { .addr = address, .length = length, .lkey = lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(id->qp, &wr, &bad);
}

/* Variadic functions cannot be written in stable Rust. */
int exs_fcntl_argument(int sockno, int cmd, uintptr_t argument);
int exs_fcntl(int sockno, int cmd, ...);

int exs_fcntl(int sockno, int cmd, ...)
{
	va_list arguments;
	uintptr_t argument = 0;

	va_start(arguments, cmd);
	if (cmd == F_SETFL)
		argument = (uintptr_t)(intptr_t)va_arg(arguments, int);
	else if (cmd != F_GETFL)
		argument = (uintptr_t)va_arg(arguments, void *);
	va_end(arguments);
	return exs_fcntl_argument(sockno, cmd, argument);
}
