// SPDX-License-Identifier: MIT OR Apache-2.0
//
// UD: bad requests, bad address handles, and datagrams that the receiver has no use for. Those are
// counted and dropped; the sender does not hear of them.

#include "answers.h"
#include "endpoint.h"
#include "full_queues.h"

#include <errno.h>
#include <string.h>

static struct address remote;

static struct endpoint *pair(void)
{
	struct options options = {.qp_type = IBV_QPT_UD};

	return open_pair(&options, &options, NULL, &remote);
}

// A datagram arrives: GRH, then payload.
static void works(struct endpoint *e, uint64_t id)
{
	fill(e->buffer, 200, id);
	CHECK_EQ(remote_post_recv(0, id, 30000, GRH_SIZE + 200), 0);
	CHECK_EQ(post(e, id, IBV_WR_SEND, 0, 200, NULL, 0, 0), 0);
	expect_wc(e->send_cq, id, IBV_WC_SUCCESS);
	struct ibv_wc wc = remote_expect(0, true, id, IBV_WC_SUCCESS);

	CHECK_EQ(wc.byte_len, GRH_SIZE + 200);
	CHECK(wc.wc_flags & IBV_WC_GRH, "no GRH");
	CHECK_EQ(wc.src_qp, e->qp->qp_num);
	remote_check(0, 30000 + GRH_SIZE, 200, id, "datagram");
	CHECK_EQ(state_of(e->qp), IBV_QPS_RTS);
	CHECK_EQ(remote_state(0), IBV_QPS_RTS);
}

static void wrong_qkey(void)
{
	struct endpoint *e = pair();
	struct address to = remote;
	long long before = remote_counter("qkey_viol");

	to.qkey ^= 1;
	CHECK_EQ(remote_post_recv(0, 1, 0, 4096), 0);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(post(e, i, IBV_WR_SEND, 0, 100, &to, 0, 0), 0);
		expect_wc(e->send_cq, i, IBV_WC_SUCCESS);
	}
	remote_counter_reaches("qkey_viol", before + 3);
	CHECK_EQ(remote_pending(0, true), 0);
	// The receive request waits still.
	CHECK_EQ(post(e, 5, IBV_WR_SEND, 0, 100, NULL, 0, 0), 0);
	remote_expect(0, true, 1, IBV_WC_SUCCESS);
	expect_wc(e->send_cq, 5, IBV_WC_SUCCESS);
	works(e, 9);
}

// What is in front of a datagram: over IPv6 its header, over IPv4 20 bytes that say nothing and
// then its header. An address handle made of it leads back to the sender.
static void global_route_header(void)
{
	static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};
	struct endpoint *e = pair();
	struct address self = address_of(e);
	uint8_t grh[GRH_SIZE];

	// From afar, as only this side can look at what came.
	CHECK_EQ(post_recv(e, 1, 1000, GRH_SIZE + 256), 0);
	remote_fill(0, 0, 200, 5);
	CHECK_EQ(remote_post(0, 2, IBV_WR_SEND, 0, 200, &self, 0, 0), 0);
	struct ibv_wc wc = expect_wc(e->recv_cq, 1, IBV_WC_SUCCESS);

	remote_expect(0, false, 2, IBV_WC_SUCCESS);
	CHECK(wc.wc_flags & IBV_WC_GRH, "no GRH");
	CHECK_EQ(wc.byte_len, GRH_SIZE + 200);
	CHECK_EQ(wc.src_qp, remote.qpn);
	check_filled(e->buffer + 1000 + GRH_SIZE, 200, 5, "datagram");
	memcpy(grh, e->buffer + 1000, GRH_SIZE);
	if (memcmp(&e->gid, v4_prefix, 12) == 0) {
		CHECK_EQ(grh[20], 0x45);
		// BTH, DETH, payload and ICRC in UDP.
		CHECK_EQ(grh[22] << 8 | grh[23], 20 + 8 + 12 + 8 + 200 + 4);
		CHECK_EQ(grh[29], 17);
		CHECK(memcmp(grh + 32, remote.gid.raw + 12, 4) == 0, "not the sender's IPv4 address");
		CHECK(memcmp(grh + 36, self.gid.raw + 12, 4) == 0, "not the receiver's IPv4 address");
	} else {
		CHECK_EQ(grh[0] >> 4, 6);
		CHECK_EQ(grh[4] << 8 | grh[5], 8 + 12 + 8 + 200 + 4);
		CHECK_EQ(grh[6], 17);
		CHECK(memcmp(grh + 8, &remote.gid, 16) == 0, "not the sender's GID");
		CHECK(memcmp(grh + 24, &self.gid, 16) == 0, "not the receiver's GID");
	}

	struct ibv_pd *pd = e->pd;
	struct ibv_ah *ah = ibv_create_ah_from_wc(pd, &wc, (struct ibv_grh *)(e->buffer + 1000), 1);
	struct ibv_sge sge = sge_of(e, 0, 300);
	struct ibv_send_wr wr = {.wr_id = 3, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED, .wr.ud = {ah, wc.src_qp, TEST_QKEY}}, *bad;

	CHECK(ah, "ibv_create_ah_from_wc: %s", strerror(errno));
	fill(e->buffer, 300, 9);
	CHECK_EQ(remote_post_recv(0, 4, 2000, GRH_SIZE + 300), 0);
	CHECK_EQ(ibv_post_send(e->qp, &wr, &bad), 0);
	expect_wc(e->send_cq, 3, IBV_WC_SUCCESS);
	remote_expect(0, true, 4, IBV_WC_SUCCESS);
	remote_check(0, 2000 + GRH_SIZE, 300, 9, "answer");
	CHECK_EQ(ibv_destroy_ah(ah), 0);
}

