// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef SERVER_H
#define SERVER_H

#include <exs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

// A stream to the server that the figures have, connected by the call that waits; the program ends
// where there is none.
static inline int connect_to_server(void)
{
	const struct addrinfo hints = {
		.ai_family = PF_INET,
		.ai_socktype = SOCK_STREAM,
		.ai_protocol = IPPROTO_TCP,
		.ai_flags = AI_PASSIVE,
	};
	struct addrinfo *server;

	if (exs_init(EXS_VERSION) || getaddrinfo("localhost", "55555", &hints, &server))
		exit(EXIT_FAILURE);
	int sock = exs_socket(PF_INET, SOCK_STREAM, 0);
	if (exs_connect(sock, server->ai_addr, server->ai_addrlen, EXS_BLOCK, NULL, NULL, NULL)) {
		perror("exs_connect");
		exit(EXIT_FAILURE);
	}
	freeaddrinfo(server);
	return sock;
}

#endif
