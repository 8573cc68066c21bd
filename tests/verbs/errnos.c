// SPDX-License-Identifier: MIT OR Apache-2.0
//
// How verbs fail: with the errno that is due as their value, or with NULL, and with `errno` set in
// either case, as when the kernel carries them out. What libibverbs answers by itself is not here,
// and garbled.c has objects that are none.

#include "answers.h"
#include "endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static struct endpoint *e;
static struct ibv_mw *window, *bound;
static struct ibv_ah *ah;
static struct ibv_dm *dm;
static struct ibv_mr *of_dm_mr;
static struct ibv_qp *in_group;
static struct ibv_qp_ex *builder;
static struct ibv_srq *xrc_queue;
static struct ibv_xrcd *xrcd;
static struct ibv_td *td;
static struct ibv_pd *parent;

static const union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 7}};

// One in a multicast group, and one whose requests are built and which has bound a window.
static void set_up_queue_pairs(void)
{
	struct ibv_qp_init_attr of_group = {.send_cq = e->send_cq, .recv_cq = e->recv_cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_UD};
	struct ibv_qp_init_attr_ex of_builder = {
		.send_cq = e->send_cq, .recv_cq = e->recv_cq, .srq = e->srq, .cap = {2, 0, 1, 0, 0}, .qp_type = IBV_QPT_RC, .pd = e->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_BIND_MW,
	};
	struct ibv_mw_bind bind = {
		.wr_id = 5, .send_flags = IBV_SEND_SIGNALED, .bind_info = {e->mr, (uintptr_t)e->buffer, 64, IBV_ACCESS_REMOTE_READ},
	};
	struct ibv_qp *plain = e->qp;
	struct address self;

	in_group = ibv_create_qp(e->pd, &of_group);
	e->qp = ibv_create_qp_ex(e->context, &of_builder);
	bound = ibv_alloc_mw(e->pd, IBV_MW_TYPE_1);
	CHECK(in_group && e->qp && bound, "setting up: %s", strerror(errno));
	CHECK_EQ(ibv_attach_mcast(in_group, &group, 0), 0);
	builder = ibv_qp_to_qp_ex(e->qp);
	self = address_of(e);
	connect_endpoint(e, &self, NULL);
	CHECK_EQ(ibv_bind_mw(e->qp, bound, &bind), 0);
	expect_wc(e->send_cq, 5, IBV_WC_SUCCESS);
	e->qp = plain;
}

static void set_up(void)
{
	struct options options = {.srq_wr = 16, .channel = true, .mr_access = ALL_ACCESS | IBV_ACCESS_MW_BIND};
	struct ibv_alloc_dm_attr of_dm = {.length = 64};
	struct ibv_xrcd_init_attr of_xrcd = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT,
	};
	struct ibv_td_init_attr of_td = {0};
	struct address self;

	e = open_endpoint(&options);
	self = address_of(e);
	struct ibv_ah_attr of_ah = ah_attr_to(&self);

	window = ibv_alloc_mw(e->pd, IBV_MW_TYPE_1);
	ah = ibv_create_ah(e->pd, &of_ah);
	dm = ibv_alloc_dm(e->context, &of_dm);
	xrcd = ibv_open_xrcd(e->context, &of_xrcd);
	td = ibv_alloc_td(e->context, &of_td);
	CHECK(window && ah && dm && xrcd && td, "setting up: %s", strerror(errno));
	struct ibv_srq_init_attr_ex of_queue = {
		.attr = {.max_wr = 4, .max_sge = 1}, .srq_type = IBV_SRQT_XRC, .pd = e->pd, .xrcd = xrcd, .cq = e->recv_cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_parent_domain_init_attr of_parent = {.pd = e->pd, .td = td};

	xrc_queue = ibv_create_srq_ex(e->context, &of_queue);
	parent = ibv_alloc_parent_domain(e->context, &of_parent);
	CHECK(xrc_queue && parent, "setting up: %s", strerror(errno));
	of_dm_mr = ibv_reg_dm_mr(e->pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED);
	CHECK(of_dm_mr, "setting up: %s", strerror(errno));
	set_up_queue_pairs();
}

// ---------------------------------------------------------------- verbs that return an errno

static int modify_qp(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};

	return ibv_modify_qp(e->qp, &attr, IBV_QP_STATE);
}

static int modify_srq(void)
{
	struct ibv_srq_attr attr = {.srq_limit = 1 << 30};

	return ibv_modify_srq(e->srq, &attr, IBV_SRQ_LIMIT);
}

static int modify_cq(void)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = 1 << 7};

	return ibv_modify_cq(e->send_cq, &attr);
}

static int query_port(void)
{
	struct ibv_port_attr attr;

	return ibv_query_port(e->context, 77, &attr);
}

static int query_rt_values(void)
{
	struct ibv_values_ex values = {.comp_mask = 1 << 9};

	return ibv_query_rt_values_ex(e->context, &values);
}

static int post_send(void)
{
	struct ibv_send_wr wr = {.opcode = 99}, *bad = NULL;
	int result = ibv_post_send(e->qp, &wr, &bad);

	CHECK(bad == &wr, "the bad request is not named");
	return result;
}

