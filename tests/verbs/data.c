// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Every operation carries the right bytes, in every form of work request.

#include "endpoint.h"

#include <arpa/inet.h>
#include <string.h>

enum { MIB = 1 << 20 };

static struct address remote;

static void post_ok(int result)
{
	CHECK(result == 0, "posting: %s", strerror(result));
}

static void each_size(enum ibv_wr_opcode opcode, const struct connection *connection)
{
	static const size_t sizes[] = {0, 1, 3, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097, 65536, 100001, MIB, 8 * MIB};
	struct options options = {.size = 8 * MIB};
	struct endpoint *e = open_pair(&options, &options, connection, &remote);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t size = sizes[i];

		if (opcode == IBV_WR_RDMA_READ) {
			remote_fill(0, 0, size, i);
		} else {
			fill(e->buffer, size, i);
			if (opcode != IBV_WR_RDMA_WRITE)
				CHECK_EQ(remote_post_recv(0, i, 0, opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? 0 : size), 0);
		}
		post_ok(post(e, i, opcode, 0, size, &remote, 0, 0));
		expect_wc(e->send_cq, i, IBV_WC_SUCCESS);
		if (opcode == IBV_WR_RDMA_READ) {
			check_filled(e->buffer, size, i, "read");
			continue;
		}
		remote_check(0, 0, size, i, "written");
		if (opcode != IBV_WR_RDMA_WRITE) {
			struct ibv_wc wc = remote_expect(0, true, i, IBV_WC_SUCCESS);

			CHECK_EQ(wc.byte_len, size);
			CHECK_EQ(wc.qp_num, remote.qpn);
			CHECK_EQ(wc.opcode, opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
			if (opcode != IBV_WR_SEND) {
				CHECK(wc.wc_flags & IBV_WC_WITH_IMM, "no immediate data");
				CHECK_EQ(wc.imm_data, 0x04030201);
			}
		}
	}
}

static void sizes_send(void) { each_size(IBV_WR_SEND, NULL); }
static void sizes_send_imm(void) { each_size(IBV_WR_SEND_WITH_IMM, NULL); }
static void sizes_write(void) { each_size(IBV_WR_RDMA_WRITE, NULL); }
static void sizes_write_imm(void) { each_size(IBV_WR_RDMA_WRITE_WITH_IMM, NULL); }
static void sizes_read(void) { each_size(IBV_WR_RDMA_READ, NULL); }

static void small_mtu(void)
{
	struct connection connection = {.mtu = IBV_MTU_256};

	each_size(IBV_WR_SEND, &connection);
}

static void small_mtu_read(void)
{
	struct connection connection = {.mtu = IBV_MTU_256, .rd_atomic = 1, .dest_rd_atomic = 1};

	each_size(IBV_WR_RDMA_READ, &connection);
}

static void work_completion_fields(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	static const struct { enum ibv_wr_opcode wr; enum ibv_wc_opcode wc; } kinds[] = {
		{IBV_WR_SEND, IBV_WC_SEND},
		{IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE},
		{IBV_WR_RDMA_READ, IBV_WC_RDMA_READ},
		{IBV_WR_SEND_WITH_IMM, IBV_WC_SEND},
		{IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE},
	};

	for (int i = 0; i < 3; i++)
		CHECK_EQ(remote_post_recv(0, i, 0, 100), 0);
	for (int i = 0; i < 5; i++) {
		post_ok(post(e, 70 + i, kinds[i].wr, 0, 100, &remote, 0, 0));
		struct ibv_wc wc = expect_wc(e->send_cq, 70 + i, IBV_WC_SUCCESS);

		CHECK_EQ(wc.opcode, kinds[i].wc);
		CHECK_EQ(wc.qp_num, e->qp->qp_num);
		if (kinds[i].wr == IBV_WR_RDMA_READ)
			CHECK_EQ(wc.byte_len, 100);
	}
	post_ok(post_atomic(e, 80, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &remote, 0, 1, 0));
	CHECK_EQ(expect_wc(e->send_cq, 80, IBV_WC_SUCCESS).opcode, IBV_WC_FETCH_ADD);
	post_ok(post_atomic(e, 81, IBV_WR_ATOMIC_CMP_AND_SWP, 0, &remote, 0, 1, 0));
	CHECK_EQ(expect_wc(e->send_cq, 81, IBV_WC_SUCCESS).opcode, IBV_WC_COMP_SWAP);
}

