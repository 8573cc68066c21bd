// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Objects destroyed while something depends on them (EBUSY, and nothing changes), and objects of
// one context or protection domain used with another's.

#include "answers.h"
#include "endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static struct ibv_context *context(void)
{
	static struct ibv_context *the_context;

	if (!the_context)
		the_context = open_device();
	return the_context;
}

static struct ibv_pd *new_pd(struct ibv_context *of)
{
	struct ibv_pd *pd = ibv_alloc_pd(of);

	CHECK(pd, "ibv_alloc_pd: %s", strerror(errno));
	return pd;
}

static struct ibv_cq *new_cq(struct ibv_context *of)
{
	struct ibv_cq *cq = ibv_create_cq(of, 16, NULL, NULL, 0);

	CHECK(cq, "ibv_create_cq: %s", strerror(errno));
	return cq;
}

static struct ibv_xrcd *new_xrcd(struct ibv_context *of)
{
	struct ibv_xrcd_init_attr init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT,
	};

	struct ibv_xrcd *xrcd = ibv_open_xrcd(of, &init);

	CHECK(xrcd, "ibv_open_xrcd: %s", strerror(errno));
	return xrcd;
}

static struct ibv_srq *try_xrc_srq(struct ibv_context *of, struct ibv_pd *pd, struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = {.max_wr = 16, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = xrcd,
		.cq = cq,
	};

	errno = 0;
	return ibv_create_srq_ex(of, &init);
}

static struct ibv_qp *try_xrc_target(struct ibv_context *of, struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};

	errno = 0;
	return ibv_create_qp_ex(of, &init);
}

static void domain_with_address_handle(void)
{
	struct ibv_pd *pd = new_pd(context());
	struct address self = {0};

	CHECK_EQ(ibv_query_gid(context(), 1, gid_index(), &self.gid), 0);
	struct ibv_ah_attr attr = ah_attr_to(&self);
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);

	CHECK(ah, "ibv_create_ah: %s", strerror(errno));
	REFUSED(ibv_dealloc_pd(pd), EBUSY);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
}

static void domain_with_window(void)
{
	for (int type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
		struct ibv_pd *pd = new_pd(context());
		struct ibv_mw *mw = ibv_alloc_mw(pd, type);

		CHECK(mw, "ibv_alloc_mw: %s", strerror(errno));
		REFUSED(ibv_dealloc_pd(pd), EBUSY);
		CHECK_EQ(ibv_dealloc_mw(mw), 0);
		CHECK_EQ(ibv_dealloc_pd(pd), 0);
	}
}

