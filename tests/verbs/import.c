// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Contexts, domains, regions and device memory found again by descriptor and handle
// (ibv_import_device and its companions).

#include "answers.h"
#include "endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ibv_context *import(int fd)
{
	struct ibv_context *context = ibv_import_device(fd);

	CHECK(context, "ibv_import_device: %s", strerror(errno));
	return context;
}

static struct ibv_context *import_copy(struct ibv_context *of)
{
	return import(dup(of->cmd_fd));
}

static void refused(int fd, int wanted)
{
	errno = 0;
	CHECK(!ibv_import_device(fd), "a context where there is none");
	CHECK_EQ(errno, wanted);
}

// Handed through a socket, as another process would.
static int through_socket(int fd)
{
	int ends[2], received;
	char byte = 0, room[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {&byte, 1};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};

	memset(room, 0, sizeof(room));
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	struct cmsghdr *control = CMSG_FIRSTHDR(&message);

	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SCM_RIGHTS;
	control->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(control), &fd, sizeof(int));
	CHECK_EQ(sendmsg(ends[0], &message, 0), 1);
	CHECK_EQ(recvmsg(ends[1], &message, 0), 1);
	memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	close(ends[0]);
	close(ends[1]);
	return received;
}

// Everything that a context can do, an import can: a connection through objects of which only
// domain and region are shared.
static void traffic_over(struct ibv_context *context, struct endpoint *owner)
{
	struct ibv_pd *pd = ibv_import_pd(context, owner->pd->handle);

	CHECK(pd && pd->context == context && pd->handle == owner->pd->handle, "ibv_import_pd: %s", strerror(errno));
	struct ibv_mr *mr = ibv_import_mr(pd, owner->mr->handle);

	CHECK(mr, "ibv_import_mr: %s", strerror(errno));
	CHECK(mr->lkey == owner->mr->lkey && mr->rkey == owner->mr->rkey && mr->length == owner->mr->length && !mr->addr &&
	      mr->context == context && mr->pd == pd, "an imported region's fields");
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, channel, 0);

	CHECK(channel && cq, "ibv_create_cq: %s", strerror(errno));
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct endpoint here = *owner, *there = open_endpoint(&(struct options){0});

	here.context = context;
	here.pd = pd;
	here.mr = mr;
	here.send_cq = here.recv_cq = cq;
	CHECK((here.qp = ibv_create_qp(pd, &init)), "ibv_create_qp: %s", strerror(errno));
	struct address to_here = address_of(&here), to_there = address_of(there);

	CHECK_EQ(ibv_query_gid(context, 1, gid_index(), &here.gid), 0);
	connect_endpoint(&here, &to_there, NULL);
	connect_endpoint(there, &to_here, NULL);
	fill(here.buffer, 10000, 1);
	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
	CHECK_EQ(post(&here, 1, IBV_WR_RDMA_WRITE, 0, 10000, &to_there, 0, 0), 0);
	struct ibv_cq *signalled;
	void *cookie;

	CHECK_EQ(ibv_get_cq_event(channel, &signalled, &cookie), 0);
	CHECK(signalled == cq, "another queue's event");
	ibv_ack_cq_events(cq, 1);
	expect_wc(cq, 1, IBV_WC_SUCCESS);
	check_filled(there->buffer, 10000, 1, "what was written");
	fill(there->buffer, 10000, 2);
	CHECK_EQ(post(there, 2, IBV_WR_RDMA_WRITE, 0, 10000, &to_here, 0, 0), 0);
	expect_wc(there->send_cq, 2, IBV_WC_SUCCESS);
	check_filled(here.buffer, 10000, 2, "what was written to the import");
	// Its events come on its own queue: a request that the region does not allow.
	struct address beyond = to_here;

	beyond.va += here.size;
	CHECK_EQ(post(there, 3, IBV_WR_RDMA_WRITE, 0, 8, &beyond, 0, 0), 0);
	expect_wc(there->send_cq, 3, IBV_WC_REM_ACCESS_ERR);
	wait_event(context, IBV_EVENT_QP_ACCESS_ERR, here.qp);
	CHECK_EQ(next_event(owner->context, 20, NULL), -1);

	REFUSED(ibv_dealloc_pd(pd), EBUSY);
	CHECK_EQ(ibv_destroy_qp(here.qp), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
}

static void by_dup(void)
{
	struct endpoint *owner = open_endpoint(&(struct options){0});
	struct ibv_context *context = import_copy(owner->context);

	traffic_over(context, owner);
	CHECK_EQ(ibv_close_device(context), 0);
	close_endpoint(owner);
}

static void by_socket(void)
{
	struct endpoint *owner = open_endpoint(&(struct options){0});
	struct ibv_context *context = import(through_socket(owner->context->cmd_fd));

	traffic_over(context, owner);
	CHECK_EQ(ibv_close_device(context), 0);
}

static void import_of_an_import(void)
{
	struct endpoint *owner = open_endpoint(&(struct options){0});
	struct ibv_context *first = import_copy(owner->context), *second = import_copy(first);

	CHECK_EQ(ibv_close_device(first), 0);
	traffic_over(second, owner);
}

// The first to destroy an object ends it for all; the others forget it.
static void destroyed_through_the_import(void)
{
	struct endpoint *owner = open_endpoint(&(struct options){0});
	struct ibv_context *context = import_copy(owner->context);
	struct ibv_pd *original = ibv_alloc_pd(owner->context), *pd = ibv_import_pd(context, original->handle);
	struct ibv_mr *first = ibv_reg_mr(original, owner->buffer, 4096, ALL_ACCESS), *mr = ibv_import_mr(pd, first->handle);

	CHECK(pd && mr, "import: %s", strerror(errno));
	REFUSED(ibv_dealloc_pd(original), EBUSY);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK(!ibv_import_mr(pd, first->handle) && errno == ENOENT, "a region that ended: %s", strerror(errno));
	ibv_unimport_mr(first);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK(!ibv_import_pd(context, original->handle) && errno == ENOENT, "a domain that ended: %s", strerror(errno));
	ibv_unimport_pd(original);
}

