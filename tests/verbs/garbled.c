// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Objects that are none: handles that were overwritten, also with the number of another object that
// lives, copies of C structures, what was destroyed. Verbs of the control path tell all of them;
// posting and polling tell a queue's handle that was overwritten, and all that a request names.
// Each is EINVAL, and nothing comes of it.

#include "answers.h"
#include "endpoint.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { GARBAGE = 0x5a5a };

static struct endpoint *e;
static struct address self;

static void set_up(int qp_type)
{
	struct options options = {.qp_type = qp_type, .srq_wr = 16, .channel = true, .mr_access = ALL_ACCESS | IBV_ACCESS_MW_BIND};

	e = open_endpoint(&options);
	self = address_of(e);
}

static void receive_shared(uint64_t id)
{
	struct ibv_sge sge = sge_of(e, 0, 512);
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK_EQ(ibv_post_srq_recv(e->srq, &wr, &bad), 0);
}

// All is as it was: a message arrives.
static void unharmed(void)
{
	receive_shared(901);
	CHECK_EQ(post(e, 902, IBV_WR_SEND, 1024, 64, NULL, 0, IBV_SEND_SIGNALED), 0);
	expect_wc(e->send_cq, 902, IBV_WC_SUCCESS);
	expect_wc(e->recv_cq, 901, IBV_WC_SUCCESS);
}

// With another handle in it, with a copy of it, and with a copy that has another handle.
#define GARBLED(object, with)                                                                      \
	do {                                                                                       \
		__typeof__(*(object)) copy_ = *(object);                                           \
		(object)->handle ^= GARBAGE;                                                       \
		with(object);                                                                      \
		(object)->handle ^= GARBAGE;                                                       \
		with(&copy_);                                                                      \
		copy_.handle = 0xdeadbeef;                                                         \
		with(&copy_);                                                                      \
	} while (0)

// The same for what has another object of its kind beside it: with that one's number, too.
#define MISTAKEN(object, other, with)                                                              \
	do {                                                                                       \
		uint32_t own_ = (object)->handle;                                                  \
		GARBLED(object, with);                                                             \
		(object)->handle = (other)->handle;                                                \
		CHECK(own_ != (object)->handle, "one handle for two");                             \
		with(object);                                                                      \
		(object)->handle = own_;                                                           \
	} while (0)

// ---------------------------------------------------------------- the control path

static void with_pd(struct ibv_pd *pd)
{
	struct ibv_qp_init_attr qp = {.send_cq = e->send_cq, .recv_cq = e->recv_cq, .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_parent_domain_init_attr domain = {.pd = pd};
	struct ibv_ah_attr to = ah_attr_to(&self);

	REFUSED(ibv_dealloc_pd(pd), EINVAL);
	NOTHING(ibv_reg_mr(pd, e->buffer, 64, 0), EINVAL);
	NOTHING(ibv_alloc_mw(pd, IBV_MW_TYPE_1), EINVAL);
	NOTHING(ibv_create_ah(pd, &to), EINVAL);
	NOTHING(ibv_create_qp(pd, &qp), EINVAL);
	NOTHING(ibv_create_srq(pd, &srq), EINVAL);
	NOTHING(ibv_alloc_parent_domain(e->context, &domain), EINVAL);
	REFUSED(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0), EINVAL);
}

