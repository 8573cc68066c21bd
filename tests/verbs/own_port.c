// SPDX-License-Identifier: MIT OR Apache-2.0

/* What an InfiniBand port sends to itself, between QP1 and a UD queue pair of a program, and from QP1 to QP1: all of it arrives
 * under the rules of what comes by the cable. The port must have two LIDs (LMC 1). */
#include "umad_check.h"

#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/umad.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum { PERFORMANCE = 4, CLASS_PORT_INFO = 1, GET = 1, SET = 2, GET_RESP = 0x81, LENGTH = 256, GRH = 40, PATIENCE_MS = 10000, IMPATIENCE_MS = 200 };
enum { METHOD_OFFSET = 3, TID_OFFSET = 15, ATTRIBUTE_OFFSET = 17 };
#define QP1_QKEY 0x80010000u

static struct ibv_qp *qp;
static struct ibv_mr *mr;
static uint8_t buffer[2][GRH + LENGTH];
static struct ibv_port_attr attr;
static int fd, agent;
static char *umad;

static void open_queue_pair(void)
{
	struct ibv_context *context = ibv_open_device(ibv_get_device_list(NULL)[0]);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .cap = {4, 4, 1, 1}};
	struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QP1_QKEY};

	CHECK(ibv_query_port(context, 1, &attr) == 0);
	CHECK(attr.lmc == 1);
	CHECK((mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE)));
	CHECK((qp = ibv_create_qp(pd, &init)));
	CHECK(ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
	to.qp_state = IBV_QPS_RTR;
	CHECK(ibv_modify_qp(qp, &to, IBV_QP_STATE) == 0);
	to.qp_state = IBV_QPS_RTS;
	CHECK(ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
}

static void open_agent(void)
{
	CHECK(umad_init() == 0);
	CHECK((fd = umad_open_port(NULL, 1)) >= 0);
	CHECK((agent = umad_register(fd, PERFORMANCE, 1, 0, NULL)) >= 0);
	CHECK((umad = calloc(1, umad_size() + LENGTH)));
}

static void request(uint8_t *mad, uint8_t method, uint8_t tid)
{
	memset(mad, 0, LENGTH);
	memcpy(mad, (uint8_t[]){1, PERFORMANCE, 1, method}, 4);
	mad[TID_OFFSET] = tid;
	mad[ATTRIBUTE_OFFSET] = CLASS_PORT_INFO;
}

static void post_receive(void)
{
	struct ibv_sge sge = {(uintptr_t)buffer[0], sizeof(buffer[0]), mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(ibv_post_recv(qp, &wr, &bad) == 0);
}

/* The next completion; false if there is none for so long. */
static int completion(struct ibv_wc *wc, int wait_ms)
{
	for (int i = 0; i < wait_ms; i++) {
		if (ibv_poll_cq(qp->send_cq, 1, wc) > 0) {
			CHECK(wc->status == IBV_WC_SUCCESS);
			return 1;
		}
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	}
	return 0;
}

/* A queue pair asks QP1 by a LID of the port, and is answered from there. */
static void queue_pair_asks(uint16_t dlid)
{
	struct ibv_ah_attr to = {.dlid = dlid, .port_num = 1};
	struct ibv_ah *ah = ibv_create_ah(qp->pd, &to);
	struct ibv_sge sge = {(uintptr_t)buffer[1], LENGTH, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;
	int came = 0;

	CHECK(ah);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 1;
	wr.wr.ud.remote_qkey = QP1_QKEY;
	post_receive();
	request(buffer[1], GET, 9);
	CHECK(ibv_post_send(qp, &wr, &bad) == 0);
	for (int i = 0; i < 2; i++) {
		CHECK(completion(&wc, PATIENCE_MS));
		if (wc.opcode != IBV_WC_RECV)
			continue;
		came = 1;
		CHECK(wc.src_qp == 1 && wc.slid == dlid && wc.byte_len == GRH + LENGTH);
		CHECK(buffer[0][GRH + METHOD_OFFSET] == GET_RESP && buffer[0][GRH + TID_OFFSET] == 9);
	}
	CHECK(came);
	CHECK(ibv_destroy_ah(ah) == 0);
}

/* An agent sends to the queue pair, which has the Q_Key or another. */
static void agent_sends(uint32_t qkey, int arrives)
{
	struct ibv_wc wc;

	if (arrives)
		post_receive();
	request(umad_get_mad(umad), SET, 3);
	CHECK(umad_set_addr(umad, attr.lid, qp->qp_num, 0, qkey) == 0);
	CHECK(umad_send(fd, agent, umad, LENGTH, 0, 0) == 0);
	CHECK(completion(&wc, arrives ? PATIENCE_MS : IMPATIENCE_MS) == arrives);
	if (arrives)
		CHECK(wc.opcode == IBV_WC_RECV && wc.src_qp == 1 && buffer[0][GRH + METHOD_OFFSET] == SET);
}

/* An agent asks its own port's QP1 by one of the port's LIDs, from the other with the path bit. */
static void agent_asks(uint16_t dlid, uint8_t path_bits, uint32_t qkey, int answered)
{
	int length = LENGTH;
	ib_mad_addr_t *from = umad_get_mad_addr(umad);

	request(umad_get_mad(umad), GET, 7);
	CHECK(umad_set_addr(umad, dlid, 1, 0, qkey) == 0);
	from->path_bits = path_bits;
	CHECK(umad_send(fd, agent, umad, LENGTH, answered ? PATIENCE_MS : IMPATIENCE_MS, 0) == 0);
	CHECK(umad_recv(fd, umad, &length, 2 * PATIENCE_MS) == agent);
	CHECK(umad_status(umad) == (answered ? 0 : ETIMEDOUT));
	if (answered)
		CHECK(ntohs(from->lid) == dlid && from->path_bits == path_bits);
}

int main(void)
{
	open_queue_pair();
	open_agent();
	queue_pair_asks(attr.lid);
	queue_pair_asks(attr.lid + 1);
	agent_sends(QP1_QKEY, 1);
	agent_sends(0x1234, 0);
	for (uint8_t bits = 0; bits < 2; bits++) {
		agent_asks(attr.lid, bits, QP1_QKEY, 1);
		agent_asks(attr.lid + 1, bits, QP1_QKEY, 1);
		agent_asks(attr.lid, bits, 0x1234, 0);
	}
	puts("ok");
	return 0;
}