static void inline_data(void)
{
	struct options options = {.inline_data = 128};
	struct endpoint *e = open_pair(&options, NULL, NULL, &remote);
	char text[128];
	// Inline data needs no key, may be changed at once, and may lie anywhere.
	struct ibv_sge sges[2] = {{(uintptr_t)text, 40, 0}, {(uintptr_t)text + 40, 60, 0xffffffff}};
	struct ibv_send_wr wr = {
		.wr_id = 5, .sg_list = sges, .num_sge = 2, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_INLINE, .wr.rdma = {remote.va, remote.rkey},
	}, *bad;

	for (int round = 0; round < 100; round++) {
		fill(text, 100, round);
		wr.wr.rdma.remote_addr = remote.va + round * 100;
		post_ok(ibv_post_send(e->qp, &wr, &bad));
		memset(text, 0, sizeof(text));
	}
	for (int round = 0; round < 100; round++)
		expect_wc(e->send_cq, 5, IBV_WC_SUCCESS);
	for (int round = 0; round < 100; round++)
		remote_check(0, round * 100, 100, round, "inline");
	CHECK_EQ(remote_post_recv(0, 9, 0, 200), 0);
	fill(text, 100, 7);
	wr.opcode = IBV_WR_SEND;
	post_ok(ibv_post_send(e->qp, &wr, &bad));
	expect_wc(e->send_cq, 5, IBV_WC_SUCCESS);
	CHECK_EQ(remote_expect(0, true, 9, IBV_WC_SUCCESS).byte_len, 100);
	remote_check(0, 0, 100, 7, "inline send");
}

// Gathers from four places into one message, and scatters one message over four.
static void gather_scatter(void)
{
	enum { LENGTH = 10000 };
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	static const size_t parts[] = {1, 4500, 0, LENGTH - 4501};
	struct ibv_sge sges[4];
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = sges, .num_sge = 4, .opcode = IBV_WR_RDMA_WRITE, .wr.rdma = {remote.va, remote.rkey},
	}, *bad;
	char whole[LENGTH];
	size_t done = 0;

	fill(whole, LENGTH, 3);
	for (int i = 0; i < 4; i++) {
		sges[i] = sge_of(e, i * 16000 + i, parts[i]);
		memcpy(e->buffer + i * 16000 + i, whole + done, parts[i]);
		done += parts[i];
	}
	post_ok(ibv_post_send(e->qp, &wr, &bad));
	expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
	remote_check(0, 0, LENGTH, 3, "gathered");

	memset(e->buffer, 0, e->size);
	wr.opcode = IBV_WR_RDMA_READ;
	post_ok(ibv_post_send(e->qp, &wr, &bad));
	expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
	done = 0;
	for (int i = 0; i < 4; i++) {
		CHECK(memcmp(e->buffer + i * 16000 + i, whole + done, parts[i]) == 0, "part %d is wrong", i);
		done += parts[i];
	}
	// Only what was asked for was written.
	CHECK(e->buffer[1] == 0 && e->buffer[16001 + 4500] == 0 && e->buffer[32002] == 0, "bytes outside the list were written");

	struct ibv_recv_wr receive = {.wr_id = 2, .sg_list = sges, .num_sge = 4}, *bad_receive;

	memset(e->buffer, 0, e->size);
	post_ok(ibv_post_recv(e->qp, &receive, &bad_receive));
	struct address mine = address_of(e);

	CHECK_EQ(remote_post(0, 3, IBV_WR_SEND, 0, LENGTH - 100, &mine, 0, 0), 0);
	CHECK_EQ(expect_wc(e->recv_cq, 2, IBV_WC_SUCCESS).byte_len, LENGTH - 100);
	done = 0;
	for (int i = 0; i < 4; i++) {
		size_t length = i == 3 ? parts[i] - 100 : parts[i];

		CHECK(memcmp(e->buffer + i * 16000 + i, whole + done, length) == 0, "part %d is wrong", i);
		done += length;
	}
}

