// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Endpoints: a context, a PD, CQs, a buffer with its MR and one QP (RC, UC or UD), and the same in
// the other process by remote control. The other process does nothing with verbs unless it is told
// to: between commands it sleeps in recv() on its control socket, so that everything one-sided has
// to progress without its help.

#ifndef ENDPOINT_H
#define ENDPOINT_H

#include "device.h"
#include "harness.h"

#include <infiniband/verbs.h>

enum { MAX_ENDPOINTS = 33000, NO_SHARE = -1 };
enum { TEST_QKEY = 0x11112222, GRH_SIZE = 40 };
enum { ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

// What an endpoint is made of. All zero is a good default.
struct options {
	size_t size;         // of the buffer; 0: 64 KiB
	int share_plus_one;  // 1 + index of an endpoint whose context, PD and buffer are used
	bool own_pd;         // with share: another PD and another MR of the same buffer
	bool share_cq;       // with share: also its CQs
	unsigned send_wr, recv_wr, send_sge, recv_sge, inline_data, cqe;
	unsigned srq_wr, srq_limit; // srq_wr: make an SRQ (with share: use the other's)
	bool unsignaled;     // sq_sig_all = 0
	bool channel;        // completion channel
	int mr_access;       // 0: all
	int qp_access;       // 0: all; -1: none
	bool no_context;     // only for remote control: nothing
	int qp_type;         // 0: RC; or UC, UD
	uint32_t qkey;       // UD; 0: TEST_QKEY
	int send_vector, recv_vector; // of the completion queues
};

// What the other side must know.
struct address {
	uint32_t qpn, psn, rkey, lkey, qkey;
	uint32_t reserved; // no padding: it is sent as it is
	union ibv_gid gid;
	uint64_t va, size;
};

struct endpoint {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *buffer;
	size_t size;
	int access;
	uint32_t psn, qkey;
	union ibv_gid gid;
	// Of the side that it was connected to: of UD, the one that it sends to unless told.
	struct address peer;
	struct ibv_ah *ah;
};

// How a connection is made. A zero takes the default; minus one means zero.
struct connection {
	int mtu, timeout, retry_cnt, rnr_retry, min_rnr_timer, rd_atomic, dest_rd_atomic;
};

uint8_t gid_index(void);
struct endpoint *open_endpoint(const struct options *options);
struct endpoint *endpoint_at(int index);
// The index of the one made last.
int last_endpoint(void);
struct address address_of(const struct endpoint *endpoint);
struct ibv_ah_attr ah_attr_to(const struct address *remote);
int modify_to_init(struct endpoint *endpoint);
int modify_to_rtr(struct endpoint *endpoint, const struct address *remote, const struct connection *connection);
int modify_to_rts(struct endpoint *endpoint, const struct connection *connection);
void connect_endpoint(struct endpoint *endpoint, const struct address *remote, const struct connection *connection);
int set_state(struct ibv_qp *qp, enum ibv_qp_state state);
enum ibv_qp_state state_of(struct ibv_qp *qp);
void close_endpoint(struct endpoint *endpoint);

// Work requests. Offsets are into the endpoints' buffers.
struct ibv_sge sge_of(const struct endpoint *endpoint, size_t offset, size_t length);
int post_recv(struct endpoint *endpoint, uint64_t id, size_t offset, size_t length);
int post(struct endpoint *endpoint, uint64_t id, enum ibv_wr_opcode opcode, size_t offset, size_t length,
	 const struct address *remote, size_t remote_offset, unsigned flags);
int post_atomic(struct endpoint *endpoint, uint64_t id, enum ibv_wr_opcode opcode, size_t offset,
		const struct address *remote, size_t remote_offset, uint64_t compare_add, uint64_t swap);

// Completions: waits up to 30 s.
struct ibv_wc wait_wc(struct ibv_cq *cq);
void check_wc(const struct ibv_wc *wc, uint64_t id, enum ibv_wc_status status);
struct ibv_wc expect_wc(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status);
// After a failure: the QP is in error and the requests `from` to `to` - 1 are flushed, in order.
void expect_flushes(struct endpoint *endpoint, uint64_t from, uint64_t to);
void expect_no_wc(struct ibv_cq *cq, unsigned milliseconds);
// Async events: the next one within the time, to be acknowledged; `false` for none. That the GID
// table has changed is passed over: an interface gets its link-local address when nobody has
// claimed it for long enough, which may be in the midst of a test.
bool read_event(struct ibv_context *context, unsigned milliseconds, struct ibv_async_event *event);
// The same, acknowledged; -1 for none. `element`, if given, gets its object.
int next_event(struct ibv_context *context, unsigned milliseconds, void **element);
int wait_event(struct ibv_context *context, int wanted, void *element);

// A counter of the device (sysfs's hw_counters), which the daemon brings up to date once a second.
long long counter(const char *name);

// A pattern that depends on seed and offset.
void fill(void *buffer, size_t length, uint32_t seed);
void check_filled(const void *buffer, size_t length, uint32_t seed, const char *what);

// Remote control of endpoint `index` of the other process.
struct address remote_open(const struct options *options);
void remote_connect(int index, const struct address *to, const struct connection *connection);
int remote_post_recv(int index, uint64_t id, size_t offset, size_t length);
// As above with this lkey.
int remote_post_recv_key(int index, uint64_t id, size_t offset, size_t length, uint32_t lkey);
int remote_post(int index, uint64_t id, enum ibv_wr_opcode opcode, size_t offset, size_t length,
		const struct address *to, size_t to_offset, unsigned flags);
struct ibv_wc remote_wc(int index, bool receive);
struct ibv_wc remote_expect(int index, bool receive, uint64_t id, enum ibv_wc_status status);
// Number of completions that are there now.
int remote_pending(int index, bool receive);
int remote_event(int index, unsigned milliseconds);
int remote_state(int index);
int remote_set_state(int index, enum ibv_qp_state state);
void remote_fill(int index, size_t offset, size_t length, uint32_t seed);
void remote_check(int index, size_t offset, size_t length, uint32_t seed, const char *what);
void remote_read(int index, size_t offset, void *data, size_t length);
void remote_write(int index, size_t offset, const void *data, size_t length);
void remote_destroy_qp(int index);
int remote_arm(int index, bool solicited_only);
// Sleeps on the completion channel; 1 if a completion event came within the time.
int remote_wait_channel(int index, unsigned milliseconds);
// Busy computing, without a verbs call, until the 32-bit word at `offset` has `value`; milliseconds
// it took or -1.
int remote_spin(int index, size_t offset, uint32_t value, unsigned milliseconds);
// Remote memory key of a fresh registration of part of the buffer with other rights.
struct address remote_register(int index, size_t offset, size_t length, int access);
void remote_deregister(int index);
int remote_arm_srq(int index, unsigned limit);
long long remote_counter(const char *name);
// Waits up to 5 s until that counter of the other side has `value`, and fails if it has more.
void remote_counter_reaches(const char *name, long long value);

// Both sides with the same options, connected.
struct endpoint *open_pair(const struct options *local, const struct options *remote,
			   const struct connection *connection, struct address *remote_address);

void peer_serve(int fd);

#endif
