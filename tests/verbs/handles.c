// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Objects of one context used with another's, and objects destroyed while something depends on
// them.

#include "answers.h"
#include "endpoint.h"

#include <errno.h>
#include <string.h>

static struct ibv_qp_init_attr plain(struct ibv_cq *send_cq, struct ibv_cq *recv_cq, struct ibv_srq *srq)
{
	return (struct ibv_qp_init_attr){
		.send_cq = send_cq, .recv_cq = recv_cq, .srq = srq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
}

static void foreign_queues(void)
{
	struct options with_srq = {.srq_wr = 16};
	struct endpoint *a = open_endpoint(&with_srq), *b = open_endpoint(&with_srq);
	struct ibv_qp_init_attr init = plain(b->send_cq, a->recv_cq, NULL);

	CHECK(a->context != b->context, "both have one context");
	errno = 0;
	CHECK(!ibv_create_qp(a->pd, &init) && errno == EINVAL, "a QP with another context's CQ: errno %d", errno);
	init = plain(a->send_cq, a->recv_cq, b->srq);
	errno = 0;
	CHECK(!ibv_create_qp(a->pd, &init) && errno == EINVAL, "a QP with another context's SRQ: errno %d", errno);
}

static void destroyed_in_use(void)
{
	struct options options = {.srq_wr = 16, .channel = true};
	struct endpoint *e = open_endpoint(&options);

	REFUSED(ibv_destroy_cq(e->send_cq), EBUSY);
	REFUSED(ibv_destroy_cq(e->recv_cq), EBUSY);
	REFUSED(ibv_destroy_srq(e->srq), EBUSY);
	CHECK_EQ(ibv_destroy_comp_channel(e->channel), EBUSY);
	REFUSED(ibv_dealloc_pd(e->pd), EBUSY);
	// All is still in working order.
	struct address self = address_of(e);

	connect_endpoint(e, &self, NULL);
	CHECK_EQ(post_recv(e, 4, 0, 64), 0);
	CHECK_EQ(post(e, 1, IBV_WR_SEND, 100, 64, NULL, 0, 0), 0);
	expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
	expect_wc(e->recv_cq, 4, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	REFUSED(ibv_dealloc_pd(e->pd), EBUSY);
	CHECK_EQ(ibv_destroy_srq(e->srq), 0);
	REFUSED(ibv_dealloc_pd(e->pd), EBUSY);
	CHECK_EQ(ibv_dereg_mr(e->mr), 0);
	CHECK_EQ(ibv_dealloc_pd(e->pd), 0);
	CHECK_EQ(ibv_destroy_cq(e->send_cq), 0);
	CHECK_EQ(ibv_destroy_cq(e->recv_cq), 0);
	CHECK_EQ(ibv_destroy_comp_channel(e->channel), 0);
	CHECK_EQ(ibv_close_device(e->context), 0);
}

// A QP destroyed with work outstanding: its completions are gone from the CQ's future, its peers
// time out.
static void destroyed_while_busy(void)
{
	struct endpoint *a = open_endpoint(&(struct options){.size = 1 << 20}), *b = open_endpoint(&(struct options){.size = 1 << 20});
	struct connection quick = {.timeout = 12, .retry_cnt = 2};
	struct address to_a = address_of(a), to_b = address_of(b);

	connect_endpoint(a, &to_b, &quick);
	connect_endpoint(b, &to_a, &quick);
	for (int i = 0; i < 32; i++) {
		CHECK_EQ(post(a, i, IBV_WR_RDMA_WRITE, 0, 1 << 19, &to_b, 0, 0), 0);
		CHECK_EQ(post(b, i, IBV_WR_RDMA_WRITE, 0, 1 << 19, &to_a, 1 << 19, 0), 0);
	}
	CHECK_EQ(ibv_destroy_qp(a->qp), 0);
	struct ibv_wc wc;

	do {
		wc = wait_wc(b->send_cq);
	} while (wc.status == IBV_WC_SUCCESS);
	CHECK(wc.status == IBV_WC_RETRY_EXC_ERR, "status is %d (%s)", wc.status, ibv_wc_status_str(wc.status));
	// Its memory can go now without a trace of the QP writing to it.
	CHECK_EQ(ibv_dereg_mr(a->mr), 0);
}

// Contexts opened and closed many times.
static void many_contexts(void)
{
	for (int i = 0; i < 200; i++) {
		struct ibv_context *context = open_device();

		CHECK_EQ(ibv_close_device(context), 0);
	}
	struct endpoint *a = open_endpoint(&(struct options){0}), *b = open_endpoint(&(struct options){0});
	struct address to_a = address_of(a), to_b = address_of(b);

	connect_endpoint(a, &to_b, NULL);
	connect_endpoint(b, &to_a, NULL);
	CHECK_EQ(post(a, 1, IBV_WR_RDMA_WRITE, 0, 64, &to_b, 0, 0), 0);
	expect_wc(a->send_cq, 1, IBV_WC_SUCCESS);
	close_endpoint(a);
	close_endpoint(b);
}

// What is left to ibv_close_device ends: nobody reaches its memory any more.
static void left_to_close_device(void)
{
	const struct connection hasty = {.timeout = 8, .retry_cnt = 1};
	struct endpoint *a = open_endpoint(&(struct options){0}), *b = open_endpoint(&(struct options){0});
	struct address to_a = address_of(a), to_b = address_of(b);

	connect_endpoint(a, &to_b, &hasty);
	connect_endpoint(b, &to_a, NULL);
	memset(a->buffer, 'a', 64);
	memset(b->buffer, 'b', 64);
	CHECK_EQ(post(a, 1, IBV_WR_RDMA_WRITE, 0, 64, &to_b, 0, 0), 0);
	expect_wc(a->send_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(b->buffer[0], 'a');

	CHECK_EQ(ibv_close_device(b->context), 0);
	memset(a->buffer, 'c', 64);
	CHECK_EQ(post(a, 2, IBV_WR_RDMA_WRITE, 0, 64, &to_b, 0, 0), 0);
	expect_wc(a->send_cq, 2, IBV_WC_RETRY_EXC_ERR);
	CHECK_EQ(b->buffer[0], 'a');
	close_endpoint(a);
}

// And it is not counted any more, of whatever kind.
static void left_many_times(void)
{
	union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 9, [14] = 9, [15] = 5}};
	struct ibv_device_attr_ex limits;
	struct ibv_context *context = open_device();

	CHECK_EQ(ibv_query_device_ex(context, NULL, &limits), 0);
	CHECK_EQ(ibv_close_device(context), 0);

	// More queue pairs than a device has, and each time all of its memory.
	for (int round = 0; round * 1000 <= limits.orig_attr.max_qp; round++) {
		static char memory[4096];

		context = open_device();
		struct ibv_pd *pd = ibv_alloc_pd(context);
		struct ibv_dm *dm = ibv_alloc_dm(context, &(struct ibv_alloc_dm_attr){.length = limits.max_dm_size});
		struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);
		struct ibv_srq *srq = ibv_create_srq(pd, &(struct ibv_srq_init_attr){.attr = {1, 1, 0}});
		struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), ALL_ACCESS | IBV_ACCESS_MW_BIND);
		struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);

		CHECK(pd && dm && cq && srq && mr && mw, "round %d: %s", round, strerror(errno));
		CHECK(ibv_reg_dm_mr(pd, dm, 0, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED), "its region");

		struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_UD};
		struct ibv_qp *qp = NULL;

		for (int i = 0; i < 1000; i++) {
			init.srq = i % 2 ? srq : NULL;
			init.qp_type = i % 2 ? IBV_QPT_RC : IBV_QPT_UD;
			struct ibv_qp *made = ibv_create_qp(pd, &init);

			CHECK(made, "round %d, queue pair %d: %s", round, i, strerror(errno));
			qp = i % 2 ? qp : made;
		}
		CHECK_EQ(ibv_attach_mcast(qp, &group, 0), 0);

		struct ibv_ah_attr to = {.is_global = 1, .port_num = 1};

		CHECK_EQ(ibv_query_gid(context, 1, gid_index(), &to.grh.dgid), 0);
		to.grh.sgid_index = gid_index();
		CHECK(ibv_create_ah(pd, &to), "address handle: %s", strerror(errno));
		CHECK_EQ(ibv_close_device(context), 0);
	}
}

#define T(name) {#name, name, 0}
PROGRAM(T(foreign_queues), T(destroyed_in_use), T(destroyed_while_busy), T(many_contexts), T(left_to_close_device), T(left_many_times))
