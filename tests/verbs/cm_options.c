// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What rdma_set_option(3) sets, and the ways of naming a service and a path beyond IP addresses:
// what each changes, and who may change it when.

#include "cm_ids.h"
#include "own_address.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/sa.h>
#include <stdio.h>
#include <string.h>

enum { TIMEOUT_MS = 2000 };

static int set_int(struct rdma_cm_id *id, int option, int value)
{
	return rdma_set_option(id, RDMA_OPTION_ID, option, &value, sizeof(value));
}

static int set_byte(struct rdma_cm_id *id, int option, uint8_t value)
{
	return rdma_set_option(id, RDMA_OPTION_ID, option, &value, sizeof(value));
}

static void resolve_route(struct rdma_cm_id *id)
{
	CHECK(!rdma_resolve_route(id, TIMEOUT_MS), "rdma_resolve_route: %s", strerror(errno));
	expect_event(id->channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

static void resolve_addr(struct rdma_cm_id *id, struct sockaddr *to)
{
	CHECK(!rdma_resolve_addr(id, NULL, to, TIMEOUT_MS), "rdma_resolve_addr: %s", strerror(errno));
	expect_event(id->channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
}

// From the request on, to the end.
static void finish(struct rdma_cm_id *active, struct rdma_cm_id *passive)
{
	struct rdma_conn_param param = parameters();

	CHECK(!rdma_accept(passive, &param), "rdma_accept: %s", strerror(errno));
	expect_event(active->channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	CHECK(!rdma_establish(active), "rdma_establish: %s", strerror(errno));
	expect_event(passive->channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK_EQ(rdma_destroy_id(active), 0);
	expect_event(passive->channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK_EQ(rdma_destroy_id(passive), 0);
}

static void reuse_ends_with_listening(void)
{
	struct rdma_event_channel *channel = new_channel();
	struct sockaddr_in address = own_address(0);
	struct rdma_cm_id *a = new_id(channel), *b = new_id(channel);

	CHECK_EQ(set_int(a, RDMA_OPTION_ID_REUSEADDR, 1), 0);
	CHECK_EQ(set_int(b, RDMA_OPTION_ID_REUSEADDR, 1), 0);
	CHECK_EQ(rdma_bind_addr(a, (struct sockaddr *)&address), 0);
	address.sin_port = rdma_get_src_port(a);
	CHECK(!rdma_bind_addr(b, (struct sockaddr *)&address), "sharing: %s", strerror(errno));
	CHECK(rdma_listen(a, 1) == -1 && errno == EADDRINUSE, "listening while shared: %s", strerror(errno));
	CHECK_EQ(rdma_destroy_id(b), 0);
	CHECK(!rdma_listen(a, 1), "listening alone: %s", strerror(errno));
}

static void reuse_is_not_for_listeners(void)
{
	struct rdma_event_channel *channel = new_channel();
	struct sockaddr_in address = own_address(0);
	struct rdma_cm_id *listener = listener_on(channel, &address);

	CHECK(set_int(listener, RDMA_OPTION_ID_REUSEADDR, 1) == -1 && errno == EINVAL, "%s", strerror(errno));
}

// Binds to the IPv6 wildcard.
static struct rdma_cm_id *bound6(struct rdma_event_channel *channel, int afonly, uint16_t *port)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6};
	struct rdma_cm_id *id = new_id(channel);

	CHECK(!set_int(id, RDMA_OPTION_ID_AFONLY, afonly), "AFONLY: %s", strerror(errno));
	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&any), "rdma_bind_addr: %s", strerror(errno));
	*port = rdma_get_src_port(id);
	return id;
}

static void one_family_or_both(void)
{
	struct rdma_event_channel *channel = new_channel(), *client = new_channel();
	struct sockaddr_in any = {.sin_family = AF_INET}, address = own_address(0);
	struct rdma_cm_id *id, *v4 = new_id(channel), *active;

	// One family: the other's port is free, and its clients find nobody.
	id = bound6(channel, 1, &any.sin_port);
	CHECK(!rdma_listen(id, 0), "rdma_listen: %s", strerror(errno));
	address.sin_port = any.sin_port;
	active = connecting(client, &address);
	expect_event(client, RDMA_CM_EVENT_REJECTED, 8);
	CHECK_EQ(rdma_destroy_id(active), 0);
	CHECK(!rdma_bind_addr(v4, (struct sockaddr *)&any), "beside one of IPv6 only: %s", strerror(errno));
	CHECK(set_int(id, RDMA_OPTION_ID_AFONLY, 0) == -1 && errno == EINVAL, "a listener: %s", strerror(errno));
	CHECK_EQ(rdma_destroy_id(v4), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);

	// Both.
	id = bound6(channel, 0, &any.sin_port);
	v4 = new_id(channel);
	// What the kernel says of a wildcard's port.
	CHECK(rdma_bind_addr(v4, (struct sockaddr *)&any) == -1 && errno == EADDRNOTAVAIL, "beside one of both: %s",
	      strerror(errno));
	CHECK(!rdma_listen(id, 0), "rdma_listen: %s", strerror(errno));
	address.sin_port = any.sin_port;
	active = connecting(client, &address);
	finish(active, requested(channel));
}

static void the_type_of_service_is_the_paths(void)
{
	struct pair p;

	prepare(&p);
	p.active = new_id(p.client);
	CHECK(!set_byte(p.active, RDMA_OPTION_ID_TOS, 0x68), "TOS: %s", strerror(errno));
	resolve_addr(p.active, (struct sockaddr *)&p.address);
	resolve_route(p.active);
	CHECK_EQ(p.active->route.num_paths, 1);
	CHECK_EQ(p.active->route.path_rec->traffic_class, 0x68);
}

static int timeout_of(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(id->qp, &attr, IBV_QP_TIMEOUT, &init), 0);
	return attr.timeout;
}

// Connects with queue pairs, with this timeout unless it is negative; what the active one has then.
static int timeout_with(int wanted)
{
	struct rdma_conn_param param = parameters();
	struct rdma_cm_id *passive;
	struct pair p;
	int timeout;

	prepare(&p);
	p.active = new_id(p.client);
	if (wanted >= 0)
		CHECK(!set_byte(p.active, RDMA_OPTION_ID_ACK_TIMEOUT, wanted), "ACK_TIMEOUT: %s", strerror(errno));
	resolve_addr(p.active, (struct sockaddr *)&p.address);
	resolve_route(p.active);
	if (wanted > 0)
		CHECK_EQ(p.active->route.path_rec->packet_life_time, wanted - 1);
	make_qp(p.active);
	CHECK(!rdma_connect(p.active, &param), "rdma_connect: %s", strerror(errno));
	passive = requested(p.server);
	make_qp(passive);
	CHECK(!rdma_accept(passive, &param), "rdma_accept: %s", strerror(errno));
	expect_event(p.client, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_event(p.server, RDMA_CM_EVENT_ESTABLISHED, 0);
	timeout = timeout_of(p.active);
	rdma_destroy_qp(p.active);
	rdma_destroy_qp(passive);
	return timeout;
}

static void the_ack_timeout_is_the_queue_pairs(void)
{
	struct rdma_cm_id *datagram;
	int usual = timeout_with(-1);

	CHECK(usual != 11, "the usual timeout is %d", usual);
	CHECK_EQ(timeout_with(11), 11);
	// For ever.
	CHECK_EQ(timeout_with(0), 0);
	CHECK_EQ(rdma_create_id(new_channel(), &datagram, NULL, RDMA_PS_UDP), 0);
	CHECK(set_byte(datagram, RDMA_OPTION_ID_ACK_TIMEOUT, 11) == -1 && errno == EINVAL, "of datagrams: %s",
	      strerror(errno));
}

// The device's address as rdma_getaddrinfo() takes it for AF_IB.
static struct rdma_addrinfo *native(int flags, uint16_t port)
{
	struct sockaddr_in own = own_address(0);
	struct rdma_addrinfo hints = {
		.ai_flags = RAI_FAMILY | RAI_NUMERICHOST | flags,
		.ai_family = AF_IB,
		.ai_qp_type = IBV_QPT_RC,
		.ai_port_space = RDMA_PS_TCP,
	}, *info;
	char node[64] = "::ffff:", service[8];

	inet_ntop(AF_INET, &own.sin_addr, node + strlen(node), sizeof(node) - strlen(node));
	snprintf(service, sizeof(service), "%d", ntohs(port));
	CHECK(!rdma_getaddrinfo(node, service, &hints, &info), "rdma_getaddrinfo: %s", strerror(errno));
	CHECK_EQ(info->ai_family, AF_IB);
	return info;
}

// Without IP there is no header of IP in the private data: all of it is the consumer's.
static void native_addresses(void)
{
	struct rdma_event_channel *server = new_channel(), *client = new_channel();
	struct rdma_addrinfo *here = native(RAI_PASSIVE, 0), *there;
	struct rdma_cm_id *listener = new_id(server), *active = new_id(client), *passive;
	struct rdma_conn_param param = parameters();
	struct rdma_cm_event *event;
	char data[93] = "native";

	CHECK(!rdma_bind_addr(listener, here->ai_src_addr), "rdma_bind_addr: %s", strerror(errno));
	CHECK(rdma_get_src_port(listener) != 0, "no port");
	CHECK(!rdma_listen(listener, 0), "rdma_listen: %s", strerror(errno));
	there = native(0, rdma_get_src_port(listener));
	resolve_addr(active, there->ai_dst_addr);
	CHECK_EQ(rdma_get_local_addr(active)->sa_family, AF_IB);
	CHECK_EQ(rdma_get_peer_addr(active)->sa_family, AF_IB);
	CHECK_EQ(rdma_get_dst_port(active), rdma_get_src_port(listener));
	resolve_route(active);
	param.private_data = data;
	param.private_data_len = 93;
	CHECK(rdma_connect(active, &param) == -1 && errno == EINVAL, "93 bytes: %s", strerror(errno));
	param.private_data_len = 92;
	CHECK(!rdma_connect(active, &param), "92 bytes: %s", strerror(errno));
	event = event_of(server, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(event->param.conn.private_data_len == 92 && !memcmp(event->param.conn.private_data, data, 92),
	      "what arrives");
	passive = event->id;
	rdma_ack_cm_event(event);
	CHECK_EQ(rdma_get_peer_addr(passive)->sa_family, AF_IB);
	finish(active, passive);
	CHECK_EQ(rdma_destroy_id(listener), 0);
	rdma_freeaddrinfo(here);
	rdma_freeaddrinfo(there);
}

static void a_path_of_ones_own(void)
{
	struct ibv_path_data data = {
		.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL,
		.path = {.flowlabel_hoplimit = htobe32(0x12345 << 8 | 9), .tclass = 0x20, .mtu = 2 << 6 | IBV_MTU_512},
	};
	struct ibv_sa_path_rec *got;
	struct rdma_conn_param param = parameters();
	struct pair p;

	prepare(&p);
	p.active = new_id(p.client);
	CHECK(rdma_set_option(p.active, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &data, sizeof(data)) == -1 &&
		      errno == EINVAL, "before the address: %s", strerror(errno));
	resolve_addr(p.active, (struct sockaddr *)&p.address);
	CHECK(rdma_set_option(p.active, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &data, sizeof(data) - 1) == -1 &&
		      errno == EINVAL, "a piece of a path: %s", strerror(errno));
	data.flags &= ~IBV_PATH_FLAG_PRIMARY;
	CHECK(rdma_set_option(p.active, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &data, sizeof(data)) == -1 &&
		      errno == EINVAL, "no path among paths: %s", strerror(errno));
	data.flags |= IBV_PATH_FLAG_PRIMARY;
	CHECK(!rdma_set_option(p.active, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &data, sizeof(data)), "%s",
	      strerror(errno));
	expect_event(p.client, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	CHECK_EQ(p.active->route.num_paths, 1);
	got = p.active->route.path_rec;
	CHECK_EQ(got->traffic_class, 0x20);
	CHECK_EQ(be32toh(got->flow_label), 0x12345);
	CHECK_EQ(got->hop_limit, 9);
	CHECK_EQ(got->mtu, IBV_MTU_512);
	CHECK(!rdma_connect(p.active, &param), "rdma_connect: %s", strerror(errno));
	finish(p.active, requested(p.server));
}

static void options_between_adapters_pass_through(void)
{
	struct ibv_ece sent = {.vendor_id = 0x123456, .options = 0xcafe0001}, got = {0};
	struct rdma_conn_param param = parameters();
	struct pair p;

	prepare(&p);
	p.active = resolved(p.client, &p.address);
	CHECK(!rdma_set_local_ece(p.active, &sent), "rdma_set_local_ece: %s", strerror(errno));
	CHECK(!rdma_connect(p.active, &param), "rdma_connect: %s", strerror(errno));
	p.passive = requested(p.server);
	CHECK(!rdma_get_remote_ece(p.passive, &got), "rdma_get_remote_ece: %s", strerror(errno));
	CHECK(got.vendor_id == sent.vendor_id && got.options == sent.options, "%#x %#x", got.vendor_id, got.options);
	sent.options = 0x1;
	CHECK(!rdma_set_local_ece(p.passive, &sent), "rdma_set_local_ece: %s", strerror(errno));
	param = parameters();
	CHECK(!rdma_accept(p.passive, &param), "rdma_accept: %s", strerror(errno));
	expect_event(p.client, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	CHECK(!rdma_get_remote_ece(p.active, &got), "rdma_get_remote_ece: %s", strerror(errno));
	CHECK(got.vendor_id == 0x123456 && got.options == 1, "answered: %#x %#x", got.vendor_id, got.options);
}

#define T(name) {#name, name, 0}
PROGRAM(T(reuse_ends_with_listening), T(reuse_is_not_for_listeners), T(one_family_or_both),
	T(the_type_of_service_is_the_paths), T(the_ack_timeout_is_the_queue_pairs), T(native_addresses), T(a_path_of_ones_own),
	T(options_between_adapters_pass_through))
