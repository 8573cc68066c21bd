// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Parent domains with allocators of the program's own, and thread domains.

#include "answers.h"
#include "endpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct address remote;
static const struct options defaults;

// What the allocators have seen.
static struct {
	struct ibv_pd *pd;
	unsigned allocated, released;
	enum { GIVE, DEFAULT, NONE, MISALIGNED } mode;
	struct {
		char *at, *base;
		size_t size;
	} live[64];
	unsigned count;
} heap;

static void *give(struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t resource)
{
	void *memory = NULL, *base;

	CHECK(context == &heap, "pd_context is wrong");
	CHECK(pd == heap.pd, "called for another domain");
	CHECK(size && alignment && !(alignment & (alignment - 1)), "%zu bytes at a multiple of %zu", size, alignment);
	CHECK_EQ(resource >> 32, 0);
	if (heap.mode == DEFAULT)
		return IBV_ALLOCATOR_USE_DEFAULT;
	if (heap.mode == NONE)
		return NULL;
	CHECK_EQ(posix_memalign(&memory, alignment, size + alignment), 0);
	memset(memory, 0, size);
	heap.allocated++;
	base = memory;
	if (heap.mode == MISALIGNED)
		memory = (char *)memory + 8;
	heap.live[heap.count].at = memory;
	heap.live[heap.count].base = base;
	heap.live[heap.count++].size = size;
	return memory;
}

static void take(struct ibv_pd *pd, void *context, void *memory, uint64_t resource)
{
	unsigned i = 0;

	(void)resource;
	CHECK(context == &heap && pd == heap.pd, "called for another domain");
	while (i < heap.count && heap.live[i].at != memory)
		i++;
	CHECK(i < heap.count, "memory that was not given is released");
	// Whoever still uses it is found out.
	memset(memory, 0xee, heap.live[i].size);
	free(heap.live[i].base);
	heap.live[i] = heap.live[--heap.count];
	heap.released++;
}

// Whether an object lies in memory that the allocators gave.
static bool ours(const void *object)
{
	for (unsigned i = 0; i < heap.count; i++)
		if ((const char *)object >= heap.live[i].at && (const char *)object < heap.live[i].at + heap.live[i].size)
			return true;
	return false;
}

static struct ibv_pd *parent_of(struct endpoint *e, struct ibv_td *td)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = e->pd,
		.td = td,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = give,
		.free = take,
		.pd_context = &heap,
	};

	heap.pd = ibv_alloc_parent_domain(e->context, &attr);
	CHECK(heap.pd, "ibv_alloc_parent_domain: %s", strerror(errno));
	CHECK_EQ(heap.pd->handle, e->pd->handle);
	return heap.pd;
}

static struct ibv_cq_ex *create_cq(struct endpoint *e, struct ibv_pd *parent, unsigned cqe)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.parent_domain = parent,
	};

	return ibv_create_cq_ex(e->context, &attr);
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = {.max_send_wr = 64, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 4},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	return ibv_create_qp(pd, &init);
}

// Everything that a connection needs, in memory of ours; traffic both ways; every byte comes back.
static void objects_lie_in_our_memory(void)
{
	struct endpoint *e = open_endpoint(&defaults);
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_td *td = ibv_alloc_td(e->context, &td_attr);
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 64, .max_sge = 1}};
	struct ibv_pd *parent = parent_of(e, td);
	struct ibv_cq_ex *cq = create_cq(e, parent, 8);
	struct ibv_srq *srq;
	struct ibv_qp *plain = e->qp;
	struct address mine;

	CHECK(td, "ibv_alloc_td: %s", strerror(errno));
	CHECK(cq && ours(cq), "the completion queue is elsewhere");
	srq = ibv_create_srq(parent, &srq_attr);
	CHECK(srq && ours(srq), "the shared receive queue is elsewhere");
	e->qp = create_qp(parent, ibv_cq_ex_to_cq(cq), srq);
	CHECK(e->qp && ours(e->qp), "the queue pair is elsewhere");
	CHECK(heap.allocated > 3, "no memory for the completions was asked for");
	remote = remote_open(&defaults);
	connect_endpoint(e, &remote, NULL);
	mine = address_of(e);
	remote_connect(0, &mine, NULL);
	for (int round = 0; round < 50; round++) {
		struct ibv_sge sge = sge_of(e, 4096, 64);
		struct ibv_recv_wr wr = {.wr_id = 100 + round, .sg_list = &sge, .num_sge = 1}, *bad;

		// The region is of the inner domain: a parent domain protects alike.
		CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
		fill(e->buffer, 64, round);
		CHECK_EQ(remote_post_recv(0, 1, 0, 64), 0);
		CHECK_EQ(post(e, round, IBV_WR_SEND, 0, 64, NULL, 0, 0), 0);
		expect_wc(ibv_cq_ex_to_cq(cq), round, IBV_WC_SUCCESS);
		remote_expect(0, true, 1, IBV_WC_SUCCESS);
		remote_check(0, 0, 64, round, "sent");
		CHECK_EQ(remote_post(0, 2, IBV_WR_SEND, 0, 64, NULL, 0, 0), 0);
		expect_wc(ibv_cq_ex_to_cq(cq), 100 + round, IBV_WC_SUCCESS);
		check_filled(e->buffer + 4096, 64, round, "received");
		remote_expect(0, false, 2, IBV_WC_SUCCESS);
		if (round % 10 == 9) {
			CHECK_EQ(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 8 + round), 0);
			CHECK_EQ(ibv_cq_ex_to_cq(cq)->cqe, 8 + round);
		}
	}
	// In use, nothing goes.
	REFUSED(ibv_dealloc_td(td), EBUSY);
	REFUSED(ibv_dealloc_pd(parent), EBUSY);
	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	REFUSED(ibv_dealloc_pd(parent), EBUSY);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	CHECK_EQ(heap.released, heap.allocated);
	CHECK_EQ(heap.count, 0);
	REFUSED(ibv_dealloc_td(td), EBUSY);
	CHECK_EQ(ibv_dealloc_pd(parent), 0);
	CHECK_EQ(ibv_dealloc_td(td), 0);
	e->qp = plain;
}