static void no_elements(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND}, *bad;

	CHECK_EQ(remote_post_recv(0, 4, 0, 0), 0);
	post_ok(ibv_post_send(e->qp, &wr, &bad));
	expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(remote_expect(0, true, 4, IBV_WC_SUCCESS).byte_len, 0);
	// A write of nothing checks no key (C9-88).
	wr.opcode = IBV_WR_RDMA_WRITE;
	post_ok(ibv_post_send(e->qp, &wr, &bad));
	expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
}

static void atomics(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	uint64_t value = 0x1122334455667788, *old = (uint64_t *)e->buffer;

	remote_write(0, 64, &value, 8);
	post_ok(post_atomic(e, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &remote, 64, 5, 0));
	expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
	CHECK(*old == value, "fetched %#llx", (unsigned long long)*old);
	post_ok(post_atomic(e, 2, IBV_WR_ATOMIC_CMP_AND_SWP, 0, &remote, 64, value, 1));
	expect_wc(e->send_cq, 2, IBV_WC_SUCCESS);
	CHECK(*old == value + 5, "fetched %#llx", (unsigned long long)*old);
	post_ok(post_atomic(e, 3, IBV_WR_ATOMIC_CMP_AND_SWP, 0, &remote, 64, value + 5, 42));
	expect_wc(e->send_cq, 3, IBV_WC_SUCCESS);
	CHECK(*old == value + 5, "fetched %#llx", (unsigned long long)*old);
	remote_read(0, 64, &value, 8);
	CHECK_EQ(value, 42);
	// Wraps around.
	post_ok(post_atomic(e, 4, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &remote, 64, UINT64_MAX, 0));
	expect_wc(e->send_cq, 4, IBV_WC_SUCCESS);
	remote_read(0, 64, &value, 8);
	CHECK_EQ(value, 41);
}

// Only memory windows of type 2 can be invalidated from afar (windows.c): the key of an ordinary
// region is refused and stays good.
static void send_with_invalidate(void)
{
	struct options second = {.share_plus_one = 1};
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	struct address extra = remote_register(0, 4096, 4096, ALL_ACCESS), other;
	struct ibv_sge sge = sge_of(e, 0, 16);
	struct ibv_send_wr wr = {
		.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = extra.rkey,
	}, *bad;

	CHECK_EQ(remote_post_recv(0, 7, 0, 64), 0);
	post_ok(ibv_post_send(e->qp, &wr, &bad));
	expect_wc(e->send_cq, 2, IBV_WC_REM_ACCESS_ERR);
	struct endpoint *again = open_pair(&second, &second, NULL, &other);

	post_ok(post(again, 3, IBV_WR_RDMA_WRITE, 0, 16, &extra, 0, 0));
	expect_wc(again->send_cq, 3, IBV_WC_SUCCESS);
}

// A list of requests, most of them unsignalled: one completion says that all before it are done.
static void unsignaled_lists(void)
{
	struct options options = {.unsignaled = true};
	struct endpoint *e = open_pair(&options, NULL, NULL, &remote);
	struct ibv_send_wr wrs[16], *bad;
	struct ibv_sge sges[16];

	for (int round = 0; round < 50; round++) {
		fill(e->buffer, 16 * 1000, round);
		for (int i = 0; i < 16; i++) {
			sges[i] = sge_of(e, i * 1000, 1000);
			wrs[i] = (struct ibv_send_wr){
				.wr_id = i, .next = i < 15 ? &wrs[i + 1] : NULL, .sg_list = &sges[i], .num_sge = 1,
				.opcode = IBV_WR_RDMA_WRITE, .send_flags = i == 15 ? IBV_SEND_SIGNALED : 0,
				.wr.rdma = {remote.va + i * 1000, remote.rkey},
			};
		}
		post_ok(ibv_post_send(e->qp, wrs, &bad));
		expect_wc(e->send_cq, 15, IBV_WC_SUCCESS);
		remote_check(0, 0, 16 * 1000, round, "list");
	}
	expect_no_wc(e->send_cq, 50);
}

