// SPDX-License-Identifier: MIT OR Apache-2.0
//
// several_libibverbs LIBRARY...
//
// A program with a libibverbs for each part of it, as packages of Python bring them along. It is
// linked with none; each is loaded when those before it have been used, and makes a queue pair that
// writes to itself, through the functions of requests that are built too. Prints "LIBRARY: written"
// for each.

#include <dlfcn.h>
#include <err.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>

enum { HALF = 4096, SECONDS = 20 };

struct library {
	struct ibv_device **(*get_device_list)(int *);
	struct ibv_context *(*open_device)(struct ibv_device *);
	int (*query_gid)(struct ibv_context *, uint8_t, int, union ibv_gid *);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *, void *, size_t, int);
	struct ibv_cq *(*create_cq)(struct ibv_context *, int, void *, void *, int);
	int (*modify_qp)(struct ibv_qp *, struct ibv_qp_attr *, int);
	struct ibv_qp_ex *(*qp_to_qp_ex)(struct ibv_qp *);
	int (*destroy_qp)(struct ibv_qp *);
	int (*close_device)(struct ibv_context *);
};

static void *function(void *handle, const char *name)
{
	void *address = dlsym(handle, name);

	if (!address)
		errx(1, "%s", dlerror());
	return address;
}

static struct library load(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		errx(1, "%s", dlerror());
	return (struct library){
		function(handle, "ibv_get_device_list"), function(handle, "ibv_open_device"),
		function(handle, "ibv_query_gid"),	 function(handle, "ibv_alloc_pd"),
		function(handle, "ibv_reg_mr"),		 function(handle, "ibv_create_cq"),
		function(handle, "ibv_modify_qp"),	 function(handle, "ibv_qp_to_qp_ex"),
		function(handle, "ibv_destroy_qp"),	 function(handle, "ibv_close_device"),
	};
}

static void connect_to_itself(const struct library *library, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	if (library->modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		err(1, "INIT");

	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = qp->qp_num;
	attr.min_rnr_timer = 1;
	attr.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh.hop_limit = 64};
	if (library->query_gid(qp->context, 1, 0, &attr.ah_attr.grh.dgid))
		err(1, "ibv_query_gid");
	if (library->modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		err(1, "RTR");

	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 17;
	attr.retry_cnt = 7;
	if (library->modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				       IBV_QP_MAX_QP_RD_ATOMIC))
		err(1, "RTS");
}

static void completed(struct ibv_cq *cq, uint64_t id)
{
	struct ibv_wc wc;
	time_t end = time(NULL) + SECONDS;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		if (time(NULL) > end)
			errx(1, "no completion");
	if (n < 0 || wc.status != IBV_WC_SUCCESS || wc.wr_id != id)
		errx(1, "completion %d: status %d of %llu", n, wc.status, (unsigned long long)wc.wr_id);
}

static void use(const struct library *library, unsigned char seed)
{
	static unsigned char memory[2 * HALF];
	struct ibv_device **list = library->get_device_list(NULL);
	struct ibv_context *context = list && *list ? library->open_device(*list) : NULL;

	if (!context)
		errx(1, "%s", list && *list ? "the device does not open" : "no device");

	struct ibv_pd *pd = library->alloc_pd(context);
	struct ibv_cq *cq = library->create_cq(context, 4, NULL, NULL, 0);
	struct ibv_mr *mr = library->reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	if (!pd || !cq || !mr)
		err(1, "a domain, a queue, a region");

	struct ibv_qp_init_attr_ex attr = {.send_cq = cq,
					   .recv_cq = cq,
					   .cap = {4, 1, 1, 1, 0},
					   .qp_type = IBV_QPT_RC,
					   .pd = pd,
					   .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &attr);
	struct ibv_qp_ex *built = qp ? library->qp_to_qp_ex(qp) : NULL;

	if (!built)
		err(1, "an extended queue pair");
	connect_to_itself(library, qp);

	memset(memory, seed, HALF);
	memset(memory + HALF, 0, HALF);
	built->wr_id = 1;
	built->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(built);
	ibv_wr_rdma_write(built, mr->rkey, (uintptr_t)memory + HALF);
	ibv_wr_set_sge(built, mr->lkey, (uintptr_t)memory, HALF / 2);
	if (ibv_wr_complete(built))
		err(1, "ibv_wr_complete");
	completed(cq, 1);

	struct ibv_sge sge = {(uintptr_t)memory, HALF / 2, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)memory + HALF + HALF / 2;
	wr.wr.rdma.rkey = mr->rkey;
	if (ibv_post_send(qp, &wr, &bad))
		err(1, "ibv_post_send");
	completed(cq, 2);
	if (memcmp(memory, memory + HALF, HALF))
		errx(1, "not what was written");
	if (library->destroy_qp(qp))
		err(1, "ibv_destroy_qp");
	// The context stays open when the next library comes.
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct library library = load(argv[i]);

		use(&library, (unsigned char)i);
		printf("%s: written\n", argv[i]);
	}
	return 0;
}
