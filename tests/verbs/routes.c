// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Destinations that the host has no route to: ibv_modify_qp(3) to RTR and ibv_create_ah(3) say so,
// as a kernel's drivers do, instead of retries that end some time. The host has the routes of its
// interface's subnet, an unreachable one to 10.82.1.0/24, and gets one to 192.0.2.0/24 when a test
// says that it is ready.

#include "endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PATIENCE_MS = 20000 };

static struct address peer_at(const struct endpoint *e, const char *text)
{
	struct address peer = address_of(e);

	memset(&peer.gid, 0, sizeof(peer.gid));
	memset(peer.gid.raw + 10, 0xff, 2);
	CHECK(inet_pton(AF_INET, text, peer.gid.raw + 12) == 1, "%s", text);
	return peer;
}

// How a connection to an address begins, and a handle to it: 0 or the errno.
static void expect(struct endpoint *e, const char *text, int wanted)
{
	struct address peer = peer_at(e, text);
	struct ibv_ah_attr attr = ah_attr_to(&peer);
	struct ibv_ah *ah;

	CHECK_EQ(modify_to_rtr(e, &peer, NULL), wanted);
	CHECK_EQ(state_of(e->qp), wanted ? IBV_QPS_INIT : IBV_QPS_RTR);
	errno = 0;
	ah = ibv_create_ah(e->pd, &attr);
	CHECK(wanted ? !ah && errno == wanted : ah != NULL, "%s: a handle %p, errno %d", text, (void *)ah, errno);
	if (ah)
		CHECK_EQ(ibv_destroy_ah(ah), 0);
}

static struct endpoint *begun(void)
{
	struct endpoint *e = open_endpoint(&(struct options){0});

	CHECK_EQ(modify_to_init(e), 0);
	return e;
}

static void nowhere(void)
{
	struct endpoint *e = begun();

	expect(e, "198.51.100.1", ENETUNREACH);
	expect(e, "10.82.1.1", EHOSTUNREACH);
	// Whether anybody is there is not asked.
	expect(e, "10.77.0.99", 0);
}

static void a_route_comes(void)
{
	struct endpoint *e = begun();
	struct address peer = peer_at(e, "192.0.2.1");
	uint64_t started = now_ms();
	int error;

	expect(e, "192.0.2.1", ENETUNREACH);
	printf("ready\n");
	fflush(stdout);
	while ((error = modify_to_rtr(e, &peer, NULL)) == ENETUNREACH && now_ms() - started < PATIENCE_MS)
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	CHECK_EQ(error, 0);
	CHECK_EQ(state_of(e->qp), IBV_QPS_RTR);
}

#define T(name) {#name, name, 0}
PROGRAM(T(nowhere), T(a_route_comes))
