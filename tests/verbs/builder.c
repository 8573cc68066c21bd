// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Building send requests (ibv_wr_*), their completions read field by field.

#include "answers.h"
#include "endpoint.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static struct address remote;
static const struct options defaults;

// The second endpoint of this process and its builder, connected to endpoint 1 of the peer.
struct builder {
	struct endpoint *e;
	struct ibv_qp_ex *qp;
	struct ibv_cq_ex *cq;
};

static struct ibv_qp *create_qp_ex(struct endpoint *e, struct ibv_cq *cq, uint64_t ops, unsigned send_wr)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = send_wr, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 128},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = e->pd,
		.send_ops_flags = ops,
	};

	return ibv_create_qp_ex(e->context, &init);
}

enum {
	ALL_OPS = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
		  IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
		  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV
};

static struct builder open_builder(unsigned send_wr, const struct connection *connection)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct builder b = {.e = open_pair(&defaults, &defaults, NULL, &remote)};
	struct ibv_qp *qp;

	b.cq = ibv_create_cq_ex(b.e->context, &attr);
	CHECK(b.cq, "ibv_create_cq_ex: %s", strerror(errno));
	qp = create_qp_ex(b.e, ibv_cq_ex_to_cq(b.cq), ALL_OPS, send_wr);
	CHECK(qp, "ibv_create_qp_ex: %s", strerror(errno));
	b.qp = ibv_qp_to_qp_ex(qp);
	CHECK(b.qp, "no builder");
	// In the place of the endpoint's own queue pair.
	CHECK_EQ(ibv_destroy_qp(b.e->qp), 0);
	b.e->qp = qp;
	remote_destroy_qp(0);
	remote = remote_open(&defaults);
	connect_endpoint(b.e, &remote, connection);
	struct address mine = address_of(b.e);
	remote_connect(1, &mine, connection);
	return b;
}

static void start(struct builder *b, uint64_t id, unsigned flags)
{
	b->qp->wr_id = id;
	b->qp->wr_flags = flags;
}

static void set_sge(struct builder *b, size_t offset, size_t length)
{
	ibv_wr_set_sge(b->qp, b->e->mr->lkey, (uintptr_t)b->e->buffer + offset, length);
}

// Reads the next completion of the extended queue.
static void expect_ex(struct builder *b, uint64_t id, enum ibv_wc_status status, enum ibv_wc_opcode opcode)
{
	struct ibv_poll_cq_attr attr = {0};
	uint64_t deadline = now_ms() + 30000;
	int result;

	while ((result = ibv_start_poll(b->cq, &attr)) == ENOENT)
		CHECK(now_ms() < deadline, "no completion of %llu", (unsigned long long)id);
	CHECK_EQ(result, 0);
	CHECK_EQ(b->cq->wr_id, id);
	CHECK_EQ(b->cq->status, status);
	CHECK_EQ(ibv_wc_read_qp_num(b->cq), b->e->qp->qp_num);
	if (status == IBV_WC_SUCCESS)
		CHECK_EQ(ibv_wc_read_opcode(b->cq), opcode);
	ibv_end_poll(b->cq);
}

