// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Shared receive queues in a protection domain of their own: their requests name memory of that
// domain, whatever the queue pair's is. Everything else goes by the queue pair's.

#include "endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

// The domain of the queue, with its region, and a queue pair that receives from the queue in a
// domain of its own, whose region is of the same memory. The other process sends.
struct setting {
	struct endpoint *queue, *receiver;
	struct address remote;
};

static struct setting set_up(int qp_type)
{
	struct options of_queue = {.qp_type = qp_type, .srq_wr = 16};
	struct options of_receiver = {.qp_type = qp_type, .srq_wr = 16, .share_plus_one = 1, .own_pd = true};
	struct options of_sender = {.qp_type = qp_type};
	struct setting s = {.queue = open_endpoint(&of_queue)};
	struct address mine;

	s.receiver = open_endpoint(&of_receiver);
	CHECK(s.receiver->srq->pd != s.receiver->pd, "one domain for both");
	mine = address_of(s.receiver);
	s.remote = remote_open(&of_sender);
	remote_connect(0, &mine, NULL);
	connect_endpoint(s.receiver, &s.remote, NULL);
	return s;
}

// A receive request for the head of the memory.
static void post_shared(struct ibv_srq *srq, uint64_t id, void *buffer, const struct ibv_mr *mr)
{
	struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = 4096, .lkey = mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

static void send_to(struct setting *s, uint64_t id)
{
	struct address mine = address_of(s->receiver);

	remote_fill(0, 0, 3000, id);
	CHECK_EQ(remote_post(0, id, IBV_WR_SEND, 0, s->receiver->qp->qp_type == IBV_QPT_UD ? 900 : 3000, &mine, 0, 0), 0);
}

static void by_domain(int qp_type)
{
	struct setting s = set_up(qp_type);
	bool datagram = qp_type == IBV_QPT_UD;

	// Memory of the queue's domain.
	post_shared(s.queue->srq, 1, s.queue->buffer, s.queue->mr);
	send_to(&s, 10);
	expect_wc(s.receiver->recv_cq, 1, IBV_WC_SUCCESS);
	remote_expect(0, false, 10, IBV_WC_SUCCESS);
	check_filled(s.queue->buffer + (datagram ? GRH_SIZE : 0), datagram ? 900 : 3000, 10, "message");

	// Memory of the queue pair's.
	memset(s.queue->buffer, 0, 4096);
	post_shared(s.queue->srq, 2, s.queue->buffer, s.receiver->mr);
	send_to(&s, 11);
	expect_wc(s.receiver->recv_cq, 2, IBV_WC_LOC_PROT_ERR);
	remote_expect(0, false, 11, qp_type == IBV_QPT_RC ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS);
	for (int i = 0; i < 4096; i++)
		CHECK_EQ(s.queue->buffer[i], 0);
	CHECK_EQ(state_of(s.receiver->qp), IBV_QPS_ERR);
}

static void reliable(void)
{
	by_domain(IBV_QPT_RC);
}

static void unreliable(void)
{
	by_domain(IBV_QPT_UC);
}

static void datagrams(void)
{
	by_domain(IBV_QPT_UD);
}

// What the queue pair asks for, and what is asked of it, goes by its own domain.
static void send_requests(void)
{
	struct setting s = set_up(IBV_QPT_RC);
	struct address mine = address_of(s.receiver);

	CHECK_EQ(post(s.receiver, 1, IBV_WR_RDMA_READ, 0, 3000, &s.remote, 0, 0), 0);
	expect_wc(s.receiver->send_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(remote_post(0, 2, IBV_WR_RDMA_WRITE, 0, 3000, &mine, 0, 0), 0);
	remote_expect(0, false, 2, IBV_WC_SUCCESS);

	s.receiver->mr = s.queue->mr;
	CHECK_EQ(post(s.receiver, 3, IBV_WR_RDMA_READ, 0, 3000, &s.remote, 0, 0), 0);
	expect_wc(s.receiver->send_cq, 3, IBV_WC_LOC_PROT_ERR);
}

// Nor has a peer access to memory of the queue's domain.
static void remote_access(void)
{
	struct setting s = set_up(IBV_QPT_RC);
	struct address mine = address_of(s.receiver);

	mine.rkey = s.queue->mr->rkey;
	CHECK_EQ(remote_post(0, 1, IBV_WR_RDMA_WRITE, 0, 3000, &mine, 0, 0), 0);
	remote_expect(0, false, 1, IBV_WC_REM_ACCESS_ERR);
}

// XRC: the target has no domain, and each queue one of its own.
static void extended_reliable(void)
{
	struct options plain = {0}, beside = {.share_plus_one = 1, .own_pd = true};
	struct endpoint *a = open_endpoint(&plain), *b = open_endpoint(&beside);
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT,
	};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(a->context, &domain);
	struct ibv_srq_init_attr_ex of_queue = {
		.attr = {.max_wr = 16, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC, .pd = b->pd, .xrcd = xrcd, .cq = a->recv_cq,
	};
	struct ibv_qp_init_attr_ex of_target = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};
	struct ibv_qp_init_attr_ex of_initiator = {
		.qp_type = IBV_QPT_XRC_SEND, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = a->pd, .send_cq = a->send_cq,
		.cap = {.max_send_wr = 16, .max_send_sge = 1}, .sq_sig_all = 1,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(a->context, &of_queue);
	struct endpoint *target = a, *initiator = b;
	struct ibv_send_wr wr = {.num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct address from, to;
	struct ibv_sge sge;

	CHECK(xrcd && srq, "making a domain and a queue: %s", strerror(errno));
	CHECK_EQ(ibv_destroy_qp(target->qp), 0);
	CHECK_EQ(ibv_destroy_qp(initiator->qp), 0);
	target->qp = ibv_create_qp_ex(a->context, &of_target);
	initiator->qp = ibv_create_qp_ex(a->context, &of_initiator);
	CHECK(target->qp && initiator->qp, "making queue pairs: %s", strerror(errno));
	from = address_of(initiator);
	to = address_of(target);
	connect_endpoint(target, &from, NULL);
	connect_endpoint(initiator, &to, NULL);
	wr.sg_list = &sge;
	CHECK_EQ(ibv_get_srq_num(srq, &wr.qp_type.xrc.remote_srqn), 0);
	fill(a->buffer + 8192, 3000, 5);
	sge = (struct ibv_sge){(uintptr_t)a->buffer + 8192, 3000, a->mr->lkey};

	post_shared(srq, 1, a->buffer, b->mr);
	wr.wr_id = 10;
	CHECK_EQ(ibv_post_send(initiator->qp, &wr, &bad), 0);
	expect_wc(a->recv_cq, 1, IBV_WC_SUCCESS);
	expect_wc(a->send_cq, 10, IBV_WC_SUCCESS);
	check_filled(a->buffer, 3000, 5, "message");

	post_shared(srq, 2, a->buffer, a->mr);
	wr.wr_id = 11;
	CHECK_EQ(ibv_post_send(initiator->qp, &wr, &bad), 0);
	expect_wc(a->recv_cq, 2, IBV_WC_LOC_PROT_ERR);
	expect_wc(a->send_cq, 11, IBV_WC_REM_OP_ERR);
}

#define T(name) {#name, name, 0}
PROGRAM(T(reliable), T(unreliable), T(datagrams), T(send_requests), T(remote_access), T(extended_reliable))
