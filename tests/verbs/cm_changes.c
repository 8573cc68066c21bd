// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What ids are told when the device changes under them. Each test says "ready" and waits until who
// runs it has made the change.

#include "cm_ids.h"
#include "own_address.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// One id of each kind, on one channel: those that have an address of the device's, and a wildcard.
struct ids {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener, *active, *passive, *resolved, *wildcard;
	struct sockaddr_in address;
};

static struct ids connected(void)
{
	struct ids ids = {.channel = new_channel(), .address = own_address(0)};
	struct sockaddr_in any = {.sin_family = AF_INET};
	struct rdma_conn_param param = parameters();

	ids.listener = listener_on(ids.channel, &ids.address);
	ids.wildcard = listener_on(ids.channel, &any);
	ids.resolved = resolved(ids.channel, &ids.address);
	ids.active = resolved(ids.channel, &ids.address);
	make_qp(ids.active);
	CHECK(!rdma_connect(ids.active, &param), "rdma_connect: %s", strerror(errno));
	ids.passive = requested(ids.channel);
	make_qp(ids.passive);
	CHECK(!rdma_accept(ids.passive, &param), "rdma_accept: %s", strerror(errno));
	// Both.
	expect_event(ids.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_event(ids.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	return ids;
}

static void ready(void)
{
	printf("ready\n");
	fflush(stdout);
}

// Each id that has an address of the device's is told once, the wildcard never.
static void all_told(struct ids *ids, enum rdma_cm_event_type type)
{
	struct rdma_cm_id *bound[] = {ids->listener, ids->active, ids->passive, ids->resolved};
	int told[4] = {0};

	for (int i = 0; i < 4; i++) {
		struct rdma_cm_event *event = event_of(ids->channel, type);

		CHECK_EQ(event->status, 0);
		for (int k = 0; k < 4; k++)
			told[k] += event->id == bound[k];
		rdma_ack_cm_event(event);
	}
	for (int k = 0; k < 4; k++)
		CHECK(told[k] == 1, "id %d was told %d times", k, told[k]);
	CHECK(!readable(ids->channel, 100), "one event too many");
}

static void destroy(struct ids *ids)
{
	rdma_destroy_qp(ids->active);
	rdma_destroy_qp(ids->passive);
	CHECK(!rdma_destroy_id(ids->active), "active: %s", strerror(errno));
	CHECK(!rdma_destroy_id(ids->passive), "passive: %s", strerror(errno));
	CHECK(!rdma_destroy_id(ids->resolved), "resolved: %s", strerror(errno));
	CHECK(!rdma_destroy_id(ids->listener), "listener: %s", strerror(errno));
	CHECK(!rdma_destroy_id(ids->wildcard), "wildcard: %s", strerror(errno));
	rdma_destroy_event_channel(ids->channel);
}

static void expect_fatal(struct ibv_context *context)
{
	struct pollfd fd = {.fd = context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	CHECK(poll(&fd, 1, EVENT_MS) == 1, "no asynchronous event");
	CHECK(!ibv_get_async_event(context, &event), "ibv_get_async_event: %s", strerror(errno));
	CHECK(event.event_type == IBV_EVENT_DEVICE_FATAL, "%s", ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
}

static void in_error(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_ERR);
}

// The daemon stops. Ids are told before it leaves, can do nothing any more, and can be destroyed.
static void device_removal(void)
{
	struct rdma_conn_param param = parameters();
	struct ids ids = connected();
	struct ibv_context *context = ids.active->verbs;

	ready();
	all_told(&ids, RDMA_CM_EVENT_DEVICE_REMOVAL);
	CHECK(rdma_connect(ids.resolved, &param) == -1 && errno == EIO, "rdma_connect: %s", strerror(errno));
	expect_fatal(context);
	in_error(ids.active);
	in_error(ids.passive);
	// By now the daemon has left.
	destroy(&ids);
}

// The daemon dies without a word.
static void device_lost(void)
{
	struct ids ids = connected();
	struct rdma_event_channel *late;
	struct rdma_cm_event *event;

	ready();
	expect_fatal(ids.active->verbs);
	in_error(ids.active);
	CHECK(rdma_get_cm_event(ids.channel, &event) == -1 && errno == EIO, "rdma_get_cm_event: %s", strerror(errno));
	late = rdma_create_event_channel();
	CHECK(!late && errno == ENODEV, "rdma_create_event_channel: %s", strerror(errno));
	destroy(&ids);
}

static int open_umad(void)
{
	return open("/dev/infiniband/umad0", O_RDWR | O_CLOEXEC);
}

// What a MAD's header takes at least; the agent is one that nobody has.
static void write_in_vain(int umad)
{
	uint8_t mad[320] = {[0] = 0xff};

	CHECK(write(umad, mad, sizeof(mad)) == -1 && errno == EIO, "writing a MAD: %s", strerror(errno));
}

// The daemon dies, and there is another one. What was made with the first fails in words; channels
// and files of umad that are opened from then on are the second one's.
static void device_replaced(void)
{
	struct rdma_conn_param param = parameters();
	struct rdma_event_channel *late = NULL;
	struct ids ids = connected();
	int umad = open_umad(), late_umad = -1;
	uint64_t end;

	CHECK(umad >= 0, "umad0: %s", strerror(errno));
	ready();
	expect_fatal(ids.active->verbs);
	for (end = now_ms() + EVENT_MS; !late && now_ms() < end; usleep(10000)) {
		late = rdma_create_event_channel();
		CHECK(late || errno == ENODEV, "rdma_create_event_channel: %s", strerror(errno));
	}
	CHECK(late, "no channel of the second daemon's");
	late_umad = open_umad();
	CHECK(late_umad >= 0, "umad0 of the second daemon's: %s", strerror(errno));

	for (int i = 0; i < 3; i++) {
		CHECK(rdma_connect(ids.resolved, &param) == -1 && errno == EIO, "rdma_connect: %s", strerror(errno));
		write_in_vain(umad);
	}
	destroy(&ids);
	close(umad);

	rdma_destroy_event_channel(late);
	close(late_umad);

	// The second one's device has another index than the first one's, and librdmacm opens it.
	ids = connected();
	destroy(&ids);
}

// The address goes, or the interface gets another hardware address.
static void address_change(void)
{
	struct ids ids = connected();

	ready();
	all_told(&ids, RDMA_CM_EVENT_ADDR_CHANGE);
	destroy(&ids);
}

static void *waits_for_completions(void *channel)
{
	struct ibv_cq *cq;
	void *of;

	return ibv_get_cq_event(channel, &cq, &of) == -1 ? (void *)(intptr_t)errno : NULL;
}

static void *waits_for_more(void *context)
{
	struct ibv_async_event event;

	expect_fatal(context);
	return ibv_get_async_event(context, &event) == -1 ? (void *)(intptr_t)errno : NULL;
}

static void ended(int fd)
{
	struct pollfd look = {.fd = fd, .events = POLLIN};

	CHECK(poll(&look, 1, EVENT_MS) == 1 && look.revents & (POLLERR | POLLHUP), "%#x", look.revents);
}

// The daemon goes, in whichever way. Who waits for events that cannot come any more is told so, and
// nothing new is made of a device that is gone; what there is can be destroyed.
static void events_end(void)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_comp_channel *other = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, channel, 0);
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
	struct ibv_port_attr port;
	struct ibv_wc wc;
	pthread_t threads[4];
	void *failed[4];

	CHECK(pd && channel && other && cq && !ibv_req_notify_cq(cq, 0), "objects: %s", strerror(errno));
	pthread_create(&threads[0], NULL, waits_for_completions, channel);
	pthread_create(&threads[1], NULL, waits_for_completions, channel);
	pthread_create(&threads[2], NULL, waits_for_completions, other);
	pthread_create(&threads[3], NULL, waits_for_more, context);
	ready();
	for (int k = 0; k < 4; k++) {
		pthread_join(threads[k], &failed[k]);
		CHECK((intptr_t)failed[k] == EIO, "thread %d: %s", k, strerror((intptr_t)failed[k]));
	}
	ended(channel->fd);
	ended(other->fd);
	ended(context->async_fd);

	CHECK_EQ(ibv_query_port(context, 1, &port), 0);
	CHECK_EQ(port.state, IBV_PORT_DOWN);
	CHECK(!ibv_create_qp(pd, &init) && errno == EIO, "ibv_create_qp: %s", strerror(errno));
	CHECK(!ibv_create_cq(context, 8, NULL, NULL, 0) && errno == EIO, "ibv_create_cq: %s", strerror(errno));
	CHECK(!ibv_create_comp_channel(context) && errno == EIO, "ibv_create_comp_channel: %s", strerror(errno));
	CHECK(!ibv_alloc_pd(context) && errno == EIO, "ibv_alloc_pd: %s", strerror(errno));
	CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);

	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
	CHECK_EQ(ibv_destroy_comp_channel(other), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(ibv_close_device(context), 0);
}

#define T(name) {#name, name, 0}
PROGRAM(T(device_removal), T(device_lost), T(device_replaced), T(address_change), T(events_end))