static void with_cq(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr qp = {.send_cq = cq, .recv_cq = e->recv_cq, .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
	struct ibv_modify_cq_attr attr = {0};

	REFUSED(ibv_destroy_cq(cq), EINVAL);
	REFUSED(ibv_resize_cq(cq, 64), EINVAL);
	REFUSED(ibv_modify_cq(cq, &attr), EINVAL);
	NOTHING(ibv_create_qp(e->pd, &qp), EINVAL);
}

static void with_qp(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	union ibv_gid gid = {.raw = {0xff, 0x0e}};

	REFUSED(ibv_destroy_qp(qp), EINVAL);
	REFUSED(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
	REFUSED(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), EINVAL);
	REFUSED(ibv_attach_mcast(qp, &gid, 0), EINVAL);
	REFUSED(ibv_detach_mcast(qp, &gid, 0), EINVAL);
}

static void with_srq(struct ibv_srq *srq)
{
	struct ibv_qp_init_attr qp = {
		.send_cq = e->send_cq, .recv_cq = e->recv_cq, .srq = srq, .qp_type = IBV_QPT_RC, .cap = {1, 0, 1, 0, 0},
	};
	struct ibv_srq_attr attr;
	uint32_t number;

	REFUSED(ibv_destroy_srq(srq), EINVAL);
	REFUSED(ibv_query_srq(srq, &attr), EINVAL);
	REFUSED(ibv_modify_srq(srq, &attr, 0), EINVAL);
	REFUSED(ibv_get_srq_num(srq, &number), EINVAL);
	NOTHING(ibv_create_qp(e->pd, &qp), EINVAL);
}

static void with_mr(struct ibv_mr *mr)
{
	REFUSED(ibv_dereg_mr(mr), EINVAL);
	ANSWERS(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_CMD, EINVAL);
}

static void with_mw(struct ibv_mw *mw)
{
	REFUSED(ibv_dealloc_mw(mw), EINVAL);
}

static void with_ah(struct ibv_ah *ah)
{
	REFUSED(ibv_destroy_ah(ah), EINVAL);
}

static void with_dm(struct ibv_dm *dm)
{
	char bytes[8] = {0};

	REFUSED(ibv_free_dm(dm), EINVAL);
	REFUSED(ibv_memcpy_to_dm(dm, 0, bytes, 8), EINVAL);
	REFUSED(ibv_memcpy_from_dm(bytes, dm, 0, 8), EINVAL);
	NOTHING(ibv_reg_dm_mr(e->pd, dm, 0, 8, IBV_ACCESS_ZERO_BASED), EINVAL);
}

static void control_path(void)
{
	struct ibv_alloc_dm_attr of_dm = {.length = 64};

	set_up(IBV_QPT_RC);
	struct ibv_ah_attr to = ah_attr_to(&self);
	struct ibv_ah *ah = ibv_create_ah(e->pd, &to);
	struct ibv_mw *window = ibv_alloc_mw(e->pd, IBV_MW_TYPE_1);
	struct ibv_dm *dm = ibv_alloc_dm(e->context, &of_dm);

	CHECK(ah && window && dm, "setting up: %s", strerror(errno));
	GARBLED(e->pd, with_pd);
	MISTAKEN(e->send_cq, e->recv_cq, with_cq);
	GARBLED(e->qp, with_qp);
	GARBLED(e->srq, with_srq);
	GARBLED(window, with_mw);
	GARBLED(ah, with_ah);
	GARBLED(dm, with_dm);
	// A verbs_mr surrounds it, which libibverbs looks into: so no copy.
	e->mr->handle ^= GARBAGE;
	with_mr(e->mr);
	e->mr->handle ^= GARBAGE;

	connect_endpoint(e, &self, NULL);
	unharmed();
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_dealloc_mw(window), 0);
	CHECK_EQ(ibv_free_dm(dm), 0);
	close_endpoint(e);
}

static void *keep(struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t resource)
{
	(void)pd, (void)context, (void)resource;
	return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void forget(struct ibv_pd *pd, void *context, void *memory, uint64_t resource)
{
	(void)pd, (void)context, (void)memory, (void)resource;
}

// Objects whose memory is the program's, which still holds what was there.
static void destroyed_twice(void)
{
	struct ibv_parent_domain_init_attr of_parent = {
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS, .alloc = keep, .free = forget,
	};
	struct ibv_qp_init_attr of_qp = {.qp_type = IBV_QPT_RC, .cap = {1, 0, 1, 0, 0}};
	struct ibv_srq_init_attr of_srq = {.attr = {.max_wr = 4, .max_sge = 1}};

	set_up(IBV_QPT_RC);
	of_parent.pd = e->pd;
	struct ibv_pd *parent = ibv_alloc_parent_domain(e->context, &of_parent);

	CHECK(parent, "ibv_alloc_parent_domain: %s", strerror(errno));
	of_qp.srq = ibv_create_srq(parent, &of_srq);
	of_qp.send_cq = of_qp.recv_cq = e->send_cq;
	struct ibv_qp *qp = ibv_create_qp(parent, &of_qp);

	CHECK(qp && of_qp.srq, "making queues: %s", strerror(errno));
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	with_qp(qp);
	CHECK_EQ(ibv_destroy_srq(of_qp.srq), 0);
	with_srq(of_qp.srq);
}

// ---------------------------------------------------------------- posting and polling

// A queue pair whose requests are built, in the place of the endpoint's own, and connected.
static struct ibv_qp_ex *builder(uint64_t ops)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = e->send_cq, .recv_cq = e->recv_cq, .srq = e->srq, .cap = {16, 0, 1, 0, 0}, .qp_type = e->qp->qp_type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = e->pd, .send_ops_flags = ops, .sq_sig_all = 1,
	};

	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	e->qp = ibv_create_qp_ex(e->context, &init);
	CHECK(e->qp, "ibv_create_qp_ex: %s", strerror(errno));
	self = address_of(e);
	connect_endpoint(e, &self, NULL);
	return ibv_qp_to_qp_ex(e->qp);
}

