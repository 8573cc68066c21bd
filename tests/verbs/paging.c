// SPDX-License-Identifier: MIT OR Apache-2.0
//
// On-demand regions: nothing is touched before it is used, memory may come and go, and what is not
// there when it is needed is an error of the request and never the end of the process.

#include "answers.h"
#include "endpoint.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 16, SIZE = PAGES * PAGE };
enum { ODP = ALL_ACCESS | IBV_ACCESS_ON_DEMAND };

static struct endpoint *near, *far;

static void require_odp(struct ibv_context *context)
{
	struct ibv_device_attr_ex attr;

	CHECK_EQ(ibv_query_device_ex(context, NULL, &attr), 0);
	if (!(attr.odp_caps.general_caps & IBV_ODP_SUPPORT))
		skip("no on-demand paging on this processor");
}

static void connect_both(void)
{
	struct address to_near = address_of(near), to_far = address_of(far);

	connect_endpoint(near, &to_far, NULL);
	connect_endpoint(far, &to_near, NULL);
}

static void open_both(void)
{
	near = open_endpoint(&(struct options){0});
	require_odp(near->context);
	far = open_endpoint(&(struct options){0});
	connect_both();
}

// Packets of the connection before may still be on their way: other PSNs keep them out.
static void begin_again(void)
{
	near->psn = (near->psn + 0x300000) & 0xffffff;
	far->psn = (far->psn + 0x500000) & 0xffffff;
	CHECK_EQ(set_state(near->qp, IBV_QPS_RESET), 0);
	CHECK_EQ(set_state(far->qp, IBV_QPS_RESET), 0);
	connect_both();
}

// Addresses at which nothing is mapped, far from where libraries map.
static char *reserve(size_t length)
{
	static char *next = (char *)0x110000000000;
	char *here = next;

	next += length + (1 << 20);
	return here;
}

static char *map_at(char *at, size_t length, int protection)
{
	char *memory = mmap(at, length, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	CHECK(memory == at, "mmap: %s", strerror(errno));
	return memory;
}

static struct ibv_mr *on_demand(struct endpoint *e, void *at, size_t length)
{
	struct ibv_mr *mr = ibv_reg_mr(e->pd, at, length, ODP);

	CHECK(mr, "ibv_reg_mr: %s", strerror(errno));
	return mr;
}

// The whole address space.
static struct ibv_mr *implicit(struct endpoint *e)
{
	return on_demand(e, NULL, SIZE_MAX);
}

static int resident(char *at, size_t length)
{
	unsigned char pages[PAGES];
	int count = 0;

	CHECK(mincore(at, length, pages) == 0, "mincore: %s", strerror(errno));
	for (size_t i = 0; i < length / PAGE; i++)
		count += pages[i] & 1;
	return count;
}

// Sleep rather than poll: then it is the device's own thread that meets the pages.
static bool sleepy;

static void ask(enum ibv_wr_opcode opcode, struct ibv_mr *mr, char *at, size_t length, enum ibv_wc_status status)
{
	struct address to = {.rkey = mr->rkey, .va = (uintptr_t)at};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		CHECK_EQ(post_atomic(near, 1, opcode, 0, &to, 0, 1, 0), 0);
	else
		CHECK_EQ(post(near, 1, opcode, 0, length, &to, 0, IBV_SEND_SIGNALED), 0);
	if (sleepy)
		usleep(50000);
	expect_wc(near->send_cq, 1, status);
}

// A request of `near` whose own memory is at `at`.
static void local(enum ibv_wr_opcode opcode, struct ibv_mr *mr, char *at, size_t length, enum ibv_wc_status status)
{
	struct ibv_sge sge = {(uintptr_t)at, length, mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)far->buffer, far->mr->rkey},
	}, *bad;

	CHECK_EQ(ibv_post_send(near->qp, &wr, &bad), 0);
	expect_wc(near->send_cq, 2, status);
}

