// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Connections of UC, which only endpoints of RDMA_PS_IB have: rdma_create_id(3) makes RC of them.

#include "cm_ids.h"
#include "own_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <string.h>

enum { WAIT_MS = 20000, SIZE = 6000 };
// What a queue pair of UC has in these transitions, and nothing more.
enum {
	INIT = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT,
	RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	RTS = IBV_QP_STATE | IBV_QP_SQ_PSN,
};

// At the device's address: a listener that is to be, or an id with its route to the listener.
static struct rdma_cm_id *endpoint(struct rdma_event_channel *channel, int flags, uint16_t port)
{
	struct rdma_addrinfo hints = {
		.ai_flags = RAI_NUMERICHOST | flags,
		.ai_family = AF_INET,
		.ai_qp_type = IBV_QPT_UC,
		.ai_port_space = RDMA_PS_IB,
	}, *info;
	struct sockaddr_in own = own_address(0);
	char node[INET_ADDRSTRLEN], service[8];
	struct rdma_cm_id *id;

	inet_ntop(AF_INET, &own.sin_addr, node, sizeof(node));
	snprintf(service, sizeof(service), "%d", ntohs(port));
	CHECK(!rdma_getaddrinfo(node, service, &hints, &info), "rdma_getaddrinfo: %s", strerror(errno));
	CHECK(!rdma_create_ep(&id, info, NULL, NULL), "rdma_create_ep: %s", strerror(errno));
	CHECK_EQ(id->qp_type, IBV_QPT_UC);
	rdma_freeaddrinfo(info);
	CHECK(!rdma_migrate_id(id, channel), "rdma_migrate_id: %s", strerror(errno));
	return id;
}

static void prepare_endpoints(struct pair *p)
{
	p->server = new_channel();
	p->client = new_channel();
	p->listener = endpoint(p->server, RAI_PASSIVE, 0);
	CHECK(!rdma_listen(p->listener, 1), "rdma_listen: %s", strerror(errno));
	p->active = endpoint(p->client, 0, rdma_get_src_port(p->listener));
}

static int attributes_in(struct rdma_cm_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask;

	CHECK(!rdma_init_qp_attr(id, &attr, &mask), "rdma_init_qp_attr, state %d: %s", state, strerror(errno));
	return mask;
}

static void has_attributes(struct rdma_cm_id *id)
{
	CHECK_EQ(attributes_in(id, IBV_QPS_INIT), INIT);
	CHECK_EQ(attributes_in(id, IBV_QPS_RTR), RTR);
	CHECK_EQ(attributes_in(id, IBV_QPS_RTS), RTS);
}

static void attributes_are_those_of_uc(void)
{
	struct rdma_conn_param param = parameters();
	struct pair p;

	prepare_endpoints(&p);
	CHECK(!rdma_connect(p.active, &param), "rdma_connect: %s", strerror(errno));
	p.passive = requested(p.server);
	has_attributes(p.passive);
	param = parameters();
	CHECK(!rdma_accept(p.passive, &param), "rdma_accept: %s", strerror(errno));
	expect_event(p.client, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	has_attributes(p.active);
	CHECK(!rdma_establish(p.active), "rdma_establish: %s", strerror(errno));
	expect_event(p.server, RDMA_CM_EVENT_ESTABLISHED, 0);
	has_attributes(p.active);
	has_attributes(p.passive);
}

static void make_uc(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_UC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.sq_sig_all = 1,
	};

	CHECK(!rdma_create_qp(id, NULL, &attr), "rdma_create_qp: %s", strerror(errno));
}

static void completes(struct ibv_cq *cq)
{
	uint64_t deadline = now_ms() + WAIT_MS;
	struct ibv_wc wc;
	int got;

	while ((got = ibv_poll_cq(cq, 1, &wc)) == 0)
		CHECK(now_ms() < deadline, "no completion");
	CHECK_EQ(got, 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
}

// A message of several packets.
static void sends(struct rdma_cm_id *from, struct rdma_cm_id *to, char byte)
{
	static char sent[SIZE], got[SIZE];
	struct ibv_mr *source = rdma_reg_msgs(from, sent, SIZE), *sink = rdma_reg_msgs(to, got, SIZE);

	CHECK(source && sink, "rdma_reg_msgs: %s", strerror(errno));
	memset(sent, byte, SIZE);
	memset(got, 0, SIZE);
	CHECK(!rdma_post_recv(to, NULL, got, SIZE, sink), "rdma_post_recv: %s", strerror(errno));
	CHECK(!rdma_post_send(from, NULL, sent, SIZE, source, 0), "rdma_post_send: %s", strerror(errno));
	completes(from->send_cq);
	completes(to->recv_cq);
	CHECK(!memcmp(sent, got, SIZE), "what arrives");
	CHECK_EQ(rdma_dereg_mr(source), 0);
	CHECK_EQ(rdma_dereg_mr(sink), 0);
}

static void messages_go_either_way(void)
{
	struct rdma_conn_param param = parameters();
	struct pair p;

	prepare_endpoints(&p);
	make_uc(p.active);
	CHECK(!rdma_connect(p.active, &param), "rdma_connect: %s", strerror(errno));
	p.passive = requested(p.server);
	make_uc(p.passive);
	CHECK(!rdma_accept(p.passive, &param), "rdma_accept: %s", strerror(errno));
	expect_event(p.client, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_event(p.server, RDMA_CM_EVENT_ESTABLISHED, 0);
	sends(p.active, p.passive, 'a');
	sends(p.passive, p.active, 'b');
	CHECK(!rdma_disconnect(p.active), "rdma_disconnect: %s", strerror(errno));
	expect_event(p.server, RDMA_CM_EVENT_DISCONNECTED, 0);
	rdma_destroy_qp(p.active);
	rdma_destroy_qp(p.passive);
	CHECK_EQ(rdma_destroy_id(p.active), 0);
	CHECK_EQ(rdma_destroy_id(p.passive), 0);
	CHECK_EQ(rdma_destroy_id(p.listener), 0);
}

#define T(name) {#name, name, 0}
PROGRAM(T(attributes_are_those_of_uc), T(messages_go_either_way))