static int post_recv_to_shared(void)
{
	struct ibv_recv_wr wr = {0}, *bad;

	return ibv_post_recv(e->qp, &wr, &bad);
}

static int post_srq_recv(void)
{
	struct ibv_recv_wr wr = {.num_sge = 77, .sg_list = &(struct ibv_sge){0}}, *bad = NULL;
	int result = ibv_post_srq_recv(e->srq, &wr, &bad);

	CHECK(bad == &wr, "the bad request is not named");
	return result;
}

static int bind_mw(void)
{
	// The queue pair is in RESET.
	struct ibv_mw_bind bind = {0};

	return ibv_bind_mw(e->qp, window, &bind);
}

static int advise_mr(void)
{
	return ibv_advise_mr(e->pd, 99, 0, NULL, 0);
}

static int memcpy_to_dm(void)
{
	return ibv_memcpy_to_dm(dm, 1 << 20, e->buffer, 8);
}

static int memcpy_from_dm(void)
{
	return ibv_memcpy_from_dm(e->buffer, dm, 1 << 20, 8);
}

static int free_dm(void)
{
	return ibv_free_dm(dm);
}

static int dereg_mr(void)
{
	return ibv_dereg_mr(e->mr);
}

static int get_srq_num(void)
{
	return ibv_get_srq_num(xrc_queue, NULL);
}

static int post_srq_ops(void)
{
	// The queue has no tags.
	struct ibv_ops_wr wr = {.opcode = IBV_WR_TAG_SYNC}, *bad = NULL;
	int result = ibv_post_srq_ops(e->srq, &wr, &bad);

	CHECK(bad == &wr, "the bad request is not named");
	return result;
}

static int wr_complete(void)
{
	// A setter without a request.
	ibv_wr_start(builder);
	ibv_wr_set_sge(builder, e->mr->lkey, (uintptr_t)e->buffer, 8);
	return ibv_wr_complete(builder);
}

static int wr_complete_of_too_many(void)
{
	ibv_wr_start(builder);
	for (int i = 0; i < 3; i++)
		ibv_wr_send(builder);
	return ibv_wr_complete(builder);
}

static int destroy_qp(void)
{
	return ibv_destroy_qp(in_group);
}

static int resize_cq(void)
{
	return ibv_resize_cq(e->send_cq, -1);
}

static int attach_mcast(void)
{
	union ibv_gid gid = {.raw = {0xff, 0x0e}};

	return ibv_attach_mcast(e->qp, &gid, 0);
}

static int detach_mcast(void)
{
	union ibv_gid gid = {.raw = {0xff, 0x0e}};

	return ibv_detach_mcast(e->qp, &gid, 0);
}

static int dealloc_pd(void)
{
	return ibv_dealloc_pd(e->pd);
}

static int destroy_cq(void)
{
	return ibv_destroy_cq(e->send_cq);
}

static int destroy_srq(void)
{
	return ibv_destroy_srq(e->srq);
}

static int close_xrcd(void)
{
	return ibv_close_xrcd(xrcd);
}

static int dealloc_td(void)
{
	return ibv_dealloc_td(td);
}

static void errno_is_returned_and_set(void)
{
	static const struct {
		const char *verb;
		int (*call)(void);
		int due;
	} rows[] = {
		{"ibv_modify_qp", modify_qp, EINVAL},
		{"ibv_modify_srq", modify_srq, EINVAL},
		{"ibv_modify_cq", modify_cq, EOPNOTSUPP},
		{"ibv_resize_cq", resize_cq, EINVAL},
		{"ibv_query_port", query_port, EINVAL},
		{"ibv_query_rt_values_ex", query_rt_values, EINVAL},
		{"ibv_post_send", post_send, EINVAL},
		{"ibv_post_recv", post_recv_to_shared, EINVAL},
		{"ibv_post_srq_recv", post_srq_recv, EINVAL},
		{"ibv_bind_mw", bind_mw, EINVAL},
		{"ibv_advise_mr", advise_mr, ENOTSUP},
		{"ibv_memcpy_to_dm", memcpy_to_dm, EINVAL},
		{"ibv_memcpy_from_dm", memcpy_from_dm, EINVAL},
		{"ibv_free_dm", free_dm, EBUSY},
		{"ibv_dereg_mr", dereg_mr, EBUSY},
		{"ibv_get_srq_num", get_srq_num, EINVAL},
		{"ibv_post_srq_ops", post_srq_ops, EINVAL},
		{"ibv_wr_complete", wr_complete, EINVAL},
		{"ibv_wr_complete", wr_complete_of_too_many, ENOMEM},
		{"ibv_destroy_qp", destroy_qp, EBUSY},
		{"ibv_attach_mcast", attach_mcast, EINVAL},
		{"ibv_detach_mcast", detach_mcast, EINVAL},
		{"ibv_dealloc_pd", dealloc_pd, EBUSY},
		{"ibv_destroy_cq", destroy_cq, EBUSY},
		{"ibv_destroy_srq", destroy_srq, EBUSY},
		{"ibv_close_xrcd", close_xrcd, EBUSY},
		{"ibv_dealloc_td", dealloc_td, EBUSY},
	};

	set_up();
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		errno = BEFORE;
		int result = rows[i].call(), left = errno;

		CHECK(result == rows[i].due && left == rows[i].due, "%s: returns %d and leaves errno at %d, not %d", rows[i].verb,
		      result, left, rows[i].due);
	}
}