static void domain_with_parent_domain(void)
{
	struct ibv_pd *pd = new_pd(context());
	struct ibv_td_init_attr none = {0};
	struct ibv_td *td = ibv_alloc_td(context(), &none);

	CHECK(td, "ibv_alloc_td: %s", strerror(errno));
	struct ibv_parent_domain_init_attr init = {.pd = pd, .td = td};
	struct ibv_pd *parent = ibv_alloc_parent_domain(context(), &init);

	CHECK(parent, "ibv_alloc_parent_domain: %s", strerror(errno));
	REFUSED(ibv_dealloc_pd(pd), EBUSY);
	REFUSED(ibv_dealloc_td(td), EBUSY);
	CHECK_EQ(ibv_dealloc_pd(parent), 0);
	CHECK_EQ(ibv_dealloc_td(td), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
}

static void parent_domain_with_queue_pair(void)
{
	struct ibv_pd *pd = new_pd(context());
	struct ibv_parent_domain_init_attr init = {.pd = pd};
	struct ibv_pd *parent = ibv_alloc_parent_domain(context(), &init);

	CHECK(parent, "ibv_alloc_parent_domain: %s", strerror(errno));
	struct ibv_cq *cq = new_cq(context());
	struct ibv_qp_init_attr qp_init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(parent, &qp_init);

	CHECK(qp, "ibv_create_qp: %s", strerror(errno));
	REFUSED(ibv_dealloc_pd(parent), EBUSY);
	REFUSED(ibv_dealloc_pd(pd), EBUSY);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_dealloc_pd(parent), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
}

static void parent_domain_of_another_context(void)
{
	struct ibv_parent_domain_init_attr init = {.pd = new_pd(open_device())};

	errno = 0;
	CHECK(!ibv_alloc_parent_domain(context(), &init) && errno == EINVAL, "errno is %d (%s)", errno, strerror(errno));
	init.pd = NULL;
	errno = 0;
	CHECK(!ibv_alloc_parent_domain(context(), &init) && errno == EINVAL, "errno is %d (%s)", errno, strerror(errno));
}

static void xrc_domain(void)
{
	struct ibv_xrcd *xrcd = new_xrcd(context());
	struct ibv_pd *pd = new_pd(context());
	struct ibv_cq *cq = new_cq(context());
	struct ibv_srq *srq = try_xrc_srq(context(), pd, xrcd, cq);

	CHECK(srq, "ibv_create_srq_ex: %s", strerror(errno));
	REFUSED(ibv_close_xrcd(xrcd), EBUSY);
	REFUSED(ibv_dealloc_pd(pd), EBUSY);
	REFUSED(ibv_destroy_cq(cq), EBUSY);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	struct ibv_qp *qp = try_xrc_target(context(), xrcd);

	CHECK(qp, "ibv_create_qp_ex: %s", strerror(errno));
	REFUSED(ibv_close_xrcd(xrcd), EBUSY);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_close_xrcd(xrcd), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

static void xrc_receive_queue_full(void)
{
	struct ibv_xrcd *xrcd = new_xrcd(context());
	struct ibv_srq *srq = try_xrc_srq(context(), new_pd(context()), xrcd, new_cq(context()));
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad = NULL;
	struct ibv_srq_attr attr;

	CHECK(srq, "ibv_create_srq_ex: %s", strerror(errno));
	CHECK_EQ(ibv_query_srq(srq, &attr), 0);
	for (unsigned i = 0; i < attr.max_wr; i++)
		CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
	REFUSED(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM);
	CHECK(bad == &wr, "bad_wr is not set");
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK_EQ(ibv_close_xrcd(xrcd), 0);
}

// The target of an extended connection has no queues of its own.
static void posting_to_an_xrc_target(void)
{
	struct ibv_xrcd *xrcd = new_xrcd(context());
	struct ibv_qp *qp = try_xrc_target(context(), xrcd);
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send = NULL;
	struct ibv_recv_wr receive = {.wr_id = 1}, *bad_receive = NULL;

	CHECK(qp, "ibv_create_qp_ex: %s", strerror(errno));
	REFUSED(ibv_post_recv(qp, &receive, &bad_receive), EINVAL);
	CHECK(bad_receive == &receive, "bad_wr is not set");
	REFUSED(ibv_post_send(qp, &send, &bad_send), EINVAL);
	CHECK(bad_send == &send, "bad_wr is not set");
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_close_xrcd(xrcd), 0);
}

static void xrc_with_foreign_objects(void)
{
	struct ibv_context *other = open_device();
	struct ibv_xrcd *xrcd = new_xrcd(context()), *foreign_xrcd = new_xrcd(other);
	struct ibv_pd *pd = new_pd(context()), *foreign_pd = new_pd(other);
	struct ibv_cq *cq = new_cq(context()), *foreign_cq = new_cq(other);

	CHECK(!try_xrc_srq(context(), pd, foreign_xrcd, cq) && errno == EINVAL, "another's XRCD: errno %d", errno);
	CHECK(!try_xrc_srq(context(), foreign_pd, xrcd, cq) && errno == EINVAL, "another's PD: errno %d", errno);
	CHECK(!try_xrc_srq(context(), pd, xrcd, foreign_cq) && errno == EINVAL, "another's CQ: errno %d", errno);
	CHECK(!try_xrc_target(context(), foreign_xrcd) && errno == EINVAL, "a target on another's XRCD: errno %d", errno);
	CHECK_EQ(ibv_close_xrcd(xrcd), 0);
	CHECK_EQ(ibv_close_xrcd(foreign_xrcd), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
}

static void region_with_bound_window(void)
{
	struct options options = {.mr_access = ALL_ACCESS | IBV_ACCESS_MW_BIND};
	struct endpoint *e = open_endpoint(&options);
	struct address self = address_of(e);
	struct ibv_mw *mw = ibv_alloc_mw(e->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {
		.wr_id = 1, .send_flags = IBV_SEND_SIGNALED,
		.bind_info = {.mr = e->mr, .addr = (uintptr_t)e->buffer, .length = 4096, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE},
	};

	CHECK(mw, "ibv_alloc_mw: %s", strerror(errno));
	connect_endpoint(e, &self, NULL);
	CHECK_EQ(ibv_bind_mw(e->qp, mw, &bind), 0);
	expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
	REFUSED(ibv_dereg_mr(e->mr), EBUSY);
	self.rkey = mw->rkey;
	CHECK_EQ(post(e, 2, IBV_WR_RDMA_WRITE, 8192, 64, &self, 0, 0), 0);
	expect_wc(e->send_cq, 2, IBV_WC_SUCCESS);
	// Bound to nothing, the window holds the region no longer.
	bind.bind_info.length = 0;
	bind.wr_id = 3;
	CHECK_EQ(ibv_bind_mw(e->qp, mw, &bind), 0);
	expect_wc(e->send_cq, 3, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_dereg_mr(e->mr), 0);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
}

// Region, window and queue pair of a bind have one protection domain.
static void window_of_another_domain(void)
{
	struct options options = {.mr_access = ALL_ACCESS | IBV_ACCESS_MW_BIND};
	struct endpoint *e = open_endpoint(&options);
	struct address self = address_of(e);
	struct ibv_pd *pd = new_pd(e->context);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1), *own = ibv_alloc_mw(e->pd, IBV_MW_TYPE_1);
	struct ibv_mr *mr = ibv_reg_mr(pd, e->buffer, 4096, ALL_ACCESS | IBV_ACCESS_MW_BIND);
	struct ibv_mw_bind bind = {
		.wr_id = 1,
		.bind_info = {.mr = e->mr, .addr = (uintptr_t)e->buffer, .length = 4096, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE},
	};

	CHECK(mw && own && mr, "making them: %s", strerror(errno));
	connect_endpoint(e, &self, NULL);
	uint32_t before = own->rkey;

	CHECK_EQ(ibv_bind_mw(e->qp, mw, &bind), EPERM);
	bind.bind_info.mr = mr;
	CHECK_EQ(ibv_bind_mw(e->qp, own, &bind), EPERM);
	CHECK_EQ(own->rkey, before);
	// Both of one domain, and the queue pair of another.
	int error = ibv_bind_mw(e->qp, mw, &bind);

	if (error == 0) {
		expect_wc(e->send_cq, 1, IBV_WC_MW_BIND_ERR);
	} else {
		CHECK(error == EINVAL || error == EPERM, "ibv_bind_mw answers %d (%s)", error, strerror(error));
		CHECK_EQ(state_of(e->qp), IBV_QPS_RTS);
	}
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

#define T(name) {#name, name, 0}
PROGRAM(T(domain_with_address_handle), T(domain_with_window), T(domain_with_parent_domain),
	T(parent_domain_with_queue_pair), T(parent_domain_of_another_context), T(xrc_domain),
	T(xrc_receive_queue_full), T(posting_to_an_xrc_target), T(xrc_with_foreign_objects),
	T(region_with_bound_window), T(window_of_another_domain))