static void every_operation(void)
{
	struct builder b = open_builder(16, NULL);
	uint64_t word = 41, seen;
	struct ibv_sge list[2];
	struct ibv_data_buf buffers[2];

	fill(b.e->buffer, 4096, 7);
	ibv_wr_start(b.qp);
	start(&b, 1, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(b.qp, remote.rkey, remote.va);
	set_sge(&b, 0, 1000);
	start(&b, 2, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(b.qp, remote.rkey, remote.va + 1000);
	list[0] = sge_of(b.e, 1000, 96);
	list[1] = sge_of(b.e, 1096, 3000);
	ibv_wr_set_sge_list(b.qp, 2, list);
	CHECK_EQ(ibv_wr_complete(b.qp), 0);
	expect_ex(&b, 1, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	expect_ex(&b, 2, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	remote_check(1, 0, 4096, 7, "written");

	ibv_wr_start(b.qp);
	start(&b, 3, IBV_SEND_SIGNALED);
	ibv_wr_rdma_read(b.qp, remote.rkey, remote.va);
	set_sge(&b, 8192, 4096);
	CHECK_EQ(ibv_wr_complete(b.qp), 0);
	expect_ex(&b, 3, IBV_WC_SUCCESS, IBV_WC_RDMA_READ);
	check_filled(b.e->buffer + 8192, 4096, 7, "read");

	remote_write(1, 4096, &word, 8);
	ibv_wr_start(b.qp);
	start(&b, 4, IBV_SEND_SIGNALED);
	ibv_wr_atomic_fetch_add(b.qp, remote.rkey, remote.va + 4096, 1);
	set_sge(&b, 16384, 8);
	start(&b, 5, IBV_SEND_SIGNALED);
	ibv_wr_atomic_cmp_swp(b.qp, remote.rkey, remote.va + 4096, 42, 99);
	set_sge(&b, 16392, 8);
	CHECK_EQ(ibv_wr_complete(b.qp), 0);
	expect_ex(&b, 4, IBV_WC_SUCCESS, IBV_WC_FETCH_ADD);
	expect_ex(&b, 5, IBV_WC_SUCCESS, IBV_WC_COMP_SWAP);
	CHECK_EQ(((uint64_t *)(b.e->buffer + 16384))[0], 41);
	CHECK_EQ(((uint64_t *)(b.e->buffer + 16384))[1], 42);
	remote_read(1, 4096, &seen, 8);
	CHECK_EQ(seen, 99);

	CHECK_EQ(remote_post_recv(1, 6, 0, 256), 0);
	CHECK_EQ(remote_post_recv(1, 7, 256, 256), 0);
	CHECK_EQ(remote_post_recv(1, 8, 512, 256), 0);
	char text[8] = "inline";
	buffers[0] = (struct ibv_data_buf){text, 3};
	buffers[1] = (struct ibv_data_buf){text + 3, 4};
	ibv_wr_start(b.qp);
	start(&b, 6, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	ibv_wr_send(b.qp);
	ibv_wr_set_inline_data_list(b.qp, 2, buffers);
	start(&b, 7, IBV_SEND_SIGNALED);
	ibv_wr_send_imm(b.qp, 0x11223344);
	ibv_wr_set_inline_data(b.qp, text, 7);
	start(&b, 8, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write_imm(b.qp, remote.rkey, remote.va + 600, 0x55667788);
	set_sge(&b, 0, 100);
	memset(text, 'x', sizeof(text)); // taken when it was set
	CHECK_EQ(ibv_wr_complete(b.qp), 0);
	expect_ex(&b, 6, IBV_WC_SUCCESS, IBV_WC_SEND);
	expect_ex(&b, 7, IBV_WC_SUCCESS, IBV_WC_SEND);
	expect_ex(&b, 8, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	CHECK_EQ(remote_expect(1, true, 6, IBV_WC_SUCCESS).byte_len, 7);
	CHECK_EQ(remote_expect(1, true, 7, IBV_WC_SUCCESS).imm_data, 0x11223344);
	CHECK_EQ(remote_expect(1, true, 8, IBV_WC_SUCCESS).imm_data, 0x55667788);
	remote_read(1, 0, text, 7);
	CHECK(!strcmp(text, "inline"), "the peer got %.7s", text);
}

static void abort_posts_nothing(void)
{
	struct builder b = open_builder(16, NULL);

	ibv_wr_start(b.qp);
	start(&b, 1, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(b.qp, remote.rkey, remote.va);
	set_sge(&b, 0, 64);
	ibv_wr_abort(b.qp);
	expect_no_wc(ibv_cq_ex_to_cq(b.cq), 50);
	// The builder is free again.
	ibv_wr_start(b.qp);
	start(&b, 2, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(b.qp, remote.rkey, remote.va);
	set_sge(&b, 0, 64);
	CHECK_EQ(ibv_wr_complete(b.qp), 0);
	expect_ex(&b, 2, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
}

static void refused_batches_post_nothing(void)
{
	struct builder b = open_builder(4, NULL);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_sge list[64];
	char data[4096] = "";

	CHECK_EQ(ibv_query_qp(b.e->qp, &attr, IBV_QP_CAP, &init), 0);
	// More requests than the queue holds.
	ibv_wr_start(b.qp);
	for (unsigned i = 0; i <= init.cap.max_send_wr; i++) {
		start(&b, i, IBV_SEND_SIGNALED);
		ibv_wr_rdma_write(b.qp, remote.rkey, remote.va);
		set_sge(&b, 0, 64);
	}
	REFUSED(ibv_wr_complete(b.qp), ENOMEM);
	// More inline data than was asked for.
	ibv_wr_start(b.qp);
	start(&b, 100, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(b.qp, remote.rkey, remote.va);
	set_sge(&b, 0, 64);
	start(&b, 101, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(b.qp, remote.rkey, remote.va);
	ibv_wr_set_inline_data(b.qp, data, init.cap.max_inline_data + 1);
	REFUSED(ibv_wr_complete(b.qp), EINVAL);
	// More elements than a request may have.
	for (size_t i = 0; i < 64; i++)
		list[i] = sge_of(b.e, i, 1);
	ibv_wr_start(b.qp);
	start(&b, 102, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(b.qp, remote.rkey, remote.va);
	ibv_wr_set_sge_list(b.qp, init.cap.max_send_sge + 1, list);
	REFUSED(ibv_wr_complete(b.qp), EINVAL);
	// A payload without a request.
	ibv_wr_start(b.qp);
	set_sge(&b, 0, 64);
	REFUSED(ibv_wr_complete(b.qp), EINVAL);
	expect_no_wc(ibv_cq_ex_to_cq(b.cq), 50);
	// As many as it holds are fine.
	ibv_wr_start(b.qp);
	for (unsigned i = 0; i < init.cap.max_send_wr; i++) {
		start(&b, 200 + i, IBV_SEND_SIGNALED);
		ibv_wr_rdma_write(b.qp, remote.rkey, remote.va);
		set_sge(&b, 0, 64);
	}
	CHECK_EQ(ibv_wr_complete(b.qp), 0);
	for (unsigned i = 0; i < init.cap.max_send_wr; i++)
		expect_ex(&b, 200 + i, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
}

static void several_completions_in_one_poll(void)
{
	struct builder b = open_builder(16, NULL);
	struct ibv_poll_cq_attr attr = {0}, reserved = {1};
	uint64_t deadline = now_ms() + 30000;
	unsigned got = 0;

	REFUSED(ibv_start_poll(b.cq, &reserved), EINVAL);
	CHECK_EQ(ibv_start_poll(b.cq, &attr), ENOENT);
	ibv_wr_start(b.qp);
	for (unsigned i = 0; i < 8; i++) {
		start(&b, i, IBV_SEND_SIGNALED);
		ibv_wr_rdma_write(b.qp, remote.rkey, remote.va);
		set_sge(&b, 0, 64);
	}
	CHECK_EQ(ibv_wr_complete(b.qp), 0);
	while (got < 8) {
		CHECK(now_ms() < deadline, "%u completions", got);
		if (ibv_start_poll(b.cq, &attr))
			continue;
		do {
			CHECK_EQ(b.cq->wr_id, got);
			CHECK_EQ(b.cq->status, IBV_WC_SUCCESS);
			got++;
		} while (ibv_next_poll(b.cq) == 0);
		ibv_end_poll(b.cq);
	}
}

static void creation_is_checked(void)
{
	struct endpoint *e = open_endpoint(&defaults);
	struct ibv_qp *qp;

	CHECK(!create_qp_ex(e, e->send_cq, IBV_QP_EX_WITH_TSO, 4) && errno == EOPNOTSUPP, "TSO: %s", strerror(errno));
	qp = create_qp_ex(e, e->send_cq, IBV_QP_EX_WITH_SEND, 4);
	CHECK(qp && ibv_qp_to_qp_ex(qp), "ibv_create_qp_ex: %s", strerror(errno));
	CHECK(!ibv_qp_to_qp_ex(e->qp), "a plain queue pair has a builder");
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

// Two queue pairs of this process that are connected to each other, each built for by a thread of
// its own.
static struct building {
	struct endpoint *e;
	struct ibv_qp_ex *qp;
	struct address to;
	uint32_t seed;
} ends[2];

enum { BATCHES = 2000, CELL = 8 };

static void open_building(struct building *b, uint32_t seed)
{
	struct endpoint *e = open_endpoint(&defaults);
	struct ibv_qp *qp = create_qp_ex(e, e->send_cq, ALL_OPS, 4);

	CHECK(qp, "ibv_create_qp_ex: %s", strerror(errno));
	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	e->qp = qp;
	b->e = e;
	b->qp = ibv_qp_to_qp_ex(qp);
	CHECK(b->qp, "no builder");
	b->seed = seed;
}

// Whatever a program may do, it may do between ibv_wr_start and ibv_wr_complete: here all that it
// does but to fill in the request, so that its own packets and the other thread's have to be
// handled there.
static void *build_and_poll(void *argument)
{
	struct building *b = argument;
	struct endpoint *e = b->e;

	for (uint64_t i = 0; i <= BATCHES; i++) {
		ibv_wr_start(b->qp);
		if (i > 0)
			expect_wc(e->send_cq, i - 1, IBV_WC_SUCCESS);
		if (i % 64 == 0) {
			struct ibv_mr *mr = ibv_reg_mr(e->pd, e->buffer, e->size, ALL_ACCESS);

			CHECK(mr, "ibv_reg_mr: %s", strerror(errno));
			CHECK_EQ(state_of(e->qp), IBV_QPS_RTS);
			CHECK_EQ(ibv_dereg_mr(mr), 0);
		}
		if (i == BATCHES) {
			ibv_wr_abort(b->qp);
			break;
		}
		fill(e->buffer, CELL, b->seed + i);
		b->qp->wr_id = i;
		b->qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(b->qp, b->to.rkey, b->to.va + CELL + i % 1024 * CELL);
		ibv_wr_set_sge(b->qp, e->mr->lkey, (uintptr_t)e->buffer, CELL);
		CHECK_EQ(ibv_wr_complete(b->qp), 0);
	}
	return NULL;
}

static void threads_poll_while_they_build(void)
{
	pthread_t threads[2];

	open_building(&ends[0], 1000000);
	open_building(&ends[1], 2000000);
	for (int i = 0; i < 2; i++) {
		ends[i].to = address_of(ends[!i].e);
		connect_endpoint(ends[i].e, &ends[i].to, NULL);
	}
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, build_and_poll, &ends[i]), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 2; i++)
		for (uint64_t n = BATCHES - 1024; n < BATCHES; n++)
			check_filled(ends[i].e->buffer + CELL + n % 1024 * CELL, CELL, ends[!i].seed + n, "built");
}

PROGRAM({"every_operation", every_operation, 0}, {"abort_posts_nothing", abort_posts_nothing, 0},
	{"refused_batches_post_nothing", refused_batches_post_nothing, 0},
	{"several_completions_in_one_poll", several_completions_in_one_poll, 0},
	{"threads_poll_while_they_build", threads_poll_while_they_build, 0},
	{"creation_is_checked", creation_is_checked, 0})
