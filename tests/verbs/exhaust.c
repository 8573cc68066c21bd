// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What ibv_query_device promises of each kind of object can be had, one more gives the documented
// error, and what was given back can be had again.

#include "endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct ibv_context *context;
static struct ibv_device_attr device;
static struct ibv_pd *pd;
static struct ibv_ah_attr to_self;
static char memory[4096];

static void setup(void)
{
	struct address self = {0};

	context = open_device();
	CHECK_EQ(ibv_query_device(context, &device), 0);
	CHECK((pd = ibv_alloc_pd(context)), "ibv_alloc_pd: %s", strerror(errno));
	CHECK_EQ(ibv_query_gid(context, 1, gid_index(), &self.gid), 0);
	to_self = ah_attr_to(&self);
}

// `announced` objects fit beside the `there` that exist, and one more does not; twice.
static void exhaust(long announced, long there, void *(*make)(void), int (*unmake)(void *))
{
	void **objects = calloc(announced + 1, sizeof(*objects));

	CHECK(objects && announced > there, "the device announces %ld", announced);
	for (int round = 0; round < 2; round++) {
		long count = 0;

		errno = 0;
		while (count <= announced && (objects[count] = make()))
			count++;
		CHECK(count <= announced - there, "%ld objects beside %ld, announced are %ld", count, there, announced);
		CHECK(count == announced - there, "%ld objects beside %ld, announced are %ld: %s", count, there, announced,
		      strerror(errno));
		CHECK(errno == ENOMEM || errno == ENOSPC, "errno is %d (%s)", errno, strerror(errno));
		// In another order than they were made.
		for (long i = 0; i < count; i += 2)
			CHECK_EQ(unmake(objects[i]), 0);
		for (long i = 1; i < count; i += 2)
			CHECK_EQ(unmake(objects[i]), 0);
	}
	free(objects);
}

static void *make_pd(void)
{
	return ibv_alloc_pd(context);
}

static int unmake_pd(void *object)
{
	return ibv_dealloc_pd(object);
}

static void protection_domains(void)
{
	setup();
	exhaust(device.max_pd, 1, make_pd, unmake_pd);
}

static void *make_ah(void)
{
	return ibv_create_ah(pd, &to_self);
}

static int unmake_ah(void *object)
{
	return ibv_destroy_ah(object);
}

static void address_handles(void)
{
	setup();
	exhaust(device.max_ah, 0, make_ah, unmake_ah);
}

static void *make_window(void)
{
	return ibv_alloc_mw(pd, IBV_MW_TYPE_2);
}

static int unmake_window(void *object)
{
	return ibv_dealloc_mw(object);
}

static void memory_windows(void)
{
	setup();
	exhaust(device.max_mw, 0, make_window, unmake_window);
}

static void *make_region(void)
{
	return ibv_reg_mr(pd, memory, sizeof(memory), ALL_ACCESS);
}

static int unmake_region(void *object)
{
	return ibv_dereg_mr(object);
}

static void memory_regions(void)
{
	setup();
	exhaust(device.max_mr, 0, make_region, unmake_region);
}

static void *make_cq(void)
{
	return ibv_create_cq(context, 1, NULL, NULL, 0);
}

static int unmake_cq(void *object)
{
	return ibv_destroy_cq(object);
}

static void completion_queues(void)
{
	setup();
	exhaust(device.max_cq, 0, make_cq, unmake_cq);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 1, .max_sge = 1}};

	return ibv_create_srq(pd, &init);
}

static int unmake_srq(void *object)
{
	return ibv_destroy_srq(object);
}

static void shared_receive_queues(void)
{
	setup();
	exhaust(device.max_srq, 0, make_srq, unmake_srq);
}

static struct ibv_qp *datagram_qp;

static union ibv_gid group(unsigned number)
{
	return (union ibv_gid){.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 7, [14] = number >> 8, [15] = number}};
}

static void multicast_groups(void)
{
	setup();
	struct endpoint *e = open_endpoint(&(struct options){.qp_type = IBV_QPT_UD});
	int most = device.max_mcast_grp;
	union ibv_gid gid;

	CHECK(most > 0 && most < 65536, "max_mcast_grp is %d", most);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < most; i++) {
			gid = group(i);
			int error = ibv_attach_mcast(e->qp, &gid, 0);

			CHECK(error == 0, "group %d of %d: %s", i + 1, most, strerror(error));
		}
		gid = group(most);
		int error = ibv_attach_mcast(e->qp, &gid, 0);

		CHECK(error == ENOMEM || error == ENOSPC, "one group more than %d: %d (%s)", most, error, strerror(error));
		for (int i = 0; i < most; i++) {
			gid = group(i);
			CHECK_EQ(ibv_detach_mcast(e->qp, &gid, 0), 0);
		}
	}
}

