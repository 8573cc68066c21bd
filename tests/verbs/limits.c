// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Queues filled to the brim, and requests for more than the device has.

#include "answers.h"
#include "endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct address remote;

static void send_queue_full(void)
{
	// Slow to fail, so that the queue stays full while we look.
	struct connection patient = {.timeout = 20};
	struct options options = {.send_wr = 16};
	struct endpoint *e = open_pair(&options, NULL, &patient, &remote);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	remote_destroy_qp(0);
	CHECK_EQ(ibv_query_qp(e->qp, &attr, IBV_QP_CAP, &init), 0);
	int room = attr.cap.max_send_wr, posted = 0;
	struct ibv_sge sge = sge_of(e, 0, 8);
	struct ibv_send_wr wrs[3], *bad = NULL;

	while (posted < room - 1) {
		CHECK_EQ(post(e, posted, IBV_WR_RDMA_WRITE, 0, 8, &remote, 0, 0), 0);
		posted++;
	}
	// A list of which only the first fits: it is posted, and bad_wr names the second.
	for (int i = 0; i < 3; i++)
		wrs[i] = (struct ibv_send_wr){
			.wr_id = room - 1 + i, .next = i < 2 ? &wrs[i + 1] : NULL, .sg_list = &sge, .num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE, .wr.rdma = {remote.va, remote.rkey},
		};
	REFUSED(ibv_post_send(e->qp, wrs, &bad), ENOMEM);
	CHECK(bad == &wrs[1], "bad_wr is not the first request that did not fit");
	REFUSED(ibv_post_send(e->qp, &wrs[2], &bad), ENOMEM);
	CHECK(bad == &wrs[2], "bad_wr is not the request that did not fit");
	CHECK_EQ(set_state(e->qp, IBV_QPS_ERR), 0);
	for (int i = 0; i < room; i++)
		expect_wc(e->send_cq, i, IBV_WC_WR_FLUSH_ERR);
	expect_no_wc(e->send_cq, 20);
	// Room again.
	CHECK_EQ(ibv_post_send(e->qp, &wrs[2], &bad), 0);
}

static void receive_queue_full(void)
{
	struct options options = {.recv_wr = 16};
	struct endpoint *e = open_pair(&options, NULL, NULL, &remote);
	struct ibv_recv_wr wr = {.wr_id = 99}, *bad = NULL;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(e->qp, &attr, IBV_QP_CAP, &init), 0);
	for (unsigned i = 0; i < attr.cap.max_recv_wr; i++)
		CHECK_EQ(post_recv(e, i, 0, 8), 0);
	REFUSED(ibv_post_recv(e->qp, &wr, &bad), ENOMEM);
	CHECK(bad == &wr, "bad_wr is not set");
	CHECK_EQ(set_state(e->qp, IBV_QPS_ERR), 0);
	for (unsigned i = 0; i < attr.cap.max_recv_wr; i++)
		expect_wc(e->recv_cq, i, IBV_WC_WR_FLUSH_ERR);
}

static void shared_receive_queue_full(void)
{
	struct options options = {.srq_wr = 16};
	struct endpoint *e = open_endpoint(&options);
	struct ibv_recv_wr wr = {.wr_id = 99}, *bad = NULL;
	struct ibv_srq_attr attr;

	CHECK_EQ(ibv_query_srq(e->srq, &attr), 0);
	for (unsigned i = 0; i < attr.max_wr; i++)
		CHECK_EQ(post_recv(e, i, 0, 8), 0);
	REFUSED(ibv_post_srq_recv(e->srq, &wr, &bad), ENOMEM);
	CHECK(bad == &wr, "bad_wr is not set");
}

static void posting_in_wrong_state(void)
{
	struct endpoint *e = open_endpoint(&(struct options){0});
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad = NULL;
	struct address self = address_of(e);

	REFUSED(ibv_post_send(e->qp, &wr, &bad), EINVAL);
	CHECK(bad == &wr, "bad_wr is not set");
	CHECK_EQ(modify_to_init(e), 0);
	REFUSED(ibv_post_send(e->qp, &wr, &bad), EINVAL);
	CHECK_EQ(post_recv(e, 1, 0, 8), 0);
	CHECK_EQ(modify_to_rtr(e, &self, NULL), 0);
	REFUSED(ibv_post_send(e->qp, &wr, &bad), EINVAL);
	CHECK_EQ(modify_to_rts(e, NULL), 0);
	CHECK_EQ(ibv_post_send(e->qp, &wr, &bad), 0);
}

