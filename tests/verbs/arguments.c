// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Arguments that make no sense, verb by verb, as the manual pages and the kernel's checks have
// them: unknown flags and masks, nothing where something must be, lengths and counts out of range,
// lists of requests with a bad one in the middle. Each is refused with the errno that is due, as
// the value and in `errno`, and harms nothing.

#include "answers.h"
#include "endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// An attribute of ibv_modify_qp(3) that came with packet pacing (IBV_QP_RATE_LIMIT), and one that
// nobody has named.
enum { QP_RATE_LIMIT = 1 << 25, QP_UNKNOWN = 1 << 30 };
// A right of the range of which a device may take as little as it wants, and one that must be known
// to be granted.
enum { ACCESS_OPTIONAL = 1 << 29, ACCESS_UNKNOWN = 1 << 19 };

static struct endpoint *e;
static struct address self;

static void set_up(void)
{
	struct options options = {.channel = true, .send_wr = 16, .recv_wr = 16, .send_sge = 2, .recv_sge = 2, .inline_data = 32};

	e = open_endpoint(&options);
	self = address_of(e);
	connect_endpoint(e, &self, NULL);
}

// All is as it was: a message arrives.
static void unharmed(void)
{
	CHECK_EQ(post_recv(e, 901, 0, 64), 0);
	CHECK_EQ(post(e, 902, IBV_WR_SEND, 100, 64, NULL, 0, 0), 0);
	expect_wc(e->send_cq, 902, IBV_WC_SUCCESS);
	expect_wc(e->recv_cq, 901, IBV_WC_SUCCESS);
}

static struct ibv_srq *new_srq(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(e->pd, &init);

	CHECK(srq, "ibv_create_srq: %s", strerror(errno));
	return srq;
}

static void masks_and_flags(void)
{
	set_up();
	struct ibv_qp_attr attr = {.qp_state = 9};
	struct ibv_srq_attr of_srq = {.max_wr = 4};
	struct ibv_srq *srq = new_srq();
	struct ibv_gid_entry entry;

	// What is beyond the attributes of old is not for this device, as it is for no other that
	// has no packet pacing.
	REFUSED(ibv_modify_qp(e->qp, &attr, QP_RATE_LIMIT), EOPNOTSUPP);
	REFUSED(ibv_modify_qp(e->qp, &attr, QP_UNKNOWN), EOPNOTSUPP);
	REFUSED(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE), EINVAL);
	REFUSED(ibv_modify_qp(e->qp, &attr, IBV_QP_ALT_PATH), EINVAL);
	CHECK_EQ(ibv_modify_qp(e->qp, &attr, 0), 0);
	REFUSED(ibv_modify_srq(srq, &of_srq, 1 << 4), EINVAL);
	CHECK_EQ(ibv_modify_srq(srq, &of_srq, 0), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);

	NOTHING(ibv_reg_mr(e->pd, e->buffer, 64, ACCESS_UNKNOWN), EOPNOTSUPP);
	NOTHING(ibv_reg_mr(e->pd, e->buffer, 64, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
	struct ibv_mr *mr = ibv_reg_mr(e->pd, e->buffer, 64, IBV_ACCESS_LOCAL_WRITE | ACCESS_OPTIONAL);

	CHECK(mr, "an optional flag: %s", strerror(errno));
	ANSWERS(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_CMD, EINVAL);
	ANSWERS(ibv_rereg_mr(mr, 1 << 6, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT, EINVAL);
	ANSWERS(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE), IBV_REREG_MR_ERR_CMD, EINVAL);
	ANSWERS(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS_UNKNOWN), IBV_REREG_MR_ERR_CMD, EOPNOTSUPP);
	CHECK_EQ(ibv_dereg_mr(mr), 0);

	struct ibv_cq_init_attr_ex of_cq = {.cqe = 4, .comp_mask = 1 << 5};

	NOTHING(ibv_create_cq_ex(e->context, &of_cq), EOPNOTSUPP);
	of_cq = (struct ibv_cq_init_attr_ex){.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = 1 << 7};
	NOTHING(ibv_create_cq_ex(e->context, &of_cq), EOPNOTSUPP);
	of_cq = (struct ibv_cq_init_attr_ex){.cqe = 4, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG};
	NOTHING(ibv_create_cq_ex(e->context, &of_cq), EOPNOTSUPP);

	REFUSED(ibv_query_gid_ex(e->context, 1, 0, &entry, 8), EINVAL);
	ANSWERS(ibv_query_gid_table(e->context, &entry, 1, 8), -EINVAL, EINVAL);
	unharmed();
}

