// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Messages of several lengths, one behind the other.

#include "endpoint.h"

#include <string.h>

static struct address remote;

// Messages that are posted at once share sends, and over sockets of one device packets that are shorter than
// others are as long as they on the way. Of each what it has arrives, and no more.
static void at_once(enum ibv_wr_opcode opcode)
{
	static const size_t sizes[] = {
		4097, 4097, 8191, 8192, 8193, 1, 4095, 12289, 16000, 4096, 20001, 4098, 4100, 8190, 12286, 5,
	};
	enum { MESSAGES = sizeof(sizes) / sizeof(*sizes), ROOM = 32768, ROUNDS = 3 };
	struct options options = {.size = MESSAGES * ROOM};
	struct endpoint *e = open_pair(&options, &options, NULL, &remote);
	struct ibv_sge sges[MESSAGES];
	struct ibv_send_wr wrs[MESSAGES], *bad;
	bool is_read = opcode == IBV_WR_RDMA_READ, consumes = !is_read && opcode != IBV_WR_RDMA_WRITE;

	for (int round = 0; round < ROUNDS; round++) {
		memset(e->buffer, 0, e->size);
		for (int i = 0; i < MESSAGES; i++) {
			size_t at = i * ROOM, size = sizes[i];
			uint32_t seed = round * MESSAGES + i;

			remote_fill(0, at, ROOM, is_read ? seed : ~seed);
			if (!is_read)
				fill(e->buffer + at, size, seed);
			if (consumes)
				CHECK_EQ(remote_post_recv(0, i, at, opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? 0 : ROOM), 0);
			sges[i] = sge_of(e, at, size);
			wrs[i] = (struct ibv_send_wr){
				.wr_id = i, .next = i + 1 < MESSAGES ? &wrs[i + 1] : NULL, .sg_list = &sges[i], .num_sge = 1,
				.opcode = opcode, .wr.rdma = {remote.va + at, remote.rkey},
			};
		}
		CHECK_EQ(ibv_post_send(e->qp, wrs, &bad), 0);
		for (int i = 0; i < MESSAGES; i++)
			expect_wc(e->send_cq, i, IBV_WC_SUCCESS);
		for (int i = 0; i < MESSAGES; i++) {
			size_t at = i * ROOM, size = sizes[i];
			uint32_t seed = round * MESSAGES + i;
			char there[ROOM], untouched[ROOM];

			if (is_read) {
				check_filled(e->buffer + at, size, seed, "read");
				CHECK(e->buffer[at + size] == 0, "more than %zu bytes were read", size);
				continue;
			}
			if (consumes)
				CHECK_EQ(remote_expect(0, true, i, IBV_WC_SUCCESS).byte_len, size);
			remote_check(0, at, size, seed, "sent");
			remote_read(0, at, there, ROOM);
			fill(untouched, ROOM, ~seed);
			CHECK(memcmp(there + size, untouched + size, ROOM - size) == 0, "more than %zu bytes were written", size);
		}
	}
}

static void sends(void) { at_once(IBV_WR_SEND); }
static void sends_imm(void) { at_once(IBV_WR_SEND_WITH_IMM); }
static void writes(void) { at_once(IBV_WR_RDMA_WRITE); }
static void writes_imm(void) { at_once(IBV_WR_RDMA_WRITE_WITH_IMM); }
static void reads(void) { at_once(IBV_WR_RDMA_READ); }

PROGRAM({"sends", sends, 0}, {"sends_imm", sends_imm, 0}, {"writes", writes, 0}, {"writes_imm", writes_imm, 0}, {"reads", reads, 0})
