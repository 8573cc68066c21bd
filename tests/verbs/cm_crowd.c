// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A server of connections without queue pairs that accepts whoever asks, for as long as it lives,
// and says of each address that asks how much it had looked at before; and a client that connects
// to it once. For floods, in which most of who ask are nobody.
//
//   cm_crowd server ADDRESS PORT
//   cm_crowd client ADDRESS PORT

#include "cm_ids.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// As many as the device allows.
enum { BACKLOG = 16384, ADDRESSES = 16 };

// Says it when an address asks for the first time.
static void tell(struct rdma_cm_id *id, int before)
{
	static struct in_addr seen[ADDRESSES];
	static int count;
	struct sockaddr_in *peer = (struct sockaddr_in *)rdma_get_peer_addr(id);
	char name[INET_ADDRSTRLEN];

	for (int i = 0; i < count; i++)
		if (seen[i].s_addr == peer->sin_addr.s_addr)
			return;
	CHECK(count < ADDRESSES, "too many addresses");
	seen[count++] = peer->sin_addr;
	printf("%s asks after %d events\n", inet_ntop(AF_INET, &peer->sin_addr, name, sizeof(name)), before);
	fflush(stdout);
}

// Of a flood's requests most are given up while the server looks at them: no call about them need
// succeed.
static void serve(struct sockaddr_in *address)
{
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *listener = new_id(channel);
	struct rdma_cm_event *event;

	CHECK(!rdma_bind_addr(listener, (struct sockaddr *)address), "rdma_bind_addr: %s", strerror(errno));
	CHECK(!rdma_listen(listener, BACKLOG), "rdma_listen: %s", strerror(errno));
	for (int events = 0;; events++) {
		CHECK(!rdma_get_cm_event(channel, &event), "rdma_get_cm_event: %s", strerror(errno));
		struct rdma_cm_id *id = event->id;
		enum rdma_cm_event_type kind = event->event;

		rdma_ack_cm_event(event);
		if (kind == RDMA_CM_EVENT_ESTABLISHED || kind == RDMA_CM_EVENT_TIMEWAIT_EXIT)
			continue;
		if (kind == RDMA_CM_EVENT_CONNECT_REQUEST) {
			struct rdma_conn_param param = parameters();

			tell(id, events);
			if (!rdma_accept(id, &param))
				continue;
		}
		rdma_destroy_id(id);
	}
}

static void connect_once(struct sockaddr_in *address)
{
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = connecting(channel, address);

	expect_event(channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	CHECK(!rdma_establish(id), "rdma_establish: %s", strerror(errno));
	CHECK_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET};

	CHECK(argc == 4 && inet_pton(AF_INET, argv[2], &address.sin_addr) == 1, "ADDRESS and PORT are needed");
	address.sin_port = htons(atoi(argv[3]));
	if (!strcmp(argv[1], "server"))
		serve(&address);
	connect_once(&address);
	return 0;
}