static void nothing_given(void)
{
	set_up();
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_srq *srq = new_srq();
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND, .num_sge = 1}, *bad_send = NULL;
	struct ibv_recv_wr receive = {.num_sge = 1}, *bad_receive = NULL;

	REFUSED(ibv_modify_qp(e->qp, NULL, IBV_QP_STATE), EINVAL);
	REFUSED(ibv_query_qp(e->qp, NULL, 0, &init), EINVAL);
	REFUSED(ibv_query_qp(e->qp, &attr, 0, NULL), EINVAL);
	REFUSED(ibv_modify_srq(srq, NULL, IBV_SRQ_LIMIT), EINVAL);
	REFUSED(ibv_query_srq(srq, NULL), EINVAL);
	NOTHING(ibv_create_qp(e->pd, NULL), EINVAL);
	NOTHING(ibv_create_srq(e->pd, NULL), EINVAL);
	NOTHING(ibv_create_ah(e->pd, NULL), EINVAL);
	NOTHING(ibv_alloc_parent_domain(e->context, NULL), EINVAL);
	NOTHING(ibv_reg_mr(e->pd, NULL, 64, 0), EFAULT);
	REFUSED(ibv_post_send(e->qp, &send, &bad_send), EINVAL);
	REFUSED(ibv_post_recv(e->qp, &receive, &bad_receive), EINVAL);
	CHECK(bad_send == &send && bad_receive == &receive, "the bad requests are not named");
	REFUSED(ibv_post_srq_recv(srq, &receive, &bad_receive), EINVAL);
	// A list of no requests is none too many.
	CHECK_EQ(ibv_post_send(e->qp, NULL, &bad_send), 0);
	CHECK_EQ(ibv_post_recv(e->qp, NULL, &bad_receive), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	unharmed();
}

static void lengths_and_counts(void)
{
	set_up();
	struct ibv_device_attr device;
	struct ibv_srq *srq = new_srq();
	struct ibv_srq_attr of_srq = {.max_wr = 0};
	struct ibv_cq *cq = ibv_create_cq(e->context, 4, NULL, NULL, 0);
	struct ibv_context *other = open_device();
	struct ibv_alloc_dm_attr of_dm = {.length = 0};

	CHECK_EQ(ibv_query_device(e->context, &device), 0);
	CHECK(cq, "ibv_create_cq: %s", strerror(errno));
	NOTHING(ibv_create_cq(e->context, -4, NULL, NULL, 0), EINVAL);
	NOTHING(ibv_create_cq(e->context, 4, NULL, NULL, e->context->num_comp_vectors), EINVAL);
	NOTHING(ibv_create_cq(e->context, 4, NULL, NULL, -1), EINVAL);
	NOTHING(ibv_create_cq(other, 4, NULL, e->channel, 0), EINVAL);
	REFUSED(ibv_resize_cq(cq, 0), EINVAL);
	REFUSED(ibv_resize_cq(cq, device.max_cqe + 1), EINVAL);
	CHECK_EQ(cq->cqe, 4);
	ANSWERS(ibv_poll_cq(cq, -1, NULL), -EINVAL, EINVAL);
	CHECK_EQ(ibv_poll_cq(cq, 0, NULL), 0);
	// Without a channel nobody is told, and asking for it is no error.
	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);

	REFUSED(ibv_modify_srq(srq, &of_srq, IBV_SRQ_MAX_WR), EINVAL);
	of_srq.max_wr = device.max_srq_wr + 1;
	REFUSED(ibv_modify_srq(srq, &of_srq, IBV_SRQ_MAX_WR), EINVAL);
	of_srq.srq_limit = 5;
	REFUSED(ibv_modify_srq(srq, &of_srq, IBV_SRQ_LIMIT), EINVAL);
	CHECK_EQ(ibv_destroy_srq(srq), 0);

	NOTHING(ibv_reg_mr(e->pd, e->buffer, 0, 0), EINVAL);
	NOTHING(ibv_reg_mr(e->pd, e->buffer, SIZE_MAX, 0), EINVAL);
	ANSWERS(ibv_rereg_mr(e->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, e->buffer, 0, 0), IBV_REREG_MR_ERR_INPUT, EINVAL);
	NOTHING(ibv_alloc_dm(e->context, &of_dm), EINVAL);
	of_dm.length = SIZE_MAX / 2;
	NOTHING(ibv_alloc_dm(e->context, &of_dm), ENOMEM);
	of_dm = (struct ibv_alloc_dm_attr){.length = 64, .log_align_req = 60};
	NOTHING(ibv_alloc_dm(e->context, &of_dm), EINVAL);
	unharmed();
}