static void bad_requests(void)
{
	struct options options = {.inline_data = 32, .send_sge = 2, .recv_sge = 2};
	struct endpoint *e = open_pair(&options, NULL, NULL, &remote);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_sge sges[100];

	CHECK_EQ(ibv_query_qp(e->qp, &attr, IBV_QP_CAP, &init), 0);
	for (int i = 0; i < 100; i++)
		sges[i] = sge_of(e, 0, 8);
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = sges, .opcode = IBV_WR_SEND}, *bad = NULL;
	struct ibv_recv_wr receive = {.wr_id = 1, .sg_list = sges}, *bad_receive = NULL;

	wr.num_sge = attr.cap.max_send_sge + 1;
	REFUSED(ibv_post_send(e->qp, &wr, &bad), EINVAL);
	CHECK(bad == &wr, "bad_wr is not set");
	wr.num_sge = -1;
	REFUSED(ibv_post_send(e->qp, &wr, &bad), EINVAL);
	receive.num_sge = attr.cap.max_recv_sge + 1;
	REFUSED(ibv_post_recv(e->qp, &receive, &bad_receive), EINVAL);
	CHECK(bad_receive == &receive, "bad_wr is not set");
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_INLINE;
	sges[0].length = attr.cap.max_inline_data + 1;
	REFUSED(ibv_post_send(e->qp, &wr, &bad), EINVAL);
	wr.opcode = IBV_WR_RDMA_READ;
	sges[0].length = 8;
	REFUSED(ibv_post_send(e->qp, &wr, &bad), EINVAL);
	wr.send_flags = 0;
	wr.opcode = 200;
	REFUSED(ibv_post_send(e->qp, &wr, &bad), EINVAL);
	wr.opcode = IBV_WR_BIND_MW;
	CHECK(ibv_post_send(e->qp, &wr, &bad) != 0, "memory windows are not announced, but a bind was taken");
	// Nothing of this has harmed the QP.
	CHECK_EQ(post(e, 5, IBV_WR_RDMA_WRITE, 0, 8, &remote, 0, 0), 0);
	expect_wc(e->send_cq, 5, IBV_WC_SUCCESS);
}

static void no_qp(struct endpoint *e, struct ibv_qp_cap cap, const char *what)
{
	struct ibv_qp_init_attr init = {.send_cq = e->send_cq, .recv_cq = e->recv_cq, .cap = cap, .qp_type = IBV_QPT_RC};

	errno = 0;
	CHECK(!ibv_create_qp(e->pd, &init), "a QP with too much %s was made", what);
	CHECK(errno == EINVAL || errno == ENOMEM, "%s: errno is %d (%s)", what, errno, strerror(errno));
}

static void beyond_device_limits(void)
{
	struct endpoint *e = open_endpoint(&(struct options){0});
	struct ibv_device_attr device;

	CHECK_EQ(ibv_query_device(e->context, &device), 0);
	no_qp(e, (struct ibv_qp_cap){.max_send_wr = device.max_qp_wr + 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}, "send queue");
	no_qp(e, (struct ibv_qp_cap){.max_send_wr = 1, .max_recv_wr = device.max_qp_wr + 1, .max_send_sge = 1, .max_recv_sge = 1}, "receive queue");
	no_qp(e, (struct ibv_qp_cap){.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = device.max_sge + 1, .max_recv_sge = 1}, "send SGEs");
	no_qp(e, (struct ibv_qp_cap){.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = device.max_sge + 1}, "receive SGEs");
	no_qp(e, (struct ibv_qp_cap){.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 1 << 20}, "inline data");
	errno = 0;
	CHECK(!ibv_create_cq(e->context, device.max_cqe + 1, NULL, NULL, 0) && errno == EINVAL, "CQ too large: errno %d", errno);
	errno = 0;
	CHECK(!ibv_create_cq(e->context, 0, NULL, NULL, 0) && errno == EINVAL, "CQ of no entries: errno %d", errno);
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = device.max_srq_wr + 1, .max_sge = 1}};

	errno = 0;
	CHECK(!ibv_create_srq(e->pd, &srq) && errno == EINVAL, "SRQ too large: errno %d", errno);
	srq.attr = (struct ibv_srq_attr){.max_wr = 1, .max_sge = device.max_srq_sge + 1};
	errno = 0;
	CHECK(!ibv_create_srq(e->pd, &srq) && errno == EINVAL, "SRQ with too many SGEs: errno %d", errno);
	// The limits themselves can be had.
	struct ibv_qp_init_attr init = {
		.send_cq = e->send_cq, .recv_cq = e->recv_cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = device.max_qp_wr, .max_recv_wr = device.max_qp_wr, .max_send_sge = device.max_sge, .max_recv_sge = device.max_sge},
	};

	CHECK(ibv_create_qp(e->pd, &init), "a QP at the limits: %s", strerror(errno));
	CHECK(ibv_create_cq(e->context, device.max_cqe, NULL, NULL, 0), "a CQ at the limit: %s", strerror(errno));
}