// Which IP header a datagram had is in the completion's `sl`, where mlx5 has it and UCX looks for
// it: 1 for IPv6, 2 for IPv4. A flushed request came with none.
static void kind_of_ip_header(void)
{
	static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};
	struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_poll_cq_attr none = {0};
	struct endpoint *e = pair();
	struct ibv_cq_ex *cq = ibv_create_cq_ex(e->context, &attr);
	struct ibv_qp_init_attr init = {.send_cq = e->send_cq, .cap = {1, 4, 1, 1, 0}, .qp_type = IBV_QPT_UD};
	uint8_t kind = memcmp(&e->gid, v4_prefix, 12) == 0 ? 2 : 1;
	struct address self = address_of(e);

	CHECK_EQ(post_recv(e, 1, 1000, GRH_SIZE + 256), 0);
	CHECK_EQ(post_recv(e, 2, 1000, GRH_SIZE + 256), 0);
	CHECK_EQ(remote_post(0, 3, IBV_WR_SEND, 0, 200, &self, 0, 0), 0);
	CHECK_EQ(expect_wc(e->recv_cq, 1, IBV_WC_SUCCESS).sl, kind);
	remote_expect(0, false, 3, IBV_WC_SUCCESS);
	CHECK_EQ(set_state(e->qp, IBV_QPS_ERR), 0);
	CHECK_EQ(expect_wc(e->recv_cq, 2, IBV_WC_WR_FLUSH_ERR).sl, 0);

	CHECK(cq, "ibv_create_cq_ex: %s", strerror(errno));
	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	init.recv_cq = ibv_cq_ex_to_cq(cq);
	e->qp = ibv_create_qp(e->pd, &init);
	CHECK(e->qp, "ibv_create_qp: %s", strerror(errno));
	connect_endpoint(e, &remote, NULL);
	self = address_of(e);
	CHECK_EQ(post_recv(e, 4, 1000, GRH_SIZE + 256), 0);
	CHECK_EQ(remote_post(0, 5, IBV_WR_SEND, 0, 200, &self, 0, 0), 0);
	remote_expect(0, false, 5, IBV_WC_SUCCESS);
	for (uint64_t deadline = now_ms() + 30000; ibv_start_poll(cq, &none);)
		CHECK(now_ms() < deadline, "no completion");
	CHECK_EQ(cq->wr_id, 4);
	CHECK_EQ(cq->status, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_wc_read_sl(cq), kind);
	ibv_end_poll(cq);
}

// A Q_Key with the top bit set stands for the sender's own.
static void controlled_qkey(void)
{
	struct endpoint *e = pair();
	struct address to = remote;

	to.qkey = 0x80010000;
	CHECK_EQ(remote_post_recv(0, 1, 0, 4096), 0);
	CHECK_EQ(post(e, 1, IBV_WR_SEND, 0, 100, &to, 0, 0), 0);
	expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
	remote_expect(0, true, 1, IBV_WC_SUCCESS);
}

static void no_receive_request(void)
{
	struct endpoint *e = pair();
	long long before = remote_counter("rx_no_receive");

	for (int i = 0; i < 7; i++) {
		CHECK_EQ(post(e, i, IBV_WR_SEND, 0, 100, NULL, 0, 0), 0);
		expect_wc(e->send_cq, i, IBV_WC_SUCCESS);
	}
	remote_counter_reaches("rx_no_receive", before + 7);
	works(e, 9);
}

