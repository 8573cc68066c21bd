// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Datagrams over rsockets, from an address of one's own choice, which stock udpong leaves to the
// host's routes: `datagram_rsocket serve ADDRESS PORT` sends back what it gets until it is killed;
// `datagram_rsocket call ADDRESS PORT OWN` sends from OWN, compares, and says "N datagrams".

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { LENGTH = 1000, COUNT = 200, ATTEMPTS = 10, ANSWER_MS = 1000 };

static int say(const char *what)
{
	perror(what);
	return 1;
}

static int serve(int s)
{
	struct sockaddr_in from;
	char data[LENGTH];

	for (;;) {
		socklen_t size = sizeof(from);
		ssize_t n = rrecvfrom(s, data, sizeof(data), 0, (struct sockaddr *)&from, &size);

		if (n < 0)
			return say("rrecvfrom");
		if (rsendto(s, data, n, 0, (struct sockaddr *)&from, size) != n)
			return say("rsendto");
	}
}

// Datagrams may be lost: what is not answered is sent again, and answers to earlier ones are passed
// over.
static int exchange(int s, const struct sockaddr_in *to, int number)
{
	unsigned char out[LENGTH], in[LENGTH];

	for (int i = 0; i < LENGTH; i++)
		out[i] = (unsigned char)(i * 7 + number);
	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		struct pollfd answer = {.fd = s, .events = POLLIN};

		if (rsendto(s, out, LENGTH, 0, (const struct sockaddr *)to, sizeof(*to)) != LENGTH)
			return say("rsendto");
		while (rpoll(&answer, 1, ANSWER_MS) == 1) {
			if (rrecv(s, in, LENGTH, 0) != LENGTH)
				return say("rrecv");
			if (!memcmp(in, out, LENGTH))
				return 0;
		}
	}
	printf("datagram %d is not answered\n", number);
	return 1;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET}, own = {.sin_family = AF_INET};
	int call = argc == 5 && !strcmp(argv[1], "call"), s;

	if ((!call && argc != 4) || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1)
		return 2;
	if (call && inet_pton(AF_INET, argv[4], &own.sin_addr) != 1)
		return 2;
	address.sin_port = htons(atoi(argv[3]));
	s = rsocket(AF_INET, SOCK_DGRAM, 0);
	if (s < 0)
		return say("rsocket");
	if (rbind(s, (struct sockaddr *)(call ? &own : &address), sizeof(own)))
		return say("rbind");
	if (!call)
		return serve(s);
	for (int i = 0; i < COUNT; i++)
		if (exchange(s, &address, i))
			return 1;
	printf("%d datagrams\n", COUNT);
	return rclose(s);
}
