// SPDX-License-Identifier: MIT OR Apache-2.0
//
// <ferroce_dv.h>: what a queue pair is from inside, faults and captures that the program sets itself,
// latencies, and the callback for completions. Everything is compared with what the program knows: the
// PSNs that it chose, the messages that it sent, the completions that it polled.

#include "endpoint.h"

#include <ferroce_dv.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MESSAGE = 100, MANY = 500 };

// A fault costs one timeout, and no processor is so busy that a second one expires: 4.096 us * 2^17.
static const struct connection patient = {.timeout = 17};

static struct ferroce_dv_qp_attr query(struct ibv_qp *qp)
{
	struct ferroce_dv_qp_attr attr;

	memset(&attr, 0xff, sizeof(attr));
	CHECK(ferroce_dv_query_qp(qp, &attr, sizeof(attr)) == 0, "querying the QP: %s", ferroce_dv_error());
	CHECK_EQ(attr.comp_mask, FERROCE_DV_QP_PROGRESS | FERROCE_DV_QP_COUNTERS);
	CHECK_EQ(attr.qp_num, qp->qp_num);
	return attr;
}

static uint32_t psn(uint32_t first, uint32_t packets)
{
	return (first + packets) & 0xffffff;
}

// A message to the other side, which has a receive request for it, up to its completion.
static void send_one(struct endpoint *e, const struct address *remote, uint64_t id)
{
	CHECK_EQ(remote_post_recv(0, id, 0, MESSAGE), 0);
	CHECK_EQ(post(e, id, IBV_WR_SEND, 0, MESSAGE, remote, 0, IBV_SEND_SIGNALED), 0);
	expect_wc(e->send_cq, id, IBV_WC_SUCCESS);
	remote_expect(0, true, id, IBV_WC_SUCCESS);
}

static void device(void)
{
	struct ibv_context *context = open_device();
	struct ferroce_dv_device_attr attr;
	char *wanted = realpath(getenv("FERROCE_RUNTIME_DIR"), NULL), *dir;
	struct stat socket;
	struct ibv_device **list = ibv_get_device_list(NULL);
	int ours = 0;

	CHECK(list, "no list of devices");
	for (struct ibv_device **device = list; *device; device++)
		ours += ferroce_dv_is_supported(*device);
	CHECK(ours >= 1, "no device of the list is ferroce's");
	ibv_free_device_list(list);
	CHECK(ferroce_dv_is_supported(context->device), "the device is not ferroce's");
	CHECK(!ferroce_dv_is_supported(NULL), "no device is");

	memset(&attr, 0xff, sizeof(attr));
	CHECK(ferroce_dv_query_device(context, &attr, sizeof(attr)) == 0, "%s", ferroce_dv_error());
	CHECK_EQ(attr.comp_mask, FERROCE_DV_DEVICE_IDENTITY | FERROCE_DV_DEVICE_COUNTERS);
	CHECK(attr.version[0] >= '0' && attr.version[0] <= '9', "version %.32s", attr.version);
	dir = realpath(attr.runtime_dir, NULL);
	CHECK(wanted && dir && strcmp(wanted, dir) == 0, "runtime directory %s", attr.runtime_dir);
	CHECK(stat(dir, &socket) == 0 && S_ISDIR(socket.st_mode), "%s is none", dir);
	CHECK(attr.slot >= 1 && attr.slot <= 255, "slot %u", attr.slot);
	CHECK_EQ(attr.sent_packets, 0);
	CHECK_EQ(attr.retransmitted_packets, 0);
}

// Another provider's device, or what libibverbs shows for it: something behind it that is no provider of
// ferroce's.
static void another_provider(void)
{
	static const char operations[64];
	struct {
		struct ibv_device device;
		const void *operations;
		char rest[256];
	} other = {.operations = operations};
	struct ibv_context context = {.device = &other.device};
	struct ibv_qp qp = {.context = &context};
	struct ferroce_dv_device_attr device_attr;
	struct ferroce_dv_qp_attr attr;
	uint64_t hits;

	for (int i = 0; i < 3; i++) {
		CHECK(!ferroce_dv_is_supported(&other.device), "taken for one of ferroce's");
		CHECK_EQ(ferroce_dv_query_device(&context, &device_attr, sizeof(device_attr)), EOPNOTSUPP);
		CHECK_EQ(errno, EOPNOTSUPP);
		CHECK_EQ(ferroce_dv_query_qp(&qp, &attr, sizeof(attr)), EOPNOTSUPP);
		CHECK_EQ(ferroce_dv_fault_add(&context, NULL, "loss = '1%'", NULL), EOPNOTSUPP);
		CHECK_EQ(ferroce_dv_fault_hits(&context, 1, &hits), EOPNOTSUPP);
		CHECK_EQ(ferroce_dv_fault_clear(&context, 0), EOPNOTSUPP);
		CHECK(!ferroce_dv_capture_start(&context, NULL, 1, 0), "a capture of another's device");
		CHECK_EQ(errno, EOPNOTSUPP);
		CHECK_EQ(ferroce_dv_histogram_start(&qp), EOPNOTSUPP);
		CHECK_EQ(ferroce_dv_histogram_stop(&qp), EOPNOTSUPP);
		CHECK_EQ(ferroce_dv_completion_callback(&context, NULL, NULL), EOPNOTSUPP);
		CHECK(strstr(ferroce_dv_error(), "ferroce"), "says: %s", ferroce_dv_error());
		// libc's memory, none at all, and none that is mapped.
		other.operations = i == 0 ? (const void *)getpid : (const void *)4096;
	}
}