// Too small for the payload, or for the GRH alone.
static void short_receive_request(void)
{
	struct endpoint *e = pair();

	remote_fill(0, 0, 4096, 3);
	CHECK_EQ(remote_post_recv(0, 1, 1000, GRH_SIZE + 99), 0);
	CHECK_EQ(post(e, 1, IBV_WR_SEND, 0, 100, NULL, 0, 0), 0);
	expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(post(e, 2, IBV_WR_SEND, 0, 99, NULL, 0, 0), 0);
	expect_wc(e->send_cq, 2, IBV_WC_SUCCESS);
	struct ibv_wc wc = remote_expect(0, true, 1, IBV_WC_SUCCESS);

	CHECK_EQ(wc.byte_len, GRH_SIZE + 99);
	remote_fill(0, 0, 4096, 3);
	CHECK_EQ(remote_post_recv(0, 2, 1000, 8), 0);
	CHECK_EQ(post(e, 3, IBV_WR_SEND, 0, 100, NULL, 0, 0), 0);
	expect_wc(e->send_cq, 3, IBV_WC_SUCCESS);
	CHECK_EQ(remote_pending(0, true), 0);
	// As far as the flush shows, nothing was placed.
	CHECK_EQ(remote_set_state(0, IBV_QPS_ERR), 0);
	remote_expect(0, true, 2, IBV_WC_WR_FLUSH_ERR);
	remote_check(0, 0, 1000, 3, "in front of the receive request");
	remote_check(0, 0, 4096, 3, "around the receive request");
}

static void longer_than_the_mtu(void)
{
	struct endpoint *e = pair();
	struct ibv_port_attr port;

	CHECK_EQ(ibv_query_port(e->context, 1, &port), 0);
	int mtu = 128 << port.active_mtu;

	fill(e->buffer, mtu, 4);
	CHECK_EQ(remote_post_recv(0, 1, 0, GRH_SIZE + mtu), 0);
	CHECK_EQ(post(e, 1, IBV_WR_SEND, 0, mtu, NULL, 0, 0), 0);
	expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
	struct ibv_wc wc = remote_expect(0, true, 1, IBV_WC_SUCCESS);

	CHECK_EQ(wc.byte_len, GRH_SIZE + mtu);
	remote_check(0, GRH_SIZE, mtu, 4, "datagram");
	CHECK_EQ(remote_post_recv(0, 2, 0, 30000), 0);
	CHECK_EQ(post(e, 2, IBV_WR_SEND, 0, mtu + 1, NULL, 0, 0), 0);
	expect_wc(e->send_cq, 2, IBV_WC_LOC_LEN_ERR);
	CHECK_EQ(state_of(e->qp), IBV_QPS_SQE);
	CHECK_EQ(set_state(e->qp, IBV_QPS_RTS), 0);
	CHECK_EQ(post(e, 3, IBV_WR_SEND, 0, 10, NULL, 0, 0), 0);
	expect_wc(e->send_cq, 3, IBV_WC_SUCCESS);
	wc = remote_expect(0, true, 2, IBV_WC_SUCCESS);
	CHECK_EQ(wc.byte_len, GRH_SIZE + 10);
}

static void no_such_operation(void)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV, IBV_WR_LOCAL_INV, IBV_WR_BIND_MW, IBV_WR_TSO,
	};
	struct endpoint *e = pair();

	for (size_t i = 0; i < sizeof(opcodes) / sizeof(*opcodes); i++) {
		struct ibv_sge sge = sge_of(e, 0, 8);
		struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = opcodes[i],
					 .wr.ud = {e->ah, remote.qpn, remote.qkey}}, *bad = NULL;

		REFUSED(ibv_post_send(e->qp, &wr, &bad), EINVAL);
		CHECK(bad == &wr, "bad_wr of opcode %d is not the refused request", opcodes[i]);
	}
	expect_no_wc(e->send_cq, 20);
	works(e, 9);
}

static void no_address_handle(void)
{
	struct endpoint *e = pair();
	struct ibv_sge sge = sge_of(e, 0, 8);
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .wr.ud = {NULL, remote.qpn, remote.qkey}}, *bad = NULL;

	REFUSED(ibv_post_send(e->qp, &wr, &bad), EINVAL);
	CHECK(bad == &wr, "bad_wr is not the refused request");
	works(e, 9);
}

