// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Regions of other kinds than ibv_reg_mr makes: null regions, I/O virtual addresses, zero-based,
// relaxed ordering, dma-bufs.

#include "answers.h"
#include "endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LENGTH = 20000 };

static struct endpoint *near, *far;

static void open_both(void)
{
	near = open_endpoint(&(struct options){0});
	far = open_endpoint(&(struct options){0});
	struct address to_near = address_of(near), to_far = address_of(far);

	connect_endpoint(near, &to_far, NULL);
	connect_endpoint(far, &to_near, NULL);
}

static int request(enum ibv_wr_opcode opcode, const struct ibv_sge *list, int count, uint64_t va, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = (struct ibv_sge *)list, .num_sge = count, .opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED, .wr.rdma = {va, rkey},
	}, *bad;

	return ibv_post_send(near->qp, &wr, &bad);
}

static void expect(enum ibv_wc_status status)
{
	expect_wc(near->send_cq, 1, status);
}

static void remote(enum ibv_wr_opcode opcode, uint64_t va, size_t length, uint32_t rkey, enum ibv_wc_status status)
{
	struct ibv_sge own = sge_of(near, 0, length);

	CHECK_EQ(request(opcode, &own, 1, va, rkey), 0);
	expect(status);
}

// ---------------------------------------------------------------- null regions

static void null_region(void)
{
	open_both();
	struct ibv_mr *null = ibv_alloc_null_mr(near->pd);

	CHECK(null, "ibv_alloc_null_mr: %s", strerror(errno));
	CHECK(null->addr == NULL && null->length == SIZE_MAX && null->pd == near->pd, "a null region's fields");
	// Sent from: zeros, between bytes of an ordinary region. Addresses mean nothing.
	struct ibv_sge sent[] = {sge_of(near, 0, 100), {0xdeadbeef, LENGTH, null->lkey}, sge_of(near, 100, 100)};

	memset(far->buffer, 0xee, 65536);
	fill(near->buffer, 200, 1);
	CHECK_EQ(request(IBV_WR_RDMA_WRITE, sent, 3, (uintptr_t)far->buffer, far->mr->rkey), 0);
	expect(IBV_WC_SUCCESS);
	CHECK(memcmp(far->buffer, near->buffer, 100) == 0, "before the zeros");
	CHECK(memcmp(far->buffer + 100 + LENGTH, near->buffer + 100, 100) == 0, "after the zeros");
	for (int i = 0; i < LENGTH; i++)
		CHECK(far->buffer[100 + i] == 0, "byte %d of a null region is not zero", i);
	CHECK_EQ((unsigned char)far->buffer[200 + LENGTH], 0xee);
	// Read into: the middle of the message is discarded.
	struct ibv_sge read[] = {sge_of(near, 0, 50), {~0ull - LENGTH, LENGTH, null->lkey}, sge_of(near, 50, 50)};

	fill(far->buffer, LENGTH + 100, 2);
	CHECK_EQ(request(IBV_WR_RDMA_READ, read, 3, (uintptr_t)far->buffer, far->mr->rkey), 0);
	expect(IBV_WC_SUCCESS);
	CHECK(memcmp(near->buffer, far->buffer, 50) == 0 && memcmp(near->buffer + 50, far->buffer + LENGTH + 50, 50) == 0,
	      "what was read around the hole");
	// It still reads as zero.
	CHECK_EQ(request(IBV_WR_RDMA_WRITE, sent, 3, (uintptr_t)far->buffer, far->mr->rkey), 0);
	expect(IBV_WC_SUCCESS);
	for (int i = 0; i < LENGTH; i++)
		CHECK(far->buffer[100 + i] == 0, "byte %d of a null region is not zero", i);
	REFUSED(ibv_dealloc_pd(near->pd), EBUSY);
	CHECK_EQ(ibv_dereg_mr(null), 0);
	CHECK_EQ(request(IBV_WR_RDMA_WRITE, sent, 3, (uintptr_t)far->buffer, far->mr->rkey), 0);
	expect(IBV_WC_LOC_PROT_ERR);
}

static void null_region_receives(void)
{
	open_both();
	struct ibv_mr *null = ibv_alloc_null_mr(far->pd);
	struct ibv_sge into = {0, LENGTH, null->lkey};
	struct ibv_recv_wr recv = {.wr_id = 2, .sg_list = &into, .num_sge = 1}, *bad;

	CHECK_EQ(ibv_post_recv(far->qp, &recv, &bad), 0);
	CHECK_EQ(post(near, 1, IBV_WR_SEND, 0, LENGTH, NULL, 0, IBV_SEND_SIGNALED), 0);
	expect(IBV_WC_SUCCESS);
	CHECK_EQ(expect_wc(far->recv_cq, 2, IBV_WC_SUCCESS).byte_len, LENGTH);
}

