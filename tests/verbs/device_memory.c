// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Device memory: allocated, copied, registered, used by the data path, and everything about it that
// is refused.

#include "answers.h"
#include "endpoint.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { SIZE = 16384, DM_ACCESS = ALL_ACCESS | IBV_ACCESS_ZERO_BASED };

static struct ibv_dm *allocate(struct ibv_context *context, size_t length)
{
	struct ibv_alloc_dm_attr attr = {.length = length};
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr);

	CHECK(dm, "ibv_alloc_dm of %zu bytes: %s", length, strerror(errno));
	return dm;
}

static struct ibv_mr *reg(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	struct ibv_mr *mr = ibv_reg_dm_mr(pd, dm, offset, length, DM_ACCESS);

	CHECK(mr, "ibv_reg_dm_mr: %s", strerror(errno));
	return mr;
}

static size_t limit(struct ibv_context *context)
{
	struct ibv_device_attr_ex attr;

	CHECK_EQ(ibv_query_device_ex(context, NULL, &attr), 0);
	return attr.max_dm_size;
}

static void copies(void)
{
	struct ibv_dm *dm = allocate(open_device(), SIZE);
	static char in[SIZE], out[SIZE + 8];

	// It begins as zeros.
	memset(out, 1, sizeof(out));
	CHECK_EQ(ibv_memcpy_from_dm(out, dm, 0, SIZE), 0);
	for (int i = 0; i < SIZE; i++)
		CHECK_EQ(out[i], 0);
	CHECK_EQ(out[SIZE], 1);
	fill(in, SIZE, 1);
	CHECK_EQ(ibv_memcpy_to_dm(dm, 0, in, SIZE), 0);
	CHECK_EQ(ibv_memcpy_to_dm(dm, 8, in + 100, 12), 0);
	CHECK_EQ(ibv_memcpy_from_dm(out + 1, dm, 4, 100), 0);
	CHECK(memcmp(out + 1, in + 4, 4) == 0 && memcmp(out + 5, in + 100, 12) == 0 && memcmp(out + 17, in + 20, 84) == 0,
	      "what was copied came back otherwise");
	CHECK_EQ(ibv_free_dm(dm), 0);
}

static void refused_copies(void)
{
	struct ibv_dm *dm = allocate(open_device(), 100);
	char host[200] = {0}, *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static const struct { uint64_t offset; size_t length; } bad[] = {
		{3, 4}, {4, 3}, {104, 4}, {0, 104}, {96, 8}, {UINT64_MAX - 3, 8}, {4, SIZE_MAX - 3}, {0, SIZE_MAX},
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		REFUSED(ibv_memcpy_to_dm(dm, bad[i].offset, host, bad[i].length), EINVAL);
		REFUSED(ibv_memcpy_from_dm(host, dm, bad[i].offset, bad[i].length), EINVAL);
	}
#if defined(__x86_64__)
	REFUSED(ibv_memcpy_to_dm(dm, 0, nowhere, 100), EFAULT);
	REFUSED(ibv_memcpy_from_dm(nowhere, dm, 0, 100), EFAULT);
#else
	(void)nowhere;
#endif
}

static void all_that_is_promised(void)
{
	struct ibv_context *context = open_device();
	size_t all = limit(context);
	struct ibv_alloc_dm_attr attr = {.length = all + 1};

	CHECK(all >= 65536, "max_dm_size is %zu", all);
	CHECK(!ibv_alloc_dm(context, &attr) && errno == ENOMEM, "one byte more: %s", strerror(errno));
	for (int turn = 0; turn < 3; turn++) {
		struct ibv_dm *dm = allocate(context, all - 4), *rest = allocate(context, 4);

		attr.length = 1;
		errno = 0;
		CHECK(!ibv_alloc_dm(context, &attr) && errno == ENOMEM, "beyond the end: %s", strerror(errno));
		CHECK_EQ(ibv_free_dm(dm), 0);
		CHECK_EQ(ibv_free_dm(rest), 0);
	}
}

