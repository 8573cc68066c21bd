// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A long transfer between two processes with every byte checked, for tests that disturb it from outside.
//
//   stream server PORT                 serves one client
//   stream client PORT HOST [SECONDS]  streams to it: for SECONDS, or until the connection dies
//
// Both directions carry WRITEs with immediate data whose content follows from a counter. Each side checks every byte
// that it received and then says so with an empty WRITE with immediate, upon which the slot may be written again.
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

enum { SLOTS = 8, SLOT = 200000 };

// What the immediate data says.
enum { DATA, LAST, CHECKED };

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

static struct endpoint *e;
static struct address to;
static uint32_t posted, completed;

static void write_with_imm(size_t offset, size_t length, size_t remote_offset, uint32_t imm)
{
	struct ibv_sge sge = sge_of(e, offset, length);
	struct ibv_send_wr wr = {
		.wr_id = posted++, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.imm_data = htonl(imm), .wr.rdma = {to.va + remote_offset, to.rkey},
	}, *bad;
	int result = ibv_post_send(e->qp, &wr, &bad);

	CHECK(result == 0, "posting: %s", strerror(result));
}

// The connection died: only with "retry exceeded", and everything after it is flushed.
static void died(const struct ibv_wc *first)
{
	CHECK(first->status == IBV_WC_RETRY_EXC_ERR, "the first failure is %d (%s)", first->status,
	      ibv_wc_status_str(first->status));
	CHECK_EQ(first->wr_id, completed);
	for (uint32_t id = completed + 1; id < posted; id++)
		expect_wc(e->send_cq, id, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(state_of(e->qp), IBV_QPS_ERR);
	// Posted now, it is flushed as well.
	write_with_imm(0, 0, 0, DATA);
	expect_wc(e->send_cq, posted - 1, IBV_WC_WR_FLUSH_ERR);
	printf("retry exceeded, then flushed\n");
}

// The buffer: SLOTS slots that we write from, then SLOTS slots that the other writes to.
static void stream(uint64_t milliseconds)
{
	const size_t theirs = (size_t)SLOTS * SLOT;
	uint32_t sent = 0, checked = 0, received = 0;
	uint64_t end = milliseconds ? now_ms() + milliseconds : UINT64_MAX, heard = now_ms();
	bool last_sent = false, last_seen = false;
	struct ibv_wc wc;

	while (!(last_sent && last_seen && checked == sent && completed == posted)) {
		if (!last_sent && sent < checked + SLOTS) {
			size_t slot = sent % SLOTS * (size_t)SLOT;

			last_sent = last_seen || now_ms() >= end;
			fill(e->buffer + slot, SLOT, sent);
			write_with_imm(slot, SLOT, theirs + slot, last_sent ? LAST : DATA);
			sent++;
		}
		if (ibv_poll_cq(e->recv_cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS) {
			heard = now_ms();
			CHECK_EQ(post_recv(e, 0, 0, 0), 0);
			if (ntohl(wc.imm_data) == CHECKED) {
				checked++;
			} else {
				check_filled(e->buffer + theirs + received % SLOTS * (size_t)SLOT, SLOT, received, "streamed");
				last_seen |= ntohl(wc.imm_data) == LAST;
				write_with_imm(0, 0, 0, CHECKED);
				if (++received == 20) {
					printf("streaming\n");
					fflush(stdout);
				}
			}
		}
		if (ibv_poll_cq(e->send_cq, 1, &wc) == 1) {
			if (wc.status != IBV_WC_SUCCESS)
				return died(&wc);
			CHECK_EQ(wc.wr_id, completed);
			completed++;
		}
		// All is acknowledged and the other is silent: only a further request can show whether it lives.
		if (completed == posted && now_ms() - heard > 1000) {
			CHECK_EQ(post(e, posted++, IBV_WR_RDMA_WRITE, 0, 0, &to, 0, 0), 0);
			heard = now_ms();
		}
	}
	printf("%u messages each way, all right\n", received);
}

int main(int argc, char **argv)
{
	struct options options = {.size = 2ul * SLOTS * SLOT};
	struct ibv_port_attr port;
	struct connection connection;
	struct address mine;
	uint64_t milliseconds = argc > 4 ? atoi(argv[4]) * 1000ull : 0;
	int fd;

	if (argc < 3 || (strcmp(argv[1], "server") != 0 && argc < 4)) {
		fprintf(stderr, "usage: stream server PORT | client PORT HOST [SECONDS]\n");
		return 2;
	}
	alarm(120);
	e = open_endpoint(&options);
	mine = address_of(e);
	fd = strcmp(argv[1], "server") == 0 ? accept_one(atoi(argv[2])) : connect_to(argv[3], argv[2]);
	send_all(fd, &mine, sizeof(mine));
	CHECK(receive_all(fd, &to, sizeof(to)), "the other end hung up");
	// Packets as large as the link takes.
	CHECK_EQ(ibv_query_port(e->qp->context, 1, &port), 0);
	connection = (struct connection){.mtu = port.active_mtu};
	connect_endpoint(e, &to, &connection);
	for (int i = 0; i < 4 * SLOTS; i++)
		CHECK_EQ(post_recv(e, 0, 0, 0), 0);
	// Both are ready to receive now.
	send_all(fd, "r", 1);
	CHECK(receive_all(fd, &(char){0}, 1), "the other end hung up");
	stream(milliseconds);
	return 0;
}
