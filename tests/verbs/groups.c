// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Attachments to multicast groups, over Ethernet and over InfiniBand: what is one (a GID and, where
// there are LIDs, a LID that is right for it), what is none (EINVAL, and nothing changes), and what
// they hold in use (EBUSY).

#include "answers.h"
#include "endpoint.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

static bool infiniband(const struct endpoint *e)
{
	struct ibv_port_attr port;

	CHECK_EQ(ibv_query_port(e->context, 1, &port), 0);
	return port.link_layer == IBV_LINK_LAYER_INFINIBAND;
}

static struct endpoint *datagram_endpoint(void)
{
	return open_endpoint(&(struct options){.qp_type = IBV_QPT_UD});
}

// A group's GID: over Ethernet that of an IPv4 group.
static union ibv_gid group(const struct endpoint *e, uint8_t number)
{
	if (infiniband(e))
		return (union ibv_gid){.raw = {0xff, 0x12, [14] = 9, [15] = number}};
	return (union ibv_gid){.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 9, [14] = 9, [15] = number}};
}

// Its LID, or any number where it has none.
static const uint16_t lid = 0xc009;

static void queue_pair_in_a_group(void)
{
	struct endpoint *e = datagram_endpoint();
	union ibv_gid gid = group(e, 1);

	CHECK_EQ(ibv_attach_mcast(e->qp, &gid, lid), 0);
	// Twice is once.
	CHECK_EQ(ibv_attach_mcast(e->qp, &gid, lid), 0);
	REFUSED(ibv_destroy_qp(e->qp), EBUSY);
	CHECK_EQ(ibv_detach_mcast(e->qp, &gid, lid), 0);
	REFUSED(ibv_detach_mcast(e->qp, &gid, lid), EINVAL);
	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
}

static void other_services(void)
{
	enum ibv_qp_type services[] = {IBV_QPT_RC, IBV_QPT_UC};

	for (int i = 0; i < 2; i++) {
		struct endpoint *e = open_endpoint(&(struct options){.qp_type = services[i]});
		union ibv_gid gid = group(e, 2);

		REFUSED(ibv_attach_mcast(e->qp, &gid, lid), EINVAL);
		REFUSED(ibv_detach_mcast(e->qp, &gid, lid), EINVAL);
		CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	}
}

static void gid_of_no_group(void)
{
	struct endpoint *e = datagram_endpoint();
	union ibv_gid zero = {.raw = {0}}, almost = group(e, 3);

	almost.raw[infiniband(e) ? 0 : 12] = infiniband(e) ? 0xfe : 223;
	REFUSED(ibv_attach_mcast(e->qp, &e->gid, lid), EINVAL);
	REFUSED(ibv_attach_mcast(e->qp, &zero, lid), EINVAL);
	REFUSED(ibv_attach_mcast(e->qp, &almost, lid), EINVAL);
	REFUSED(ibv_detach_mcast(e->qp, &e->gid, lid), EINVAL);
	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
}

// The permissive LID is no group's. Over Ethernet, which has no LIDs, any number will do.
static void lid_of_no_group(void)
{
	struct endpoint *e = datagram_endpoint();
	union ibv_gid gid = group(e, 4);
	uint16_t none[] = {0, 1, 0xbfff, 0xffff}, good[] = {0xc000, 0xfffe};

	for (int i = 0; i < 4; i++) {
		int wanted = infiniband(e) ? EINVAL : 0;

		CHECK_EQ(ibv_attach_mcast(e->qp, &gid, none[i]), wanted);
		CHECK_EQ(ibv_detach_mcast(e->qp, &gid, none[i]), wanted);
	}
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(ibv_attach_mcast(e->qp, &gid, good[i]), 0);
		CHECK_EQ(ibv_detach_mcast(e->qp, &gid, good[i]), 0);
	}
	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
}

static void detaching_what_is_not_attached(void)
{
	struct endpoint *e = datagram_endpoint(), *stranger = datagram_endpoint();
	union ibv_gid gid = group(e, 5), other = group(e, 6);

	REFUSED(ibv_detach_mcast(e->qp, &gid, lid), EINVAL);
	CHECK_EQ(ibv_attach_mcast(e->qp, &gid, lid), 0);
	REFUSED(ibv_detach_mcast(e->qp, &other, lid), EINVAL);
	REFUSED(ibv_detach_mcast(stranger->qp, &gid, lid), EINVAL);
	// An attachment is a GID with a LID, whatever the link.
	REFUSED(ibv_detach_mcast(e->qp, &gid, lid + 1), EINVAL);
	CHECK_EQ(ibv_attach_mcast(e->qp, &gid, lid + 1), 0);
	CHECK_EQ(ibv_detach_mcast(e->qp, &gid, lid), 0);
	REFUSED(ibv_destroy_qp(e->qp), EBUSY);
	CHECK_EQ(ibv_detach_mcast(e->qp, &gid, lid + 1), 0);
	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	CHECK_EQ(ibv_destroy_qp(stranger->qp), 0);
}

#define T(name) {#name, name, 0}
static int descriptors(void)
{
	DIR *open = opendir("/proc/self/fd");
	int count = 0;

	CHECK(open, "/proc/self/fd: %s", strerror(errno));
	while (readdir(open))
		count++;
	closedir(open);
	return count;
}

// What attaching took is given back, also while the program receives by itself.
static void left_groups_leave_nothing(void)
{
	struct endpoint *e = datagram_endpoint();
	union ibv_gid gid = group(e, 7);
	struct ibv_wc wc;
	int before = descriptors(), after = 0;

	for (int round = 0; round < 60; round++) {
		CHECK_EQ(ibv_attach_mcast(e->qp, &gid, lid), 0);
		// The helper is to have armed its receive in some rounds, and to have none in others.
		for (uint64_t end = now_ms() + round % 3; now_ms() < end;)
			CHECK_EQ(ibv_poll_cq(e->recv_cq, 1, &wc), 0);
		CHECK_EQ(ibv_detach_mcast(e->qp, &gid, lid), 0);
	}
	for (uint64_t end = now_ms() + 10000; now_ms() < end && (after = descriptors()) > before;)
		usleep(1000);
	CHECK(after <= before, "%d descriptors instead of %d", after, before);
}

PROGRAM(T(queue_pair_in_a_group), T(other_services), T(gid_of_no_group), T(lid_of_no_group), T(detaching_what_is_not_attached), T(left_groups_leave_nothing))