static void null_region_from_afar(void)
{
	open_both();
	struct ibv_mr *null = ibv_alloc_null_mr(far->pd);

	remote(IBV_WR_RDMA_WRITE, 0, 8, null->rkey, IBV_WC_REM_ACCESS_ERR);
}

// ---------------------------------------------------------------- addresses

static void other_address(void)
{
	const uint64_t iova = 0x7000000123;

	open_both();
	// Not at the start of a page.
	char *far_at = far->buffer + 0x123, *near_at = near->buffer + 0x123;
	struct ibv_mr *mr = ibv_reg_mr_iova(far->pd, far_at, LENGTH, iova, ALL_ACCESS);

	CHECK(mr, "ibv_reg_mr_iova: %s", strerror(errno));
	fill(near->buffer, 1000, 1);
	remote(IBV_WR_RDMA_WRITE, iova + LENGTH - 1000, 1000, mr->rkey, IBV_WC_SUCCESS);
	check_filled(far_at + LENGTH - 1000, 1000, 1, "the end of the region");
	// Locally too.
	struct ibv_mr *own = ibv_reg_mr_iova(near->pd, near_at, LENGTH, iova, ALL_ACCESS);
	struct ibv_sge sge = {iova + 5, 100, own->lkey};

	CHECK_EQ(request(IBV_WR_RDMA_WRITE, &sge, 1, iova, mr->rkey), 0);
	expect(IBV_WC_SUCCESS);
	CHECK(memcmp(near_at + 5, far_at, 100) == 0, "the start of the region");
	// Its address in the process is none of its own.
	remote(IBV_WR_RDMA_WRITE, (uintptr_t)far_at, 8, mr->rkey, IBV_WC_REM_ACCESS_ERR);
}

static void before_other_address(void)
{
	open_both();
	struct ibv_mr *mr = ibv_reg_mr_iova(far->pd, far->buffer + 4096, 4096, 0x1000, ALL_ACCESS);

	remote(IBV_WR_RDMA_WRITE, 0xfff, 1, mr->rkey, IBV_WC_REM_ACCESS_ERR);
}

static void zero_based(void)
{
	open_both();
	struct ibv_mr *mrs[] = {
		ibv_reg_mr(far->pd, far->buffer + 4096, 4096, ALL_ACCESS | IBV_ACCESS_ZERO_BASED),
		ibv_reg_mr_iova(far->pd, far->buffer + 4096, 4096, 0, ALL_ACCESS),
	};

	for (int i = 0; i < 2; i++) {
		CHECK(mrs[i], "region %d: %s", i, strerror(errno));
		fill(near->buffer, 4096, i);
		remote(IBV_WR_RDMA_WRITE, 0, 4096, mrs[i]->rkey, IBV_WC_SUCCESS);
		check_filled(far->buffer + 4096, 4096, i, "the region");
	}
	remote(IBV_WR_RDMA_WRITE, 1, 4096, mrs[0]->rkey, IBV_WC_REM_ACCESS_ERR);
}

static void impossible_addresses(void)
{
	open_both();
	NOTHING(ibv_reg_mr_iova(far->pd, far->buffer, LENGTH, UINT64_MAX - 4095, ALL_ACCESS), EINVAL);
}

// A page of the region's is a page of memory, on every adapter: address and iova have the same
// offset in theirs.
static void other_offset_in_the_page(void)
{
	open_both();
	const uint64_t pages = 0x7000000000, page = sysconf(_SC_PAGESIZE);
	char *at = far->buffer;
	struct ibv_pd *pd = far->pd;

	NOTHING(ibv_reg_mr_iova(pd, at, LENGTH, pages + 1, ALL_ACCESS), EINVAL);
	NOTHING(ibv_reg_mr_iova(pd, at, LENGTH, pages + page / 2, ALL_ACCESS), EINVAL);
	NOTHING(ibv_reg_mr_iova(pd, at + 1, LENGTH, pages, ALL_ACCESS), EINVAL);
	NOTHING(ibv_reg_mr_iova(pd, at + 1, LENGTH, pages + 2, ALL_ACCESS), EINVAL);
	NOTHING(ibv_reg_mr_iova(pd, at + page - 1, LENGTH, pages + page, ALL_ACCESS), EINVAL);
	// Nor where pages come on demand, nor where the iova counts for nothing.
	NOTHING(ibv_reg_mr_iova(pd, at + 1, LENGTH, pages, ALL_ACCESS | IBV_ACCESS_ON_DEMAND), EINVAL);
	NOTHING(ibv_reg_mr_iova(pd, at + 1, LENGTH, 0, ALL_ACCESS | IBV_ACCESS_ZERO_BASED), EINVAL);
	const uint64_t offsets[] = {0, 1, page - 1, page, page + 1};

	for (int i = 0; i < 5; i++) {
		struct ibv_mr *mr = ibv_reg_mr_iova(pd, at + offsets[i], LENGTH, pages + offsets[i] % page, ALL_ACCESS);

		CHECK(mr, "offset %llu: %s", (unsigned long long)offsets[i], strerror(errno));
		remote(IBV_WR_RDMA_WRITE, pages + offsets[i] % page, 8, mr->rkey, IBV_WC_SUCCESS);
		CHECK_EQ(ibv_dereg_mr(mr), 0);
	}
}