static void refused_allocations(void)
{
	struct ibv_context *context = open_device();
	struct ibv_alloc_dm_attr attr = {.length = 0};

	CHECK(!ibv_alloc_dm(context, &attr) && errno == EINVAL, "no bytes: %s", strerror(errno));
	attr = (struct ibv_alloc_dm_attr){.length = SIZE, .log_align_req = 40};
	CHECK(!ibv_alloc_dm(context, &attr) && errno == EINVAL, "alignment: %s", strerror(errno));
	attr = (struct ibv_alloc_dm_attr){.length = SIZE, .comp_mask = 1};
	CHECK(!ibv_alloc_dm(context, &attr) && errno == EINVAL, "comp_mask: %s", strerror(errno));
	attr = (struct ibv_alloc_dm_attr){.length = SIZE_MAX};
	CHECK(!ibv_alloc_dm(context, &attr) && errno == ENOMEM, "everything: %s", strerror(errno));
	attr = (struct ibv_alloc_dm_attr){.length = 100, .log_align_req = 12};
	CHECK(ibv_alloc_dm(context, &attr), "aligned to a page: %s", strerror(errno));
}

static void refused_registrations(void)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context), *foreign = ibv_alloc_pd(open_device());
	struct ibv_dm *dm = allocate(context, SIZE);

	CHECK(!ibv_reg_dm_mr(pd, dm, 0, SIZE, ALL_ACCESS) && errno == EINVAL, "not zero-based: %s", strerror(errno));
	CHECK(!ibv_reg_dm_mr(pd, dm, 0, SIZE + 4, DM_ACCESS) && errno == EINVAL, "too long: %s", strerror(errno));
	CHECK(!ibv_reg_dm_mr(pd, dm, 4, SIZE, DM_ACCESS) && errno == EINVAL, "too far: %s", strerror(errno));
	CHECK(!ibv_reg_dm_mr(pd, dm, 4, SIZE_MAX, DM_ACCESS) && errno == EINVAL, "wraps: %s", strerror(errno));
	CHECK(!ibv_reg_dm_mr(pd, dm, SIZE - 1, 2, DM_ACCESS) && errno == EINVAL, "a byte too far: %s", strerror(errno));
	CHECK(!ibv_reg_dm_mr(pd, dm, 0, 4, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED) && errno == EINVAL,
	      "remote write without local write: %s", strerror(errno));
	CHECK(!ibv_reg_dm_mr(pd, dm, 0, 4, DM_ACCESS | IBV_ACCESS_ON_DEMAND) && (errno == EINVAL || errno == EOPNOTSUPP),
	      "on demand: %s", strerror(errno));
	CHECK(!ibv_reg_dm_mr(foreign, dm, 0, 4, DM_ACCESS) && errno == EINVAL, "another context: %s", strerror(errno));
	// None of that left it in use.
	CHECK_EQ(ibv_free_dm(dm), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
}

static void in_use(void)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_dm *dm = allocate(context, SIZE);
	struct ibv_mr *one = reg(pd, dm, 0, SIZE), *two = reg(pd, dm, 8, 8);

	REFUSED(ibv_free_dm(dm), EBUSY);
	CHECK_EQ(ibv_dereg_mr(one), 0);
	REFUSED(ibv_free_dm(dm), EBUSY);
	REFUSED(ibv_dealloc_pd(pd), EBUSY);
	CHECK_EQ(ibv_dereg_mr(two), 0);
	CHECK_EQ(ibv_free_dm(dm), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
}

