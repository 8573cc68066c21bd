// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Memory windows: what a bound one allows, and everything that is refused. Two endpoints of one
// process: `near` asks, `far` owns region and windows.

#include "answers.h"
#include "endpoint.h"

#include <errno.h>
#include <string.h>

enum { START = 4096, LENGTH = 1000 };
enum { WINDOW_ACCESS = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

static struct endpoint *near, *far;
static struct ibv_mw *window;

static void connect_both(struct endpoint *a, struct endpoint *b)
{
	struct address to_a = address_of(a), to_b = address_of(b);

	connect_endpoint(a, &to_b, NULL);
	connect_endpoint(b, &to_a, NULL);
}

static void open_both(int mr_access)
{
	near = open_endpoint(&(struct options){0});
	far = open_endpoint(&(struct options){.mr_access = mr_access});
	connect_both(near, far);
}

static struct ibv_mw *allocate(enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(far->pd, type);

	CHECK(mw, "ibv_alloc_mw: %s", strerror(errno));
	CHECK(mw->rkey && mw->type == type && mw->pd == far->pd, "a window's fields");
	return mw;
}

// The device, both endpoints and a window of this type, not bound.
static void prepare(enum ibv_mw_type type)
{
	open_both(ALL_ACCESS | IBV_ACCESS_MW_BIND);
	window = allocate(type);
}

static struct ibv_mw_bind_info part(size_t offset, size_t length, unsigned access)
{
	return (struct ibv_mw_bind_info){far->mr, (uintptr_t)far->buffer + offset, length, access};
}

static int bind_1(struct endpoint *e, struct ibv_mw *mw, struct ibv_mw_bind_info info)
{
	struct ibv_mw_bind bind = {.wr_id = 100, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};

	return ibv_bind_mw(e->qp, mw, &bind);
}

static int bind_2(struct endpoint *e, struct ibv_mw *mw, uint32_t rkey, struct ibv_mw_bind_info info)
{
	struct ibv_send_wr wr = {.wr_id = 100, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = info;
	return ibv_post_send(e->qp, &wr, &bad);
}

static void expect_bind(struct endpoint *e, enum ibv_wc_status status)
{
	struct ibv_wc wc = expect_wc(e->send_cq, 100, status);

	if (status == IBV_WC_SUCCESS)
		CHECK_EQ(wc.opcode, IBV_WC_BIND_MW);
}

// Binds the window of the test to its part of the region and returns its key.
static uint32_t bind_part(unsigned access)
{
	struct ibv_mw_bind_info info = part(START, LENGTH, access);

	if (window->type == IBV_MW_TYPE_1) {
		CHECK_EQ(bind_1(far, window, info), 0);
	} else {
		uint32_t rkey = ibv_inc_rkey(window->rkey);

		CHECK_EQ(bind_2(far, window, rkey, info), 0);
		window->rkey = rkey;
	}
	expect_bind(far, IBV_WC_SUCCESS);
	return window->rkey;
}

static int ask_at(struct endpoint *e, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t va, size_t length)
{
	struct address to = {.rkey = rkey, .va = va};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return post_atomic(e, 1, opcode, 0, &to, 0, 1, 0);
	return post(e, 1, opcode, 0, length, &to, 0, IBV_SEND_SIGNALED);
}

static void ask(enum ibv_wr_opcode opcode, uint32_t rkey, size_t offset, size_t length, enum ibv_wc_status status)
{
	CHECK_EQ(ask_at(near, opcode, rkey, (uintptr_t)far->buffer + offset, length), 0);
	expect_wc(near->send_cq, 1, status);
}

static void use(uint32_t rkey, uint32_t seed)
{
	fill(near->buffer, LENGTH, seed);
	ask(IBV_WR_RDMA_WRITE, rkey, START, LENGTH, IBV_WC_SUCCESS);
	check_filled(far->buffer + START, LENGTH, seed, "what was written through the window");
	memset(near->buffer, 0, LENGTH);
	ask(IBV_WR_RDMA_READ, rkey, START, LENGTH, IBV_WC_SUCCESS);
	check_filled(near->buffer, LENGTH, seed, "what was read through the window");
	uint64_t before = *(uint64_t *)(far->buffer + START + 8);

	ask(IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, START + 8, 8, IBV_WC_SUCCESS);
	CHECK_EQ(*(uint64_t *)(far->buffer + START + 8), before + 1);
}

// Nothing was written where the window does not allow it.
static void refused(enum ibv_wr_opcode opcode, uint32_t rkey, size_t offset, size_t length)
{
	memset(near->buffer, 0xee, 2 * LENGTH);
	ask(opcode, rkey, offset, length, IBV_WC_REM_ACCESS_ERR);
	for (size_t i = 0; i < length; i++)
		CHECK(far->buffer[offset + i] != (char)0xee, "byte %zu was written", offset + i);
}

static void type_1(void)
{
	prepare(IBV_MW_TYPE_1);
	use(bind_part(WINDOW_ACCESS), 1);
}

static void type_2(void)
{
	prepare(IBV_MW_TYPE_2);
	use(bind_part(WINDOW_ACCESS), 2);
}

static void builder(void)
{
	near = open_endpoint(&(struct options){0});
	far = open_endpoint(&(struct options){.mr_access = ALL_ACCESS | IBV_ACCESS_MW_BIND});
	struct ibv_qp_init_attr_ex init = {
		.send_cq = far->send_cq, .recv_cq = far->recv_cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1, .pd = far->pd,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV,
	};

	CHECK_EQ(ibv_destroy_qp(far->qp), 0);
	CHECK((far->qp = ibv_create_qp_ex(far->context, &init)), "ibv_create_qp_ex: %s", strerror(errno));
	connect_both(near, far);
	window = allocate(IBV_MW_TYPE_2);
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(far->qp);
	struct ibv_mw_bind_info info = part(START, LENGTH, WINDOW_ACCESS);
	uint32_t rkey = ibv_inc_rkey(window->rkey);

	ibv_wr_start(qp);
	qp->wr_id = 100;
	ibv_wr_bind_mw(qp, window, rkey, &info);
	CHECK_EQ(ibv_wr_complete(qp), 0);
	expect_bind(far, IBV_WC_SUCCESS);
	use(rkey, 3);
	ibv_wr_start(qp);
	qp->wr_id = 101;
	ibv_wr_local_inv(qp, rkey);
	CHECK_EQ(ibv_wr_complete(qp), 0);
	CHECK_EQ(expect_wc(far->send_cq, 101, IBV_WC_SUCCESS).opcode, IBV_WC_LOCAL_INV);
	// Without a window the whole batch is refused.
	ibv_wr_start(qp);
	ibv_wr_bind_mw(qp, NULL, rkey, &info);
	REFUSED(ibv_wr_complete(qp), EINVAL);
	refused(IBV_WR_RDMA_WRITE, rkey, START, 1);
}

// Addresses count from the window's start.
static void zero_based(enum ibv_mw_type type)
{
	prepare(type);
	uint32_t rkey = bind_part(WINDOW_ACCESS | IBV_ACCESS_ZERO_BASED);

	fill(near->buffer, LENGTH, 4);
	CHECK_EQ(ask_at(near, IBV_WR_RDMA_WRITE, rkey, 0, LENGTH), 0);
	expect_wc(near->send_cq, 1, IBV_WC_SUCCESS);
	check_filled(far->buffer + START, LENGTH, 4, "what was written through the window");
	CHECK_EQ(ask_at(near, IBV_WR_RDMA_WRITE, rkey, 1, LENGTH), 0);
	expect_wc(near->send_cq, 1, IBV_WC_REM_ACCESS_ERR);
}

static void zero_based_1(void) { zero_based(IBV_MW_TYPE_1); }
static void zero_based_2(void) { zero_based(IBV_MW_TYPE_2); }

// A window of a type 1 moves: its key changes, and the old one is stale.
static void rebound(void)
{
	prepare(IBV_MW_TYPE_1);
	uint32_t old = bind_part(WINDOW_ACCESS), rkey = bind_part(WINDOW_ACCESS);

	CHECK(old != rkey && old >> 8 == rkey >> 8, "keys %#x and %#x", old, rkey);
	use(rkey, 5);
	refused(IBV_WR_RDMA_WRITE, old, START, 1);
}

static void unbound_by_length_zero(void)
{
	prepare(IBV_MW_TYPE_1);
	bind_part(WINDOW_ACCESS);
	REFUSED(ibv_dereg_mr(far->mr), EBUSY);
	CHECK_EQ(bind_1(far, window, (struct ibv_mw_bind_info){0}), 0);
	expect_bind(far, IBV_WC_SUCCESS);
	refused(IBV_WR_RDMA_WRITE, window->rkey, START, 1);
	CHECK_EQ(ibv_dereg_mr(far->mr), 0);
}

static void never_bound(void)
{
	prepare(IBV_MW_TYPE_2);
	refused(IBV_WR_RDMA_WRITE, window->rkey, START, 1);
}

static void beyond_the_end(void)
{
	prepare(IBV_MW_TYPE_2);
	refused(IBV_WR_RDMA_WRITE, bind_part(WINDOW_ACCESS), START + 1, LENGTH);
}

static void before_the_start(void)
{
	prepare(IBV_MW_TYPE_1);
	refused(IBV_WR_RDMA_WRITE, bind_part(WINDOW_ACCESS), START - 1, 2);
}

static void no_right_to_read(void)
{
	prepare(IBV_MW_TYPE_2);
	refused(IBV_WR_RDMA_READ, bind_part(IBV_ACCESS_REMOTE_WRITE), START, 1);
}

static void no_right_to_write(void)
{
	prepare(IBV_MW_TYPE_1);
	refused(IBV_WR_RDMA_WRITE, bind_part(IBV_ACCESS_REMOTE_READ), START, 1);
}

static void no_right_to_atomics(void)
{
	prepare(IBV_MW_TYPE_2);
	refused(IBV_WR_ATOMIC_FETCH_AND_ADD, bind_part(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE), START, 8);
}

// The low 8 bits of a key count.
static void neighbouring_key(void)
{
	prepare(IBV_MW_TYPE_2);
	refused(IBV_WR_RDMA_WRITE, ibv_inc_rkey(bind_part(WINDOW_ACCESS)), START, 1);
}

// Another connection of the owner's, in the same domain or in another.
static struct endpoint *second_connection(bool own_pd)
{
	struct endpoint *there = open_endpoint(&(struct options){.share_plus_one = 2, .own_pd = own_pd});
	struct endpoint *here = open_endpoint(&(struct options){0});

	connect_both(here, there);
	return here;
}

static void other_queue_pair(void)
{
	prepare(IBV_MW_TYPE_2);
	uint32_t rkey = bind_part(WINDOW_ACCESS);

	near = second_connection(false);
	refused(IBV_WR_RDMA_WRITE, rkey, START, 1);
}

static void other_queue_pair_of_type_1(void)
{
	prepare(IBV_MW_TYPE_1);
	uint32_t rkey = bind_part(WINDOW_ACCESS);

	near = second_connection(false);
	use(rkey, 6);
}

static void other_domain(void)
{
	prepare(IBV_MW_TYPE_1);
	uint32_t rkey = bind_part(WINDOW_ACCESS);

	near = second_connection(true);
	refused(IBV_WR_RDMA_WRITE, rkey, START, 1);
}

static void invalidate(struct endpoint *e, enum ibv_wr_opcode opcode, uint32_t rkey, enum ibv_wc_status status)
{
	struct ibv_sge sge = sge_of(e, 0, 16);
	struct ibv_send_wr wr = {
		.wr_id = 7, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = rkey,
		.sg_list = &sge, .num_sge = opcode == IBV_WR_SEND_WITH_INV,
	}, *bad;

	CHECK_EQ(ibv_post_send(e->qp, &wr, &bad), 0);
	expect_wc(e->send_cq, 7, status);
}

static void local_invalidate(void)
{
	prepare(IBV_MW_TYPE_2);
	uint32_t old = bind_part(WINDOW_ACCESS);

	invalidate(far, IBV_WR_LOCAL_INV, old, IBV_WC_SUCCESS);
	// Then it may be bound anew, and the region is in use again.
	use(bind_part(WINDOW_ACCESS), 8);
	REFUSED(ibv_dereg_mr(far->mr), EBUSY);
	invalidate(far, IBV_WR_LOCAL_INV, window->rkey, IBV_WC_SUCCESS);
	refused(IBV_WR_RDMA_WRITE, window->rkey, START, 1);
	CHECK_EQ(ibv_dereg_mr(far->mr), 0);
}

static void send_with_invalidate(void)
{
	prepare(IBV_MW_TYPE_2);
	uint32_t rkey = bind_part(WINDOW_ACCESS);

	CHECK_EQ(post_recv(far, 9, 0, 64), 0);
	invalidate(near, IBV_WR_SEND_WITH_INV, rkey, IBV_WC_SUCCESS);
	struct ibv_wc wc = expect_wc(far->recv_cq, 9, IBV_WC_SUCCESS);

	CHECK(wc.wc_flags & IBV_WC_WITH_INV, "flags %#x", wc.wc_flags);
	CHECK_EQ(wc.invalidated_rkey, rkey);
	CHECK_EQ(wc.byte_len, 16);
	refused(IBV_WR_RDMA_WRITE, rkey, START, 1);
	CHECK_EQ(ibv_dereg_mr(far->mr), 0);
}

// The same between two processes, the window's owner being told by a message that it is the only
// one's again.
static void invalidated_by_the_other_process(void)
{
	struct options options = {.mr_access = ALL_ACCESS | IBV_ACCESS_MW_BIND};
	struct address remote, to;

	far = open_pair(&options, NULL, NULL, &remote);
	window = allocate(IBV_MW_TYPE_2);
	to = address_of(far);
	to.rkey = bind_part(WINDOW_ACCESS);
	remote_fill(0, 0, LENGTH, 7);
	CHECK_EQ(remote_post(0, 1, IBV_WR_RDMA_WRITE, 0, LENGTH, &to, START, IBV_SEND_SIGNALED), 0);
	remote_expect(0, false, 1, IBV_WC_SUCCESS);
	check_filled(far->buffer + START, LENGTH, 7, "WRITE through the window");
	CHECK_EQ(post_recv(far, 9, 0, 64), 0);
	CHECK_EQ(remote_post(0, 2, IBV_WR_SEND_WITH_INV, 0, 16, &to, 0, IBV_SEND_SIGNALED), 0);
	remote_expect(0, false, 2, IBV_WC_SUCCESS);
	struct ibv_wc wc = expect_wc(far->recv_cq, 9, IBV_WC_SUCCESS);

	CHECK_EQ(wc.byte_len, 16);
	CHECK_EQ(wc.invalidated_rkey, to.rkey);
	CHECK_EQ(remote_post(0, 3, IBV_WR_RDMA_WRITE, 0, 8, &to, START, IBV_SEND_SIGNALED), 0);
	remote_expect(0, false, 3, IBV_WC_REM_ACCESS_ERR);
}

static void refused_invalidate(struct endpoint *by, uint32_t rkey)
{
	if (by != near)
		return invalidate(by, IBV_WR_LOCAL_INV, rkey, IBV_WC_LOC_QP_OP_ERR);
	CHECK_EQ(post_recv(far, 9, 0, 64), 0);
	invalidate(near, IBV_WR_SEND_WITH_INV, rkey, IBV_WC_REM_ACCESS_ERR);
}

static void invalidate_type_1(void)
{
	prepare(IBV_MW_TYPE_1);
	refused_invalidate(far, bind_part(WINDOW_ACCESS));
}

static void invalidate_type_1_from_afar(void)
{
	prepare(IBV_MW_TYPE_1);
	refused_invalidate(near, bind_part(WINDOW_ACCESS));
}

static void invalidate_region(void)
{
	prepare(IBV_MW_TYPE_2);
	refused_invalidate(far, far->mr->rkey);
}

static void invalidate_region_from_afar(void)
{
	prepare(IBV_MW_TYPE_2);
	refused_invalidate(near, far->mr->rkey);
}

static void invalidate_stale_key(void)
{
	prepare(IBV_MW_TYPE_2);
	uint32_t first = window->rkey;

	bind_part(WINDOW_ACCESS);
	refused_invalidate(near, first);
}

static void invalidate_over_another_queue_pair(void)
{
	prepare(IBV_MW_TYPE_2);
	uint32_t rkey = bind_part(WINDOW_ACCESS);

	second_connection(false);
	refused_invalidate(endpoint_at(2), rkey);
	use(rkey, 10);
}

static void deallocated(void)
{
	prepare(IBV_MW_TYPE_2);
	uint32_t rkey = bind_part(WINDOW_ACCESS);

	REFUSED(ibv_dereg_mr(far->mr), EBUSY);
	CHECK_EQ(ibv_dealloc_mw(window), 0);
	refused(IBV_WR_RDMA_WRITE, rkey, START, 1);
	CHECK_EQ(ibv_dereg_mr(far->mr), 0);
}

// With its queue pair ends what a type 2 window was bound to.
static void queue_pair_destroyed(void)
{
	prepare(IBV_MW_TYPE_2);
	bind_part(WINDOW_ACCESS);
	REFUSED(ibv_dereg_mr(far->mr), EBUSY);
	CHECK_EQ(ibv_destroy_qp(far->qp), 0);
	CHECK_EQ(ibv_dereg_mr(far->mr), 0);
	CHECK_EQ(ibv_dealloc_mw(window), 0);
}

static void region_in_use(void)
{
	prepare(IBV_MW_TYPE_1);
	uint32_t rkey = bind_part(WINDOW_ACCESS);

	REFUSED(ibv_dereg_mr(far->mr), EBUSY);
	CHECK_EQ(ibv_rereg_mr(far->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE), IBV_REREG_MR_ERR_CMD);
	use(rkey, 11);
}

static void domain_in_use(void)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);

