// SPDX-License-Identifier: MIT OR Apache-2.0

/* The P_Key index of umad (ib_user_mad_hdr, IB_USER_MAD_ENABLE_PKEY, which libibumad says at every port that it opens).
 *
 * umad_pkey serve       answers whatever comes with the P_Key that it came with, and prints a line on each
 * umad_pkey ask LID KEY yes|no
 *                       asks with the P_Key KEY, wherever the port's table has it, and prints what becomes of it; waits long for a yes
 *
 * On ports whose tables have a key at different places, that shows whether it was the key of the index that crossed the wire. */
#include "umad_check.h"

#include <endian.h>
#include <infiniband/umad.h>
#include <stdint.h>
#include <string.h>

#define VENDOR_CLASS 0x32
#define METHOD_GET 0x01
#define METHOD_GET_RESP 0x81
#define QP1_QKEY 0x80010000
#define LENGTH 256
#define OUI_OFFSET 37
#define METHOD_OFFSET 3
/* For an answer that comes, and for one that does not. */
#define PATIENCE_MS 10000
#define IMPATIENCE_MS 200

static umad_port_t port;
static int fd;
static uint32_t agent;
static char *umad;

static void setup(int serves)
{
	struct umad_reg_attr attr = {
		.mgmt_class = VENDOR_CLASS,
		.mgmt_class_version = 1,
		.oui = 0x001405,
	};

	if (serves)
		attr.method_mask[0] = 1u << METHOD_GET;
	CHECK(umad_init() == 0);
	CHECK(umad_get_port(NULL, 1, &port) == 0);
	CHECK((fd = umad_open_port(port.ca_name, 1)) >= 0);
	CHECK(umad_register2(fd, &attr, &agent) == 0);
	CHECK((umad = calloc(1, umad_size() + LENGTH)));
}

/* Waits for the agent's next MAD; returns its status. */
static int next(void)
{
	int length = LENGTH;

	CHECK(umad_recv(fd, umad, &length, 2 * PATIENCE_MS) == (int)agent);
	return umad_status(umad);
}

/* What the table has at the index that the last MAD came with. */
static void print_key(const char *what)
{
	int index = umad_get_pkey(umad);

	CHECK(index >= 0 && (unsigned int)index < port.pkeys_size);
	printf("%s: index %d, key 0x%04x\n", what, index, port.pkeys[index]);
}

static void serve(void)
{
	puts("serves");
	for (;;) {
		int length = LENGTH;

		CHECK(umad_recv(fd, umad, &length, -1) == (int)agent && umad_status(umad) == 0);
		print_key("came");
		((uint8_t *)umad_get_mad(umad))[METHOD_OFFSET] = METHOD_GET_RESP;
		/* All but the Q_Key of where it came from is known. */
		umad_get_mad_addr(umad)->qkey = htobe32(QP1_QKEY);
		CHECK(umad_send(fd, agent, umad, LENGTH, 0, 0) == 0);
	}
}

static void ask(int lid, unsigned int key, int wait_ms)
{
	uint8_t *mad = umad_get_mad(umad);
	unsigned int index = 0;
	int status;

	while (index < port.pkeys_size && port.pkeys[index] != key)
		index++;
	CHECK(index < port.pkeys_size);
	memcpy(mad, (uint8_t[]){ 1, VENDOR_CLASS, 1, METHOD_GET }, 4);
	memcpy(mad + OUI_OFFSET, "\x00\x14\x05", 3);
	mad[15] = 9;
	CHECK(umad_set_addr(umad, lid, 1, 0, QP1_QKEY) == 0);
	CHECK(umad_set_pkey(umad, index) == 0);
	CHECK(umad_send(fd, agent, umad, LENGTH, wait_ms, 0) == 0);
	printf("asked: index %u\n", index);
	status = next();
	CHECK(status == 0 || status == ETIMEDOUT);
	if (status)
		puts("nobody answers");
	else
		print_key("answered");
}

int main(int argc, char **argv)
{
	int serves = argc == 2 && !strcmp(argv[1], "serve");
	int asks = argc == 5 && !strcmp(argv[1], "ask");

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!serves && !asks) {
		fprintf(stderr, "umad_pkey serve | ask LID KEY yes|no\n");
		return 2;
	}
	setup(serves);
	if (serves)
		serve();
	/* Whether an answer is expected says only how long to wait. */
	ask(atoi(argv[2]), strtoul(argv[3], NULL, 0), strcmp(argv[4], "yes") ? IMPATIENCE_MS : PATIENCE_MS);
	return 0;
}