static void unsupported_types(void)
{
	struct endpoint *e = open_endpoint(&(struct options){0});
	struct ibv_qp_init_attr init = {
		.send_cq = e->send_cq, .recv_cq = e->recv_cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};

	init.qp_type = IBV_QPT_RAW_PACKET;
	errno = 0;
	CHECK(!ibv_create_qp(e->pd, &init), "a raw packet QP was made");
	CHECK(errno == EOPNOTSUPP || errno == EINVAL || errno == ENOSYS, "errno is %d (%s)", errno, strerror(errno));
	init.qp_type = 77;
	errno = 0;
	CHECK(!ibv_create_qp(e->pd, &init) && errno, "a QP of type 77 was made");
	init.qp_type = IBV_QPT_RC;
	init.send_cq = NULL;
	errno = 0;
	CHECK(!ibv_create_qp(e->pd, &init) && errno == EINVAL, "a QP without CQ: errno %d", errno);
}

// QPs until the device has no more, and then again after all are gone.
static void until_exhausted(void)
{
	enum { MOST = 70000 };
	static struct ibv_qp *qps[MOST];
	struct endpoint *e = open_endpoint(&(struct options){0});
	struct ibv_qp_init_attr init = {
		.send_cq = e->send_cq, .recv_cq = e->recv_cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_device_attr device;

	CHECK_EQ(ibv_query_device(e->context, &device), 0);
	for (int round = 0; round < 2; round++) {
		int count = 0;

		errno = 0;
		while (count < MOST && (qps[count] = ibv_create_qp(e->pd, &init)))
			count++;
		CHECK(count < MOST, "no end of QPs");
		CHECK(errno == ENOMEM || errno == ENOSPC, "errno is %d (%s)", errno, strerror(errno));
		CHECK(count == device.max_qp - 1, "%d QPs, announced are %d", count + 1, device.max_qp);
		while (count--)
			CHECK_EQ(ibv_destroy_qp(qps[count]), 0);
	}
}

static void bad_queries(void)
{
	struct ibv_context *context = open_device();
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;

	CHECK(ibv_query_port(context, 0, &port) != 0, "port 0 was queried");
	CHECK(ibv_query_port(context, 2, &port) != 0, "port 2 was queried");
	CHECK_EQ(ibv_query_port(context, 1, &port), 0);
	CHECK(ibv_query_gid(context, 1, 100000, &gid) != 0, "GID 100000 was queried");
	CHECK(ibv_query_gid(context, 2, 0, &gid) != 0, "a GID of port 2 was queried");
	CHECK(ibv_query_pkey(context, 1, 1000, &pkey) != 0, "P_Key 1000 was queried");
	CHECK_EQ(ibv_query_pkey(context, 1, 0, &pkey), 0);
	CHECK_EQ(pkey, 0xffff);
}

#define T(name) {#name, name, 0}
PROGRAM(T(send_queue_full), T(receive_queue_full), T(shared_receive_queue_full), T(posting_in_wrong_state),
	T(bad_requests), T(beyond_device_limits), T(unsupported_types), T(until_exhausted), T(bad_queries))
