// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Connections that the program at the other end refuses, before and after the server's answer, and
// what it says with it. The other end is on the other host if there is one.

#include "cm_ids.h"
#include "own_address.h"

#include <errno.h>
#include <string.h>

static const char WORDS[] = "not today";

struct order {
	struct sockaddr_in address; // where the server is
	bool server;
};

static void refuse(struct rdma_cm_id *id)
{
	CHECK(!rdma_reject(id, WORDS, sizeof(WORDS)), "rdma_reject: %s", strerror(errno));
}

static void refused(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event = event_of(channel, RDMA_CM_EVENT_REJECTED);

	// IBTA's reason 28: the consumer's own.
	CHECK_EQ(event->status, 28);
	CHECK(event->param.conn.private_data_len >= sizeof(WORDS) && !strcmp(event->param.conn.private_data, WORDS),
	      "private data");
	rdma_ack_cm_event(event);
}

void peer_serve(int fd)
{
	struct rdma_event_channel *channel = new_channel();
	struct sockaddr_in address = own_address(0);
	struct rdma_cm_id *id;
	struct order order;
	char byte;

	if (!receive_all(fd, &order, sizeof(order)))
		return;
	if (order.server) {
		listener_on(channel, &address);
		send_all(fd, &address, sizeof(address));
		id = requested(channel);
	} else {
		id = connecting(channel, &order.address);
		expect_event(channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	}
	refuse(id);
	// Until the test has seen it.
	receive_all(fd, &byte, 1);
}

static void the_server_refuses(void)
{
	struct order order = {.server = true};
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id;

	send_all(peer_socket(), &order, sizeof(order));
	CHECK(receive_all(peer_socket(), &order.address, sizeof(order.address)), "the other process has ended");
	id = connecting(channel, &order.address);
	refused(channel);
	CHECK(rdma_establish(id) == -1 && errno == EINVAL, "rdma_establish: %s", strerror(errno));
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK(!readable(channel, 0), "an event of an id that is gone");
}

static void the_client_refuses_the_answer(void)
{
	struct order order = {.address = own_address(0)};
	struct rdma_conn_param param = parameters();
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *listener = listener_on(channel, &order.address), *id;

	send_all(peer_socket(), &order, sizeof(order));
	id = requested(channel);
	CHECK(!rdma_accept(id, &param), "rdma_accept: %s", strerror(errno));
	refused(channel);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
	CHECK(!readable(channel, 0), "an event of an id that is gone");
}

#define T(name) {#name, name, 0}
PROGRAM(T(the_server_refuses), T(the_client_refuses_the_answer))
