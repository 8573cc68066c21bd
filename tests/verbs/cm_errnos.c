// SPDX-License-Identifier: MIT OR Apache-2.0
//
// How calls of rdma_cm fail: -1, with the errno that the kernel's connection manager has for it,
// whatever state the id is in. An id is led from its making to the end of its connection, and all
// that its state does not allow is tried on the way; the connection comes about all the same. What
// librdmacm refuses by itself is here where it keeps the kernel from being asked. Private data of
// requests and answers, options and channels are in cm_errors.c, cm_options.c and cm_channels.c.

#include "answers.h"
#include "cm_ids.h"
#include "own_address.h"

#include <arpa/inet.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_MS = 2000 };
// What a REJ has room for.
enum { REJECTION_DATA = 148 };

// An event of queue pairs of which a connection manager wants to know nothing.
static const enum ibv_event_type other_event = IBV_EVENT_SQ_DRAINED;
static struct rdma_conn_param param;
static struct sockaddr_in own;

static struct sockaddr *to_itself(void)
{
	return (struct sockaddr *)&own;
}

static int attributes(struct rdma_cm_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask;

	return rdma_init_qp_attr(id, &attr, &mask);
}

// What only ids do that are new, or have an address and nothing more.
static void no_beginning(struct rdma_cm_id *id)
{
	MINUS_ONE(rdma_bind_addr(id, to_itself()), EINVAL);
	MINUS_ONE(rdma_listen(id, 1), EINVAL);
	MINUS_ONE(rdma_resolve_addr(id, NULL, to_itself(), TIMEOUT_MS), EINVAL);
}

// What only ids do that are being connected.
static void no_connection(struct rdma_cm_id *id)
{
	MINUS_ONE(rdma_accept(id, &param), EINVAL);
	MINUS_ONE(rdma_establish(id), EINVAL);
	MINUS_ONE(rdma_reject(id, NULL, 0), EINVAL);
	MINUS_ONE(rdma_disconnect(id), EINVAL);
	MINUS_ONE(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
	MINUS_ONE(rdma_notify(id, IBV_EVENT_PATH_MIG), EINVAL);
}

// What no id of connections does.
static void no_datagrams(struct rdma_cm_id *id)
{
	struct sockaddr_in group = {.sin_family = AF_INET};

	inet_pton(AF_INET, "239.1.2.3", &group.sin_addr);
	MINUS_ONE(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), EINVAL);
	MINUS_ONE(rdma_leave_multicast(id, (struct sockaddr *)&group), EADDRNOTAVAIL);
}

// rdma_resolve_route(3), rdma_connect(3) and rdma_accept(3) of librdmacm crash with ids that have
// no device.
static void a_new_id(void)
{
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel);
	struct sockaddr other = {.sa_family = AF_UNIX};
	struct ibv_qp_init_attr of_qp = {.qp_type = IBV_QPT_RC};

	own = own_address(0);
	MINUS_ONE(rdma_bind_addr(id, NULL), EINVAL);
	MINUS_ONE(rdma_bind_addr(id, &other), EINVAL);
	MINUS_ONE(rdma_resolve_addr(id, NULL, NULL, TIMEOUT_MS), EINVAL);
	MINUS_ONE(rdma_resolve_addr(id, &other, to_itself(), TIMEOUT_MS), EINVAL);
	MINUS_ONE(rdma_establish(id), EINVAL);
	MINUS_ONE(rdma_reject(id, NULL, 0), EINVAL);
	MINUS_ONE(rdma_disconnect(id), EINVAL);
	MINUS_ONE(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
	MINUS_ONE(attributes(id, IBV_QPS_INIT), EINVAL);
	MINUS_ONE(rdma_get_request(id, &id), EINVAL);
	no_datagrams(id);
	CHECK(!rdma_bind_addr(id, to_itself()), "rdma_bind_addr: %s", strerror(errno));
	make_qp(id);
	MINUS_ONE(rdma_create_qp(id, NULL, &of_qp), EINVAL);
	rdma_destroy_qp(id);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

static void what_is_no_id_or_event(void)
{
	struct rdma_event_channel *channel = new_channel(), closed = {.fd = dup(channel->fd)};
	struct rdma_cm_id *id = new_id(channel), *none;

	CHECK_EQ(close(closed.fd), 0);
	MINUS_ONE(rdma_create_id(channel, &none, NULL, 7), EINVAL);
	MINUS_ONE(rdma_create_id(&closed, &none, NULL, RDMA_PS_TCP), EBADF);
	MINUS_ONE(rdma_migrate_id(id, &closed), EBADF);
	MINUS_ONE(rdma_get_cm_event(channel, NULL), EINVAL);
	MINUS_ONE(rdma_ack_cm_event(NULL), EINVAL);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

static void families_are_not_mixed(void)
{
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel);
	struct sockaddr_in6 any = {.sin6_family = AF_INET6};

	own = own_address(0);
	MINUS_ONE(rdma_resolve_addr(id, (struct sockaddr *)&any, to_itself(), TIMEOUT_MS), EINVAL);
	CHECK_EQ(rdma_destroy_id(id), 0);
	id = new_id(channel);
	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&any), "rdma_bind_addr: %s", strerror(errno));
	MINUS_ONE(rdma_resolve_addr(id, NULL, to_itself(), TIMEOUT_MS), EINVAL);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