	CHECK(mw, "ibv_alloc_mw: %s", strerror(errno));
	REFUSED(ibv_dealloc_pd(pd), EBUSY);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(ibv_close_device(context), 0);
}

// ---------------------------------------------------------------- binds that fail

// A bind that is taken and then completes in error; the queue pair is in error after it.
static void bind_fails(struct endpoint *e, struct ibv_mw_bind_info info)
{
	if (window->type == IBV_MW_TYPE_1)
		CHECK_EQ(bind_1(e, window, info), 0);
	else
		CHECK_EQ(bind_2(e, window, ibv_inc_rkey(window->rkey), info), 0);
	expect_bind(e, IBV_WC_MW_BIND_ERR);
	CHECK_EQ(state_of(e->qp), IBV_QPS_ERR);
	CHECK_EQ(ibv_dereg_mr(far->mr), 0);
}

#define BIND_FAILS(name, type, mr_access, offset, length, access)                        \
	static void name(void)                                                           \
	{                                                                                \
		open_both(mr_access);                                                    \
		window = allocate(type);                                                 \
		bind_fails(far, part(offset, length, access));                           \
	}

BIND_FAILS(region_without_bind_right, IBV_MW_TYPE_2, ALL_ACCESS, 0, 8, WINDOW_ACCESS)
BIND_FAILS(write_without_local_write, IBV_MW_TYPE_1, IBV_ACCESS_MW_BIND, 0, 8, IBV_ACCESS_REMOTE_WRITE)
BIND_FAILS(atomics_without_local_write, IBV_MW_TYPE_2, IBV_ACCESS_MW_BIND, 0, 8, IBV_ACCESS_REMOTE_ATOMIC)
BIND_FAILS(bind_beyond_the_region, IBV_MW_TYPE_1, ALL_ACCESS | IBV_ACCESS_MW_BIND, 65536 - 7, 8, WINDOW_ACCESS)
BIND_FAILS(bind_before_the_region, IBV_MW_TYPE_2, ALL_ACCESS | IBV_ACCESS_MW_BIND, -1, 8, WINDOW_ACCESS)
BIND_FAILS(bind_of_everything, IBV_MW_TYPE_2, ALL_ACCESS | IBV_ACCESS_MW_BIND, 0, SIZE_MAX, WINDOW_ACCESS)
BIND_FAILS(type_2_of_length_zero, IBV_MW_TYPE_2, ALL_ACCESS | IBV_ACCESS_MW_BIND, 0, 0, WINDOW_ACCESS)