static void queue_pairs_of_a_group(void)
{
	setup();
	int most = device.max_mcast_qp_attach;
	struct ibv_cq *cq = make_cq();
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	union ibv_gid gid = group(0);
	struct ibv_qp *qp = NULL;

	CHECK(most > 0 && device.max_total_mcast_qp_attach >= most && most < device.max_qp, "max_mcast_qp_attach is %d", most);
	for (int i = 0; i <= most; i++) {
		CHECK((qp = ibv_create_qp(pd, &init)), "ibv_create_qp: %s", strerror(errno));
		int error = ibv_attach_mcast(qp, &gid, 0);

		if (i < most)
			CHECK(error == 0, "queue pair %d of %d: %s", i + 1, most, strerror(error));
		else
			CHECK(error == ENOMEM || error == ENOSPC, "one queue pair more than %d: %d", most, error);
		datagram_qp = i ? datagram_qp : qp;
	}
	CHECK_EQ(ibv_detach_mcast(datagram_qp, &gid, 0), 0);
	CHECK_EQ(ibv_attach_mcast(qp, &gid, 0), 0);
}

// Nothing announces how many: there is an end, a clear one.
static void xrc_domains(void)
{
	enum { MOST = 100000 };
	static struct ibv_xrcd *domains[MOST];
	struct ibv_xrcd_init_attr init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT,
	};
	int first = 0;

	setup();
	for (int round = 0; round < 2; round++) {
		int count = 0;

		errno = 0;
		while (count < MOST && (domains[count] = ibv_open_xrcd(context, &init)))
			count++;
		CHECK(count < MOST, "no end of XRC domains");
		CHECK(errno == ENOMEM || errno == ENOSPC, "errno is %d (%s)", errno, strerror(errno));
		CHECK(round == 0 || count == first, "%d domains, and %d before", count, first);
		first = count;
		while (count--)
			CHECK_EQ(ibv_close_xrcd(domains[count]), 0);
	}
}

// Completion channels and contexts are file descriptors.
static void file_descriptors(void)
{
	struct rlimit limit;
	int count = 0;

	setup();
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 64;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	errno = 0;
	while (count < 64 && ibv_create_comp_channel(context))
		count++;
	CHECK(count < 64 && errno == EMFILE, "%d channels, errno is %d (%s)", count, errno, strerror(errno));
	// What is there goes on.
	struct ibv_cq *cq = make_cq();

	CHECK(cq, "ibv_create_cq: %s", strerror(errno));
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

enum { FILES = 64 };

// Takes all descriptors that there are.
static int take_all(int files[FILES])
{
	int count = 0;

	while (count < FILES && (files[count] = open("/dev/null", O_RDONLY)) >= 0)
		count++;
	CHECK(count < FILES && errno == EMFILE, "%d files: %s", count, strerror(errno));
	return count;
}

static int count_free(void)
{
	int files[FILES], count = take_all(files);

	for (int i = 0; i < count; i++)
		close(files[i]);
	return count;
}

// Connecting takes descriptors. Who has too few is told so, loses none by trying again, and connects
// once there are.
static void connecting_without_descriptors(void)
{
	struct endpoint *a = open_endpoint(&(struct options){0});
	struct endpoint *b = open_endpoint(&(struct options){0});
	struct address to_a = address_of(a), to_b = address_of(b);
	int files[FILES], count, error, free, tries = 0;
	struct rlimit limit;

	CHECK_EQ(modify_to_init(a), 0);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = FILES;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	count = take_all(files);
	while ((error = modify_to_rtr(a, &to_b, NULL)) != 0) {
		CHECK(error == EMFILE && errno == EMFILE, "after %d tries: %s", tries, strerror(error));
		// What the device has got by now it keeps for the next try.
		free = count_free();
		for (int again = 0; again < 3; again++)
			CHECK_EQ(modify_to_rtr(a, &to_b, NULL), EMFILE);
		CHECK_EQ(count_free(), free);
		CHECK(count > 0, "not after %d tries", tries);
		close(files[--count]);
		tries++;
	}
	CHECK(tries > 0, "nothing was missed");
	while (count > 0)
		close(files[--count]);
	CHECK_EQ(modify_to_rts(a, NULL), 0);
	connect_endpoint(b, &to_a, NULL);
	CHECK_EQ(post_recv(b, 1, 0, 64), 0);
	CHECK_EQ(post(a, 2, IBV_WR_SEND, 0, 64, NULL, 0, IBV_SEND_SIGNALED), 0);
	expect_wc(b->recv_cq, 1, IBV_WC_SUCCESS);
	expect_wc(a->send_cq, 2, IBV_WC_SUCCESS);
}

#define T(name) {#name, name, 120}
PROGRAM(T(protection_domains), T(address_handles), T(memory_windows), T(memory_regions), T(completion_queues),
	T(shared_receive_queues), T(multicast_groups), T(queue_pairs_of_a_group), T(xrc_domains), T(file_descriptors),
	T(connecting_without_descriptors))