static int build_send(struct ibv_qp_ex *qp, struct ibv_ah *ah)
{
	ibv_wr_start(qp);
	qp->wr_id = 7;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, e->mr->lkey, (uintptr_t)e->buffer, 64);
	if (ah)
		ibv_wr_set_ud_addr(qp, ah, e->qp->qp_num, TEST_QKEY);
	return ibv_wr_complete(qp);
}

// The handle of a queue: what the device itself would not look at, it tells all the same.
static void queues(void)
{
	struct ibv_cq_init_attr_ex of_cq = {.cqe = 4, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_poll_cq_attr of_poll = {0};

	set_up(IBV_QPT_RC);
	struct ibv_qp_ex *ex = builder(IBV_QP_EX_WITH_SEND);
	struct ibv_cq_ex *cq = ibv_create_cq_ex(e->context, &of_cq);
	struct endpoint *other = open_endpoint(&(struct options){0});
	struct ibv_sge sge = sge_of(e, 0, 64);
	struct ibv_send_wr send = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad_send = NULL;
	struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad_receive = NULL;
	struct ibv_wc wc;

	CHECK(cq, "ibv_create_cq_ex: %s", strerror(errno));
	const uint32_t of_qps[] = {e->qp->handle, e->qp->handle ^ GARBAGE, other->qp->handle, 0};

	for (int i = 1; i < 4; i++) {
		e->qp->handle = of_qps[i];
		REFUSED(ibv_post_send(e->qp, &send, &bad_send), EINVAL);
		CHECK(bad_send == &send, "the bad request is not named");
		REFUSED(build_send(ex, NULL), EINVAL);
	}
	e->qp->handle = of_qps[0];
	other->qp->handle ^= GARBAGE;
	CHECK_EQ(modify_to_init(other), EINVAL);
	REFUSED(ibv_post_recv(other->qp, &receive, &bad_receive), EINVAL);
	CHECK(bad_receive == &receive, "the bad request is not named");
	other->qp->handle ^= GARBAGE;

	bad_receive = NULL;
	e->srq->handle ^= GARBAGE;
	REFUSED(ibv_post_srq_recv(e->srq, &receive, &bad_receive), EINVAL);
	CHECK(bad_receive == &receive, "the bad request is not named");
	e->srq->handle ^= GARBAGE;

	const uint32_t of_cqs[] = {e->send_cq->handle, e->send_cq->handle ^ GARBAGE, e->recv_cq->handle};

	for (int i = 1; i < 3; i++) {
		e->send_cq->handle = of_cqs[i];
		ANSWERS(ibv_poll_cq(e->send_cq, 1, &wc), -EINVAL, EINVAL);
		REFUSED(ibv_req_notify_cq(e->send_cq, 0), EINVAL);
		cq->handle = of_cqs[i];
		REFUSED(ibv_start_poll(cq, &of_poll), EINVAL);
	}
	e->send_cq->handle = of_cqs[0];
	expect_no_wc(e->send_cq, 20);
	unharmed();
}

static void post_to(struct ibv_srq *srq, bool tags)
{
	struct ibv_sge sge = sge_of(e, 0, 64);
	struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad_receive = NULL;
	struct ibv_ops_wr add = {
		.opcode = IBV_WR_TAG_ADD, .flags = IBV_OPS_SIGNALED, .tm.add = {.sg_list = &sge, .num_sge = 1, .mask = ~0ull},
	}, *bad = NULL;

	REFUSED(ibv_post_srq_recv(srq, &receive, &bad_receive), EINVAL);
	CHECK(bad_receive == &receive, "the bad request is not named");
	if (!tags)
		return;
	REFUSED(ibv_post_srq_ops(srq, &add, &bad), EINVAL);
	CHECK(bad == &add, "the bad operation is not named");
}

// Shared receive queues of every kind: basic, of XRC, and one that matches tags, each with the
// numbers of the others too.
static void shared_queues(void)
{
	struct ibv_cq_init_attr_ex of_cq = {.cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO};
	struct ibv_xrcd_init_attr of_xrcd = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT,
	};
	struct ibv_srq_init_attr_ex of_srq = {
		.attr = {.max_wr = 4, .max_sge = 1}, .srq_type = IBV_SRQT_XRC,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_XRCD,
	};

	set_up(IBV_QPT_RC);
	struct ibv_cq_ex *cq = ibv_create_cq_ex(e->context, &of_cq);
	struct ibv_xrcd *xrcd = ibv_open_xrcd(e->context, &of_xrcd);

	CHECK(cq && xrcd, "setting up: %s", strerror(errno));
	of_srq.pd = e->pd;
	of_srq.cq = ibv_cq_ex_to_cq(cq);
	of_srq.xrcd = xrcd;
	struct ibv_srq *of_xrc = ibv_create_srq_ex(e->context, &of_srq);

	of_srq.srq_type = IBV_SRQT_TM;
	of_srq.comp_mask ^= IBV_SRQ_INIT_ATTR_XRCD ^ IBV_SRQ_INIT_ATTR_TM;
	of_srq.tm_cap.max_num_tags = of_srq.tm_cap.max_ops = 4;
	struct ibv_srq *of_tags = ibv_create_srq_ex(e->context, &of_srq);

	CHECK(of_xrc && of_tags, "ibv_create_srq_ex: %s", strerror(errno));
	struct ibv_srq *srqs[] = {e->srq, of_xrc, of_tags};

	for (int i = 0; i < 3; i++) {
		const uint32_t own = srqs[i]->handle;
		const uint32_t others[] = {own ^ GARBAGE, srqs[(i + 1) % 3]->handle, srqs[(i + 2) % 3]->handle, 0, 0xdeadbeef};

		for (int j = 0; j < 5; j++) {
			CHECK(others[j] != own, "one handle for two");
			srqs[i]->handle = others[j];
			post_to(srqs[i], srqs[i] == of_tags);
		}
		srqs[i]->handle = own;
		GARBLED(srqs[i], with_srq);
	}
	// All have as much room as before: nothing was taken.
	struct ibv_sge sge = sge_of(e, 0, 64);
	struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad_receive;

	for (int i = 0; i < 4; i++) {
		struct ibv_ops_wr add = {.wr_id = i, .opcode = IBV_WR_TAG_ADD, .flags = IBV_OPS_SIGNALED,
					 .tm.add = {.sg_list = &sge, .num_sge = 1, .tag = i, .mask = ~0ull}}, *bad;

		CHECK_EQ(ibv_post_srq_recv(of_xrc, &receive, &bad_receive), 0);
		CHECK_EQ(ibv_post_srq_recv(of_tags, &receive, &bad_receive), 0);
		CHECK_EQ(ibv_post_srq_ops(of_tags, &add, &bad), 0);
	}
	connect_endpoint(e, &self, NULL);
	unharmed();
	CHECK_EQ(ibv_destroy_srq(of_tags), 0);
	CHECK_EQ(ibv_destroy_srq(of_xrc), 0);
	CHECK_EQ(ibv_close_xrcd(xrcd), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

static int send_datagram(struct ibv_ah *ah)
{
	struct ibv_sge sge = sge_of(e, 0, 64);
	struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
				 .wr.ud = {ah, e->qp->qp_num, TEST_QKEY}}, *bad = NULL;
	int result = ibv_post_send(e->qp, &wr, &bad), left = errno;

	CHECK(!result == !bad, "bad_wr is wrong");
	errno = left;
	return result;
}

static struct ibv_qp_ex *ex;

static void datagram_with(struct ibv_ah *ah)
{
	REFUSED(send_datagram(ah), EINVAL);
	REFUSED(build_send(ex, ah), EINVAL);
}

// The address handle of a datagram. Another one of the same domain leads to the same place, so that
// a datagram would arrive.
static void address_handles(void)
{
	set_up(IBV_QPT_UD);
	ex = builder(IBV_QP_EX_WITH_SEND);
	struct ibv_ah_attr to = ah_attr_to(&self);
	struct ibv_ah *ah = ibv_create_ah(e->pd, &to), *other = ibv_create_ah(e->pd, &to);

	CHECK(ah && other, "ibv_create_ah: %s", strerror(errno));
	receive_shared(1);
	MISTAKEN(ah, other, datagram_with);
	expect_no_wc(e->send_cq, 20);
	expect_no_wc(e->recv_cq, 1);
	CHECK_EQ(send_datagram(ah), 0);
	expect_wc(e->send_cq, 7, IBV_WC_SUCCESS);
	expect_wc(e->recv_cq, 1, IBV_WC_SUCCESS);
	receive_shared(2);
	CHECK_EQ(build_send(ex, ah), 0);
	expect_wc(e->send_cq, 7, IBV_WC_SUCCESS);
	expect_wc(e->recv_cq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_destroy_ah(other), 0);
}

static struct ibv_mw_bind_info the_region(void)
{
	return (struct ibv_mw_bind_info){e->mr, (uintptr_t)e->buffer, 64, IBV_ACCESS_REMOTE_READ};
}

static int bind_1(struct ibv_mw *mw, struct ibv_mw_bind_info info)
{
	struct ibv_mw_bind bind = {.wr_id = 8, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};

	return ibv_bind_mw(e->qp, mw, &bind);
}

static int bind_2(struct ibv_mw *mw, struct ibv_mw_bind_info info)
{
	struct ibv_send_wr wr = {.wr_id = 8, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
				 .bind_mw = {mw, ibv_inc_rkey(mw->rkey), info}}, *bad = NULL;
	int result = ibv_post_send(e->qp, &wr, &bad), left = errno;

	CHECK(!result == !bad, "bad_wr is wrong");
	errno = left;
	return result;
}

static int build_bind(struct ibv_mw *mw, struct ibv_mw_bind_info info)
{
	ibv_wr_start(ex);
	ex->wr_id = 8;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(ex, mw, ibv_inc_rkey(mw->rkey), &info);
	return ibv_wr_complete(ex);
}

static void bind_with_mw(struct ibv_mw *mw)
{
	uint32_t rkey = mw->rkey;

	if (mw->type == IBV_MW_TYPE_1) {
		REFUSED(bind_1(mw, the_region()), EINVAL);
	} else {
		REFUSED(bind_2(mw, the_region()), EINVAL);
		REFUSED(build_bind(mw, the_region()), EINVAL);
	}
	CHECK_EQ(mw->rkey, rkey);
}

static struct ibv_mw *windows[2];

static void bind_with_mr(struct ibv_mr *mr)
{
	struct ibv_mw_bind_info info = the_region();

	info.mr = mr;
	REFUSED(bind_1(windows[0], info), EINVAL);
	REFUSED(bind_2(windows[1], info), EINVAL);
	REFUSED(build_bind(windows[1], info), EINVAL);
}

// A right that nobody has defined. One of the optional range says nothing about a window.
static void bind_with_access(void)
{
	struct ibv_mw_bind_info info = the_region();

	info.mw_access_flags |= 1 << 15;
	REFUSED(bind_1(windows[0], info), EINVAL);
	REFUSED(bind_2(windows[1], info), EINVAL);
	REFUSED(build_bind(windows[1], info), EINVAL);
	info.mw_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING;
	CHECK_EQ(bind_1(windows[0], info), 0);
	expect_wc(e->send_cq, 8, IBV_WC_SUCCESS);
}

// Binds: window, region and rights. Others of the same domain are there that would do.
static void binds(void)
{
	static const enum ibv_mw_type types[] = {IBV_MW_TYPE_1, IBV_MW_TYPE_2};

	set_up(IBV_QPT_RC);
	ex = builder(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_BIND_MW);
	struct ibv_mr *other_region = ibv_reg_mr(e->pd, e->buffer, e->size, ALL_ACCESS | IBV_ACCESS_MW_BIND);

	CHECK(other_region, "ibv_reg_mr: %s", strerror(errno));
	for (int i = 0; i < 2; i++) {
		struct ibv_mw *mw = ibv_alloc_mw(e->pd, types[i]), *other = ibv_alloc_mw(e->pd, types[i]);

		CHECK(mw && other, "ibv_alloc_mw: %s", strerror(errno));
		MISTAKEN(mw, other, bind_with_mw);
		windows[i] = mw;
	}
	MISTAKEN(e->mr, other_region, bind_with_mr);
	bind_with_access();
	// The queue pair's own handle, where it is not a list of requests that is posted.
	e->qp->handle ^= GARBAGE;
	REFUSED(bind_1(windows[0], the_region()), EINVAL);
	e->qp->handle ^= GARBAGE;
	expect_no_wc(e->send_cq, 20);

	CHECK_EQ(bind_1(windows[0], the_region()), 0);
	expect_wc(e->send_cq, 8, IBV_WC_SUCCESS);
	CHECK_EQ(bind_2(windows[1], the_region()), 0);
	expect_wc(e->send_cq, 8, IBV_WC_SUCCESS);
	unharmed();
}

#define T(name) {#name, name, 0}
PROGRAM(T(control_path), T(destroyed_twice), T(queues), T(shared_queues), T(address_handles), T(binds))