// A read-only region may have windows to read.
static void read_window_of_a_constant(void)
{
	open_both(IBV_ACCESS_MW_BIND);
	window = allocate(IBV_MW_TYPE_2);
	ask(IBV_WR_RDMA_READ, bind_part(IBV_ACCESS_REMOTE_READ), START, LENGTH, IBV_WC_SUCCESS);
}

static void bound_already(void)
{
	prepare(IBV_MW_TYPE_2);
	uint32_t rkey = bind_part(WINDOW_ACCESS);

	second_connection(false);
	CHECK_EQ(bind_2(endpoint_at(2), window, ibv_inc_rkey(rkey), part(0, 8, WINDOW_ACCESS)), 0);
	expect_bind(endpoint_at(2), IBV_WC_MW_BIND_ERR);
	use(rkey, 12);
}

static void key_of_another_window(void)
{
	prepare(IBV_MW_TYPE_2);
	CHECK_EQ(bind_2(far, window, window->rkey ^ 0x100, part(0, 8, WINDOW_ACCESS)), 0);
	expect_bind(far, IBV_WC_MW_BIND_ERR);
}

static void queue_pair_of_another_domain(void)
{
	prepare(IBV_MW_TYPE_2);
	second_connection(true);
	CHECK_EQ(bind_2(endpoint_at(2), window, ibv_inc_rkey(window->rkey), part(0, 8, WINDOW_ACCESS)), 0);
	expect_bind(endpoint_at(2), IBV_WC_MW_BIND_ERR);
}

