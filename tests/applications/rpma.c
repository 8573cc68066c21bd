// SPDX-License-Identifier: MIT OR Apache-2.0
//
// librpma between two ends: `rpma serve ADDRESS PORT` and `rpma ask ADDRESS PORT`. The one that
// asks reads half of the other's memory, writes to the other half, flushes, writes a word
// atomically, and reads all of it back. Both compare every byte.

#include <infiniband/verbs.h>
#include <librpma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HALF = 1 << 20, ALL = 2 * HALF, WORD = 4096, DESCRIPTOR = 255 };

static const char word[8] = "a word.";
static uint8_t memory[ALL] __attribute__((aligned(4096)));

#define DO(call) check(call, #call)

static void check(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: %s\n", what, rpma_err_2str(result));
	exit(1);
}

// What is in the half that was there, or that is written.
static uint8_t byte(size_t at)
{
	return at < HALF ? at * 167 + at / 251 : at * 59 + at / 241;
}

static void fill(size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		memory[i] = byte(i);
}

static void compare(size_t from, size_t to, bool with_word)
{
	for (size_t i = from; i < to; i++) {
		bool in_word = with_word && i >= WORD && i < WORD + sizeof(word);
		uint8_t wanted = in_word ? (uint8_t)word[i - WORD] : byte(i);

		if (memory[i] == wanted)
			continue;
		fprintf(stderr, "byte %zu is %d, not %d\n", i, memory[i], wanted);
		exit(1);
	}
}

static void event(struct rpma_conn *conn, enum rpma_conn_event wanted)
{
	enum rpma_conn_event event;

	DO(rpma_conn_next_event(conn, &event));
	if (event == wanted)
		return;
	fprintf(stderr, "%s, not %s\n", rpma_utils_conn_event_2str(event), rpma_utils_conn_event_2str(wanted));
	exit(1);
}

static struct rpma_peer *peer_at(const char *address, enum rpma_util_ibv_context_type type)
{
	struct ibv_context *context;
	struct rpma_peer *peer;

	DO(rpma_utils_get_ibv_context(address, type, &context));
	DO(rpma_peer_new(context, &peer));
	return peer;
}

static void serve(const char *address, const char *port)
{
	struct rpma_peer *peer = peer_at(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
	struct rpma_conn_private_data data;
	uint8_t descriptor[DESCRIPTOR];
	struct rpma_conn_req *request;
	struct rpma_mr_local *region;
	struct rpma_conn *conn;
	struct rpma_ep *end;
	size_t size;

	fill(HALF, ALL);
	DO(rpma_mr_reg(peer, memory, ALL,
		       RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY,
		       &region));
	DO(rpma_mr_get_descriptor_size(region, &size));
	if (size > sizeof(descriptor)) {
		fprintf(stderr, "a descriptor of %zu bytes\n", size);
		exit(1);
	}
	DO(rpma_mr_get_descriptor(region, descriptor));
	data.ptr = descriptor;
	data.len = size;
	DO(rpma_ep_listen(peer, address, port, &end));
	DO(rpma_ep_next_conn_req(end, NULL, &request));
	DO(rpma_conn_req_connect(&request, &data, &conn));
	event(conn, RPMA_CONN_ESTABLISHED);
	event(conn, RPMA_CONN_CLOSED);
	compare(0, ALL, true);
	puts("ok was written to");

	DO(rpma_conn_disconnect(conn));
	DO(rpma_conn_delete(&conn));
	DO(rpma_ep_shutdown(&end));
	DO(rpma_mr_dereg(&region));
	DO(rpma_peer_delete(&peer));
}

// Waits for the completion of a request that is known by what it is called.
static void done(struct rpma_conn *conn, const char *what)
{
	struct rpma_cq *cq;
	struct ibv_wc wc;

	DO(rpma_conn_get_cq(conn, &cq));
	DO(rpma_cq_wait(cq));
	DO(rpma_cq_get_wc(cq, 1, &wc, NULL));
	if (wc.status == IBV_WC_SUCCESS && (const char *)(uintptr_t)wc.wr_id == what) {
		printf("ok %s\n", what);
		return;
	}
	fprintf(stderr, "%s: %s\n", what, ibv_wc_status_str(wc.status));
	exit(1);
}

static void ask(const char *address, const char *port)
{
	static const char read[] = "read", flush[] = "flush", atomic[] = "atomic write", again[] = "read again";
	struct rpma_peer *peer = peer_at(address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
	struct rpma_conn_private_data data;
	struct rpma_conn_req *request;
	struct rpma_mr_remote *there;
	struct rpma_mr_local *here;
	struct rpma_conn *conn;

	DO(rpma_mr_reg(peer, memory, ALL, RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC, &here));
	DO(rpma_conn_req_new(peer, address, port, NULL, &request));
	DO(rpma_conn_req_connect(&request, NULL, &conn));
	event(conn, RPMA_CONN_ESTABLISHED);
	DO(rpma_conn_get_private_data(conn, &data));
	DO(rpma_mr_remote_from_descriptor(data.ptr, data.len, &there));

	DO(rpma_read(conn, here, HALF, there, HALF, HALF, RPMA_F_COMPLETION_ALWAYS, read));
	done(conn, read);
	compare(HALF, ALL, false);

	fill(0, HALF);
	DO(rpma_write(conn, there, 0, here, 0, HALF, RPMA_F_COMPLETION_ON_ERROR, NULL));
	DO(rpma_flush(conn, there, 0, HALF, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS, flush));
	done(conn, flush);
	DO(rpma_atomic_write(conn, there, WORD, word, RPMA_F_COMPLETION_ALWAYS, atomic));
	done(conn, atomic);

	memset(memory, 0, ALL);
	DO(rpma_read(conn, here, 0, there, 0, ALL, RPMA_F_COMPLETION_ALWAYS, again));
	done(conn, again);
	compare(0, ALL, true);

	DO(rpma_conn_disconnect(conn));
	event(conn, RPMA_CONN_CLOSED);
	DO(rpma_mr_remote_delete(&there));
	DO(rpma_conn_delete(&conn));
	DO(rpma_mr_dereg(&here));
	DO(rpma_peer_delete(&peer));
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "serve")) {
		serve(argv[2], argv[3]);
	} else if (argc == 4 && !strcmp(argv[1], "ask")) {
		ask(argv[2], argv[3]);
	} else {
		fprintf(stderr, "usage: rpma serve|ask ADDRESS PORT\n");
		return 2;
	}
	return 0;
}