// Through the states: what is known of PSNs, and what is posted.
static void states(void)
{
	struct options options = {0};
	struct endpoint *e = open_endpoint(&options);
	struct address remote = remote_open(&options);
	struct address own = address_of(e);
	struct ferroce_dv_qp_attr attr = query(e->qp);
	uint32_t ordinal = attr.ordinal;

	CHECK_EQ(attr.state, state_of(e->qp));
	CHECK(ordinal >= 1, "queue pairs count from 1");
	CHECK_EQ(attr.window, 0);
	CHECK_EQ(set_state(e->qp, IBV_QPS_RESET), 0);
	CHECK_EQ(query(e->qp).state, IBV_QPS_RESET);
	CHECK_EQ(modify_to_init(e), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(post_recv(e, i, 0, MESSAGE), 0);
	attr = query(e->qp);
	CHECK_EQ(attr.state, IBV_QPS_INIT);
	CHECK_EQ(attr.receives_outstanding, 3);

	CHECK_EQ(modify_to_rtr(e, &remote, NULL), 0);
	attr = query(e->qp);
	CHECK_EQ(attr.state, IBV_QPS_RTR);
	CHECK_EQ(attr.expected_psn, remote.psn);

	CHECK_EQ(modify_to_rts(e, NULL), 0);
	attr = query(e->qp);
	CHECK_EQ(attr.state, IBV_QPS_RTS);
	CHECK_EQ(attr.next_psn, e->psn);
	CHECK_EQ(attr.unacknowledged_psn, e->psn);
	CHECK_EQ(attr.highest_psn, e->psn);
	CHECK_EQ(attr.sent_packets, 0);
	CHECK_EQ(attr.last_sent, 0);
	CHECK_EQ(attr.ordinal, ordinal);
	CHECK(attr.window > 0 && attr.window <= attr.max_window, "window %u of %u", attr.window, attr.max_window);

	e->peer = remote;
	remote_connect(0, &own, NULL);
	CHECK_EQ(query(open_endpoint(&options)->qp).ordinal, ordinal + 1);
	CHECK_EQ(set_state(e->qp, IBV_QPS_ERR), 0);
	attr = query(e->qp);
	CHECK_EQ(attr.state, IBV_QPS_ERR);
	CHECK_EQ(attr.receives_flushed, 3);
	CHECK_EQ(attr.receives_outstanding, 0);
	CHECK_EQ(attr.last_error, IBV_WC_SUCCESS);
}

static void traffic(void)
{
	struct options options = {.size = 1 << 20};
	struct address remote;
	struct endpoint *e = open_pair(&options, &options, NULL, &remote);
	struct ferroce_dv_device_attr device_attr;
	struct ferroce_dv_qp_attr attr;

	for (int i = 0; i < 10; i++)
		send_one(e, &remote, i);
	attr = query(e->qp);
	CHECK_EQ(attr.next_psn, psn(e->psn, 10));
	CHECK_EQ(attr.unacknowledged_psn, psn(e->psn, 10));
	CHECK_EQ(attr.highest_psn, psn(e->psn, 10));
	CHECK_EQ(attr.expected_psn, remote.psn);
	CHECK_EQ(attr.sends_completed, 10);
	CHECK_EQ(attr.receives_completed, 0);
	CHECK_EQ(attr.sends_outstanding, 0);
	CHECK_EQ(attr.in_flight, 0);
	CHECK_EQ(attr.sent_packets, 10 + attr.retransmitted_packets);
	// BTH, payload, ICRC.
	CHECK_EQ(attr.sent_bytes, attr.sent_packets * (12 + MESSAGE + 4));
	CHECK(attr.received_packets >= 1 && attr.last_received > 0, "no ACK");
	CHECK(attr.last_sent > 0 && attr.last_sent <= now_ms() * 1000000 + 1000000, "sent at %llu",
	      (unsigned long long)attr.last_sent);

	// The other way: what the peer sends is expected next.
	CHECK_EQ(post_recv(e, 77, 0, MESSAGE), 0);
	CHECK_EQ(query(e->qp).receives_outstanding, 1);
	struct address own = address_of(e);
	CHECK_EQ(remote_post(0, 78, IBV_WR_SEND, 0, MESSAGE, &own, 0, IBV_SEND_SIGNALED), 0);
	expect_wc(e->recv_cq, 77, IBV_WC_SUCCESS);
	attr = query(e->qp);
	CHECK_EQ(attr.expected_psn, psn(remote.psn, 1));
	CHECK_EQ(attr.receives_completed, 1);
	CHECK_EQ(attr.receives_outstanding, 0);

	// A message of many packets counts as many PSNs; one without a completion is counted, too.
	CHECK_EQ(post(e, 79, IBV_WR_RDMA_WRITE, 0, 1 << 20, &remote, 0, IBV_SEND_SIGNALED), 0);
	expect_wc(e->send_cq, 79, IBV_WC_SUCCESS);
	attr = query(e->qp);
	CHECK_EQ(attr.next_psn, psn(e->psn, 10 + (1 << 20) / 1024));
	CHECK_EQ(attr.sends_completed, 11);

	CHECK_EQ(ferroce_dv_query_device(e->context, &device_attr, sizeof(device_attr)), 0);
	CHECK_EQ(device_attr.slot, e->qp->qp_num >> 16);
	CHECK(device_attr.sent_packets >= attr.sent_packets, "%llu packets", (unsigned long long)device_attr.sent_packets);
	CHECK(device_attr.sent_bytes > 1 << 20, "%llu bytes", (unsigned long long)device_attr.sent_bytes);
}

// Programs that were compiled with an older or a newer header.
static void sizes(void)
{
	struct options options = {0};
	struct endpoint *e = open_endpoint(&options);
	struct {
		struct ferroce_dv_qp_attr attr;
		unsigned char rest[64];
	} newer;
	struct ferroce_dv_qp_attr older;
	size_t known = offsetof(struct ferroce_dv_qp_attr, state);

	memset(&newer, 0xee, sizeof(newer));
	CHECK_EQ(ferroce_dv_query_qp(e->qp, &newer.attr, sizeof(newer)), 0);
	for (size_t i = 0; i < sizeof(newer.rest); i++)
		CHECK_EQ(newer.rest[i], 0);

	memset(&older, 0xee, sizeof(older));
	CHECK_EQ(ferroce_dv_query_qp(e->qp, &older, known), 0);
	CHECK_EQ(older.qp_num, e->qp->qp_num);
	for (size_t i = known; i < sizeof(older); i++)
		CHECK_EQ(((unsigned char *)&older)[i], 0xee);
}

// One ACK is lost, and the completion comes all the same. By go-back-N after one timeout, when one packet is sent
// again; by selective acknowledgements ahead of it, after as many probes as the peer is slow to answer.
static void lost_ack(void)
{
	const char *recovery = getenv("FERROCE_RECOVERY");
	bool probes = recovery && strcmp(recovery, "selective") == 0;
	struct options options = {0};
	struct address remote;
	struct endpoint *e = open_pair(&options, &options, &patient, &remote);
	struct ferroce_dv_qp_attr attr;
	uint32_t id = 0;
	uint64_t hits = 7;

	// By the first answer a requester learns how its peer acknowledges.
	send_one(e, &remote, 0);
	CHECK(ferroce_dv_fault_add(e->context, e->qp, "drop = 'opcode=ACK'\nin = true\ncount = 1", &id) == 0, "%s",
	      ferroce_dv_error());
	CHECK(id >= 1, "faults count from 1");
	CHECK_EQ(ferroce_dv_fault_hits(e->context, id, &hits), 0);
	CHECK_EQ(hits, 0);
	for (int i = 1; i < 6; i++)
		send_one(e, &remote, i);

	attr = query(e->qp);
	CHECK(attr.retransmitted_packets == 1 || (probes && attr.retransmitted_packets > 1), "%llu packets sent again",
	      (unsigned long long)attr.retransmitted_packets);
	CHECK_EQ(attr.ack_timeouts, probes ? 0 : 1);
	CHECK_EQ(attr.sent_packets, 6 + attr.retransmitted_packets);
	CHECK_EQ(attr.sends_completed, 6);
	CHECK_EQ(attr.next_psn, psn(e->psn, 6));
	CHECK_EQ(ferroce_dv_fault_hits(e->context, id, &hits), 0);
	CHECK_EQ(hits, 1);
	CHECK_EQ(ferroce_dv_fault_clear(e->context, id), 0);
	CHECK_EQ(ferroce_dv_fault_hits(e->context, id, &hits), ENOENT);
	CHECK_EQ(ferroce_dv_fault_clear(e->context, id), ENOENT);
}

// Of two queue pairs one has the fault; and of two, with none named, this process's calls.
static void for_whom(void)
{
	struct options options = {0}, second = {.share_plus_one = 1};
	struct address remote;
	struct endpoint *e = open_pair(&options, &options, NULL, &remote);
	struct ibv_cq *cq;
	char text[100];
	uint32_t id;

	CHECK_EQ(ferroce_dv_fault_add(e->context, open_endpoint(&second)->qp, "wc-error = 'rem-op'", &id), 0);
	send_one(e, &remote, 1);
	CHECK_EQ(ferroce_dv_fault_clear(e->context, id), 0);
	CHECK_EQ(ferroce_dv_fault_add(e->context, e->qp, "wc-error = 'rem-op'", NULL), 0);
	CHECK_EQ(remote_post_recv(0, 2, 0, MESSAGE), 0);
	CHECK_EQ(post(e, 2, IBV_WR_SEND, 0, MESSAGE, &remote, 0, IBV_SEND_SIGNALED), 0);
	expect_wc(e->send_cq, 2, IBV_WC_REM_OP_ERR);
	CHECK_EQ(query(e->qp).state, IBV_QPS_ERR);
	CHECK_EQ(query(e->qp).last_error, IBV_WC_REM_OP_ERR);
	CHECK_EQ(query(e->qp).flags & FERROCE_DV_QP_LAST_ERROR_RECEIVE, 0);

	snprintf(text, sizeof(text), "alloc-fail = 'create_cq=EAGAIN'\ncount = 1\npid = %d", getpid());
	CHECK(ferroce_dv_fault_add(e->context, NULL, text, NULL) == 0, "%s", ferroce_dv_error());
	cq = ibv_create_cq(e->context, 1, NULL, NULL, 0);
	CHECK(!cq && errno == EAGAIN, "errno %d", errno);
	CHECK((cq = ibv_create_cq(e->context, 1, NULL, NULL, 0)), "the second one fails, too");
	CHECK_EQ(ferroce_dv_fault_clear(e->context, 0), 0);
	CHECK_EQ(ferroce_dv_fault_hits(e->context, id + 1, &(uint64_t){0}), ENOENT);
}

// An error of an unreliable queue pair's send queue stops that queue alone, one of its receive queue the queue pair.
static void spoilt_uc(void)
{
	struct options options = {.qp_type = IBV_QPT_UC};
	struct address remote;
	struct endpoint *e = open_pair(&options, &options, NULL, &remote);

	send_one(e, &remote, 1);
	CHECK_EQ(ferroce_dv_fault_add(e->context, e->qp, "wc-error = 'general'\ncount = 1", NULL), 0);
	CHECK_EQ(remote_post_recv(0, 2, 0, MESSAGE), 0);
	CHECK_EQ(post(e, 2, IBV_WR_SEND, 0, MESSAGE, &remote, 0, IBV_SEND_SIGNALED), 0);
	expect_wc(e->send_cq, 2, IBV_WC_GENERAL_ERR);
	remote_expect(0, true, 2, IBV_WC_SUCCESS);
	CHECK_EQ(state_of(e->qp), IBV_QPS_SQE);
	CHECK_EQ(query(e->qp).last_error, IBV_WC_GENERAL_ERR);
	CHECK_EQ(post(e, 3, IBV_WR_SEND, 0, MESSAGE, &remote, 0, IBV_SEND_SIGNALED), 0);
	expect_wc(e->send_cq, 3, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(set_state(e->qp, IBV_QPS_RTS), 0);
	send_one(e, &remote, 4);

	CHECK_EQ(ferroce_dv_fault_add(e->context, e->qp, "wc-error = 'loc-prot'\nin = true", NULL), 0);
	CHECK_EQ(post_recv(e, 5, 0, MESSAGE), 0);
	CHECK_EQ(remote_post(0, 5, IBV_WR_SEND, 0, MESSAGE, NULL, 0, IBV_SEND_SIGNALED), 0);
	expect_wc(e->recv_cq, 5, IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(state_of(e->qp), IBV_QPS_ERR);
	CHECK_EQ(ferroce_dv_fault_clear(e->context, 0), 0);
}

// What is not there, and what makes no sense.
static void refused(void)
{
	struct options options = {0};
	struct endpoint *e = open_endpoint(&options), *other = open_endpoint(&options);
	struct ferroce_dv_device_attr device_attr;
	struct ferroce_dv_histogram histogram;
	struct ferroce_dv_qp_attr attr;
	uint64_t hits;
	int file = open("/dev/null", O_RDONLY);
	static const char *const senseless[][2] = {
		{"", "what is to go wrong"},
		{"loss = '1'", "`1` is no share"},
		{"los = '1%'", "unknown field `los`"},
		{"loss = '1%'\nreorder = true", "two faults"},
		{"drop = 'psn~3'", "wanted"},
		{"port-down = 9", "no port 9"},
		{"loss =", "1"},
		{"loss = '\xff'", "utf-8"},
	};

	CHECK_EQ(ferroce_dv_query_device(NULL, &device_attr, sizeof(device_attr)), EINVAL);
	CHECK_EQ(ferroce_dv_query_device(e->context, NULL, sizeof(device_attr)), EINVAL);
	CHECK_EQ(ferroce_dv_query_device(e->context, &device_attr, 7), EINVAL);
	CHECK_EQ(ferroce_dv_query_qp(NULL, &attr, sizeof(attr)), EINVAL);
	CHECK_EQ(ferroce_dv_query_qp(e->qp, NULL, sizeof(attr)), EINVAL);
	CHECK_EQ(ferroce_dv_query_qp(e->qp, &attr, 0), EINVAL);
	CHECK_EQ(errno, EINVAL);
	CHECK(strstr(ferroce_dv_error(), "comp_mask"), "says: %s", ferroce_dv_error());

	for (size_t i = 0; i < sizeof(senseless) / sizeof(*senseless); i++) {
		CHECK_EQ(ferroce_dv_fault_add(e->context, NULL, senseless[i][0], NULL), EINVAL);
		CHECK(strstr(ferroce_dv_error(), senseless[i][1]), "of %s it says: %s", senseless[i][0], ferroce_dv_error());
	}
	CHECK_EQ(ferroce_dv_fault_add(NULL, NULL, "loss = '1%'", NULL), EINVAL);
	CHECK_EQ(ferroce_dv_fault_add(e->context, NULL, NULL, NULL), EINVAL);
	CHECK_EQ(ferroce_dv_fault_add(e->context, other->qp, "loss = '1%'", NULL), EINVAL);
	CHECK_EQ(ferroce_dv_fault_add(e->context, e->qp, "loss = '1%'\nqp = 1", NULL), EINVAL);
	CHECK_EQ(ferroce_dv_fault_hits(e->context, 4711, &hits), ENOENT);
	CHECK_EQ(ferroce_dv_fault_hits(e->context, 4711, NULL), EINVAL);
	CHECK_EQ(ferroce_dv_fault_clear(e->context, 4711), ENOENT);
	CHECK_EQ(ferroce_dv_fault_clear(NULL, 0), EINVAL);

	CHECK(!ferroce_dv_capture_start(NULL, NULL, 1, 0) && errno == EINVAL, "errno %d", errno);
	CHECK(!ferroce_dv_capture_start(e->context, NULL, 1, 1 << 7) && errno == EINVAL, "errno %d", errno);
	CHECK(!ferroce_dv_capture_start(e->context, other->qp, 1, 0) && errno == EINVAL, "errno %d", errno);
	CHECK(!ferroce_dv_capture_start(e->context, NULL, -1, 0) && errno == EBADF, "errno %d", errno);
	CHECK(!ferroce_dv_capture_start(e->context, NULL, file, 0) && errno == EBADF, "errno %d", errno);
	CHECK_EQ(ferroce_dv_capture_stop(NULL, NULL, NULL), EINVAL);

	CHECK_EQ(ferroce_dv_histogram_start(NULL), EINVAL);
	CHECK_EQ(ferroce_dv_histogram_read(e->qp, &histogram, sizeof(histogram)), ENODATA);
	CHECK_EQ(ferroce_dv_histogram_stop(e->qp), ENODATA);
	CHECK_EQ(ferroce_dv_histogram_start(e->qp), 0);
	CHECK_EQ(ferroce_dv_histogram_read(e->qp, NULL, sizeof(histogram)), EINVAL);
	CHECK_EQ(ferroce_dv_histogram_read(e->qp, &histogram, 3), EINVAL);
	CHECK_EQ(ferroce_dv_completion_callback(NULL, NULL, NULL), EINVAL);
	// There is none, and there is none afterwards.
	CHECK_EQ(ferroce_dv_completion_callback(e->context, NULL, NULL), 0);
	close(file);
}

// A child has its parent's objects, which are not its own.
static void forked(void)
{
	struct options options = {0};
	struct endpoint *e = open_endpoint(&options);
	int status;
	pid_t child = fork();

	if (child == 0) {
		struct ferroce_dv_qp_attr attr;

		_exit(ferroce_dv_query_qp(e->qp, &attr, sizeof(attr)) != EIO ||
		      ferroce_dv_histogram_start(e->qp) != EIO ||
		      ferroce_dv_fault_add(e->context, NULL, "loss = '1%'\ncount = 1\npid = 1", NULL) != EIO);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child, "fork: %s", strerror(errno));
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child's status is %#x", status);
	query(e->qp);
}

// Five messages, into the file that is named, which somebody else takes apart.
static void capture(void)
{
	struct options options = {0}, second = {.share_plus_one = 1};
	struct address remote;
	struct endpoint *e = open_pair(&options, &options, NULL, &remote);
	const char *path = getenv("CAPTURE_FILE");
	int file = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600) : fileno(tmpfile());
	struct ferroce_dv_capture *of_device, *of_qp;
	uint64_t packets = 0, dropped = 7, fewer = 0;
	struct stat size;

	send_one(e, &remote, 0);
	CHECK((of_device = ferroce_dv_capture_start(e->context, NULL, file, FERROCE_DV_CAPTURE_VERBS)), "%s",
	      ferroce_dv_error());
	CHECK((of_qp = ferroce_dv_capture_start(e->context, open_endpoint(&second)->qp, fileno(tmpfile()), 0)),
	      "another one beside it: %s", ferroce_dv_error());
	for (int i = 1; i <= 5; i++)
		send_one(e, &remote, i);
	CHECK(ferroce_dv_capture_stop(of_device, &packets, &dropped) == 0, "%s", ferroce_dv_error());
	CHECK(packets >= 6, "%llu packets", (unsigned long long)packets);
	CHECK_EQ(dropped, 0);
	CHECK_EQ(ferroce_dv_capture_stop(of_qp, &fewer, NULL), 0);
	CHECK_EQ(fewer, 0);
	CHECK(fstat(file, &size) == 0 && size.st_size > 5 * MESSAGE, "%lld bytes", (long long)size.st_size);
	send_one(e, &remote, 6);
}

// A file that takes nothing any more: an error at the end, and no signal in between.
static void capture_into_nothing(void)
{
	struct options options = {0};
	struct address remote;
	struct endpoint *e = open_pair(&options, &options, NULL, &remote);
	struct ferroce_dv_capture *capture;
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	CHECK((capture = ferroce_dv_capture_start(e->context, e->qp, ends[1], 0)), "%s", ferroce_dv_error());
	close(ends[0]);
	close(ends[1]);
	send_one(e, &remote, 1);
	CHECK_EQ(ferroce_dv_capture_stop(capture, NULL, NULL), EPIPE);
	CHECK(strstr(ferroce_dv_error(), "writing packets"), "says: %s", ferroce_dv_error());
}

static void sum_up(struct ferroce_dv_histogram *histogram, struct ibv_qp *qp, uint64_t wanted)
{
	uint64_t sum = 0, least = 0;

	CHECK(ferroce_dv_histogram_read(qp, histogram, sizeof(*histogram)) == 0, "%s", ferroce_dv_error());
	for (unsigned i = 0; i < FERROCE_DV_BUCKETS; i++) {
		sum += histogram->buckets[i];
		least += histogram->buckets[i] * ferroce_dv_histogram_floor(i);
	}
	CHECK_EQ(histogram->count, wanted);
	CHECK_EQ(sum, wanted);
	CHECK(least <= histogram->sum_ns && histogram->sum_ns <= least + least / 16 + wanted, "%llu ns, by buckets %llu",
	      (unsigned long long)histogram->sum_ns, (unsigned long long)least);
	CHECK(histogram->min_ns <= histogram->max_ns && histogram->max_ns <= histogram->sum_ns, "the longest is %llu ns",
	      (unsigned long long)histogram->max_ns);
}

static void histogram(void)
{
	struct options options = {.unsignaled = true};
	struct address remote;
	struct endpoint *e = open_pair(&options, &options, NULL, &remote);
	struct ferroce_dv_histogram histogram;
	uint64_t begun;
	uint32_t fault;

	for (unsigned i = 0; i < FERROCE_DV_BUCKETS; i++)
		CHECK(ferroce_dv_histogram_floor(i) < ferroce_dv_histogram_floor(i + 1), "bucket %u", i);
	CHECK_EQ(ferroce_dv_histogram_floor(0), 0);
	CHECK_EQ(ferroce_dv_histogram_floor(FERROCE_DV_BUCKETS - 1), (1LL << 40) - (1LL << 35));

	// What was posted before is not counted, nor what raises no completion.
	for (int i = 0; i < 10; i++)
		CHECK_EQ(post(e, 1, IBV_WR_RDMA_WRITE, 0, MESSAGE, &remote, 0, i % 2 ? IBV_SEND_SIGNALED : 0), 0);
	CHECK_EQ(ferroce_dv_histogram_start(e->qp), 0);
	begun = now_ms();
	for (int i = 0; i < MANY; i++) {
		CHECK_EQ(post(e, 2, IBV_WR_RDMA_WRITE, 0, MESSAGE, &remote, 0, 0), 0);
		CHECK_EQ(post(e, 3, IBV_WR_RDMA_WRITE, 0, MESSAGE, &remote, 0, IBV_SEND_SIGNALED), 0);
		if (i == 0)
			for (int before = 0; before < 5; before++)
				expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);
		expect_wc(e->send_cq, 3, IBV_WC_SUCCESS);
	}
	sum_up(&histogram, e->qp, MANY);
	CHECK(histogram.sum_ns <= (now_ms() - begun + 1) * 1000000, "longer than the program ran");

	// Anew, and slower: each ACK comes later by 20 ms.
	CHECK_EQ(ferroce_dv_histogram_start(e->qp), 0);
	sum_up(&histogram, e->qp, 0);
	CHECK(ferroce_dv_fault_add(e->context, e->qp, "delay = '20ms'\nin = true", &fault) == 0, "%s", ferroce_dv_error());
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(post(e, i, IBV_WR_RDMA_WRITE, 0, MESSAGE, &remote, 0, IBV_SEND_SIGNALED), 0);
		expect_wc(e->send_cq, i, IBV_WC_SUCCESS);
	}
	CHECK_EQ(ferroce_dv_fault_clear(e->context, fault), 0);
	sum_up(&histogram, e->qp, 5);
	CHECK(histogram.min_ns >= 20000000, "%llu ns at least", (unsigned long long)histogram.min_ns);

	// What fails is no latency.
	CHECK_EQ(post(e, 9, IBV_WR_RDMA_WRITE, 0, MESSAGE, &(struct address){.va = remote.va, .rkey = ~remote.rkey}, 0,
		      IBV_SEND_SIGNALED), 0);
	expect_wc(e->send_cq, 9, IBV_WC_REM_ACCESS_ERR);
	sum_up(&histogram, e->qp, 5);
	CHECK_EQ(ferroce_dv_histogram_stop(e->qp), 0);
	CHECK_EQ(ferroce_dv_histogram_read(e->qp, &histogram, sizeof(histogram)), ENODATA);
}

