// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The MTU of the port's interface changes while a program has the device open. Each test says what
// it should be, "MTU 1500", and waits until the port has it. It is 9000 at first.

#include "endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

enum { PATIENCE_MS = 20000, LONG = 4096, SHORT = 1024 };

static void wish(int mtu)
{
	printf("MTU %d\n", mtu);
	fflush(stdout);
}

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static enum ibv_mtu active_mtu(struct ibv_context *context)
{
	struct ibv_port_attr port;

	CHECK_EQ(ibv_query_port(context, 1, &port), 0);
	CHECK_EQ(port.max_mtu, IBV_MTU_4096);
	return port.active_mtu;
}

static void wait_until_active_mtu_is(struct ibv_context *context, enum ibv_mtu wanted)
{
	uint64_t started = now_ms();

	while (active_mtu(context) != wanted && now_ms() - started < PATIENCE_MS)
		nap();
	CHECK_EQ(active_mtu(context), wanted);
}

// A queue pair that sends datagrams to itself, of the same context as the first endpoint.
static struct endpoint *datagrams(int share_plus_one)
{
	struct endpoint *e = open_endpoint(&(struct options){.qp_type = IBV_QPT_UD, .share_plus_one = share_plus_one});
	struct address self = address_of(e);

	connect_endpoint(e, &self, NULL);
	return e;
}

static enum ibv_wc_status sent(struct endpoint *e, size_t length)
{
	CHECK_EQ(post(e, 1, IBV_WR_SEND, 0, length, NULL, 0, 0), 0);
	return wait_wc(e->send_cq).status;
}

static void arrives(struct endpoint *e, size_t length)
{
	CHECK_EQ(post_recv(e, 2, 16384, GRH_SIZE + length), 0);
	CHECK_EQ(sent(e, length), IBV_WC_SUCCESS);
	CHECK_EQ(expect_wc(e->recv_cq, 2, IBV_WC_SUCCESS).byte_len, GRH_SIZE + length);
}

// C10-93.1.1: it is not sent, which is an error as with adapters.
static void too_long(struct endpoint *e, size_t length)
{
	CHECK_EQ(sent(e, length), IBV_WC_LOC_LEN_ERR);
	CHECK_EQ(set_state(e->qp, IBV_QPS_RTS), 0);
}

// Whether a connection that begins now may have this path MTU: 0 or the errno.
static int begun(int share_plus_one, enum ibv_mtu mtu)
{
	struct endpoint *e = open_endpoint(&(struct options){.share_plus_one = share_plus_one});
	struct address self = address_of(e);

	CHECK_EQ(modify_to_init(e), 0);
	return modify_to_rtr(e, &self, &(struct connection){.mtu = mtu});
}

static enum ibv_mtu path_mtu(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_PATH_MTU, &init), 0);
	return attr.path_mtu;
}

static void lowered(void)
{
	struct endpoint *e = datagrams(0);
	uint64_t started = now_ms();
	enum ibv_wc_status status;

	CHECK_EQ(active_mtu(e->context), IBV_MTU_4096);
	arrives(e, LONG);
	CHECK_EQ(begun(1, IBV_MTU_4096), 0);
	struct endpoint *connected = endpoint_at(last_endpoint());

	// Who asks nothing sends by what the port takes, too.
	wish(1500);
	while ((status = sent(e, LONG)) == IBV_WC_SUCCESS && now_ms() - started < PATIENCE_MS)
		nap();
	CHECK_EQ(status, IBV_WC_LOC_LEN_ERR);
	CHECK_EQ(set_state(e->qp, IBV_QPS_RTS), 0);
	arrives(e, SHORT);
	too_long(e, SHORT + 1);

	CHECK_EQ(active_mtu(e->context), IBV_MTU_1024);
	struct endpoint *later = datagrams(1);

	arrives(later, SHORT);
	too_long(later, LONG);
	CHECK_EQ(begun(1, IBV_MTU_2048), EINVAL);
	CHECK_EQ(begun(1, IBV_MTU_1024), 0);
	// What has begun is as it was, and nobody is told.
	CHECK_EQ(path_mtu(connected->qp), IBV_MTU_4096);
	CHECK_EQ(next_event(e->context, 0, NULL), -1);
}

static void raised(void)
{
	struct endpoint *e = datagrams(0);

	CHECK_EQ(active_mtu(e->context), IBV_MTU_1024);
	too_long(e, LONG);
	CHECK_EQ(begun(1, IBV_MTU_4096), EINVAL);
	wish(9000);
	wait_until_active_mtu_is(e->context, IBV_MTU_4096);
	arrives(e, LONG);
	CHECK_EQ(begun(1, IBV_MTU_4096), 0);
	CHECK_EQ(next_event(e->context, 0, NULL), -1);
}

#define T(name) {#name, name, 0}
PROGRAM(T(lowered), T(raised))
