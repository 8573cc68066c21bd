// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What becomes of a connection whose other end is killed, in each state and from either side. The
// other end is on the other host if there is one.

#include "cm_ids.h"
#include "own_address.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

// How far the one that dies has come.
enum stage {
	REQUESTED,   // the request is sent, and read by the server
	ANSWERED,    // accepted; the client has read the answer and not confirmed it
	ESTABLISHED, // both know
	LEFT,        // it has read that the other disconnects
	LEAVING,     // it disconnects
};

struct order {
	struct sockaddr_in address; // where the server is
	enum stage stage;
	bool server;
};

// From when the connection stands.
static void serve_end(int fd, enum stage stage, struct rdma_event_channel *channel, struct rdma_cm_id *id)
{
	if (stage == LEFT)
		expect_event(channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	if (stage == LEAVING)
		CHECK(!rdma_disconnect(id), "rdma_disconnect: %s", strerror(errno));
	reached(fd);
}

static void serve_as_server(int fd, enum stage stage)
{
	struct sockaddr_in address = own_address(0);
	struct rdma_conn_param param = parameters();
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id;

	listener_on(channel, &address);
	send_all(fd, &address, sizeof(address));
	id = requested(channel);
	if (stage == REQUESTED)
		reached(fd);
	CHECK(!rdma_accept(id, &param), "rdma_accept: %s", strerror(errno));
	if (stage == ANSWERED)
		reached(fd);
	expect_event(channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	serve_end(fd, stage, channel, id);
}

static void serve_as_client(int fd, struct order *order)
{
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = connecting(channel, &order->address);

	if (order->stage == REQUESTED)
		reached(fd);
	expect_event(channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	if (order->stage == ANSWERED)
		reached(fd);
	CHECK(!rdma_establish(id), "rdma_establish: %s", strerror(errno));
	serve_end(fd, order->stage, channel, id);
}

void peer_serve(int fd)
{
	struct order order;

	if (!receive_all(fd, &order, sizeof(order)))
		return;
	if (order.server)
		serve_as_server(fd, order.stage);
	else
		serve_as_client(fd, &order);
}

// The end of a connection that stood, as the one sees it who stays.
static void outlive(struct rdma_event_channel *channel, struct rdma_cm_id *id, enum stage stage)
{
	if (stage == LEFT)
		CHECK(!rdma_disconnect(id), "rdma_disconnect: %s", strerror(errno));
	wait_reached();
	peer_kill();
	// Who answers for the dead one is its host.
	expect_event(channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK(!rdma_disconnect(id), "rdma_disconnect afterwards: %s", strerror(errno));
	expect_event(channel, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
}

static void server_dies(enum stage stage)
{
	struct order order = {.stage = stage, .server = true};
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id;

	send_all(peer_socket(), &order, sizeof(order));
	CHECK(receive_all(peer_socket(), &order.address, sizeof(order.address)), "the other process has ended");
	id = connecting(channel, &order.address);
	if (stage == REQUESTED) {
		wait_reached();
		peer_kill();
		// IBTA's reason 28: the consumer's own.
		expect_event(channel, RDMA_CM_EVENT_REJECTED, 28);
	} else {
		expect_event(channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
		if (stage == ANSWERED) {
			wait_reached();
			peer_kill();
			rdma_ack_cm_event(event_of(channel, RDMA_CM_EVENT_REJECTED));
			CHECK(rdma_establish(id) == -1 && errno == EINVAL, "rdma_establish: %s", strerror(errno));
		} else {
			CHECK(!rdma_establish(id), "rdma_establish: %s", strerror(errno));
			outlive(channel, id, stage);
		}
	}
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK(!readable(channel, 0), "an event of an id that is gone");
}

static void client_dies(enum stage stage)
{
	struct order order = {.stage = stage, .address = own_address(0)};
	struct rdma_conn_param param = parameters();
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *listener = listener_on(channel, &order.address), *id;

	send_all(peer_socket(), &order, sizeof(order));
	id = requested(channel);
	if (stage == REQUESTED) {
		wait_reached();
		peer_kill();
		// That it is gone may be known by now or not; either way nothing comes of it.
		if (rdma_accept(id, &param))
			CHECK(errno == EINVAL, "rdma_accept: %s", strerror(errno));
		else
			rdma_ack_cm_event(event_of(channel, RDMA_CM_EVENT_REJECTED));
	} else {
		CHECK(!rdma_accept(id, &param), "rdma_accept: %s", strerror(errno));
		if (stage == ANSWERED) {
			wait_reached();
			peer_kill();
			rdma_ack_cm_event(event_of(channel, RDMA_CM_EVENT_REJECTED));
		} else {
			expect_event(channel, RDMA_CM_EVENT_ESTABLISHED, 0);
			outlive(channel, id, stage);
		}
	}
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
	CHECK(!readable(channel, 0), "an event of an id that is gone");
}

#define BOTH(name, stage)                                                                \
	static void server_killed_##name(void)                                           \
	{                                                                                \
		server_dies(stage);                                                      \
	}                                                                                \
	static void client_killed_##name(void)                                           \
	{                                                                                \
		client_dies(stage);                                                      \
	}
BOTH(with_a_request, REQUESTED)
BOTH(with_an_answer, ANSWERED)
BOTH(when_connected, ESTABLISHED)
BOTH(being_disconnected, LEFT)
BOTH(while_disconnecting, LEAVING)

// The client gives up while the server makes up its mind: the server's answer fails, or is refused.
static void accepting_after_the_client_gave_up(void)
{
	struct rdma_conn_param param = parameters();
	struct pair p;

	request(&p);
	CHECK_EQ(rdma_destroy_id(p.active), 0);
	if (rdma_accept(p.passive, &param))
		CHECK(errno == EINVAL, "rdma_accept: %s", strerror(errno));
	else
		rdma_ack_cm_event(event_of(p.server, RDMA_CM_EVENT_REJECTED));
	CHECK_EQ(rdma_destroy_id(p.passive), 0);
	CHECK_EQ(rdma_destroy_id(p.listener), 0);
}

#define T(name) {#name, name, 0}
#define T2(name) T(server_killed_##name), T(client_killed_##name)
PROGRAM(T2(with_a_request), T2(with_an_answer), T2(when_connected), T2(being_disconnected), T2(while_disconnecting),
	T(accepting_after_the_client_gave_up))