// What the callback has seen.
static struct seen {
	struct ibv_context *context;
	pthread_t by;
	unsigned count;
	int ended;
	struct ferroce_dv_completion all[4 * MANY];
} seen;

static void keep(const struct ferroce_dv_completion *completion, void *arg)
{
	struct seen *to = arg;

	if (to->count == 0)
		to->ended = ferroce_dv_completion_callback(to->context, NULL, NULL);
	to->by = pthread_self();
	to->all[to->count++] = *completion;
}

static void callback(void)
{
	struct options options = {0}, second = {.share_plus_one = 1};
	struct endpoint *a = open_endpoint(&options), *b = open_endpoint(&second);
	struct address to_a = address_of(a), to_b = address_of(b);
	struct ibv_cq *queues[] = {a->send_cq, b->recv_cq, b->send_cq, a->recv_cq};
	uint64_t polled[4] = {0};

	connect_endpoint(a, &to_b, NULL);
	connect_endpoint(b, &to_a, NULL);
	seen.context = a->context;
	CHECK(ferroce_dv_completion_callback(a->context, keep, &seen) == 0, "%s", ferroce_dv_error());
	CHECK_EQ(ferroce_dv_completion_callback(a->context, keep, &seen), EBUSY);
	for (int i = 0; i < MANY; i++) {
		CHECK_EQ(post_recv(b, i, 0, MESSAGE), 0);
		CHECK_EQ(post_recv(a, i, 0, MESSAGE), 0);
		CHECK_EQ(post(a, i, IBV_WR_SEND, 0, MESSAGE, &to_b, 0, IBV_SEND_SIGNALED), 0);
		CHECK_EQ(post(b, i, IBV_WR_SEND, 0, MESSAGE, &to_a, 0, IBV_SEND_SIGNALED), 0);
		for (int queue = 0; queue < 4; queue++)
			expect_wc(queues[queue], i, IBV_WC_SUCCESS);
	}
	CHECK(ferroce_dv_completion_callback(a->context, NULL, NULL) == 0, "%s", ferroce_dv_error());

	CHECK_EQ(seen.ended, EDEADLK);
	CHECK_EQ(seen.count, 4 * MANY);
	CHECK(!pthread_equal(seen.by, pthread_self()), "called by the program's own thread");
	for (unsigned i = 0; i < seen.count; i++) {
		const struct ferroce_dv_completion *now = &seen.all[i];
		int queue = 0;

		CHECK_EQ(now->sequence, i + 1);
		CHECK(i == 0 || now->time_ns >= seen.all[i - 1].time_ns, "time goes back at %u", i);
		while (queue < 4 && queues[queue] != now->cq)
			queue++;
		CHECK(queue < 4, "completion %u is of another queue", i);
		CHECK_EQ(now->wc.wr_id, polled[queue]++);
		CHECK_EQ(now->wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(now->wc.opcode, queue % 2 ? IBV_WC_RECV : IBV_WC_SEND);
		CHECK_EQ(now->wc.qp_num, queue == 0 || queue == 3 ? a->qp->qp_num : b->qp->qp_num);
	}

	// Nobody is called any more, and another one may be.
	CHECK_EQ(post_recv(b, 1, 0, MESSAGE), 0);
	CHECK_EQ(post(a, 1, IBV_WR_SEND, 0, MESSAGE, &to_b, 0, IBV_SEND_SIGNALED), 0);
	expect_wc(a->send_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(seen.count, 4 * MANY);
	seen.count = 0;
	CHECK_EQ(ferroce_dv_completion_callback(a->context, keep, &seen), 0);
	CHECK_EQ(set_state(a->qp, IBV_QPS_ERR), 0);
	CHECK_EQ(post(a, 2, IBV_WR_SEND, 0, MESSAGE, &to_b, 0, IBV_SEND_SIGNALED), 0);
	CHECK_EQ(ferroce_dv_completion_callback(a->context, NULL, NULL), 0);
	CHECK_EQ(seen.count, 1);
	CHECK_EQ(seen.all[0].sequence, 1);
	CHECK_EQ(seen.all[0].wc.status, IBV_WC_WR_FLUSH_ERR);
}

// The callback may use verbs, and a context may be closed with one.
static void answer(const struct ferroce_dv_completion *completion, void *arg)
{
	struct endpoint *e = arg;
	struct ibv_wc wc;

	if (completion->cq == e->recv_cq && completion->wc.status == IBV_WC_SUCCESS) {
		post_recv(e, completion->wc.wr_id, 0, MESSAGE);
		while (ibv_poll_cq(e->recv_cq, 1, &wc) > 0)
			;
	}
}

static void pass_over(const struct ferroce_dv_completion *completion, void *arg)
{
	(void)completion;
	(void)arg;
}

static void callback_with_verbs(void)
{
	struct options options = {0};
	struct endpoint *a = open_endpoint(&options), *b = open_endpoint(&options);
	struct address to_a = address_of(a), to_b = address_of(b);

	connect_endpoint(a, &to_b, NULL);
	connect_endpoint(b, &to_a, NULL);
	CHECK_EQ(ferroce_dv_completion_callback(b->context, answer, b), 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(post_recv(b, i, 0, MESSAGE), 0);
	for (int i = 0; i < MANY; i++) {
		CHECK_EQ(post(a, i, IBV_WR_SEND, 0, MESSAGE, &to_b, 0, IBV_SEND_SIGNALED), 0);
		expect_wc(a->send_cq, i, IBV_WC_SUCCESS);
	}
	CHECK_EQ(ferroce_dv_completion_callback(b->context, NULL, NULL), 0);
	CHECK_EQ(ferroce_dv_completion_callback(a->context, pass_over, NULL), 0);
	close_endpoint(a);
	close_endpoint(b);
}

PROGRAM({"device", device, 0}, {"another_provider", another_provider, 0}, {"states", states, 0},
	{"traffic", traffic, 0}, {"sizes", sizes, 0}, {"lost_ack", lost_ack, 0}, {"for_whom", for_whom, 0},
	{"spoilt_uc", spoilt_uc, 0},
	{"refused", refused, 0}, {"forked", forked, 0}, {"capture", capture, 0},
	{"capture_into_nothing", capture_into_nothing, 0}, {"histogram", histogram, 0},
	{"callback", callback, 0}, {"callback_with_verbs", callback_with_verbs, 0})