// An address that no device leads to leaves an id bound as it was: a wildcard's port is still all
// its own, and it may listen there.
static void a_wildcard_stays_one(void)
{
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel), *other = new_id(channel);
	struct sockaddr_in6 any = {.sin6_family = AF_INET6}, to = {
		.sin6_family = AF_INET6, .sin6_port = htons(7), .sin6_addr = IN6ADDR_LOOPBACK_INIT,
	};

	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&any), "rdma_bind_addr: %s", strerror(errno));
	own = own_address(0);
	own.sin_port = rdma_get_src_port(id);
	MINUS_ONE(rdma_bind_addr(other, to_itself()), EADDRNOTAVAIL);
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, TIMEOUT_MS), "rdma_resolve_addr: %s", strerror(errno));
	expect_event(channel, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
	MINUS_ONE(rdma_bind_addr(other, to_itself()), EADDRNOTAVAIL);
	CHECK(!rdma_listen(id, 1), "rdma_listen: %s", strerror(errno));
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(rdma_destroy_id(other), 0);
}

static void the_listening_side(void)
{
	struct rdma_cm_id *id;
	struct pair p;

	own = own_address(0);
	param = parameters();
	p.server = new_channel();
	p.client = new_channel();

	// It has an address.
	id = new_id(p.server);
	CHECK(!rdma_bind_addr(id, to_itself()), "rdma_bind_addr: %s", strerror(errno));
	MINUS_ONE(rdma_bind_addr(id, to_itself()), EINVAL);
	MINUS_ONE(rdma_resolve_route(id, TIMEOUT_MS), EINVAL);
	MINUS_ONE(rdma_connect(id, &param), EINVAL);
	no_connection(id);
	no_datagrams(id);

	// It listens. Ending what is not connected is no error from here on, as the kernel does
	// nothing then.
	CHECK(!rdma_listen(id, 1), "rdma_listen: %s", strerror(errno));
	p.address = own;
	p.address.sin_port = rdma_get_src_port(id);
	no_beginning(id);
	MINUS_ONE(rdma_resolve_route(id, TIMEOUT_MS), EINVAL);
	MINUS_ONE(rdma_connect(id, &param), EINVAL);
	MINUS_ONE(rdma_accept(id, &param), EINVAL);
	MINUS_ONE(rdma_establish(id), EINVAL);
	MINUS_ONE(rdma_reject(id, NULL, 0), EINVAL);
	MINUS_ONE(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
	MINUS_ONE(rdma_get_request(id, &p.passive), EINVAL);
	CHECK_EQ(rdma_disconnect(id), 0);
	no_datagrams(id);

	// It takes requests all the same.
	p.active = connecting(p.client, &p.address);
	p.passive = requested(p.server);
	CHECK_EQ(rdma_destroy_id(p.passive), 0);
	expect_event(p.client, RDMA_CM_EVENT_REJECTED, 28);
	CHECK_EQ(rdma_destroy_id(p.active), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

// From its address to its request, which is under way when this returns.
static void up_to_the_request(struct pair *p)
{
	prepare(p);
	own = p->address;
	param = parameters();
	p->active = new_id(p->client);

	CHECK(!rdma_resolve_addr(p->active, NULL, to_itself(), TIMEOUT_MS), "rdma_resolve_addr: %s", strerror(errno));
	expect_event(p->client, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	no_beginning(p->active);
	no_connection(p->active);
	no_datagrams(p->active);
	MINUS_ONE(rdma_connect(p->active, &param), EINVAL);

	CHECK(!rdma_resolve_route(p->active, TIMEOUT_MS), "rdma_resolve_route: %s", strerror(errno));
	expect_event(p->client, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	no_beginning(p->active);
	no_connection(p->active);
	no_datagrams(p->active);
	MINUS_ONE(rdma_resolve_route(p->active, TIMEOUT_MS), EINVAL);
	MINUS_ONE(rdma_connect(p->active, NULL), EINVAL);

	CHECK(!rdma_connect(p->active, &param), "rdma_connect: %s", strerror(errno));
}

// What can be asked of an id on its way to a connection in neither of its ends.
static void not_on_the_way(struct rdma_cm_id *id)
{
	no_beginning(id);
	no_datagrams(id);
	MINUS_ONE(rdma_resolve_route(id, TIMEOUT_MS), EINVAL);
	MINUS_ONE(rdma_connect(id, &param), EINVAL);
	MINUS_ONE(rdma_notify(id, IBV_EVENT_PATH_MIG), EINVAL);
	MINUS_ONE(rdma_notify(id, other_event), EINVAL);
	MINUS_ONE(attributes(id, IBV_QPS_SQD), EINVAL);
	CHECK_EQ(attributes(id, IBV_QPS_INIT), 0);
}

// A connection stands: that it does is no news, and neither end can be asked for it or refuse it.
static void established(struct rdma_cm_id *id)
{
	no_beginning(id);
	no_datagrams(id);
	MINUS_ONE(rdma_resolve_route(id, TIMEOUT_MS), EINVAL);
	MINUS_ONE(rdma_connect(id, &param), EINVAL);
	MINUS_ONE(rdma_accept(id, &param), EINVAL);
	MINUS_ONE(rdma_establish(id), EINVAL);
	MINUS_ONE(rdma_reject(id, NULL, 0), EINVAL);
	MINUS_ONE(rdma_notify(id, IBV_EVENT_COMM_EST), EISCONN);
	MINUS_ONE(rdma_notify(id, other_event), EINVAL);
	CHECK_EQ(attributes(id, IBV_QPS_RTS), 0);
}

static void over(struct rdma_cm_id *id)
{
	no_beginning(id);
	no_datagrams(id);
	MINUS_ONE(rdma_resolve_route(id, TIMEOUT_MS), EINVAL);
	MINUS_ONE(rdma_connect(id, &param), EINVAL);
	MINUS_ONE(rdma_accept(id, &param), EINVAL);
	MINUS_ONE(rdma_establish(id), EINVAL);
	MINUS_ONE(rdma_reject(id, NULL, 0), EINVAL);
	MINUS_ONE(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
	MINUS_ONE(rdma_notify(id, IBV_EVENT_PATH_MIG), EINVAL);
	MINUS_ONE(attributes(id, IBV_QPS_INIT), EINVAL);
	MINUS_ONE(attributes(id, IBV_QPS_RTR), EINVAL);
	CHECK_EQ(rdma_disconnect(id), 0);
}

static void both_ends_of_a_connection(void)
{
	static const char data[REJECTION_DATA + 1];
	struct rdma_conn_param answer = parameters(), greedy;
	struct pair p;

	up_to_the_request(&p);
	not_on_the_way(p.active);
	MINUS_ONE(rdma_notify(p.active, IBV_EVENT_COMM_EST), EINVAL);
	MINUS_ONE(attributes(p.active, IBV_QPS_RTR), EINVAL);

	p.passive = requested(p.server);
	not_on_the_way(p.passive);
	MINUS_ONE(rdma_notify(p.passive, IBV_EVENT_COMM_EST), EINVAL);
	MINUS_ONE(rdma_reject(p.passive, data, sizeof(data)), EINVAL);
	greedy = answer;
	greedy.initiator_depth = 200;
	MINUS_ONE(rdma_accept(p.passive, &greedy), EINVAL);
	CHECK_EQ(attributes(p.passive, IBV_QPS_RTR), 0);

	CHECK(!rdma_accept(p.passive, &answer), "rdma_accept: %s", strerror(errno));
	not_on_the_way(p.passive);
	expect_event(p.client, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	not_on_the_way(p.active);
	MINUS_ONE(rdma_notify(p.active, IBV_EVENT_COMM_EST), EINVAL);

	CHECK(!rdma_establish(p.active), "rdma_establish: %s", strerror(errno));
	expect_event(p.server, RDMA_CM_EVENT_ESTABLISHED, 0);
	established(p.active);
	established(p.passive);

	CHECK(!rdma_disconnect(p.active), "rdma_disconnect: %s", strerror(errno));
	expect_event(p.server, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK(!rdma_disconnect(p.passive), "rdma_disconnect: %s", strerror(errno));
	expect_event(p.client, RDMA_CM_EVENT_DISCONNECTED, 0);
	over(p.active);
	over(p.passive);
	CHECK_EQ(rdma_destroy_id(p.active), 0);
	CHECK_EQ(rdma_destroy_id(p.passive), 0);
	CHECK_EQ(rdma_destroy_id(p.listener), 0);
}

// What comes at the queue pair says that the connection stands, once.
static void news_of_a_connection(void)
{
	struct rdma_conn_param answer = parameters();
	struct pair p;

	request(&p);
	CHECK(!rdma_accept(p.passive, &answer), "rdma_accept: %s", strerror(errno));
	CHECK(!rdma_notify(p.passive, IBV_EVENT_COMM_EST), "rdma_notify: %s", strerror(errno));
	expect_event(p.server, RDMA_CM_EVENT_ESTABLISHED, 0);
	MINUS_ONE(rdma_notify(p.passive, IBV_EVENT_COMM_EST), EISCONN);
	expect_event(p.client, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	CHECK_EQ(rdma_destroy_id(p.active), 0);
	CHECK_EQ(rdma_destroy_id(p.passive), 0);
}

// Asked to accept what is no request, or to go on with it, an end has the request refused: the
// kernel does so whatever fails.
static void what_refuses_a_request(void)
{
	struct pair p;

	param = parameters();
	request(&p);
	MINUS_ONE(rdma_establish(p.passive), EINVAL);
	expect_event(p.client, RDMA_CM_EVENT_REJECTED, 28);
	MINUS_ONE(rdma_accept(p.passive, &param), EINVAL);
	MINUS_ONE(rdma_reject(p.passive, NULL, 0), EINVAL);
	MINUS_ONE(attributes(p.passive, IBV_QPS_RTR), EINVAL);
	CHECK_EQ(rdma_destroy_id(p.passive), 0);
	CHECK_EQ(rdma_destroy_id(p.active), 0);
}

static void datagram_services(void)
{
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id_of(channel, RDMA_PS_UDP), *asks, *passive;
	struct sockaddr_in none = {.sin_family = AF_INET};

	own = own_address(0);
	param = parameters();
	CHECK(!rdma_bind_addr(id, to_itself()), "rdma_bind_addr: %s", strerror(errno));
	MINUS_ONE(rdma_resolve_route(id, TIMEOUT_MS), EINVAL);
	MINUS_ONE(rdma_connect(id, &param), EINVAL);
	no_connection(id);
	MINUS_ONE(rdma_join_multicast(id, (struct sockaddr *)&none, NULL), EINVAL);
	MINUS_ONE(rdma_leave_multicast(id, (struct sockaddr *)&none), EADDRNOTAVAIL);
	CHECK(!rdma_listen(id, 1), "rdma_listen: %s", strerror(errno));
	own.sin_port = rdma_get_src_port(id);
	MINUS_ONE(rdma_connect(id, &param), EINVAL);
	MINUS_ONE(rdma_accept(id, &param), EINVAL);
	MINUS_ONE(rdma_reject(id, NULL, 0), EINVAL);

	// Who asks cannot answer, and who has answered has done so.
	asks = new_id_of(channel, RDMA_PS_UDP);
	resolve(asks, &own);
	no_connection(asks);
	CHECK(!rdma_connect(asks, &param), "rdma_connect: %s", strerror(errno));
	MINUS_ONE(rdma_connect(asks, &param), EINVAL);
	MINUS_ONE(rdma_reject(asks, NULL, 0), EINVAL);
	MINUS_ONE(rdma_notify(asks, IBV_EVENT_COMM_EST), EINVAL);
	passive = requested(channel);
	MINUS_ONE(rdma_connect(passive, &param), EINVAL);
	CHECK(!rdma_accept(passive, &param), "rdma_accept: %s", strerror(errno));
	expect_event(channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	MINUS_ONE(rdma_accept(passive, &param), EINVAL);
	MINUS_ONE(rdma_reject(passive, NULL, 0), EINVAL);
	CHECK_EQ(rdma_destroy_id(asks), 0);
	CHECK_EQ(rdma_destroy_id(passive), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

// rdma_create_ep(3) is several calls, of which any may fail.
static void endpoints(void)
{
	struct sockaddr_in foreign = {.sin_family = AF_INET};
	struct rdma_addrinfo passive = {
		.ai_flags = RAI_PASSIVE, .ai_family = AF_INET, .ai_qp_type = IBV_QPT_RC, .ai_port_space = RDMA_PS_TCP,
		.ai_src_addr = (struct sockaddr *)&foreign, .ai_src_len = sizeof(foreign),
	}, active = {
		.ai_family = AF_INET, .ai_qp_type = IBV_QPT_RC, .ai_port_space = RDMA_PS_TCP,
		.ai_dst_addr = to_itself(), .ai_dst_len = sizeof(own),
	};
	struct ibv_qp_init_attr of_qp = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	}, too_large = of_qp;
	struct rdma_cm_id *id;

	own = own_address(7998);
	inet_pton(AF_INET, "203.0.113.9", &foreign.sin_addr);
	MINUS_ONE(rdma_create_ep(&id, &passive, NULL, NULL), EADDRNOTAVAIL);
	active.ai_port_space = 7;
	MINUS_ONE(rdma_create_ep(&id, &active, NULL, NULL), EINVAL);
	active.ai_port_space = RDMA_PS_TCP;
	// A queue pair that no device has.
	too_large.cap.max_send_wr = 1 << 30;
	MINUS_ONE(rdma_create_ep(&id, &active, NULL, &too_large), EINVAL);
	CHECK(!rdma_create_ep(&id, &active, NULL, &of_qp), "rdma_create_ep: %s", strerror(errno));
	// Nobody listens.
	MINUS_ONE(rdma_connect(id, NULL), ECONNREFUSED);
	// As in what librdmacm takes back before it returns: what succeeds leaves errno alone.
	rdma_destroy_ep(id);
	CHECK_EQ(errno, ECONNREFUSED);
}

#define T(name) {#name, name, 0}
PROGRAM(T(a_new_id), T(what_is_no_id_or_event), T(families_are_not_mixed), T(a_wildcard_stays_one), T(the_listening_side),
	T(both_ends_of_a_connection), T(news_of_a_connection), T(what_refuses_a_request), T(datagram_services), T(endpoints))
