// SPDX-License-Identifier: MIT OR Apache-2.0

#include "cm_ids.h"
#include "own_address.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_MS = 2000 };

// A number that no other process of the test has either: a second connection of one QP is refused.
static uint32_t own_qpn(void)
{
	static uint32_t count;

	return (getpid() & 0xfff) << 12 | (++count & 0xfff);
}

struct rdma_event_channel *new_channel(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	CHECK(channel, "rdma_create_event_channel: %s", strerror(errno));
	return channel;
}

struct rdma_cm_id *new_id(struct rdma_event_channel *channel)
{
	return new_id_of(channel, RDMA_PS_TCP);
}

struct rdma_cm_id *new_id_of(struct rdma_event_channel *channel, enum rdma_port_space space)
{
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, space), "rdma_create_id: %s", strerror(errno));
	return id;
}

bool readable(struct rdma_event_channel *channel, int milliseconds)
{
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};

	return poll(&fd, 1, milliseconds) == 1 && fd.revents & POLLIN;
}

// The next event, of this kind; the caller acknowledges it.
struct rdma_cm_event *event_of(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	CHECK(readable(channel, EVENT_MS), "no event; %s is awaited", rdma_event_str(wanted));
	CHECK(!rdma_get_cm_event(channel, &event), "rdma_get_cm_event: %s", strerror(errno));
	CHECK(event->event == wanted, "%s (status %d), not %s", rdma_event_str(event->event), event->status,
	      rdma_event_str(wanted));
	return event;
}

void expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted, int status)
{
	struct rdma_cm_event *event = event_of(channel, wanted);

	CHECK_EQ(event->status, status);
	rdma_ack_cm_event(event);
}

struct rdma_cm_id *listener_on(struct rdma_event_channel *channel, struct sockaddr_in *address)
{
	struct rdma_cm_id *id = new_id(channel);

	listen_on(id, address);
	return id;
}

void listen_on(struct rdma_cm_id *id, struct sockaddr_in *address)
{
	CHECK(!rdma_bind_addr(id, (struct sockaddr *)address), "rdma_bind_addr: %s", strerror(errno));
	CHECK(!rdma_listen(id, 0), "rdma_listen: %s", strerror(errno));
	address->sin_port = rdma_get_src_port(id);
}

void resolve(struct rdma_cm_id *id, struct sockaddr_in *to)
{
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)to, TIMEOUT_MS), "rdma_resolve_addr: %s",
	      strerror(errno));
	expect_event(id->channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(!rdma_resolve_route(id, TIMEOUT_MS), "rdma_resolve_route: %s", strerror(errno));
	expect_event(id->channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

struct rdma_cm_id *resolved(struct rdma_event_channel *channel, struct sockaddr_in *to)
{
	struct rdma_cm_id *id = new_id(channel);

	resolve(id, to);
	return id;
}

struct rdma_conn_param parameters(void)
{
	return (struct rdma_conn_param){
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.qp_num = own_qpn(),
	};
}

struct rdma_cm_id *connecting(struct rdma_event_channel *channel, struct sockaddr_in *to)
{
	struct rdma_cm_id *id = resolved(channel, to);
	struct rdma_conn_param param = parameters();

	CHECK(!rdma_connect(id, &param), "rdma_connect: %s", strerror(errno));
	return id;
}

struct rdma_cm_id *requested(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event = event_of(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = event->id;

	rdma_ack_cm_event(event);
	return id;
}

void prepare(struct pair *p)
{
	p->address = own_address(0);
	p->server = new_channel();
	p->client = new_channel();
	p->listener = listener_on(p->server, &p->address);
}

void request(struct pair *p)
{
	prepare(p);
	p->active = connecting(p->client, &p->address);
	p->passive = requested(p->server);
}

void establish(struct pair *p)
{
	struct rdma_conn_param param = parameters();

	request(p);
	CHECK(!rdma_accept(p->passive, &param), "rdma_accept: %s", strerror(errno));
	expect_event(p->client, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	CHECK(!rdma_establish(p->active), "rdma_establish: %s", strerror(errno));
	expect_event(p->server, RDMA_CM_EVENT_ESTABLISHED, 0);
}

void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};

	CHECK(!rdma_create_qp(id, NULL, &attr), "rdma_create_qp: %s", strerror(errno));
}

void reached(int fd)
{
	char byte = 1;

	send_all(fd, &byte, 1);
	receive_all(fd, &byte, 1);
}

void wait_reached(void)
{
	char byte;

	CHECK(receive_all(peer_socket(), &byte, 1), "the other process has ended");
}

// For programs whose tests have no second process.
__attribute__((weak)) void peer_serve(int fd)
{
	(void)fd;
	fail(WHERE "nothing is served here");
}