// ---------------------------------------------------------------- refused at once

static void refused_at_once(void)
{
	prepare(IBV_MW_TYPE_2);
	struct ibv_mw *one = allocate(IBV_MW_TYPE_1);
	struct ibv_pd *other = ibv_alloc_pd(far->context);
	struct ibv_mw *foreign = ibv_alloc_mw(other, IBV_MW_TYPE_1);
	struct ibv_mw_bind_info info = part(0, 8, WINDOW_ACCESS), nothing = {.addr = 1, .length = 1};

	CHECK(other && foreign, "ibv_alloc_mw: %s", strerror(errno));
	CHECK_EQ(bind_1(far, window, info), EINVAL);
	CHECK_EQ(bind_1(far, foreign, info), EPERM);
	CHECK_EQ(bind_1(far, one, nothing), EINVAL);
	CHECK_EQ(bind_2(far, one, ibv_inc_rkey(one->rkey), info), EINVAL);
	CHECK_EQ(bind_2(far, NULL, 1, info), EINVAL);
	CHECK_EQ(bind_2(far, window, ibv_inc_rkey(window->rkey), nothing), EINVAL);
	CHECK_EQ(state_of(far->qp), IBV_QPS_RTS);
	CHECK(!ibv_alloc_mw(far->pd, 0) && errno == EINVAL, "type 0: %s", strerror(errno));
	CHECK(!ibv_alloc_mw(far->pd, 3) && errno == EINVAL, "type 3: %s", strerror(errno));
	expect_no_wc(far->send_cq, 20);
	// All of it left the window as it was.
	use(bind_part(WINDOW_ACCESS), 13);
	CHECK_EQ(ibv_dealloc_mw(one), 0);
	CHECK_EQ(ibv_dealloc_mw(foreign), 0);
	CHECK_EQ(ibv_dealloc_pd(other), 0);
}

