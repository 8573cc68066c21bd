// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A long transfer between two processes with every byte checked, for tests that disturb it from outside.
//
//   stream server PORT                 serves one client
//   stream client PORT HOST [SECONDS]  streams to it: for SECONDS, or until the connection dies
//
// Both directions carry WRITEs with immediate data whose content follows from a counter; each side checks what it
// received; message n of one side says that the other's message n was checked, so its slot may be used again.
// With SECONDS, the end is orderly. Without, an end is expected: the first failed completion must be
// IBV_WC_RETRY_EXC_ERR and everything after it IBV_WC_WR_FLUSH_ERR; the program says so and exits with 0.

#include "endpoint.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SLOTS = 8, SLOT = 200000, LAST = 0x7fffffff, PROBE = 0x70000000 };

static int accept_one(int port)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int listener = socket(AF_INET6, SOCK_STREAM, 0), one = 1, fd;

	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 1)) {
		// No IPv6 here.
		struct sockaddr_in plain = {.sin_family = AF_INET, .sin_port = htons(port)};

		close(listener);
		listener = socket(AF_INET, SOCK_STREAM, 0);
		setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		CHECK(bind(listener, (struct sockaddr *)&plain, sizeof(plain)) == 0 && listen(listener, 1) == 0,
		      "listening on port %d: %s", port, strerror(errno));
	}
	CHECK((fd = accept(listener, NULL, NULL)) >= 0, "accept: %s", strerror(errno));
	close(listener);
	return fd;
}

static int connect_to(const char *host, const char *port)
{
	struct addrinfo *list, hints = {.ai_socktype = SOCK_STREAM};
	int fd;

	CHECK(getaddrinfo(host, port, &hints, &list) == 0, "no such host: %s", host);
	fd = socket(list->ai_family, SOCK_STREAM, 0);
	CHECK(connect(fd, list->ai_addr, list->ai_addrlen) == 0, "connecting to %s: %s", host, strerror(errno));
	freeaddrinfo(list);
	return fd;
}

// Collects what is left after the first failure; true if all of it was flushed.
static bool rest_is_flushed(struct endpoint *e, unsigned outstanding)
{
	uint64_t deadline = now_ms() + 5000;
	struct ibv_wc wc;

	while (outstanding && now_ms() < deadline) {
		if (ibv_poll_cq(e->send_cq, 1, &wc) != 1)
			continue;
		if (wc.status != IBV_WC_WR_FLUSH_ERR)
			return false;
		outstanding--;
	}
	return outstanding == 0;
}

// The buffer: SLOTS slots that we write from, then SLOTS slots that the other writes to.
static void stream(struct endpoint *e, const struct address *to, uint64_t milliseconds)
{
	uint32_t sent = 0, completed = 0, received = 0;
	uint64_t end = now_ms() + milliseconds;
	bool last_sent = false, last_seen = false, probing = false;
	uint64_t idle_since = now_ms();
	struct ibv_wc wc;

	for (int i = 0; i < 4 * SLOTS; i++)
		CHECK_EQ(post_recv(e, i, 0, 0), 0);
	// A slot may be written again when its content has come back: each side answers message n with its own
	// message n, so at most SLOTS messages are ahead of what has been received.
	while (!(last_sent && last_seen && completed == sent)) {
		bool last = milliseconds && now_ms() >= end;

		if (!last_sent && sent - completed < SLOTS && sent < received + SLOTS) {
			size_t slot = sent % SLOTS * (size_t)SLOT;

			fill(e->buffer + slot, SLOT, sent);
			struct ibv_sge sge = sge_of(e, slot, SLOT);
			struct ibv_send_wr wr = {
				.wr_id = sent, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				.imm_data = htonl(last ? LAST : sent),
				.wr.rdma = {to->va + SLOTS * (size_t)SLOT + slot, to->rkey},
			}, *bad;

			CHECK_EQ(ibv_post_send(e->qp, &wr, &bad), 0);
			sent++;
			last_sent = last;
		}
		if (ibv_poll_cq(e->recv_cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS) {
			size_t slot = received % SLOTS * (size_t)SLOT;
			uint32_t number = ntohl(wc.imm_data);

			CHECK(number == received || number == LAST, "message %u came as number %u", received, number);
			check_filled(e->buffer + SLOTS * (size_t)SLOT + slot, SLOT, received, "streamed");
			last_seen |= number == LAST;
			// The other stops only when both have said so.
			if (last_seen && !last_sent && milliseconds == 0)
				milliseconds = 1, end = 0;
			received++;
			if (received == 20) {
				printf("streaming\n");
				fflush(stdout);
			}
			CHECK_EQ(post_recv(e, received, 0, 0), 0);
		}
		if (ibv_poll_cq(e->send_cq, 1, &wc) == 1) {
			if (wc.wr_id == PROBE)
				probing = false;
			if (wc.status == IBV_WC_SUCCESS) {
				completed += wc.wr_id != PROBE;
				continue;
			}
			CHECK(wc.status == IBV_WC_RETRY_EXC_ERR, "the first failure is %d (%s)", wc.status,
			      ibv_wc_status_str(wc.status));
			CHECK(rest_is_flushed(e, sent - completed - (wc.wr_id != PROBE)), "not everything after it was flushed");
			CHECK_EQ(state_of(e->qp), IBV_QPS_ERR);
			// Posted now, it is flushed as well.
			CHECK_EQ(post(e, 1, IBV_WR_RDMA_WRITE, 0, 8, to, 0, 0), 0);
			expect_wc(e->send_cq, 1, IBV_WC_WR_FLUSH_ERR);
			printf("retry exceeded, then flushed\n");
			return;
		}
		// All is acknowledged and the other sends nothing: only a further request can show whether it lives.
		if (completed != sent || probing) {
			idle_since = now_ms();
		} else if (now_ms() - idle_since > 1000) {
			CHECK_EQ(post(e, PROBE, IBV_WR_RDMA_WRITE, 0, 0, to, 0, 0), 0);
			probing = true;
		}
	}
	printf("%u messages each way, all right\n", received);
}

int main(int argc, char **argv)
{
	struct options options = {.size = 2ul * SLOTS * SLOT};
	struct address mine, theirs;
	struct endpoint *e;
	uint64_t milliseconds = argc > 4 ? atoi(argv[4]) * 1000ull : 0;
	int fd;

	if (argc < 3) {
		fprintf(stderr, "usage: stream server PORT | client PORT HOST [SECONDS]\n");
		return 2;
	}
	alarm(120);
	e = open_endpoint(&options);
	mine = address_of(e);
	fd = strcmp(argv[1], "server") == 0 ? accept_one(atoi(argv[2])) : connect_to(argv[3], argv[2]);
	send_all(fd, &mine, sizeof(mine));
	CHECK(receive_all(fd, &theirs, sizeof(theirs)), "the other end hung up");
	connect_endpoint(e, &theirs, NULL);
	// Both are ready to receive now.
	send_all(fd, "r", 1);
	CHECK(receive_all(fd, &(char){0}, 1), "the other end hung up");
	stream(e, &theirs, milliseconds);
	return 0;
}
