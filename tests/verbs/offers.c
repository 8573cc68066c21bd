// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What the device says of itself, and what it does not offer: that must be refused and never reach
// a kernel that does not know the device.

#include "answers.h"
#include "endpoint.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

static const struct options defaults;

// Everything that the extended query has beyond the plain one.
static void device_attributes(void)
{
	struct ibv_context *c = open_device();
	struct ibv_query_device_ex_input reserved = {1};
	struct ibv_device_attr_ex ex;
	struct ibv_device_attr plain;

	// libibverbs' own answer.
	CHECK_EQ(ibv_query_device_ex(c, &reserved, &ex), EINVAL);
	memset(&ex, 0xa5, sizeof(ex));
	CHECK_EQ(ibv_query_device_ex(c, NULL, &ex), 0);
	CHECK_EQ(ibv_query_device(c, &plain), 0);
	CHECK_EQ(memcmp(&plain, &ex.orig_attr, sizeof(plain)), 0);
	CHECK_EQ(ex.device_cap_flags_ex & UINT32_MAX, plain.device_cap_flags);
	CHECK_EQ(ex.phys_port_cnt_ex, 1);
	CHECK(ex.completion_timestamp_mask == UINT64_MAX, "mask %#llx", (unsigned long long)ex.completion_timestamp_mask);
	CHECK_EQ(ex.hca_core_clock, 1000000);
	CHECK(ex.cq_mod_caps.max_cq_count && ex.cq_mod_caps.max_cq_period, "no moderation");
	// What acts on raw Ethernet frames is not there.
	CHECK_EQ(ex.raw_packet_caps, 0);
	CHECK_EQ(ex.tso_caps.max_tso, 0);
	CHECK_EQ(ex.tso_caps.supported_qpts, 0);
	CHECK_EQ(ex.rss_caps.supported_qpts, 0);
	CHECK_EQ(ex.rss_caps.max_rwq_indirection_tables, 0);
	CHECK_EQ(ex.max_wq_type_rq, 0);
	CHECK_EQ(ex.packet_pacing_caps.qp_rate_limit_max, 0);
	CHECK_EQ(plain.max_raw_ethy_qp, 0);
	// FLUSH to global visibility and to persistence, and ATOMIC WRITE: bits that the installed
	// header may not name yet.
	CHECK_EQ(ex.device_cap_flags_ex >> 32, 1 << 6 | 1 << 7 | 1 << 8);
	CHECK(!(plain.device_cap_flags & (IBV_DEVICE_MANAGED_FLOW_STEERING | IBV_DEVICE_RAW_IP_CSUM | IBV_DEVICE_RC_IP_CSUM)),
	      "flags %#x", plain.device_cap_flags);
}

// Rights that were named later than the installed header, perhaps.
enum { FLUSH_GLOBAL = 1 << 8, FLUSH_PERSISTENT = 1 << 9 };

// Who may flush: any region and queue pair to visibility, memory of files alone to persistence.
static void flush_access(void)
{
	struct endpoint *e = open_endpoint(&defaults);
	const unsigned int of_qp = IBV_ACCESS_REMOTE_WRITE | FLUSH_GLOBAL | FLUSH_PERSISTENT;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = of_qp};
	struct ibv_qp_init_attr init;
	const unsigned int persistent = ALL_ACCESS | FLUSH_GLOBAL | FLUSH_PERSISTENT;
	char path[] = "flush-XXXXXX";
	struct statfs on;

	CHECK_EQ(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
	memset(&attr, 0, sizeof(attr));
	CHECK_EQ(ibv_query_qp(e->qp, &attr, IBV_QP_ACCESS_FLAGS, &init), 0);
	CHECK_EQ(attr.qp_access_flags, of_qp);

	struct ibv_mr *mr = ibv_reg_mr(e->pd, e->buffer, 4096, ALL_ACCESS | FLUSH_GLOBAL);

	CHECK(mr, "ibv_reg_mr: %s", strerror(errno));
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK(!ibv_reg_mr(e->pd, e->buffer, 4096, persistent) && errno == EINVAL, "of no file: %s", strerror(errno));

	int fd = mkstemp(path);

	CHECK(fd >= 0 && !ftruncate(fd, 4096), "%s: %s", path, strerror(errno));
	void *file = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK(file != MAP_FAILED, "mmap: %s", strerror(errno));
	CHECK_EQ(fstatfs(fd, &on), 0);
	mr = ibv_reg_mr(e->pd, file, 4096, persistent);
	int why = errno;

	unlink(path);
	if (on.f_type == TMPFS_MAGIC)
		CHECK(!mr && why == EINVAL, "in memory: %s", strerror(why));
	else
		CHECK(mr, "ibv_reg_mr: %s", strerror(why));
	if (mr)
		CHECK_EQ(ibv_dereg_mr(mr), 0);
	// The file is gone, its memory is not: what is written to that outlives nothing.
	CHECK(!ibv_reg_mr(e->pd, file, 4096, persistent) && errno == EINVAL, "removed: %s", strerror(errno));
}

