// SPDX-License-Identifier: MIT OR Apache-2.0

#include "address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int aim(param *p, const char *host)
{
	struct addrinfo hints = {.ai_family = p->family, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *info;
	int error = getaddrinfo(host, p->port, &hints, &info);

	if (error) {
		fprintf(stderr, "%s, port %s: %s\n", host, p->port, gai_strerror(error));
		return -1;
	}
	memcpy(&p->address_store, info->ai_addr, info->ai_addrlen);
	p->address_len = info->ai_addrlen;
	freeaddrinfo(info);
	return 0;
}

void aim_port(param *p, int offset)
{
	in_port_t port = htons(atoi(p->port) + offset);

	if (p->family == PF_INET6)
		((struct sockaddr_in6 *)&p->address_store)->sin6_port = port;
	else
		((struct sockaddr_in *)&p->address_store)->sin_port = port;
}

int same_host(const struct sockaddr *a, const struct sockaddr *b)
{
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;

	if (a->sa_family != b->sa_family)
		return 0;
	if (a->sa_family == AF_INET6)
		return !memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr));
	return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
}
