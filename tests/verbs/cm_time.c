// SPDX-License-Identifier: MIT OR Apache-2.0
//
// How long one connection takes: from rdma_connect() until both ends know that it stands, one after
// the other, each with a queue pair of its own that rdma_cm takes to RTS. For the benchmarks, which
// print it.

#include "cm_ids.h"
#include "own_address.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WARM_UP = 20, ROUNDS = 300, TIMEOUT_MS = 5000 };

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static void drop(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id), "rdma_destroy_id: %s", strerror(errno));
}

static struct rdma_event_channel *server_channel;

// Accepts whoever comes, and lets go of whoever leaves.
static void *serve(void *nothing)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .rnr_retry_count = 7};
	struct rdma_cm_event *event;

	for (int left = WARM_UP + ROUNDS; left > 0;) {
		CHECK(!rdma_get_cm_event(server_channel, &event), "rdma_get_cm_event: %s", strerror(errno));
		struct rdma_cm_id *id = event->id;
		enum rdma_cm_event_type type = event->event;

		rdma_ack_cm_event(event);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			make_qp(id);
			CHECK(!rdma_accept(id, &param), "rdma_accept: %s", strerror(errno));
		} else if (type == RDMA_CM_EVENT_DISCONNECTED) {
			rdma_disconnect(id);
			drop(id);
			left--;
		}
	}
	return nothing;
}

static int by_size(const void *a, const void *b)
{
	double difference = *(const double *)a - *(const double *)b;

	return (difference > 0) - (difference < 0);
}

static void connection(void)
{
	struct rdma_conn_param param = {
		.responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
	struct sockaddr_in address = own_address(0);
	static double times[ROUNDS];
	struct rdma_cm_id *listener;
	pthread_t server;

	server_channel = rdma_create_event_channel();
	CHECK(server_channel, "rdma_create_event_channel: %s", strerror(errno));
	CHECK(!rdma_create_id(server_channel, &listener, NULL, RDMA_PS_TCP), "rdma_create_id: %s", strerror(errno));
	CHECK(!rdma_bind_addr(listener, (struct sockaddr *)&address), "rdma_bind_addr: %s", strerror(errno));
	CHECK(!rdma_listen(listener, 0), "rdma_listen: %s", strerror(errno));
	address.sin_port = rdma_get_src_port(listener);
	CHECK_EQ(pthread_create(&server, NULL, serve, NULL), 0);

	for (int i = -WARM_UP; i < ROUNDS; i++) {
		struct rdma_cm_id *id;

		// Without a channel, calls return when they are done.
		CHECK(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), "rdma_create_id: %s", strerror(errno));
		CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, TIMEOUT_MS), "rdma_resolve_addr: %s",
		      strerror(errno));
		CHECK(!rdma_resolve_route(id, TIMEOUT_MS), "rdma_resolve_route: %s", strerror(errno));
		make_qp(id);
		double start = now_us();

		CHECK(!rdma_connect(id, &param), "rdma_connect: %s", strerror(errno));
		if (i >= 0)
			times[i] = now_us() - start;
		CHECK(!rdma_disconnect(id), "rdma_disconnect: %s", strerror(errno));
		drop(id);
	}
	pthread_join(server, NULL);
	CHECK(!rdma_destroy_id(listener), "rdma_destroy_id: %s", strerror(errno));
	qsort(times, ROUNDS, sizeof(*times), by_size);
	printf("us per connection: %.1f\n", times[ROUNDS / 2]);
}

PROGRAM({"connection", connection, 0})
