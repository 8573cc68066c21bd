// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Where programs that connect through librdmacm find themselves.

#ifndef OWN_ADDRESS_H
#define OWN_ADDRESS_H

#include "device.h"
#include "harness.h"

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <string.h>

// The device's first IPv4 address.
static struct sockaddr_in own_address(uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct ibv_context *context = open_device();
	static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};
	union ibv_gid gid = {0};

	// rdma_rxe begins with a link-local one.
	for (int i = 0; i < 64 && memcmp(&gid, v4_prefix, sizeof(v4_prefix)); i++)
		ibv_query_gid(context, 1, i, &gid);
	CHECK(!memcmp(&gid, v4_prefix, sizeof(v4_prefix)), "no IPv4 address");
	memcpy(&address.sin_addr, gid.raw + 12, 4);
	ibv_close_device(context);
	return address;
}

#endif
