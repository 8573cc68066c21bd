// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A long transfer between two processes with every byte checked, for tests that disturb it from
// outside.
//
//   stream server PORT                 serves one client
//   stream client PORT HOST [SECONDS]  streams to it: for SECONDS, or until the connection dies
//
// Both directions carry messages whose content follows from a counter, by RDMA WRITE with immediate
// data, by SEND with immediate data, and by RDMA READ of what an empty WRITE with immediate offers,
// in turn. Each side checks every byte that it received and then says so with an empty WRITE with
// immediate, upon which the slot may be used again. With SECONDS, the end is orderly. Without, an
// end is expected: the first failed completion must be IBV_WC_RETRY_EXC_ERR and everything after it
// IBV_WC_WR_FLUSH_ERR; the program says so and exits with 0.

#include "endpoint.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// Of the receives half are for what is not SENT.
enum { SLOTS = 8, SLOT = 200000, RECVS = 4 * SLOTS };

// Where the buffer has the slots that we send from, those that the other writes to or that we read
// into, and receives.
enum { OURS = 0, THEIRS = OURS + SLOTS * SLOT, RECEIVED = THEIRS + SLOTS * SLOT, BYTES = RECEIVED + RECVS * SLOT };

// What the immediate data says: how the message comes, or that it was checked; and with it, that it
// is the last.
enum { WRITTEN, SENT, OFFERED, WAYS, CHECKED = WAYS, LAST = 1 << 8 };

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

static void post_with_imm(enum ibv_wr_opcode opcode, size_t offset, size_t length, size_t remote_offset, uint32_t imm)
{
	struct ibv_sge sge = sge_of(e, offset, length);
	struct ibv_send_wr wr = {
		.wr_id = posted++, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .imm_data = htonl(imm),
	}, *bad;

	if (opcode != IBV_WR_SEND_WITH_IMM)
		wr.wr.rdma.remote_addr = to.va + remote_offset, wr.wr.rdma.rkey = to.rkey;
	int result = ibv_post_send(e->qp, &wr, &bad);

	CHECK(result == 0, "posting: %s", strerror(result));
}

static void write_empty(uint32_t imm)
{
	post_with_imm(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 0, imm);
}

// The connection died: only with "retry exceeded", and everything after it is flushed.
static bool died(const struct ibv_wc *first)
{
	CHECK(first->status == IBV_WC_RETRY_EXC_ERR, "the first failure is %d (%s)", first->status,
	      ibv_wc_status_str(first->status));
	CHECK_EQ(first->wr_id, completed);
	for (uint32_t id = completed + 1; id < posted; id++)
		expect_wc(e->send_cq, id, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(state_of(e->qp), IBV_QPS_ERR);
	// Posted now, it is flushed as well.
	write_empty(WRITTEN);
	expect_wc(e->send_cq, posted - 1, IBV_WC_WR_FLUSH_ERR);
	printf("retry exceeded, then flushed\n");
	return false;
}

static void post_receive(uint32_t n)
{
	CHECK_EQ(post_recv(e, n, RECEIVED + n % RECVS * (size_t)SLOT, SLOT), 0);
}

// Message `n` of ours.
static void say(uint32_t n, bool last)
{
	size_t slot = n % SLOTS * (size_t)SLOT;
	uint32_t imm = n % WAYS | (last ? LAST : 0);

	fill(e->buffer + OURS + slot, SLOT, n);
	switch (n % WAYS) {
	case WRITTEN:
		return post_with_imm(IBV_WR_RDMA_WRITE_WITH_IMM, OURS + slot, SLOT, THEIRS + slot, imm);
	case SENT:
		return post_with_imm(IBV_WR_SEND_WITH_IMM, OURS + slot, SLOT, 0, imm);
	default:
		return write_empty(imm);
	}
}

// Whether it ended in order.
static bool stream(uint64_t milliseconds)
{
	uint32_t sent = 0, checked = 0, received = 0, receives = 0, read_id = 0;
	uint64_t end = milliseconds ? now_ms() + milliseconds : UINT64_MAX, heard = now_ms();
	bool last_sent = false, last_seen = false, last_read = false, reading = false;
	struct ibv_wc wc;

	while (!(last_sent && last_seen && checked == sent && completed == posted)) {
		const char *arrived = NULL;

		if (!last_sent && sent < checked + SLOTS) {
			last_sent = last_seen || now_ms() >= end;
			say(sent++, last_sent);
		}
		// What is offered is read before anything else is looked at: so all is checked in
		// its order.
		if (!reading && ibv_poll_cq(e->recv_cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS) {
			uint32_t imm = ntohl(wc.imm_data);
			size_t slot = received % SLOTS * (size_t)SLOT;

			heard = now_ms();
			CHECK_EQ(wc.wr_id, receives);
			switch (imm & ~LAST) {
			case CHECKED:
				checked++;
				break;
			case OFFERED:
				read_id = posted++;
				CHECK_EQ(post(e, read_id, IBV_WR_RDMA_READ, THEIRS + slot, SLOT, &to, OURS + slot, 0), 0);
				reading = true;
				last_read = imm & LAST;
				break;
			case SENT:
				CHECK_EQ(wc.byte_len, SLOT);
				arrived = e->buffer + RECEIVED + receives % RECVS * (size_t)SLOT;
				last_seen |= imm & LAST;
				break;
			default:
				arrived = e->buffer + THEIRS + slot;
				last_seen |= imm & LAST;
			}
			if (arrived)
				check_filled(arrived, SLOT, received, "streamed");
			post_receive(RECVS + receives++);
		}
		if (ibv_poll_cq(e->send_cq, 1, &wc) == 1) {
			if (wc.status != IBV_WC_SUCCESS)
				return died(&wc);
			CHECK_EQ(wc.wr_id, completed);
			completed++;
			if (reading && wc.wr_id == read_id) {
				arrived = e->buffer + THEIRS + received % SLOTS * (size_t)SLOT;
				check_filled(arrived, SLOT, received, "streamed");
				reading = false;
				last_seen |= last_read;
			}
		}
		if (arrived) {
			write_empty(CHECKED);
			if (++received == 20) {
				printf("streaming\n");
				fflush(stdout);
			}
		}
		// All is acknowledged and the other is silent: only a further request can show
		// whether it lives.
		if (completed == posted && now_ms() - heard > 1000) {
			CHECK_EQ(post(e, posted++, IBV_WR_RDMA_WRITE, 0, 0, &to, 0, 0), 0);
			heard = now_ms();
		}
	}
	printf("%u messages each way, all right\n", received);
	return true;
}

int main(int argc, char **argv)
{
	struct options options = {.size = BYTES};
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
	for (uint32_t i = 0; i < RECVS; i++)
		post_receive(i);
	// Both are ready to receive now.
	send_all(fd, "r", 1);
	CHECK(receive_all(fd, &(char){0}, 1), "the other end hung up");
	// The last acknowledgement to the other may have been lost: only while our queue pair is there
	// can it be had again.
	if (stream(milliseconds)) {
		send_all(fd, "d", 1);
		CHECK(receive_all(fd, &(char){0}, 1), "the other end did not come to its end");
	}
	return 0;
}
