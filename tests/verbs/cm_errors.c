// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What rdma_cm(7) says of errors: refusals, ids destroyed in every state, many at once. The ids
// have no queue pairs: connections are the connection manager's affair alone. Datagram services are
// in cm_datagrams.c, channels in cm_channels.c.

#include "cm_ids.h"
#include "own_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <string.h>
#include <sys/socket.h>

enum { TIMEOUT_MS = 2000, MANY = 1000 };

static void nobody_listens(void)
{
	struct sockaddr_in address = own_address(7999);
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = connecting(channel, &address), *sync;
	struct rdma_conn_param param = parameters();

	// IBTA's reason 8: no such service.
	expect_event(channel, RDMA_CM_EVENT_REJECTED, 8);
	CHECK_EQ(rdma_destroy_id(id), 0);

	CHECK_EQ(rdma_create_id(NULL, &sync, NULL, RDMA_PS_TCP), 0);
	CHECK(!rdma_resolve_addr(sync, NULL, (struct sockaddr *)&address, TIMEOUT_MS), "%s", strerror(errno));
	CHECK(!rdma_resolve_route(sync, TIMEOUT_MS), "%s", strerror(errno));
	CHECK(rdma_connect(sync, &param) == -1 && errno == ECONNREFUSED, "synchronously: %s", strerror(errno));
	CHECK_EQ(rdma_destroy_id(sync), 0);
}

static void rejection_carries_data(void)
{
	struct pair p;
	struct rdma_cm_event *event;

	request(&p);
	CHECK(!rdma_reject(p.passive, "not today", 10), "rdma_reject: %s", strerror(errno));
	event = event_of(p.client, RDMA_CM_EVENT_REJECTED);
	// IBTA's reason 28: the consumer's own.
	CHECK_EQ(event->status, 28);
	CHECK(event->param.conn.private_data_len >= 10 && !strcmp(event->param.conn.private_data, "not today"),
	      "private data");
	rdma_ack_cm_event(event);
	CHECK_EQ(rdma_destroy_id(p.active), 0);
	CHECK_EQ(rdma_destroy_id(p.passive), 0);
	CHECK_EQ(rdma_destroy_id(p.listener), 0);
}