// A region's new range is addressed by its addresses, wherever it was addressed from before, or
// from zero as before.
static void reregistered(void)
{
	open_both();
	char *at = far->buffer + 4096 + 7;
	struct ibv_mr *mrs[] = {
		ibv_reg_mr_iova(far->pd, far->buffer, LENGTH, 0x7000000000, ALL_ACCESS),
		ibv_reg_mr(far->pd, far->buffer, LENGTH, ALL_ACCESS | IBV_ACCESS_ZERO_BASED),
	};
	const uint64_t starts[] = {(uintptr_t)at, 0};

	for (int i = 0; i < 2; i++) {
		CHECK(mrs[i], "region %d: %s", i, strerror(errno));
		CHECK_EQ(ibv_rereg_mr(mrs[i], IBV_REREG_MR_CHANGE_TRANSLATION, NULL, at, 4096, 0), 0);
		fill(near->buffer, 4096, i);
		remote(IBV_WR_RDMA_WRITE, starts[i], 4096, mrs[i]->rkey, IBV_WC_SUCCESS);
		check_filled(at, 4096, i, "the region");
	}
	// Other rights leave the range as it is, whatever its iova is.
	CHECK_EQ(ibv_rereg_mr(mrs[1], IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_ACCESS | IBV_ACCESS_ZERO_BASED), 0);
	remote(IBV_WR_RDMA_WRITE, 0, 4096, mrs[1]->rkey, IBV_WC_SUCCESS);
}

// May be ignored, and is: the bytes of a message are placed in order anyhow.
static void relaxed_ordering(void)
{
	open_both();
	struct ibv_mr *mr = ibv_reg_mr(far->pd, far->buffer, LENGTH, ALL_ACCESS | IBV_ACCESS_RELAXED_ORDERING);

	CHECK(mr, "ibv_reg_mr: %s", strerror(errno));
	fill(near->buffer, LENGTH, 1);
	remote(IBV_WR_RDMA_WRITE, (uintptr_t)far->buffer, LENGTH, mr->rkey, IBV_WC_SUCCESS);
	check_filled(far->buffer, LENGTH, 1, "the region");
}

// ---------------------------------------------------------------- dma-bufs

// What <drm/drm.h> says of buffers, which no package of the kernel's has.
struct dumb {
	uint32_t height, width, bpp, flags, handle, pitch;
	uint64_t size;
};
struct prime {
	uint32_t handle, flags;
	int32_t fd;
};
#define CREATE_DUMB _IOWR('d', 0xb2, struct dumb)
#define HANDLE_TO_FD _IOWR('d', 0x2d, struct prime)

static int of_memfd(size_t length)
{
	int device = open("/dev/udmabuf", O_RDWR), file = memfd_create("pages", MFD_ALLOW_SEALING);

	if (device < 0)
		return -1;
	CHECK(file >= 0 && ftruncate(file, length) == 0 && fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) == 0,
	      "memfd: %s", strerror(errno));
	struct udmabuf_create create = {.memfd = file, .flags = UDMABUF_FLAGS_CLOEXEC, .size = length};

	return ioctl(device, UDMABUF_CREATE, &create);
}

static int of_heap(size_t length)
{
	int device = open("/dev/dma_heap/system", O_RDWR);
	struct dma_heap_allocation_data data = {.len = length, .fd_flags = O_RDWR | O_CLOEXEC};

	return device >= 0 && ioctl(device, DMA_HEAP_IOCTL_ALLOC, &data) == 0 ? (int)data.fd : -1;
}

// A graphics card's, or that of the kernel's vgem.
static int of_card(size_t length)
{
	for (int card = 0; card < 4; card++) {
		char name[] = "/dev/dri/card0";

		name[sizeof(name) - 2] += card;
		int device = open(name, O_RDWR);
		struct dumb dumb = {.height = length / 4096, .width = 1024, .bpp = 32};

		if (device < 0 || ioctl(device, CREATE_DUMB, &dumb) != 0 || dumb.size != length)
			continue;
		struct prime prime = {.handle = dumb.handle, .flags = O_RDWR | O_CLOEXEC};

		if (ioctl(device, HANDLE_TO_FD, &prime) == 0)
			return prime.fd;
	}
	return -1;
}