static void foreign_handles(void)
{
	struct endpoint *owner = open_endpoint(&(struct options){0}), *other = open_endpoint(&(struct options){0});
	struct ibv_context *context = import_copy(owner->context);
	struct ibv_pd *pd = ibv_import_pd(context, owner->pd->handle), *empty = ibv_alloc_pd(context);

	CHECK(pd && empty, "ibv_import_pd: %s", strerror(errno));
	CHECK(!ibv_import_pd(context, other->pd->handle) && errno == ENOENT, "another context's domain: %s", strerror(errno));
	CHECK(!ibv_import_pd(context, owner->mr->handle) && errno == ENOENT, "a region as a domain: %s", strerror(errno));
	CHECK(!ibv_import_pd(context, 0xffffffff) && errno == ENOENT, "no handle: %s", strerror(errno));
	CHECK(!ibv_import_mr(pd, other->mr->handle) && errno == ENOENT, "another context's region: %s", strerror(errno));
	CHECK(!ibv_import_mr(empty, owner->mr->handle) && errno == EINVAL, "another domain's region: %s", strerror(errno));
	// A queue of the one and a domain of the other context do not go together.
	struct ibv_qp_init_attr init = {
		.send_cq = owner->send_cq, .recv_cq = owner->send_cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};

	CHECK(!ibv_create_qp(pd, &init) && errno == EINVAL, "queues of another context: %s", strerror(errno));
}

static void foreign_descriptors(void)
{
	int pipe_ends[2], null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDWR);
	struct ibv_context *context = open_device();

	CHECK_EQ(pipe(pipe_ends), 0);
	refused(-1, EINVAL);
	refused(pipe_ends[0], EINVAL);
	refused(zero, ENODEV);
	// Of the same device file, and no context's.
	refused(null, EOPNOTSUPP);
	int copy = dup(context->cmd_fd);

	CHECK_EQ(ibv_close_device(context), 0);
	refused(copy, EOPNOTSUPP);
}

// The objects are in the process that made them: elsewhere the answer is that it is not supported.
static void another_process(void)
{
	struct endpoint *owner = open_endpoint(&(struct options){0});
	int status, copy = dup(owner->context->cmd_fd);
	pid_t child = fork();

	if (child == 0) {
		bool right = !ibv_import_device(copy) && errno == EOPNOTSUPP;

		_exit(right ? 0 : 1);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %#x", status);
	CHECK_EQ(ibv_close_device(import(copy)), 0);
}

static void device_memory(void)
{
	struct ibv_context *original = open_device(), *context = import_copy(original);
	struct ibv_alloc_dm_attr attr = {.length = 4096};
	struct ibv_dm *dm = ibv_alloc_dm(original, &attr);
	char in[4096], out[4096] = {0};

	CHECK(dm && dm->comp_mask & IBV_DM_MASK_HANDLE, "ibv_alloc_dm: %s", strerror(errno));
	struct ibv_dm *import = ibv_import_dm(context, dm->handle);

	CHECK(import && import->handle == dm->handle && import->context == context, "ibv_import_dm: %s", strerror(errno));
	CHECK(!ibv_import_dm(context, dm->handle + 1000) && errno == ENOENT, "no handle: %s", strerror(errno));
	fill(in, 4096, 1);
	CHECK_EQ(ibv_memcpy_to_dm(dm, 0, in, 4096), 0);
	CHECK_EQ(ibv_memcpy_from_dm(out, import, 0, 4096), 0);
	check_filled(out, 4096, 1, "what the import reads");
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_dm_mr(pd, import, 0, 4096, ALL_ACCESS | IBV_ACCESS_ZERO_BASED);

	CHECK(mr, "ibv_reg_dm_mr: %s", strerror(errno));
	REFUSED(ibv_free_dm(dm), EBUSY);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	ibv_unimport_dm(import);
	CHECK_EQ(ibv_free_dm(dm), 0);
	CHECK(!ibv_import_dm(context, 1) && errno == ENOENT, "freed: %s", strerror(errno));
}

#define T(name) {#name, name, 0}
// What is left to ibv_close_device lasts as long as one of the contexts.
static void ends_with_the_last_context(void)
{
	const struct connection hasty = {.timeout = 8, .retry_cnt = 1};
	struct endpoint *a = open_endpoint(&(struct options){0}), *b = open_endpoint(&(struct options){0});
	struct address to_a = address_of(a), to_b = address_of(b);
	struct ibv_context *copy = import_copy(b->context);

	connect_endpoint(a, &to_b, &hasty);
	connect_endpoint(b, &to_a, NULL);
	CHECK_EQ(ibv_close_device(b->context), 0);
	CHECK_EQ(post(a, 1, IBV_WR_RDMA_WRITE, 0, 64, &to_b, 0, 0), 0);
	expect_wc(a->send_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_close_device(copy), 0);
	CHECK_EQ(post(a, 2, IBV_WR_RDMA_WRITE, 0, 64, &to_b, 0, 0), 0);
	expect_wc(a->send_cq, 2, IBV_WC_RETRY_EXC_ERR);
	close_endpoint(a);
}

PROGRAM(T(by_dup), T(by_socket), T(import_of_an_import), T(destroyed_through_the_import), T(foreign_handles),
	T(foreign_descriptors), T(another_process), T(device_memory), T(ends_with_the_last_context))
