// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Packets made by hand and sent to the device's UDP port: a good one is received, and each that
// differs from it in one thing is dropped, and counted where there is a counter for it.

#include "endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROCE_PORT = 4791, BTH = 12, DETH = 8, ICRC = 4, UD_SEND_ONLY = 0x64, RC_SEND_ONLY = 0x04, PAYLOAD = 64 };

// A datagram from BTH to ICRC.
struct packet {
	unsigned char bytes[5000];
	size_t length; // without the ICRC
};

static int udp;
static struct sockaddr_in from, to;

static void put32(unsigned char *at, uint32_t value)
{
	value = htonl(value);
	memcpy(at, &value, 4);
}

static struct packet good(const struct endpoint *e)
{
	struct packet p = {.length = BTH + DETH + PAYLOAD};

	p.bytes[0] = UD_SEND_ONLY;
	p.bytes[2] = 0xff;
	p.bytes[3] = 0xff;
	put32(p.bytes + 4, e->qp->qp_num);
	put32(p.bytes + 8, 77);
	put32(p.bytes + BTH, e->qkey);
	put32(p.bytes + BTH + 4, 0x123456);
	memset(p.bytes + BTH + DETH, 0x5a, PAYLOAD);
	return p;
}

static uint32_t crc(uint32_t value, const unsigned char *bytes, size_t length)
{
	while (length--) {
		value ^= *bytes++;
		for (int i = 0; i < 8; i++)
			value = value & 1 ? value >> 1 ^ 0xedb88320 : value >> 1;
	}
	return value;
}

// Over what is the same on the whole way: an unconnected socket that must not fragment sends with
// identification 0.
static uint32_t icrc(const struct packet *p)
{
	unsigned char ip[20] = {0x45, 0xff}, headers[8], first[8], bth[BTH];
	uint16_t total = htons(20 + 8 + p->length + ICRC), payload = htons(8 + p->length + ICRC);
	uint32_t value;

	memset(first, 0xff, sizeof(first));
	memcpy(ip + 2, &total, 2);
	ip[6] = 0x40;
	ip[8] = 0xff;
	ip[9] = IPPROTO_UDP;
	ip[10] = ip[11] = 0xff;
	memcpy(ip + 12, &from.sin_addr, 4);
	memcpy(ip + 16, &to.sin_addr, 4);
	memcpy(headers, &from.sin_port, 2);
	memcpy(headers + 2, &to.sin_port, 2);
	memcpy(headers + 4, &payload, 2);
	headers[6] = headers[7] = 0xff;
	memcpy(bth, p->bytes, BTH);
	bth[4] = 0xff;
	value = crc(0xffffffff, first, sizeof(first));
	value = crc(value, ip, sizeof(ip));
	value = crc(value, headers, sizeof(headers));
	value = crc(value, bth, BTH);
	return ~crc(value, p->bytes + BTH, p->length - BTH);
}

static void transmit(struct packet p, uint32_t damage)
{
	uint32_t check = icrc(&p) ^ damage;

	for (int i = 0; i < ICRC; i++)
		p.bytes[p.length++] = check >> 8 * i;
	CHECK(sendto(udp, p.bytes, p.length, 0, (struct sockaddr *)&to, sizeof(to)) == (ssize_t)p.length, "sendto: %s",
	      strerror(errno));
}

static struct endpoint *receiver(void)
{
	struct endpoint *e = open_endpoint(&(struct options){.qp_type = IBV_QPT_UD});
	struct address self = address_of(e);
	static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
	int always = IP_PMTUDISC_DO;
	socklen_t length = sizeof(from);

	if (memcmp(e->gid.raw, mapped, 12) != 0)
		skip("the device has no address of IPv4");
	connect_endpoint(e, &self, NULL);
	for (int i = 0; i < 64; i++)
		CHECK_EQ(post_recv(e, i, 0, 8192), 0);
	to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(ROCE_PORT)};
	memcpy(&to.sin_addr, e->gid.raw + 12, 4);
	from = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = to.sin_addr};
	udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(udp >= 0, "socket: %s", strerror(errno));
	CHECK_EQ(setsockopt(udp, IPPROTO_IP, IP_MTU_DISCOVER, &always, sizeof(always)), 0);
	CHECK_EQ(bind(udp, (struct sockaddr *)&from, sizeof(from)), 0);
	CHECK_EQ(getsockname(udp, (struct sockaddr *)&from, &length), 0);
	return e;
}

// The next completion is that of a good packet: what was sent before it was dropped.
static void only_this_arrives(struct endpoint *e)
{
	struct packet p = good(e);

	put32(p.bytes + BTH + 4, 0xabcdef);
	transmit(p, 0);
	struct ibv_wc wc = wait_wc(e->recv_cq);

	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK(wc.src_qp == 0xabcdef, "what must be dropped was received");
	CHECK_EQ(wc.byte_len, GRH_SIZE + PAYLOAD);
	expect_no_wc(e->recv_cq, 5);
}