static void allocators_may_decline(void)
{
	struct endpoint *e = open_endpoint(&defaults);
	struct ibv_pd *parent = parent_of(e, NULL);
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;

	heap.mode = DEFAULT;
	cq = create_cq(e, parent, 16);
	CHECK(cq, "ibv_create_cq_ex: %s", strerror(errno));
	qp = create_qp(parent, ibv_cq_ex_to_cq(cq), NULL);
	CHECK(qp, "ibv_create_qp: %s", strerror(errno));
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 100), 0);
	heap.mode = NONE;
	REFUSED(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 200), ENOMEM);
	CHECK_EQ(ibv_cq_ex_to_cq(cq)->cqe, 100);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	CHECK(!create_cq(e, parent, 16) && errno == ENOMEM, "CQ: %s", strerror(errno));
	CHECK(!create_qp(parent, e->send_cq, NULL) && errno == ENOMEM, "QP: %s", strerror(errno));
	CHECK(!ibv_create_srq(parent, &srq) && errno == ENOMEM, "SRQ: %s", strerror(errno));
	heap.mode = MISALIGNED;
	CHECK(!create_qp(parent, e->send_cq, NULL) && errno == EINVAL, "misaligned: %s", strerror(errno));
	heap.mode = GIVE;
	// What fails later gives back what it had.
	CHECK(!create_cq(e, parent, 0) && errno == EINVAL, "empty: %s", strerror(errno));
	srq.attr.max_wr = 1u << 30;
	CHECK(!ibv_create_srq(parent, &srq) && errno == EINVAL, "SRQ: %s", strerror(errno));
	CHECK_EQ(heap.released, heap.allocated);
	CHECK_EQ(ibv_dealloc_pd(parent), 0);
}

static void creation_is_checked(void)
{
	struct endpoint *e = open_endpoint(&defaults);
	struct ibv_context *other = open_device();
	struct ibv_parent_domain_init_attr attr = {.pd = NULL};
	struct ibv_td_init_attr td_attr = {.comp_mask = 1};
	struct ibv_td *td;
	struct ibv_pd *parent, *pd = ibv_alloc_pd(e->context);
	struct ibv_mr *mr;

	CHECK(pd, "ibv_alloc_pd: %s", strerror(errno));
	CHECK(!ibv_alloc_td(e->context, &td_attr) && errno == EINVAL, "comp_mask: %s", strerror(errno));
	CHECK(!ibv_alloc_parent_domain(e->context, &attr) && errno == EINVAL, "no domain: %s", strerror(errno));
	attr.pd = pd;
	attr.comp_mask = 1 << 9;
	CHECK(!ibv_alloc_parent_domain(e->context, &attr) && errno == EOPNOTSUPP, "comp_mask: %s", strerror(errno));
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	attr.alloc = give;
	CHECK(!ibv_alloc_parent_domain(e->context, &attr) && errno == EINVAL, "half an allocator: %s", strerror(errno));
	attr.comp_mask = 0;
	CHECK(!ibv_alloc_parent_domain(other, &attr) && errno == EINVAL, "another context: %s", strerror(errno));
	td_attr.comp_mask = 0;
	attr.td = ibv_alloc_td(other, &td_attr);
	CHECK(!ibv_alloc_parent_domain(e->context, &attr) && errno == EINVAL, "another's thread: %s", strerror(errno));
	CHECK_EQ(ibv_dealloc_td(attr.td), 0);
	td = ibv_alloc_td(e->context, &td_attr);
	attr.td = td;
	parent = ibv_alloc_parent_domain(e->context, &attr);
	CHECK(parent, "ibv_alloc_parent_domain: %s", strerror(errno));
	attr.pd = parent;
	CHECK(!ibv_alloc_parent_domain(e->context, &attr) && errno == EINVAL, "a parent's parent: %s", strerror(errno));
	// A plain domain has no resources to lend.
	CHECK(!create_cq(e, pd, 16) && errno == EINVAL, "plain domain: %s", strerror(errno));
	REFUSED(ibv_dealloc_pd(pd), EBUSY);
	// What is made in the parent domain keeps it, and leaves the inner one's other users alone.
	mr = ibv_reg_mr(parent, e->buffer, 4096, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr && mr->pd == parent, "ibv_reg_mr: %s", strerror(errno));
	REFUSED(ibv_dealloc_pd(parent), EBUSY);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_dealloc_pd(parent), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(ibv_dealloc_td(td), 0);
	CHECK_EQ(ibv_close_device(other), 0);
}

#define T(name) {#name, name, 0}
PROGRAM(T(objects_lie_in_our_memory), T(allocators_may_decline), T(creation_is_checked))
