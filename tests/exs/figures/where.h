// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The programs of the figures know one server, "localhost" at port 55555. This is included before
// each, as written: with $FIGURE_ADDRESS and $FIGURE_PORT the server is another one.

#ifndef WHERE_H
#define WHERE_H

#include <netdb.h>
#include <stdlib.h>

static inline int find_server(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **info)
{
	const char *other_host = getenv("FIGURE_ADDRESS"), *other_port = getenv("FIGURE_PORT");

	return getaddrinfo(other_host ? other_host : host, other_port ? other_port : port, hints, info);
}

#define getaddrinfo find_server

#endif