static void private_data_is_bounded(void)
{
	struct pair p;
	struct rdma_conn_param param = parameters();
	char data[256] = "hello";
	struct rdma_cm_event *event;

	prepare(&p);
	p.active = resolved(p.client, &p.address);
	param.private_data = data;
	// The IP header of the service takes 36 of a request's 92 bytes.
	param.private_data_len = 57;
	CHECK(rdma_connect(p.active, &param) == -1 && errno == EINVAL, "57 bytes: %s", strerror(errno));
	param.private_data_len = 56;
	CHECK(!rdma_connect(p.active, &param), "56 bytes: %s", strerror(errno));
	event = event_of(p.server, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(event->param.conn.private_data_len == 56 && !memcmp(event->param.conn.private_data, data, 56),
	      "what arrives");
	CHECK_EQ(event->param.conn.qp_num, param.qp_num);
	p.passive = event->id;
	rdma_ack_cm_event(event);
	param = parameters();
	param.private_data = data;
	param.private_data_len = 197;
	CHECK(rdma_accept(p.passive, &param) == -1 && errno == EINVAL, "197 bytes: %s", strerror(errno));
	expect_event(p.client, RDMA_CM_EVENT_REJECTED, 28);
}

static void addresses_and_ports_are_checked(void)
{
	struct rdma_event_channel *channel = new_channel();
	struct sockaddr_in address = own_address(0), foreign = {.sin_family = AF_INET};
	struct rdma_cm_id *first = listener_on(channel, &address), *second = new_id(channel);
	int on = 1;

	CHECK(rdma_bind_addr(second, (struct sockaddr *)&address) == -1 && errno == EADDRINUSE, "taken port: %s",
	      strerror(errno));
	inet_pton(AF_INET, "203.0.113.9", &foreign.sin_addr);
	CHECK(rdma_bind_addr(second, (struct sockaddr *)&foreign) == -1 && errno == EADDRNOTAVAIL,
	      "a foreign address: %s", strerror(errno));
	// What was refused has changed nothing.
	address.sin_port = 0;
	CHECK(!rdma_bind_addr(second, (struct sockaddr *)&address), "any port: %s", strerror(errno));
	CHECK(rdma_get_src_port(second) != 0 && rdma_get_src_port(second) != rdma_get_src_port(first), "the port");
	CHECK(rdma_bind_addr(second, (struct sockaddr *)&address) == -1 && errno == EINVAL, "twice: %s",
	      strerror(errno));
	CHECK(rdma_set_option(second, RDMA_OPTION_ID, 99, &on, sizeof(on)) == -1 && errno == ENOSYS,
	      "an unknown option: %s", strerror(errno));
	CHECK(rdma_set_option(second, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &on, sizeof(on)) == -1 && errno == EINVAL,
	      "an option of another size: %s", strerror(errno));
	CHECK_EQ(rdma_destroy_id(first), 0);
	CHECK_EQ(rdma_destroy_id(second), 0);
}

static void calls_in_the_wrong_state(void)
{
	struct pair p;
	struct rdma_conn_param param = parameters();

	establish(&p);
	CHECK(rdma_connect(p.active, &param) == -1 && errno == EINVAL, "connecting twice: %s", strerror(errno));
	CHECK(rdma_accept(p.passive, &param) == -1 && errno == EINVAL, "accepting twice: %s", strerror(errno));
	CHECK(rdma_listen(p.passive, 1) == -1 && errno == EINVAL, "listening on it: %s", strerror(errno));
	CHECK(rdma_listen(p.listener, 1) == -1 && errno == EINVAL, "listening twice: %s", strerror(errno));
}

static void destroying_in_every_state(void)
{
	struct pair p;
	struct rdma_conn_param param;
	struct rdma_cm_id *id;

	prepare(&p);
	CHECK_EQ(rdma_destroy_id(new_id(p.client)), 0);
	id = new_id(p.client);
	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&p.address, TIMEOUT_MS), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK(!readable(p.client, 0), "an event of an id that is gone");
	CHECK_EQ(rdma_destroy_id(resolved(p.client, &p.address)), 0);

	// Request sent, not answered: the peer's answer comes too late.
	id = connecting(p.client, &p.address);
	p.passive = requested(p.server);
	CHECK_EQ(rdma_destroy_id(id), 0);
	param = parameters();
	rdma_accept(p.passive, &param);
	CHECK_EQ(rdma_destroy_id(p.passive), 0);

	// Request received, not answered.
	id = connecting(p.client, &p.address);
	p.passive = requested(p.server);
	CHECK_EQ(rdma_destroy_id(p.passive), 0);
	expect_event(p.client, RDMA_CM_EVENT_REJECTED, 28);
	CHECK_EQ(rdma_destroy_id(id), 0);

	// Accepted, not yet established, by either side.
	for (int side = 0; side < 2; side++) {
		id = connecting(p.client, &p.address);
		p.passive = requested(p.server);
		param = parameters();
		CHECK_EQ(rdma_accept(p.passive, &param), 0);
		expect_event(p.client, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
		CHECK_EQ(rdma_destroy_id(side ? id : p.passive), 0);
		if (side)
			rdma_ack_cm_event(event_of(p.server, RDMA_CM_EVENT_REJECTED));
		CHECK_EQ(rdma_destroy_id(side ? p.passive : id), 0);
	}
	CHECK_EQ(rdma_destroy_id(p.listener), 0);

	// Established: the peer is told.
	for (int side = 0; side < 2; side++) {
		establish(&p);
		CHECK_EQ(rdma_destroy_id(side ? p.passive : p.active), 0);
		expect_event(side ? p.client : p.server, RDMA_CM_EVENT_DISCONNECTED, 0);
		CHECK_EQ(rdma_destroy_id(side ? p.active : p.passive), 0);
		CHECK_EQ(rdma_destroy_id(p.listener), 0);
	}
}

static void disconnecting_has_its_events(void)
{
	struct pair p;

	establish(&p);
	// Without queue pairs rdma_disconnect() has nothing else to do.
	CHECK(!rdma_disconnect(p.active), "rdma_disconnect: %s", strerror(errno));
	expect_event(p.server, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK(!rdma_disconnect(p.passive), "rdma_disconnect: %s", strerror(errno));
	expect_event(p.client, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_event(p.client, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	expect_event(p.server, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	CHECK_EQ(rdma_destroy_id(p.active), 0);
	CHECK_EQ(rdma_destroy_id(p.passive), 0);
}

static void events_migrate_with_their_id(void)
{
	struct pair p;
	struct rdma_event_channel *other;

	prepare(&p);
	other = new_channel();
	p.active = connecting(p.client, &p.address);
	CHECK(readable(p.server, EVENT_MS), "no request");
	CHECK(!rdma_migrate_id(p.listener, other), "rdma_migrate_id: %s", strerror(errno));
	CHECK(!readable(p.server, 0), "the event stayed behind");
	p.passive = requested(other);
	CHECK_EQ(rdma_destroy_id(p.passive), 0);
	CHECK_EQ(rdma_destroy_id(p.listener), 0);
	rdma_destroy_event_channel(p.server);
}

static void a_thousand_at_once(void)
{
	static struct rdma_cm_id *active[MANY];
	struct pair p;
	struct rdma_cm_event *event;
	int accepted = 0, connected = 0, done = 0, ended = 0;

	prepare(&p);
	for (int i = 0; i < MANY; i++)
		active[i] = connecting(p.client, &p.address);
	while (done < MANY) {
		struct pollfd fds[2] = {{.fd = p.server->fd, .events = POLLIN}, {.fd = p.client->fd, .events = POLLIN}};

		CHECK(poll(fds, 2, EVENT_MS) > 0, "%d accepted, %d connected, %d established", accepted, connected,
		      done);
		if (fds[0].revents & POLLIN) {
			CHECK_EQ(rdma_get_cm_event(p.server, &event), 0);
			if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
				struct rdma_conn_param param = parameters();

				CHECK_EQ(rdma_accept(event->id, &param), 0);
				accepted++;
			} else {
				CHECK_EQ(event->event, RDMA_CM_EVENT_ESTABLISHED);
				done++;
			}
			rdma_ack_cm_event(event);
		}
		if (fds[1].revents & POLLIN) {
			event = event_of(p.client, RDMA_CM_EVENT_CONNECT_RESPONSE);
			CHECK_EQ(rdma_establish(event->id), 0);
			connected++;
			rdma_ack_cm_event(event);
		}
	}
	CHECK_EQ(accepted, MANY);
	for (int i = 0; i < MANY; i++)
		CHECK_EQ(rdma_destroy_id(active[i]), 0);
	for (; ended < MANY; ended++) {
		struct rdma_cm_id *id;

		event = event_of(p.server, RDMA_CM_EVENT_DISCONNECTED);
		id = event->id;
		rdma_ack_cm_event(event);
		CHECK_EQ(rdma_destroy_id(id), 0);
	}
}

// Who listens anew for each phase of its work is away for a moment: a request that comes then waits
// for the next listener.
static void a_request_between_two_listeners_waits(void)
{
	enum { AWAY_MS = 1000 };
	struct rdma_cm_id *id, *passive;
	struct pair p;

	prepare(&p);
	CHECK_EQ(rdma_destroy_id(p.listener), 0);
	id = connecting(p.client, &p.address);
	CHECK(!readable(p.client, AWAY_MS), "the request is answered though nobody listens");
	p.listener = listener_on(p.server, &p.address);
	passive = requested(p.server);
	CHECK_EQ(rdma_destroy_id(passive), 0);
	expect_event(p.client, RDMA_CM_EVENT_REJECTED, 28);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

#define T(name) {#name, name, 0}
PROGRAM(T(nobody_listens), T(rejection_carries_data), T(private_data_is_bounded), T(addresses_and_ports_are_checked),
	T(calls_in_the_wrong_state), T(destroying_in_every_state), T(disconnecting_has_its_events),
	T(events_migrate_with_their_id), T(a_thousand_at_once), T(a_request_between_two_listeners_waits))
