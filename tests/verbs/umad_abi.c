// SPDX-License-Identifier: MIT OR Apache-2.0
//
// umad as the kernel's header file has it, where libibumad shows it otherwise: registration of the
// second kind brings the new header and tells which flags there are, and a MAD without a response
// comes back with the header that was written. Run on a port that has a LID; prints one
// line and exits with 0 if all is as with the kernel.

#include "umad_check.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_mad.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define PERFORMANCE 4
#define METHOD_GET 0x01
#define METHOD_GET_RESP 0x81
#define CLASS_PORT_INFO 1
#define WAIT_MS 10000

struct umad {
	struct ib_user_mad_hdr header;
	uint8_t mad[256];
};

static int opened(void)
{
	int fd = open("/dev/infiniband/umad0", O_RDWR);

	CHECK(fd >= 0);
	return fd;
}

static uint16_t own_lid(void)
{
	FILE *file = fopen("/sys/class/infiniband/ferroce0/ports/1/lid", "r");
	unsigned lid;

	CHECK(file && fscanf(file, "%x", &lid) == 1 && lid);
	fclose(file);
	return lid;
}

static uint32_t registered(int fd)
{
	struct ib_user_mad_reg_req request = {.qpn = 1, .mgmt_class = PERFORMANCE, .mgmt_class_version = 1};

	CHECK(ioctl(fd, IB_USER_MAD_REGISTER_AGENT, &request) == 0);
	return request.id;
}

/* A question that the port at the LID answers by itself, if there is one. */
static struct umad question(uint32_t agent, uint16_t lid)
{
	struct umad umad = {
		.header = {.id = agent, .timeout_ms = 200, .retries = 2, .qpn = htonl(1), .qkey = htonl(0x80010000), .lid = htons(lid)},
		.mad = {1, PERFORMANCE, 1, METHOD_GET, [15] = 7, [17] = CLASS_PORT_INFO},
	};

	return umad;
}

static ssize_t answer(int fd, void *bytes, size_t room)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};

	CHECK(poll(&readable, 1, WAIT_MS) == 1);
	return read(fd, bytes, room);
}

static void given_back(void)
{
	int fd = opened();
	struct umad asked, got;
	uint32_t agent;

	CHECK(ioctl(fd, IB_USER_MAD_ENABLE_PKEY) == 0);
	agent = registered(fd);
	/* Nobody has that one. */
	asked = question(agent, 0xbfff);
	asked.header.status = 1;
	asked.header.length = 4711;
	asked.header.hop_limit = 9;
	asked.header.flow_label = htonl(0xfedcba98);
	CHECK(write(fd, &asked, sizeof(asked)) == sizeof(asked));
	/* The header of the MAD comes along. */
	CHECK(answer(fd, &got, sizeof(got)) == (ssize_t)sizeof(got.header) + 24);
	CHECK(got.header.status == ETIMEDOUT);
	got.header.status = asked.header.status;
	CHECK(memcmp(&got.header, &asked.header, sizeof(got.header)) == 0);
	CHECK(got.mad[1] == PERFORMANCE && got.mad[3] == METHOD_GET && got.mad[15] == 7);
	close(fd);
}

/* The header of a file is that of the first registration. */
static void headers(void)
{
	struct ib_user_mad_reg_req2 request = {.qpn = 1, .mgmt_class = PERFORMANCE, .mgmt_class_version = 1};
	int second = opened(), first = opened();
	struct umad asked, got;
	size_t old = sizeof(struct ib_user_mad_hdr_old);

	CHECK(ioctl(second, IB_USER_MAD_REGISTER_AGENT2, &request) == 0);
	CHECK(ioctl(second, IB_USER_MAD_ENABLE_PKEY) == -1 && errno == EINVAL);
	asked = question(request.id, own_lid());
	CHECK(write(second, &asked, sizeof(asked)) == sizeof(asked));
	CHECK(answer(second, &got, sizeof(got)) == sizeof(got));
	CHECK(got.header.status == 0 && got.header.length == sizeof(got));
	CHECK(got.mad[1] == PERFORMANCE && got.mad[3] == METHOD_GET_RESP);
	close(second);

	asked = question(registered(first), own_lid());
	CHECK(ioctl(first, IB_USER_MAD_REGISTER_AGENT2, &request) == 0);
	memmove((char *)&asked + old, asked.mad, sizeof(asked.mad));
	CHECK(write(first, &asked, old + sizeof(asked.mad)) == (ssize_t)(old + sizeof(asked.mad)));
	CHECK(answer(first, &got, sizeof(got)) == (ssize_t)(old + sizeof(got.mad)));
	CHECK(got.header.status == 0 && ((uint8_t *)&got)[old + 3] == METHOD_GET_RESP);
	close(first);
}

static void refusals(void)
{
	struct ib_user_mad_reg_req2 request = {.qpn = 1, .flags = 0x81, .oui = 0xff000000};
	int fd = opened();

	CHECK(ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &request) == -1 && errno == EINVAL);
	CHECK(request.flags == IB_USER_MAD_REG_FLAGS_CAP);
	/* Whose MADs are wanted is asked with a class alone. */
	request.flags = 0;
	request.mgmt_class = 0x31;
	request.mgmt_class_version = 1;
	CHECK(ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &request) == -1 && errno == EINVAL);
	request.mgmt_class = 0;
	CHECK(ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &request) == 0);
	close(fd);
}

int main(void)
{
	headers();
	refusals();
	given_back();
	puts("ok");
	return 0;
}