// A fenced write waits for the read before it (C10-78): it must not send what the read is about to
// replace.
static void fence(void)
{
	struct options options = {.size = 2 * MIB};
	struct endpoint *e = open_pair(&options, &options, NULL, &remote);

	for (int round = 0; round < 20; round++) {
		remote_fill(0, 0, MIB, round);
		fill(e->buffer, MIB, 99);
		// Reads into the source of the write: without the fence the old bytes would be
		// sent.
		post_ok(post(e, 1, IBV_WR_RDMA_READ, 0, MIB, &remote, 0, 0));
		post_ok(post(e, 2, IBV_WR_RDMA_WRITE, 0, MIB, &remote, MIB, IBV_SEND_FENCE));
		expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
		expect_wc(e->send_cq, 2, IBV_WC_SUCCESS);
		remote_check(0, MIB, MIB, round, "fenced");
	}
}

// Registration at another address than the memory's, and of the same memory twice.
static void several_regions(void)
{
	struct endpoint *e = open_pair(NULL, NULL, NULL, &remote);
	struct address extra = remote_register(0, 1, 9999, ALL_ACCESS);

	CHECK(extra.rkey != remote.rkey, "two registrations have one key");
	fill(e->buffer, 9999, 4);
	post_ok(post(e, 1, IBV_WR_RDMA_WRITE, 0, 9999, &extra, 0, 0));
	expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
	remote_check(0, 1, 9999, 4, "second region");
	remote_deregister(0);
	post_ok(post(e, 2, IBV_WR_RDMA_WRITE, 0, 100, &remote, 0, 0));
	expect_wc(e->send_cq, 2, IBV_WC_SUCCESS);
}

static void shared_receive_queue(void)
{
	enum { QPS = 4, EACH = 32 };
	struct options remote_options = {.srq_wr = 256};
	struct options local = {0};
	struct endpoint *e[QPS];
	struct address addresses[QPS];

	for (int i = 0; i < QPS; i++) {
		e[i] = open_pair(&local, &remote_options, NULL, &addresses[i]);
		local.share_plus_one = remote_options.share_plus_one = 1;
		remote_options.share_cq = true;
	}
	for (int i = 0; i < QPS * EACH; i++)
		CHECK_EQ(remote_post_recv(0, i, i * 64, 64), 0);
	for (int i = 0; i < EACH; i++)
		for (int q = 0; q < QPS; q++)
			post_ok(post(e[q], i, IBV_WR_SEND, 0, 64, NULL, 0, 0));
	for (int q = 0; q < QPS; q++)
		for (int i = 0; i < EACH; i++)
			expect_wc(e[q]->send_cq, i, IBV_WC_SUCCESS);
	int seen[QPS] = {0};

	for (int i = 0; i < QPS * EACH; i++) {
		struct ibv_wc wc = remote_wc(0, true);

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		for (int q = 0; q < QPS; q++)
			seen[q] += wc.qp_num == addresses[q].qpn;
	}
	for (int q = 0; q < QPS; q++)
		CHECK_EQ(seen[q], EACH);
}

PROGRAM({"sizes_send", sizes_send, 0}, {"sizes_send_imm", sizes_send_imm, 0}, {"sizes_write", sizes_write, 0},
	{"sizes_write_imm", sizes_write_imm, 0}, {"sizes_read", sizes_read, 0}, {"small_mtu", small_mtu, 0},
	{"small_mtu_read", small_mtu_read, 0}, {"work_completion_fields", work_completion_fields, 0},
	{"inline_data", inline_data, 0}, {"gather_scatter", gather_scatter, 0}, {"no_elements", no_elements, 0},
	{"atomics", atomics, 0}, {"send_with_invalidate", send_with_invalidate, 0},
	{"unsignaled_lists", unsignaled_lists, 0}, {"fence", fence, 0}, {"several_regions", several_regions, 0},
	{"shared_receive_queue", shared_receive_queue, 0})