// ---------------------------------------------------------------- verbs that return an object

static void *alloc_mw(void)
{
	return ibv_alloc_mw(e->pd, 9);
}

static void *create_cq(void)
{
	return ibv_create_cq(e->context, 0, NULL, NULL, 0);
}

static void *create_qp(void)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC};

	return ibv_create_qp(e->pd, &init);
}

static void *create_qp_ex(void)
{
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_RC, .pd = e->pd, .comp_mask = IBV_QP_INIT_ATTR_PD | 1 << 20};

	return ibv_create_qp_ex(e->context, &init);
}

static void *create_srq(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 0}};

	return ibv_create_srq(e->pd, &init);
}

static void *create_ah(void)
{
	struct ibv_ah_attr attr = {.port_num = 77};

	return ibv_create_ah(e->pd, &attr);
}

static void *reg_mr(void)
{
	return ibv_reg_mr(e->pd, e->buffer, 64, IBV_ACCESS_REMOTE_WRITE);
}

static void *reg_mr_iova(void)
{
	return ibv_reg_mr_iova(e->pd, e->buffer, 64, 1 << 20, IBV_ACCESS_REMOTE_WRITE);
}

static void *reg_dmabuf_mr(void)
{
	return ibv_reg_dmabuf_mr(e->pd, 0, 64, 0, -1, 0);
}

static void *reg_dmabuf_mr_of_another_file(void)
{
	return ibv_reg_dmabuf_mr(e->pd, 0, 64, 0, e->context->async_fd, 0);
}

static void *import_dm(void)
{
	return ibv_import_dm(e->context, 0xdeadbeef);
}

static void *reg_dm_mr(void)
{
	return ibv_reg_dm_mr(e->pd, dm, 0, 1 << 20, IBV_ACCESS_ZERO_BASED);
}

static void *alloc_dm(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 8, .comp_mask = 1};

	return ibv_alloc_dm(e->context, &attr);
}

static void *open_xrcd(void)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1};

	return ibv_open_xrcd(e->context, &attr);
}

static void *open_qp(void)
{
	struct ibv_qp_open_attr attr = {.comp_mask = IBV_QP_OPEN_ATTR_NUM};

	return ibv_open_qp(e->context, &attr);
}

static void *alloc_parent_domain(void)
{
	struct ibv_parent_domain_init_attr attr = {0};

	return ibv_alloc_parent_domain(e->context, &attr);
}

static void *alloc_td(void)
{
	struct ibv_td_init_attr attr = {.comp_mask = 1};

	return ibv_alloc_td(e->context, &attr);
}

static void *import_pd(void)
{
	return ibv_import_pd(e->context, 0xdeadbeef);
}

static void *import_mr(void)
{
	return ibv_import_mr(e->pd, 0xdeadbeef);
}

static void null_and_errno(void)
{
	static const struct {
		const char *verb;
		void *(*call)(void);
		int due;
	} rows[] = {
		{"ibv_alloc_mw", alloc_mw, EINVAL},
		{"ibv_create_cq", create_cq, EINVAL},
		{"ibv_create_qp", create_qp, EINVAL},
		{"ibv_create_qp_ex", create_qp_ex, EOPNOTSUPP},
		{"ibv_create_srq", create_srq, EINVAL},
		{"ibv_create_ah", create_ah, EINVAL},
		{"ibv_reg_mr", reg_mr, EINVAL},
		{"ibv_reg_dm_mr", reg_dm_mr, EINVAL},
		{"ibv_reg_mr_iova", reg_mr_iova, EINVAL},
		{"ibv_reg_dmabuf_mr", reg_dmabuf_mr, EBADF},
		{"ibv_reg_dmabuf_mr", reg_dmabuf_mr_of_another_file, EINVAL},
		{"ibv_alloc_dm", alloc_dm, EINVAL},
		{"ibv_open_xrcd", open_xrcd, EINVAL},
		{"ibv_open_qp", open_qp, EINVAL},
		{"ibv_alloc_parent_domain", alloc_parent_domain, EINVAL},
		{"ibv_alloc_td", alloc_td, EINVAL},
		{"ibv_import_pd", import_pd, ENOENT},
		{"ibv_import_mr", import_mr, ENOENT},
		{"ibv_import_dm", import_dm, ENOENT},
	};

	set_up();
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		errno = BEFORE;
		void *made = rows[i].call();
		int left = errno;

		CHECK(!made && left == rows[i].due, "%s: returns %p and leaves errno at %d, not %d", rows[i].verb, made, left,
		      rows[i].due);
	}
}

#define T(name) {#name, name, 0}
PROGRAM(T(errno_is_returned_and_set), T(null_and_errno))