// Sends with a handle that must not work, to somewhere that would.
static void refused_with(struct endpoint *e, struct ibv_ah *ah)
{
	struct ibv_sge sge = sge_of(e, 0, 8);
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .wr.ud = {ah, remote.qpn, remote.qkey}}, *bad = NULL;

	CHECK_EQ(remote_post_recv(0, 77, 0, 4096), 0);
	int error = ibv_post_send(e->qp, &wr, &bad);

	CHECK(error == 0 || error == EINVAL, "ibv_post_send answers %d (%s)", error, strerror(error));
	if (error == 0) {
		struct ibv_wc wc = wait_wc(e->send_cq);

		CHECK(wc.status == IBV_WC_LOC_QP_OP_ERR || wc.status == IBV_WC_LOC_PROT_ERR, "status is %d (%s)", wc.status,
		      ibv_wc_status_str(wc.status));
		CHECK_EQ(state_of(e->qp), IBV_QPS_SQE);
		CHECK_EQ(set_state(e->qp, IBV_QPS_RTS), 0);
	}
	CHECK_EQ(post(e, 2, IBV_WR_SEND, 0, 10, NULL, 0, 0), 0);
	expect_wc(e->send_cq, 2, IBV_WC_SUCCESS);
	struct ibv_wc wc = remote_expect(0, true, 77, IBV_WC_SUCCESS);

	CHECK_EQ(wc.byte_len, GRH_SIZE + 10);
}

static void address_handle_of_another_domain(void)
{
	struct endpoint *e = pair();
	struct ibv_pd *pd = ibv_alloc_pd(e->context);
	struct ibv_ah_attr attr = ah_attr_to(&remote);
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);

	CHECK(ah, "ibv_create_ah: %s", strerror(errno));
	refused_with(e, ah);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
}

static void address_handle_of_another_context(void)
{
	struct endpoint *e = pair();
	struct ibv_pd *pd = ibv_alloc_pd(open_device());
	struct ibv_ah_attr attr = ah_attr_to(&remote);
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);

	CHECK(ah, "ibv_create_ah: %s", strerror(errno));
	refused_with(e, ah);
}

static void bad_address_handles(void)
{
	struct endpoint *e = pair();
	struct ibv_pd *pd = ibv_alloc_pd(e->context);
	struct ibv_ah_attr good = ah_attr_to(&remote), attr;

#define BAD(change, what)                                                                                            \
	do {                                                                                                           \
		attr = good;                                                                                           \
		change;                                                                                                \
		errno = 0;                                                                                             \
		CHECK(!ibv_create_ah(pd, &attr), "an address handle %s was made", what);                            \
		CHECK(errno == EINVAL, "%s: errno is %d (%s)", what, errno, strerror(errno));                          \
	} while (0)
	BAD(attr.is_global = 0, "without a GRH");
	BAD(attr.port_num = 0, "of port 0");
	BAD(attr.port_num = 2, "of port 2");
	BAD(attr.grh.sgid_index = 63, "with an empty GID");
	BAD(attr.grh.sgid_index = 255, "beyond the GID table");
	BAD(memset(&attr.grh.dgid, 0, 16), "to GID 0");
	works(e, 9);
}

static void send_queue_full(void)
{
	struct endpoint *e = pair();

	fill_send_queue(e, IBV_WR_SEND, NULL);
	works(e, 9);
}

static void receive_queue_full(void)
{
	fill_receive_queue(pair());
}

static void completion_queue_full(void)
{
	fill_completion_queue(IBV_QPT_UD, &remote);
}

// The table of ibv_modify_qp(3) for UD: what must be there, what has no place.
static void transitions(void)
{
	struct options options = {.qp_type = IBV_QPT_UD};
	struct endpoint *e = open_endpoint(&options);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = TEST_QKEY};
	int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	REFUSED(ibv_modify_qp(e->qp, &attr, init), EINVAL);
	REFUSED(ibv_modify_qp(e->qp, &attr, init | IBV_QP_QKEY | IBV_QP_ACCESS_FLAGS), EINVAL);
	attr.pkey_index = 1;
	REFUSED(ibv_modify_qp(e->qp, &attr, init | IBV_QP_QKEY), EINVAL);
	attr.pkey_index = 0;
	CHECK_EQ(state_of(e->qp), IBV_QPS_RESET);
	CHECK_EQ(ibv_modify_qp(e->qp, &attr, init | IBV_QP_QKEY), 0);
	attr.qp_state = IBV_QPS_RTR;
	REFUSED(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN), EINVAL);
	CHECK_EQ(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	REFUSED(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE), EINVAL);
	REFUSED(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT), EINVAL);
	CHECK_EQ(state_of(e->qp), IBV_QPS_RTR);
	CHECK_EQ(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	CHECK_EQ(state_of(e->qp), IBV_QPS_RTS);
}

#define T(name) {#name, name, 0}
PROGRAM(T(global_route_header), T(kind_of_ip_header), T(wrong_qkey), T(controlled_qkey), T(no_receive_request),
	T(short_receive_request), T(longer_than_the_mtu),
	T(no_such_operation), T(no_address_handle), T(address_handle_of_another_domain),
	T(address_handle_of_another_context), T(bad_address_handles), T(send_queue_full), T(receive_queue_full),
	T(completion_queue_full), T(transitions))
