// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A TCP program that knows nothing of RDMA: `plain_tcp serve ADDRESS PORT` sends back what it gets
// from one client; `plain_tcp call ADDRESS PORT` sends, compares, and says "N bytes".

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PIECE = 40000, PIECES = 50 };

static int say(const char *what)
{
	perror(what);
	return 1;
}

static int serve(int listener)
{
	char data[65536];
	ssize_t n;
	int s = accept(listener, NULL, NULL);

	if (s < 0)
		return say("accept");
	while ((n = recv(s, data, sizeof(data), 0)) > 0)
		for (ssize_t sent = 0, more; sent < n; sent += more)
			if ((more = send(s, data + sent, n - sent, 0)) <= 0)
				return say("send");
	close(s);
	return n < 0 ? say("recv") : 0;
}

static int call(int s)
{
	static unsigned char out[PIECE], in[PIECE];

	for (int piece = 0; piece < PIECES; piece++) {
		for (int i = 0; i < PIECE; i++)
			out[i] = (unsigned char)(i * 7 + piece);
		for (ssize_t sent = 0, more; sent < PIECE; sent += more)
			if ((more = send(s, out + sent, PIECE - sent, 0)) <= 0)
				return say("send");
		for (ssize_t got = 0, more; got < PIECE; got += more)
			if ((more = recv(s, in + got, PIECE - got, 0)) <= 0)
				return say("recv");
		if (memcmp(in, out, PIECE)) {
			printf("piece %d differs\n", piece);
			return 1;
		}
	}
	printf("%d bytes\n", PIECE * PIECES);
	close(s);
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	int s;

	if (argc != 4 || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1)
		return 2;
	address.sin_port = htons(atoi(argv[3]));
	s = socket(AF_INET, SOCK_STREAM, 0);
	if (s < 0)
		return say("socket");
	if (!strcmp(argv[1], "call"))
		return connect(s, (struct sockaddr *)&address, sizeof(address)) ? say("connect") : call(s);
	if (bind(s, (struct sockaddr *)&address, sizeof(address)) || listen(s, 1))
		return say("bind and listen");
	return serve(s);
}
