// SPDX-License-Identifier: MIT OR Apache-2.0

/* What programs rarely ask of umad: registration of the second kind and its flags, RMPP in the program's own hands, a blocking
 * open of issm, and a blocking read whose thread is cancelled. Run on a port that has a LID; prints one line and exits with 0 if all is as with the kernel. */
#include "umad_check.h"

#include <fcntl.h>
#include <infiniband/umad.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define VENDOR_CLASS 0x31
#define METHOD_GET 0x01
#define RMPP_OFFSET 24

static struct umad_reg_attr wanted(uint32_t flags)
{
	struct umad_reg_attr attr = {
		.mgmt_class = VENDOR_CLASS,
		.mgmt_class_version = 1,
		.flags = flags,
		.oui = 0x001405,
		.rmpp_version = 1,
	};

	attr.method_mask[0] = 1u << METHOD_GET;
	return attr;
}

/* A first segment of many comes as it was sent, and the next is not waited for. */
static void own_rmpp(int fd, uint32_t agent, uint16_t lid)
{
	char *umad = calloc(1, umad_size() + 256);
	uint8_t *mad = umad_get_mad(umad);
	uint8_t sent[256] = { 1, VENDOR_CLASS, 1, METHOD_GET };
	int length = 256;

	CHECK(umad);
	sent[15] = 7;
	sent[RMPP_OFFSET] = 1;      /* version */
	sent[RMPP_OFFSET + 1] = 1;  /* data */
	sent[RMPP_OFFSET + 2] = 3;  /* active, first */
	sent[RMPP_OFFSET + 7] = 1;  /* segment */
	memcpy(sent + 37, "\x00\x14\x05", 3);
	memset(sent + 40, 0xa5, sizeof(sent) - 40);
	memcpy(mad, sent, sizeof(sent));
	CHECK(umad_set_addr(umad, lid, 1, 0, 0x80010000) == 0);
	CHECK(umad_send(fd, agent, umad, 256, 0, 0) == 0);
	memset(umad, 0, umad_size() + 256);
	CHECK(umad_recv(fd, umad, &length, 5000) == (int)agent);
	CHECK(length == 256 && umad_status(umad) == 0);
	CHECK(memcmp(mad + RMPP_OFFSET, sent + RMPP_OFFSET, sizeof(sent) - RMPP_OFFSET) == 0);
	free(umad);
}

/* One program at a time has issm; who does not want to wait is told so, who does waits until it is free. */
static void issm(const char *path)
{
	int ends[2], status, held = open(path, O_RDWR);
	char byte;
	pid_t child;

	CHECK(held >= 0);
	CHECK(open(path, O_RDWR | O_NONBLOCK) < 0 && errno == EAGAIN);
	CHECK(pipe(ends) == 0);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		int fd;

		close(held);
		fd = open(path, O_RDWR);
		_exit(fd < 0 || write(ends[1], "x", 1) != 1);
	}
	CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
	usleep(300000);
	CHECK(read(ends[0], &byte, 1) < 0 && errno == EAGAIN);
	close(held);
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(read(ends[0], &byte, 1) == 1);
	held = open(path, O_RDWR);
	CHECK(held >= 0);
	close(held);
}

static void *read_one(void *file)
{
	char umad[512];

	return read(*(int *)file, umad, sizeof(umad)) < 0 ? NULL : file;
}

/* A read that waits is a cancellation point. */
static void cancelled(int fd)
{
	pthread_t reader;
	void *result;

	CHECK(fcntl(fd, F_SETFL, 0) == 0);
	CHECK(pthread_create(&reader, NULL, read_one, &fd) == 0);
	usleep(100000);
	CHECK(pthread_cancel(reader) == 0);
	CHECK(pthread_join(reader, &result) == 0 && result == PTHREAD_CANCELED);
}

int main(void)
{
	struct umad_reg_attr attr = wanted(1u << 7);
	char path[256];
	umad_port_t port;
	uint32_t agent;
	int fd;

	CHECK(umad_init() == 0);
	CHECK(umad_get_port(NULL, 1, &port) == 0);
	CHECK((fd = umad_open_port(port.ca_name, 1)) >= 0);
	/* Flags that nobody knows are refused; libibumad 44 does not pass on which are known. */
	CHECK(umad_register2(fd, &attr, &agent) == EINVAL);
	attr = wanted(UMAD_USER_RMPP);
	CHECK(umad_register2(fd, &attr, &agent) == 0);
	attr = wanted(0);
	uint32_t other;
	CHECK(umad_register2(fd, &attr, &other) != 0);
	own_rmpp(fd, agent, port.base_lid);
	CHECK(umad_unregister(fd, agent) == 0);
	CHECK(umad_register2(fd, &attr, &agent) == 0);
	CHECK(umad_get_issm_path(port.ca_name, 1, path, sizeof(path)) == 0);
	cancelled(fd);
	umad_close_port(fd);
	issm(path);
	puts("ok");
	return 0;
}