static void datagrams_have_no_windows(void)
{
	far = open_endpoint(&(struct options){.qp_type = IBV_QPT_UD, .mr_access = ALL_ACCESS | IBV_ACCESS_MW_BIND});
	window = allocate(IBV_MW_TYPE_1);
	uint32_t rkey = window->rkey;
	struct address self = address_of(far);

	connect_endpoint(far, &self, NULL);
	CHECK_EQ(bind_1(far, window, part(0, 8, WINDOW_ACCESS)), EINVAL);
	CHECK_EQ(window->rkey, rkey);
}

static void announced(void)
{
	struct ibv_context *context = open_device();
	struct ibv_device_attr attr;

	CHECK_EQ(ibv_query_device(context, &attr), 0);
	CHECK_EQ(ibv_close_device(context), 0);
	unsigned all = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;

	CHECK_EQ(attr.device_cap_flags & all, IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	CHECK(attr.max_mw >= 1024, "max_mw is %d", attr.max_mw);
}

// A failed bind of type 1 leaves what was bound before.
static void failed_bind_changes_nothing(void)
{
	prepare(IBV_MW_TYPE_1);
	uint32_t rkey = bind_part(WINDOW_ACCESS);

	second_connection(false);
	CHECK_EQ(bind_1(endpoint_at(2), window, part(65536, 8, WINDOW_ACCESS)), 0);
	expect_bind(endpoint_at(2), IBV_WC_MW_BIND_ERR);
	use(rkey, 14);
}

#define T(name) {#name, name, 0}
PROGRAM(T(announced), T(type_1), T(type_2), T(builder), T(zero_based_1), T(zero_based_2), T(rebound),
	T(unbound_by_length_zero), T(never_bound), T(beyond_the_end), T(before_the_start), T(no_right_to_read),
	T(no_right_to_write), T(no_right_to_atomics), T(neighbouring_key), T(other_queue_pair),
	T(other_queue_pair_of_type_1), T(other_domain), T(local_invalidate), T(send_with_invalidate),
	T(invalidated_by_the_other_process),
	T(invalidate_type_1), T(invalidate_type_1_from_afar), T(invalidate_region), T(invalidate_region_from_afar),
	T(invalidate_stale_key), T(invalidate_over_another_queue_pair), T(deallocated), T(queue_pair_destroyed),
	T(region_in_use), T(domain_in_use), T(region_without_bind_right), T(write_without_local_write),
	T(atomics_without_local_write), T(bind_beyond_the_region), T(bind_before_the_region), T(bind_of_everything),
	T(type_2_of_length_zero), T(read_window_of_a_constant), T(bound_already), T(key_of_another_window),
	T(queue_pair_of_another_domain), T(refused_at_once), T(datagrams_have_no_windows),
	T(failed_bind_changes_nothing))