// Of a list, what stands before the bad request is carried out and what stands after it is not.
static void bad_request_in_a_list(void)
{
	set_up();
	struct ibv_sge sge = sge_of(e, 0, 8), huge = {.addr = sge.addr, .length = 1u << 31 | 1, .lkey = sge.lkey};
	struct ibv_sge three[] = {sge, sge, sge};
	const struct ibv_send_wr bad_ones[] = {
		{.opcode = 77, .sg_list = &sge, .num_sge = 1},
		{.opcode = IBV_WR_TSO, .sg_list = &sge, .num_sge = 1},
		{.opcode = IBV_WR_DRIVER1, .sg_list = &sge, .num_sge = 1},
		{.opcode = IBV_WR_SEND, .sg_list = three, .num_sge = 3},
		{.opcode = IBV_WR_SEND, .sg_list = three, .num_sge = -1},
		{.opcode = IBV_WR_SEND, .sg_list = NULL, .num_sge = 1},
		{.opcode = IBV_WR_RDMA_WRITE, .sg_list = &huge, .num_sge = 1},
		{.opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_INLINE},
	};

	for (size_t i = 0; i < sizeof(bad_ones) / sizeof(*bad_ones); i++) {
		struct ibv_send_wr wrs[3], *bad = NULL;
		struct ibv_send_wr good = {
			.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = {self.va + 64, self.rkey},
		};

		wrs[0] = wrs[2] = good;
		wrs[1] = bad_ones[i];
		for (int j = 0; j < 3; j++) {
			wrs[j].wr_id = 10 * i + j;
			wrs[j].next = j < 2 ? &wrs[j + 1] : NULL;
		}
		REFUSED(ibv_post_send(e->qp, wrs, &bad), EINVAL);
		CHECK(bad == &wrs[1], "request %zu: the bad one is not named", i);
		expect_wc(e->send_cq, 10 * i, IBV_WC_SUCCESS);
		expect_no_wc(e->send_cq, 1);
	}

	struct ibv_recv_wr last = {.wr_id = 3, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr middle = {.wr_id = 2, .sg_list = three, .num_sge = 3, .next = &last};
	struct ibv_recv_wr first = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .next = &middle}, *bad = NULL;

	REFUSED(ibv_post_recv(e->qp, &first, &bad), EINVAL);
	CHECK(bad == &middle, "the bad receive request is not named");
	CHECK_EQ(post_recv(e, 4, 0, 8), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(post(e, 200 + i, IBV_WR_SEND, 100, 8, NULL, 0, 0), 0);
	expect_wc(e->recv_cq, 1, IBV_WC_SUCCESS);
	expect_wc(e->recv_cq, 4, IBV_WC_SUCCESS);
	for (int i = 0; i < 2; i++)
		expect_wc(e->send_cq, 200 + i, IBV_WC_SUCCESS);
	unharmed();
}

// What a completion does not hold is no address: ibv_create_ah_from_wc(3).
static void handles_from_completions(void)
{
	set_up();
	struct ibv_grh grh = {0};
	struct ibv_wc wc = {0};
	struct ibv_ah_attr attr;

	// There is no address without a global route over Ethernet.
	NOTHING(ibv_create_ah_from_wc(e->pd, &wc, &grh, 1), EINVAL);
	wc.wc_flags = IBV_WC_GRH;
	NOTHING(ibv_create_ah_from_wc(e->pd, &wc, &grh, 1), EPROTONOSUPPORT);
	MINUS_ONE(ibv_init_ah_from_wc(e->context, 1, &wc, &grh, &attr), EPROTONOSUPPORT);
	attr = ah_attr_to(&self);
	attr.port_num = 0;
	NOTHING(ibv_create_ah(e->pd, &attr), EINVAL);
	attr = ah_attr_to(&self);
	attr.is_global = 0;
	NOTHING(ibv_create_ah(e->pd, &attr), EINVAL);
	attr = ah_attr_to(&self);
	memset(&attr.grh.dgid, 0, sizeof(attr.grh.dgid));
	NOTHING(ibv_create_ah(e->pd, &attr), EINVAL);
	unharmed();
}

// ibv_open_xrcd(3): the descriptor stands for a file, which names the domain.
static void xrc_domains_of_files(void)
{
	set_up();
	char path[] = "xrcd-XXXXXX";
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = mkstemp(path),
	};

	CHECK(attr.fd >= 0, "mkstemp: %s", strerror(errno));
	CHECK_EQ(unlink(path), 0);
	// There is none of that file, and none is asked for.
	NOTHING(ibv_open_xrcd(e->context, &attr), EAGAIN);
	attr.oflags = O_CREAT;
	struct ibv_xrcd *xrcd = ibv_open_xrcd(e->context, &attr);

	CHECK(xrcd, "ibv_open_xrcd: %s", strerror(errno));
	attr.oflags = O_CREAT | O_EXCL;
	NOTHING(ibv_open_xrcd(e->context, &attr), EINVAL);
	attr.oflags = O_APPEND;
	NOTHING(ibv_open_xrcd(e->context, &attr), EINVAL);
	attr.comp_mask |= 1 << 5;
	NOTHING(ibv_open_xrcd(e->context, &attr), EOPNOTSUPP);
	attr = (struct ibv_xrcd_init_attr){
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = 9999, .oflags = O_CREAT,
	};
	NOTHING(ibv_open_xrcd(e->context, &attr), EBADF);
	CHECK_EQ(ibv_close_xrcd(xrcd), 0);
	unharmed();
}