static void unoffered_verbs_are_refused(void)
{
	struct endpoint *e = open_endpoint(&defaults);
	struct ibv_context *c = e->context;
	struct ibv_counters_init_attr counters = {0};
	struct ibv_flow_attr flow = {0};
	struct ibv_flow_action_esp_attr esp = {0};
	struct ibv_wq_init_attr wq = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = e->pd, .cq = e->recv_cq};
	struct ibv_rwq_ind_table_init_attr table = {0};
	struct ibv_ece ece = {.vendor_id = 1};
	struct ibv_qp_rate_limit_attr rate = {0};

	NOTHING(ibv_create_counters(c, &counters), EOPNOTSUPP);
	NOTHING(ibv_create_flow(e->qp, &flow), EOPNOTSUPP);
	NOTHING(ibv_create_flow_action_esp(c, &esp), EOPNOTSUPP);
	NOTHING(ibv_create_wq(c, &wq), EOPNOTSUPP);
	NOTHING(ibv_create_rwq_ind_table(c, &table), EOPNOTSUPP);
	REFUSED(ibv_query_ece(e->qp, &ece), EOPNOTSUPP);
	REFUSED(ibv_set_ece(e->qp, &ece), EOPNOTSUPP);
	REFUSED(ibv_modify_qp_rate_limit(e->qp, &rate), EOPNOTSUPP);
}

static void raw_packets_are_refused(void)
{
	struct endpoint *e = open_endpoint(&defaults);
	struct ibv_qp_init_attr init = {
		.send_cq = e->send_cq,
		.recv_cq = e->recv_cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RAW_PACKET,
	};

	NOTHING(ibv_create_qp(e->pd, &init), EOPNOTSUPP);
	init.qp_type = IBV_QPT_DRIVER;
	NOTHING(ibv_create_qp(e->pd, &init), EOPNOTSUPP);
}

// What libibverbs asks of the kernel past the provider.
static void queries_past_the_provider(void)
{
	struct ibv_context *c = open_device();
	struct ibv_gid_entry entry, table[256];
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey = 0;

	REFUSED(ibv_query_port(c, 2, &port), EINVAL);
	CHECK_EQ(ibv_query_port(c, 1, &port), 0);
	CHECK_EQ(ibv_query_gid_ex(c, 1, gid_index(), &entry, 0), 0);
	CHECK_EQ(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
	CHECK(entry.ndev_ifindex != 0, "no interface");
	ssize_t n = ibv_query_gid_table(c, table, 256, 0);

	CHECK(n > 0 && n <= port.gid_tbl_len, "%zd GIDs", n);
	bool found = false;

	for (ssize_t i = 0; i < n; i++)
		found |= !memcmp(&table[i], &entry, sizeof(entry));
	CHECK(found, "GID %u is not in the table", gid_index());
	CHECK_EQ(ibv_query_gid_table(c, table, 0, 0), -EINVAL);
	REFUSED(ibv_query_gid_ex(c, 1, port.gid_tbl_len, &entry, 0), EINVAL);
	REFUSED(ibv_query_gid_ex(c, 2, 0, &entry, 0), EINVAL);
	for (int i = 0; i < port.gid_tbl_len; i++)
		CHECK_EQ(ibv_query_gid(c, 1, i, &gid), 0);
	CHECK_EQ(ibv_query_pkey(c, 1, 0, &pkey), 0);
	CHECK_EQ(pkey, 0xffff);
	CHECK_EQ(ibv_query_pkey(c, 1, port.pkey_tbl_len, &pkey), -1);
	CHECK_EQ(ibv_get_pkey_index(c, 1, 0xffff), 0);
	CHECK(ibv_get_device_guid(c->device) != 0, "no GUID");
}

PROGRAM({"device_attributes", device_attributes, 0}, {"flush_access", flush_access, 0},
	{"unoffered_verbs_are_refused", unoffered_verbs_are_refused, 0},
	{"raw_packets_are_refused", raw_packets_are_refused, 0},
	{"queries_past_the_provider", queries_past_the_provider, 0})