static void announced(void)
{
	struct ibv_context *context = open_device();
	struct ibv_device_attr_ex attr;

	CHECK_EQ(ibv_query_device_ex(context, NULL, &attr), 0);
#if defined(__x86_64__)
	// The installed header may not name these yet.
	const uint32_t flush = 1 << 6, atomic_write = 1 << 7;

	CHECK_EQ(attr.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	CHECK_EQ(attr.odp_caps.per_transport_caps.rc_odp_caps,
		 IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
		 IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV | flush | atomic_write);
	CHECK_EQ(attr.odp_caps.per_transport_caps.uc_odp_caps,
		 IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_SRQ_RECV);
	CHECK_EQ(attr.odp_caps.per_transport_caps.ud_odp_caps,
		 IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV);
	CHECK_EQ(attr.xrc_odp_caps, IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
				    IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV | flush);
#else
	CHECK_EQ(attr.odp_caps.general_caps, 0);
	struct ibv_pd *pd = ibv_alloc_pd(context);

	CHECK(!ibv_reg_mr(pd, &attr, sizeof(attr), ODP) && errno == EOPNOTSUPP, "ibv_reg_mr: %s", strerror(errno));
#endif
}

static void untouched_by_registration(void)
{
	open_both();
	char *memory = map_at(reserve(SIZE), SIZE, PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = on_demand(far, memory, SIZE);

	CHECK_EQ(resident(memory, SIZE), 0);
	ask(IBV_WR_RDMA_WRITE, mr, memory + 3 * PAGE, 100, IBV_WC_SUCCESS);
	CHECK_EQ(resident(memory, SIZE), 1);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	// An ordinary region is all there at once.
	CHECK((mr = ibv_reg_mr(far->pd, memory, SIZE, ALL_ACCESS)), "ibv_reg_mr: %s", strerror(errno));
	CHECK_EQ(resident(memory, SIZE), PAGES);
}

// The memory comes after the registration, and other memory after that.
static void mapped_later(void)
{
	open_both();
	char *at = reserve(SIZE);
	struct ibv_mr *mr = on_demand(far, at, SIZE), *own = on_demand(near, at, SIZE);

	for (int seed = 1; seed <= 3; seed++) {
		map_at(at, SIZE, PROT_READ | PROT_WRITE);
		fill(near->buffer, SIZE, seed);
		ask(IBV_WR_RDMA_WRITE, mr, at, SIZE, IBV_WC_SUCCESS);
		check_filled(at, SIZE, seed, "what was written to new pages");
		local(IBV_WR_RDMA_WRITE, own, at, SIZE, IBV_WC_SUCCESS);
		check_filled(far->buffer, SIZE, seed, "what was sent from new pages");
		CHECK_EQ(munmap(at, SIZE), 0);
	}
	ask(IBV_WR_RDMA_WRITE, mr, at, SIZE, IBV_WC_REM_OP_ERR);
}

static void implicit_covers_everything(void)
{
	static char data[8192] __attribute__((aligned(8)));
	char stack[8192] __attribute__((aligned(8)));

	open_both();
	struct ibv_mr *there = implicit(far), *here = implicit(near);

	CHECK(there->length == SIZE_MAX && there->addr == NULL, "address or length of an implicit region");
	for (int i = 0; i < 2; i++) {
		char *at = i ? data : stack;

		fill(at, 8192, i);
		local(IBV_WR_RDMA_WRITE, here, at, 8192, IBV_WC_SUCCESS);
		check_filled(far->buffer, 8192, i, "what was sent");
		fill(near->buffer, 8192, i + 10);
		ask(IBV_WR_RDMA_WRITE, there, at, 8192, IBV_WC_SUCCESS);
		check_filled(at, 8192, i + 10, "what was written");
		memset(near->buffer, 0, 8192);
		ask(IBV_WR_RDMA_READ, there, at, 8192, IBV_WC_SUCCESS);
		check_filled(near->buffer, 8192, i + 10, "what was read");
		memset(at, 0, 8);
		ask(IBV_WR_ATOMIC_FETCH_AND_ADD, there, at, 8, IBV_WC_SUCCESS);
		CHECK_EQ(*(uint64_t *)at, 1);
	}
}

// Every operation on memory that is not there, under an implicit and under an explicit region.
static void missing(bool whole)
{
	open_both();
	char *at = reserve(SIZE);
	struct ibv_mr *there = whole ? implicit(far) : on_demand(far, at, SIZE);
	struct ibv_mr *here = whole ? implicit(near) : on_demand(near, at, SIZE);
	static const enum ibv_wr_opcode remote[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
	static const enum ibv_wr_opcode own[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
	static const size_t lengths[] = {1, 200, PAGE, SIZE};

	for (int i = 0; i < 3; i++) {
		ask(remote[i], there, at, 100, remote[i] == IBV_WR_RDMA_READ ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_OP_ERR);
		begin_again();
	}
	for (int i = 0; i < 2; i++)
		for (int l = 0; l < 4; l++) {
			local(own[i], here, at, lengths[l], IBV_WC_LOC_PROT_ERR);
			begin_again();
		}
	// To receive into: the sender hears of it too.
	struct ibv_sge sge = {(uintptr_t)at, SIZE, there->lkey};
	struct ibv_recv_wr recv = {.wr_id = 3, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK_EQ(ibv_post_recv(far->qp, &recv, &bad), 0);
	CHECK_EQ(post(near, 1, IBV_WR_SEND, 0, 100, NULL, 0, IBV_SEND_SIGNALED), 0);
	expect_wc(near->send_cq, 1, IBV_WC_REM_OP_ERR);
	expect_wc(far->recv_cq, 3, IBV_WC_LOC_PROT_ERR);
	begin_again();
	// With memory there, the same regions serve.
	map_at(at, SIZE, PROT_READ | PROT_WRITE);
	ask(IBV_WR_RDMA_WRITE, there, at, SIZE, IBV_WC_SUCCESS);
	local(IBV_WR_RDMA_READ, here, at, SIZE, IBV_WC_SUCCESS);
}

static void missing_under_implicit(void) { missing(true); }
static void missing_under_explicit(void) { missing(false); }

static void missing_while_asleep(void)
{
	sleepy = true;
	missing(true);
}

// The services without acknowledgements: missing memory of one's own is an error of the request,
// and where the peer's is missing the message is lost or its receive request fails.
static void missing_without_acknowledgements(int qp_type)
{
	struct options options = {.qp_type = qp_type};
	char *at = reserve(SIZE);

	near = open_endpoint(&options);
	require_odp(near->context);
	far = open_endpoint(&options);
	connect_both();
	struct ibv_mr *here = implicit(near), *there = implicit(far);
	struct ibv_sge into = {(uintptr_t)at, SIZE, there->lkey}, from = {(uintptr_t)at, 1000, here->lkey};
	struct ibv_recv_wr recv = {.wr_id = 3, .sg_list = &into, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {
		.wr_id = 2, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	}, *bad_send;

	if (qp_type == IBV_QPT_UD) {
		send.wr.ud.ah = near->ah;
		send.wr.ud.remote_qpn = far->qp->qp_num;
		send.wr.ud.remote_qkey = far->qkey;
	} else {
		// Nobody tells the sender; the connection stays.
		struct address to = {.rkey = there->rkey, .va = (uintptr_t)at};

		CHECK_EQ(post(near, 1, IBV_WR_RDMA_WRITE, 0, 1000, &to, 0, IBV_SEND_SIGNALED), 0);
		expect_wc(near->send_cq, 1, IBV_WC_SUCCESS);
	}
	CHECK_EQ(ibv_post_recv(far->qp, &recv, &bad_recv), 0);
	CHECK_EQ(post(near, 1, IBV_WR_SEND, 0, 1000, NULL, 0, IBV_SEND_SIGNALED), 0);
	expect_wc(near->send_cq, 1, IBV_WC_SUCCESS);
	expect_wc(far->recv_cq, 3, IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(ibv_post_send(near->qp, &send, &bad_send), 0);
	expect_wc(near->send_cq, 2, IBV_WC_LOC_PROT_ERR);
	// With memory there, the same regions serve.
	begin_again();
	map_at(at, SIZE, PROT_READ | PROT_WRITE);
	fill(at, 1000, 1);
	into.addr += PAGE;
	if (qp_type == IBV_QPT_UD)
		send.wr.ud.ah = near->ah;
	CHECK_EQ(ibv_post_recv(far->qp, &recv, &bad_recv), 0);
	CHECK_EQ(ibv_post_send(near->qp, &send, &bad_send), 0);
	expect_wc(near->send_cq, 2, IBV_WC_SUCCESS);
	expect_wc(far->recv_cq, 3, IBV_WC_SUCCESS);
	check_filled(at + PAGE + (qp_type == IBV_QPT_UD ? GRH_SIZE : 0), 1000, 1, "what was received");
}

static void missing_uc(void) { missing_without_acknowledgements(IBV_QPT_UC); }
static void missing_ud(void) { missing_without_acknowledgements(IBV_QPT_UD); }

// Received from a shared queue into pages that are made by that, by each service that is announced
// to.
static void shared_receive_queues(void)
{
	static const int types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

	for (int i = 0; i < 3; i++) {
		struct options options = {.qp_type = types[i], .srq_wr = 16};
		char *at = map_at(reserve(SIZE), SIZE, PROT_READ | PROT_WRITE);

		near = open_endpoint(&options);
		require_odp(near->context);
		far = open_endpoint(&options);
		connect_both();
		struct ibv_sge into = {(uintptr_t)at, SIZE, implicit(far)->lkey};
		struct ibv_recv_wr recv = {.wr_id = 3, .sg_list = &into, .num_sge = 1}, *bad;

		CHECK_EQ(ibv_post_srq_recv(far->srq, &recv, &bad), 0);
		fill(near->buffer, 2000, i);
		CHECK_EQ(post(near, 1, IBV_WR_SEND, 0, 2000, NULL, 0, IBV_SEND_SIGNALED), 0);
		expect_wc(near->send_cq, 1, IBV_WC_SUCCESS);
		expect_wc(far->recv_cq, 3, IBV_WC_SUCCESS);
		check_filled(at + (types[i] == IBV_QPT_UD ? GRH_SIZE : 0), 2000, i, "what was received");
	}
}

// Rights that the program takes from its pages count, whatever the region says.
static void mprotect_under_implicit(void)
{
	open_both();
	char *at = map_at(reserve(SIZE), SIZE, PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = implicit(far);

	fill(at, SIZE, 1);
	CHECK_EQ(mprotect(at, SIZE, PROT_READ), 0);
	ask(IBV_WR_RDMA_READ, mr, at, SIZE, IBV_WC_SUCCESS);
	check_filled(near->buffer, SIZE, 1, "what was read");
	ask(IBV_WR_RDMA_WRITE, mr, at, 8, IBV_WC_REM_OP_ERR);
	begin_again();
	ask(IBV_WR_ATOMIC_FETCH_AND_ADD, mr, at, 8, IBV_WC_REM_OP_ERR);
	begin_again();
	CHECK_EQ(mprotect(at, SIZE, PROT_NONE), 0);
	ask(IBV_WR_RDMA_READ, mr, at, SIZE, IBV_WC_REM_ACCESS_ERR);
	begin_again();
	CHECK_EQ(mprotect(at, SIZE, PROT_READ | PROT_WRITE), 0);
	ask(IBV_WR_RDMA_WRITE, mr, at, SIZE, IBV_WC_SUCCESS);
}

// The middle of a message is missing: the pages before it may be written, and the request fails.
static void hole_in_a_message(void)
{
	open_both();
	char *at = map_at(reserve(SIZE), SIZE, PROT_READ | PROT_WRITE);
	struct ibv_mr *there = implicit(far), *here = implicit(near);

	CHECK_EQ(munmap(at + SIZE / 2, PAGE), 0);
	ask(IBV_WR_RDMA_WRITE, there, at, SIZE, IBV_WC_REM_OP_ERR);
	begin_again();
	local(IBV_WR_RDMA_WRITE, here, at, SIZE, IBV_WC_LOC_PROT_ERR);
	begin_again();
	local(IBV_WR_RDMA_READ, here, at, SIZE, IBV_WC_LOC_PROT_ERR);
}

// Beyond the end of a file there are pages but no memory (SIGBUS).
static void file_cut_short(void)
{
	FILE *file = tmpfile();

	open_both();
	CHECK(file && ftruncate(fileno(file), SIZE) == 0, "a temporary file: %s", strerror(errno));
	char *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);

	CHECK(at != MAP_FAILED, "mmap: %s", strerror(errno));
	struct ibv_mr *mr = on_demand(far, at, SIZE);

	ask(IBV_WR_RDMA_WRITE, mr, at, SIZE, IBV_WC_SUCCESS);
	CHECK_EQ(ftruncate(fileno(file), PAGE), 0);
	ask(IBV_WR_RDMA_WRITE, mr, at, PAGE, IBV_WC_SUCCESS);
	ask(IBV_WR_RDMA_WRITE, mr, at, SIZE, IBV_WC_REM_OP_ERR);
}

static atomic_bool stop;
static char *contested;

static void *map_and_unmap(void *argument)
{
	(void)argument;
	for (unsigned turn = 0; !stop; turn++) {
		char *page = contested + turn * 7 % PAGES * PAGE;

		switch (turn % 3) {
		case 0:
			munmap(page, PAGE);
			break;
		case 1:
			mprotect(page, PAGE, PROT_READ);
			break;
		default:
			break;
		}
		if (turn % 5 == 0)
			map_at(contested, SIZE, PROT_READ | PROT_WRITE);
		if (turn % 16 == 0)
			usleep(200);
	}
	return NULL;
}

// Another thread maps, protects and unmaps all the while: requests fail or succeed, the process
// lives.
static void contested_pages(void)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
	uint64_t deadline = now_ms() + 2000;
	unsigned good = 0, failed = 0;
	pthread_t thread;

	open_both();
	contested = reserve(SIZE);
	map_at(contested, SIZE, PROT_READ | PROT_WRITE);
	struct ibv_mr *here = implicit(near), *there = implicit(far);

	CHECK_EQ(pthread_create(&thread, NULL, map_and_unmap, NULL), 0);
	for (unsigned turn = 0; now_ms() < deadline; turn++) {
		bool own = turn & 1;
		struct ibv_sge sge = {(uintptr_t)(own ? contested : near->buffer), SIZE, own ? here->lkey : near->mr->lkey};
		struct ibv_send_wr wr = {
			.wr_id = turn, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
			.opcode = opcodes[turn >> 1 & 1],
			.wr.rdma = {(uintptr_t)(own ? far->buffer : contested), own ? far->mr->rkey : there->rkey},
		}, *bad;

		CHECK_EQ(ibv_post_send(near->qp, &wr, &bad), 0);
		struct ibv_wc wc = wait_wc(near->send_cq);

		if (wc.status == IBV_WC_SUCCESS) {
			good++;
			continue;
		}
		failed++;
		CHECK(wc.status == IBV_WC_LOC_PROT_ERR || wc.status == IBV_WC_REM_OP_ERR || wc.status == IBV_WC_REM_ACCESS_ERR,
		      "status is %d (%s)", wc.status, ibv_wc_status_str(wc.status));
		begin_again();
	}
	stop = true;
	pthread_join(thread, NULL);
	CHECK(good && failed, "%u requests succeeded and %u failed: nothing was tried", good, failed);
}

// ---------------------------------------------------------------- ibv_advise_mr

static int advise(struct endpoint *e, enum ibv_advise_mr_advice advice, unsigned flags, void *at, size_t length, uint32_t lkey)
{
	struct ibv_sge sge = {(uintptr_t)at, length, lkey};

	return ibv_advise_mr(e->pd, advice, flags, &sge, 1);
}

static void advice(void)
{
	static const enum ibv_advise_mr_advice faulting[] = {IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE};

	open_both();
	for (int i = 0; i < 2; i++) {
		char *at = map_at(reserve(SIZE), SIZE, PROT_READ | PROT_WRITE);
		struct ibv_mr *mr = i ? implicit(far) : on_demand(far, at, SIZE);

		CHECK_EQ(advise(far, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, IBV_ADVISE_MR_FLAG_FLUSH, at, SIZE, mr->lkey), 0);
		CHECK_EQ(resident(at, SIZE), 0);
		CHECK_EQ(advise(far, faulting[i], 0, at, SIZE, mr->lkey), 0);
		// Of pages 1 and 2 only.
		CHECK_EQ(advise(far, faulting[i], IBV_ADVISE_MR_FLAG_FLUSH, at + PAGE + 100, PAGE, mr->lkey), 0);
		CHECK(resident(at + PAGE, 2 * PAGE) == 2 || faulting[i] == IBV_ADVISE_MR_ADVICE_PREFETCH, "pages are missing");
		CHECK_EQ(resident(at + 3 * PAGE, SIZE - 3 * PAGE), 0);
	}
}

static void refused_advice(void)
{
	const enum ibv_advise_mr_advice read = IBV_ADVISE_MR_ADVICE_PREFETCH, write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	const unsigned flush = IBV_ADVISE_MR_FLAG_FLUSH;

	open_both();
	char *at = map_at(reserve(SIZE), SIZE, PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = on_demand(far, at, SIZE);
	struct ibv_mr *readable = ibv_reg_mr(far->pd, at, SIZE, IBV_ACCESS_ON_DEMAND);
	struct ibv_mw *mw = ibv_alloc_mw(far->pd, IBV_MW_TYPE_2);

	CHECK(readable && mw, "ibv_reg_mr: %s", strerror(errno));
	CHECK_EQ(advise(far, 99, 0, at, SIZE, mr->lkey), ENOTSUP);
	CHECK_EQ(advise(far, read, 2, at, SIZE, mr->lkey), EINVAL);
	REFUSED(ibv_advise_mr(far->pd, read, 0, NULL, 0), EINVAL);
	REFUSED(ibv_advise_mr(far->pd, read, 0, NULL, 1), EINVAL);
	CHECK_EQ(advise(far, read, 0, at, SIZE, mr->lkey ^ 1), EFAULT);
	CHECK_EQ(advise(far, read, 0, at, SIZE + 1, mr->lkey), EFAULT);
	CHECK_EQ(advise(far, read, 0, at - 1, 1, mr->lkey), EFAULT);
	CHECK_EQ(advise(near, read, 0, at, SIZE, mr->lkey), EPERM);
	CHECK_EQ(advise(far, write, flush, at, SIZE, readable->lkey), EPERM);
	CHECK_EQ(advise(far, read, flush, at, SIZE, readable->lkey), 0);
	CHECK_EQ(advise(far, read, 0, far->buffer, 10, far->mr->lkey), EINVAL);
	CHECK_EQ(advise(far, read, 0, at, 1, mw->rkey), EINVAL);
	CHECK_EQ(munmap(at + PAGE, PAGE), 0);
	CHECK_EQ(advise(far, read, flush, at, SIZE, mr->lkey), EFAULT);
	CHECK_EQ(mprotect(at, PAGE, PROT_READ), 0);
	CHECK_EQ(advise(far, write, flush, at, PAGE, mr->lkey), EFAULT);
	CHECK_EQ(advise(far, read, flush, at, PAGE, mr->lkey), 0);
}

// From pinned to on-demand and back, to other memory and back; the keys stay.
static void reregistered(void)
{
	const int access = IBV_REREG_MR_CHANGE_ACCESS, range = IBV_REREG_MR_CHANGE_TRANSLATION;

	open_both();
	char *at = reserve(SIZE);
	struct ibv_mr *mr = ibv_reg_mr(far->pd, far->buffer, SIZE, ALL_ACCESS);
	uint32_t rkey = mr->rkey;

	CHECK_EQ(ibv_rereg_mr(mr, range, NULL, at, SIZE, 0), IBV_REREG_MR_ERR_CMD);
	ask(IBV_WR_RDMA_WRITE, mr, far->buffer, SIZE, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_rereg_mr(mr, access, NULL, NULL, 0, ODP), 0);
	CHECK_EQ(ibv_rereg_mr(mr, range, NULL, at, SIZE, 0), 0);
	// It cannot be pinned where nothing is mapped, and stays what it was.
	CHECK_EQ(ibv_rereg_mr(mr, access, NULL, NULL, 0, ALL_ACCESS), IBV_REREG_MR_ERR_CMD);
	map_at(at, SIZE, PROT_READ | PROT_WRITE);
	ask(IBV_WR_RDMA_WRITE, mr, at, SIZE, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_rereg_mr(mr, access, NULL, NULL, 0, ALL_ACCESS), 0);
	CHECK_EQ(ibv_rereg_mr(mr, range, NULL, far->buffer, SIZE, 0), 0);
	ask(IBV_WR_RDMA_WRITE, mr, far->buffer, SIZE, IBV_WC_SUCCESS);
	CHECK_EQ(mr->rkey, rkey);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

static void refused_registrations(void)
{
	open_both();
	errno = 0;
	CHECK(!ibv_reg_mr(far->pd, NULL, SIZE_MAX, ALL_ACCESS) && errno == EINVAL, "implicit, pinned: %s", strerror(errno));
	CHECK(!ibv_reg_mr(far->pd, far->buffer, SIZE_MAX, ODP) && errno == EINVAL, "implicit, not at 0: %s", strerror(errno));
	CHECK(!ibv_reg_mr(far->pd, NULL, SIZE_MAX, ODP | IBV_ACCESS_HUGETLB) && errno == EINVAL, "huge: %s", strerror(errno));
	CHECK(!ibv_reg_mr(far->pd, far->buffer, PAGE, ODP | IBV_ACCESS_HUGETLB) && errno == EINVAL, "small: %s", strerror(errno));
	CHECK(!ibv_reg_mr(far->pd, far->buffer, 0, ODP) && errno == EINVAL, "empty: %s", strerror(errno));
}

static void huge_pages(void)
{
	const size_t huge = 2 << 20;

	open_both();
	char *at = mmap(NULL, huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	if (at == MAP_FAILED)
		skip("no huge page is free (/proc/sys/vm/nr_hugepages): %s", strerror(errno));
	struct ibv_mr *mr = ibv_reg_mr(far->pd, at, huge, ODP | IBV_ACCESS_HUGETLB);

	CHECK(mr, "ibv_reg_mr: %s", strerror(errno));
	fill(near->buffer, SIZE, 1);
	ask(IBV_WR_RDMA_WRITE, mr, at + huge - SIZE, SIZE, IBV_WC_SUCCESS);
	check_filled(at + huge - SIZE, SIZE, 1, "what was written to a huge page");
	CHECK((mr = ibv_reg_mr(far->pd, at, huge, ALL_ACCESS | IBV_ACCESS_HUGETLB)), "pinned: %s", strerror(errno));
	ask(IBV_WR_RDMA_READ, mr, at, SIZE, IBV_WC_SUCCESS);
}

#define T(name) {#name, name, 0}
PROGRAM(T(announced), T(untouched_by_registration), T(mapped_later), T(implicit_covers_everything),
	T(missing_under_implicit), T(missing_under_explicit), T(missing_while_asleep), T(missing_uc), T(missing_ud), T(shared_receive_queues), T(mprotect_under_implicit), T(hole_in_a_message),
	T(file_cut_short), T(contested_pages), T(advice), T(refused_advice), T(reregistered), T(refused_registrations), T(huge_pages))