// In vain: what is not there is not waited for where the descriptor does not wait, and names that
// nothing has are not found.
static void nothing_there(void)
{
	set_up();
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *context;
	union ibv_gid gid;
	__be16 pkey;

	CHECK(!fcntl(e->channel->fd, F_SETFL, O_NONBLOCK) && !fcntl(e->context->async_fd, F_SETFL, O_NONBLOCK), "fcntl: %s",
	      strerror(errno));
	while (!ibv_get_async_event(e->context, &event))
		ibv_ack_async_event(&event);
	MINUS_ONE(ibv_get_async_event(e->context, &event), EAGAIN);
	MINUS_ONE(ibv_get_cq_event(e->channel, &cq, &context), EAGAIN);
	MINUS_ONE(ibv_query_gid(e->context, 1, 9999, &gid), EINVAL);
	MINUS_ONE(ibv_query_gid(e->context, 9, 0, &gid), EINVAL);
	MINUS_ONE(ibv_query_pkey(e->context, 1, 999, &pkey), ENOENT);
	CHECK_EQ(ibv_get_pkey_index(e->context, 1, htobe16(0x1234)), -1);
	unharmed();
}

#define T(name) {#name, name, 0}
PROGRAM(T(masks_and_flags), T(nothing_given), T(lengths_and_counts), T(bad_request_in_a_list), T(handles_from_completions),
	T(xrc_domains_of_files), T(nothing_there))