// A dma-buf of `length` bytes, which is mapped at *memory.
static int make_dmabuf(size_t length, char **memory)
{
	int fd = of_memfd(length);

	if (fd < 0)
		fd = of_heap(length);
	if (fd < 0)
		fd = of_card(length);
	if (fd < 0)
		skip("nobody makes dma-bufs: neither /dev/udmabuf nor /dev/dma_heap/system nor /dev/dri/card0");
	*memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(*memory != MAP_FAILED, "mmap: %s", strerror(errno));
	return fd;
}

static void dmabuf(void)
{
	char *memory;
	int fd = make_dmabuf(65536, &memory);

	open_both();
	// With an address of its own, and an offset that is no multiple of a page.
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(far->pd, 4096 + 16, LENGTH, 0x100010, fd, ALL_ACCESS);

	CHECK(mr, "ibv_reg_dmabuf_mr: %s", strerror(errno));
	CHECK_EQ(mr->length, LENGTH);
	// The region keeps the buffer.
	close(fd);
	fill(near->buffer, LENGTH, 1);
	remote(IBV_WR_RDMA_WRITE, 0x100010, LENGTH, mr->rkey, IBV_WC_SUCCESS);
	check_filled(memory + 4096 + 16, LENGTH, 1, "the dma-buf");
	memset(near->buffer, 0, LENGTH);
	remote(IBV_WR_RDMA_READ, 0x100010, LENGTH, mr->rkey, IBV_WC_SUCCESS);
	check_filled(near->buffer, LENGTH, 1, "what was read");
	remote(IBV_WR_RDMA_WRITE, 0x10000f, 1, mr->rkey, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

static void dmabuf_refused(void)
{
	char *memory;
	int fd = make_dmabuf(65536, &memory);

	open_both();
	struct ibv_pd *pd = far->pd;

	CHECK(!ibv_reg_dmabuf_mr(pd, 0, 65537, 0, fd, ALL_ACCESS) && errno == EINVAL, "too long: %s", strerror(errno));
	CHECK(!ibv_reg_dmabuf_mr(pd, 4096, 65536, 0, fd, ALL_ACCESS) && errno == EINVAL, "too far: %s", strerror(errno));
	CHECK(!ibv_reg_dmabuf_mr(pd, ~0ull - 4095, 8192, 0, fd, ALL_ACCESS) && errno == EINVAL, "wraps: %s", strerror(errno));
	CHECK(!ibv_reg_dmabuf_mr(pd, 16, 100, 0, fd, ALL_ACCESS) && errno == EINVAL, "offset in the page: %s", strerror(errno));
	CHECK(!ibv_reg_dmabuf_mr(pd, 0, 0, 0, fd, ALL_ACCESS) && errno == EINVAL, "empty: %s", strerror(errno));
	CHECK(ibv_reg_dmabuf_mr(pd, 0, 65536, 0, fd, IBV_ACCESS_REMOTE_READ), "the whole: %s", strerror(errno));
}

static void no_dmabuf(void)
{
	int file = memfd_create("pages", 0), closed = dup(file);

	open_both();
	CHECK(file >= 0 && ftruncate(file, 65536) == 0, "memfd: %s", strerror(errno));
	close(closed);
	CHECK(!ibv_reg_dmabuf_mr(far->pd, 0, 4096, 0, -1, ALL_ACCESS) && errno == EBADF, "-1: %s", strerror(errno));
	CHECK(!ibv_reg_dmabuf_mr(far->pd, 0, 4096, 0, closed, ALL_ACCESS) && errno == EBADF, "closed: %s", strerror(errno));
	CHECK(!ibv_reg_dmabuf_mr(far->pd, 0, 4096, 0, file, ALL_ACCESS) && errno == EINVAL, "a file: %s", strerror(errno));
	CHECK(!ibv_reg_dmabuf_mr(far->pd, 0, 4096, 0, file, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL,
	      "rights: %s", strerror(errno));
	CHECK(!ibv_reg_dmabuf_mr(far->pd, 0, 4096, 0, file, ALL_ACCESS | IBV_ACCESS_ZERO_BASED) && errno == EINVAL,
	      "zero-based: %s", strerror(errno));
}

#define T(name) {#name, name, 0}
PROGRAM(T(null_region), T(null_region_receives), T(null_region_from_afar), T(other_address), T(before_other_address),
	T(zero_based), T(impossible_addresses), T(other_offset_in_the_page), T(reregistered), T(relaxed_ordering), T(dmabuf), T(dmabuf_refused), T(no_dmabuf))