// Written, read and counted in by a peer, sent from and received into.
static void data_path(void)
{
	static char data[SIZE], seen[SIZE];
	struct endpoint *near = open_endpoint(&(struct options){0}), *far = open_endpoint(&(struct options){0});
	struct address to_near = address_of(near), to_far = address_of(far);

	connect_endpoint(near, &to_far, NULL);
	connect_endpoint(far, &to_near, NULL);
	struct ibv_dm *dm = allocate(far->context, SIZE);
	// The region is a part: its byte 0 is byte 4096 of the device memory.
	struct ibv_mr *mr = reg(far->pd, dm, 4096, 8192);
	struct address to = {.rkey = mr->rkey};

	fill(near->buffer, 8192, 1);
	CHECK_EQ(post(near, 1, IBV_WR_RDMA_WRITE, 0, 8192, &to, 0, 0), 0);
	expect_wc(near->send_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_memcpy_from_dm(seen, dm, 0, SIZE), 0);
	check_filled(seen + 4096, 8192, 1, "device memory");
	for (int i = 0; i < 4096; i++)
		CHECK(seen[i] == 0 && seen[12288 + i] == 0, "beside the region");
	memset(near->buffer, 0, 8192);
	CHECK_EQ(post(near, 2, IBV_WR_RDMA_READ, 0, 8192, &to, 0, 0), 0);
	expect_wc(near->send_cq, 2, IBV_WC_SUCCESS);
	check_filled(near->buffer, 8192, 1, "what was read from device memory");

	uint64_t count = 41;
	CHECK_EQ(ibv_memcpy_to_dm(dm, 4096 + 64, &count, 8), 0);
	CHECK_EQ(post_atomic(near, 3, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &to, 64, 1, 0), 0);
	expect_wc(near->send_cq, 3, IBV_WC_SUCCESS);
	CHECK_EQ(post_atomic(near, 4, IBV_WR_ATOMIC_CMP_AND_SWP, 8, &to, 64, 42, 7), 0);
	expect_wc(near->send_cq, 4, IBV_WC_SUCCESS);
	CHECK_EQ(((uint64_t *)near->buffer)[0], 41);
	CHECK_EQ(((uint64_t *)near->buffer)[1], 42);
	CHECK_EQ(ibv_memcpy_from_dm(&count, dm, 4096 + 64, 8), 0);
	CHECK_EQ(count, 7);

	fill(data, SIZE, 2);
	CHECK_EQ(ibv_memcpy_to_dm(dm, 0, data, SIZE), 0);
	struct ibv_sge from = {100, 5000, mr->lkey}, into = {0, 8192, mr->lkey};
	struct ibv_send_wr send = {.wr_id = 5, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad_send;
	struct ibv_recv_wr recv = {.wr_id = 7, .sg_list = &into, .num_sge = 1}, *bad_recv;

	CHECK_EQ(post_recv(near, 6, 0, 8192), 0);
	CHECK_EQ(ibv_post_send(far->qp, &send, &bad_send), 0);
	expect_wc(far->send_cq, 5, IBV_WC_SUCCESS);
	CHECK_EQ(expect_wc(near->recv_cq, 6, IBV_WC_SUCCESS).byte_len, 5000);
	CHECK(memcmp(near->buffer, data + 4096 + 100, 5000) == 0, "what was sent from device memory");
	CHECK_EQ(ibv_post_recv(far->qp, &recv, &bad_recv), 0);
	fill(near->buffer, 8192, 3);
	CHECK_EQ(post(near, 8, IBV_WR_SEND, 0, 8192, NULL, 0, 0), 0);
	expect_wc(near->send_cq, 8, IBV_WC_SUCCESS);
	expect_wc(far->recv_cq, 7, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_memcpy_from_dm(seen, dm, 4096, 8192), 0);
	check_filled(seen, 8192, 3, "what was received into device memory");
	// Outside of the region, though inside of the device memory.
	CHECK_EQ(post(near, 9, IBV_WR_RDMA_WRITE, 0, 4, &to, 8192, 0), 0);
	expect_wc(near->send_cq, 9, IBV_WC_REM_ACCESS_ERR);
}

// Copies are of whole words, regions of any bytes.
static void at_any_byte(void)
{
	enum { AT = 4099, LENGTH = 1001 };
	static char seen[SIZE];
	struct endpoint *near = open_endpoint(&(struct options){0}), *far = open_endpoint(&(struct options){0});
	struct address to_near = address_of(near), to_far = address_of(far);

	connect_endpoint(near, &to_far, NULL);
	connect_endpoint(far, &to_near, NULL);
	struct ibv_dm *dm = allocate(far->context, SIZE);
	struct address to = {.rkey = reg(far->pd, dm, AT, LENGTH)->rkey};

	fill(near->buffer, LENGTH, 1);
	CHECK_EQ(post(near, 1, IBV_WR_RDMA_WRITE, 0, LENGTH, &to, 0, 0), 0);
	expect_wc(near->send_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_memcpy_from_dm(seen, dm, 0, SIZE), 0);
	check_filled(seen + AT, LENGTH, 1, "device memory");
	CHECK(seen[AT - 1] == 0 && seen[AT + LENGTH] == 0, "beside the region");

	// An atomic operation is one of an aligned word of memory, and byte 0 of the region is not.
	CHECK_EQ(post_atomic(near, 2, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &to, 0, 1, 0), 0);
	expect_wc(near->send_cq, 2, IBV_WC_REM_OP_ERR);
}

#define T(name) {#name, name, 0}
PROGRAM(T(copies), T(refused_copies), T(all_that_is_promised), T(refused_allocations), T(refused_registrations),
	T(in_use), T(data_path), T(at_any_byte))