static void counts(const char *name, long long wanted)
{
	uint64_t deadline = now_ms() + 5000;
	long long seen;

	while ((seen = counter(name)) < wanted && now_ms() < deadline)
		usleep(20000);
	CHECK(seen == wanted, "%s is %lld, not %lld", name, seen, wanted);
}

static void good_ones(void)
{
	struct endpoint *e = receiver();
	struct packet p = good(e);

	only_this_arrives(e);
	transmit(p, 0);
	struct ibv_wc wc = expect_wc(e->recv_cq, 1, IBV_WC_SUCCESS);

	CHECK_EQ(wc.src_qp, 0x123456);
	CHECK(wc.wc_flags & IBV_WC_GRH, "no GRH");
	for (int i = 0; i < PAYLOAD; i++)
		CHECK_EQ(e->buffer[GRH_SIZE + i], 0x5a);
	// Of the IPv4 header in the latter half of the GRH.
	CHECK(memcmp(e->buffer + GRH_SIZE - 8, &from.sin_addr, 4) == 0, "the source address is another");
	CHECK(memcmp(e->buffer + GRH_SIZE - 4, &to.sin_addr, 4) == 0, "the destination address is another");
	// A full member hears limited ones.
	p.bytes[2] = 0x7f;
	transmit(p, 0);
	expect_wc(e->recv_cq, 2, IBV_WC_SUCCESS);
	// Bits that no receiver looks at.
	p = good(e);
	p.bytes[4] = 0xc0;
	transmit(p, 0);
	expect_wc(e->recv_cq, 3, IBV_WC_SUCCESS);
}

static void wrong_pkey(void)
{
	static const unsigned short keys[] = {0x1234, 0x8001, 0x0000, 0x8000, 0xfffe, 0x7ffe};
	enum { COUNT = sizeof(keys) / sizeof(*keys) };
	struct endpoint *e = receiver();
	long long before = counter("rx_wrong_pkey");

	for (int i = 0; i < COUNT; i++) {
		struct packet p = good(e);

		p.bytes[2] = keys[i] >> 8;
		p.bytes[3] = keys[i];
		transmit(p, 0);
	}
	only_this_arrives(e);
	counts("rx_wrong_pkey", before + COUNT);
}

static void wrong_qkey(void)
{
	struct endpoint *e = receiver();
	long long before = counter("qkey_viol");

	for (int bit = 0; bit < 32; bit++) {
		struct packet p = good(e);

		put32(p.bytes + BTH, e->qkey ^ 1u << bit);
		transmit(p, 0);
	}
	only_this_arrives(e);
	counts("qkey_viol", before + 32);
}

static void wrong_icrc(void)
{
	struct endpoint *e = receiver();
	long long before = counter("rx_icrc_encapsulated");
	struct packet p = good(e);

	for (int bit = 0; bit < 32; bit++)
		transmit(p, 1u << bit);
	only_this_arrives(e);
	counts("rx_icrc_encapsulated", before + 32);
}

static void no_such_queue_pair(void)
{
	struct endpoint *e = receiver();
	struct packet p = good(e);
	long long before = counter("rx_unknown_qp");

	// Of this process, as far as the number says.
	put32(p.bytes + 4, e->qp->qp_num ^ 0x5a5);
	transmit(p, 0);
	only_this_arrives(e);
	counts("rx_unknown_qp", before + 1);
}

// Another service's packets, a version that there is not, lengths that cannot be.
static void malformed(void)
{
	struct endpoint *e = receiver();
	struct packet p = good(e);

	p.bytes[0] = RC_SEND_ONLY;
	transmit(p, 0);
	for (int opcode = 0x66; opcode < 0x100; opcode++) {
		p.bytes[0] = opcode;
		transmit(p, 0);
	}
	p = good(e);
	p.bytes[1] = 0x01;
	transmit(p, 0);
	p = good(e);
	p.length = BTH;
	transmit(p, 0);
	p.length = BTH + DETH - 4;
	transmit(p, 0);
	// More padding than payload.
	p = good(e);
	p.length = BTH + DETH;
	p.bytes[1] = 0x30;
	transmit(p, 0);
	// Longer than any MTU.
	p = good(e);
	p.length = BTH + DETH + 4100;
	transmit(p, 0);
	only_this_arrives(e);
}

// In the states in which nothing is received.
static void wrong_state(void)
{
	struct endpoint *e = receiver(), *other = open_endpoint(&(struct options){.qp_type = IBV_QPT_UD});

	CHECK_EQ(modify_to_init(other), 0);
	CHECK_EQ(post_recv(other, 1, 0, 4096), 0);
	transmit(good(other), 0);
	only_this_arrives(e);
	expect_no_wc(other->recv_cq, 5);
	CHECK_EQ(state_of(other->qp), IBV_QPS_INIT);
	CHECK_EQ(set_state(other->qp, IBV_QPS_ERR), 0);
	expect_wc(other->recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
	transmit(good(other), 0);
	only_this_arrives(e);
	expect_no_wc(other->recv_cq, 5);
}

#define T(name) {#name, name, 0}
PROGRAM(T(good_ones), T(wrong_pkey), T(wrong_qkey), T(wrong_icrc), T(no_such_queue_pair), T(malformed), T(wrong_state))
