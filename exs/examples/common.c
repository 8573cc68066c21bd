/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For program_invocation_short_name; others than the examples may have said so already. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "common.h"

#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void fail(const char *what)
{
	refuse("%s: %s", what, strerror(errno));
}

void refuse(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

void finish_output(void)
{
	if (fflush(stdout) || ferror(stdout))
		fail("writing the output");
}

long number(const char *text, const char *what, long low, long high)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	/* strtol(3) would also take spaces and signs, which getaddrinfo(3) does not. */
	if (errno || *text < '0' || *text > '9' || *end || value < low || value > high)
		refuse("%s must be a number between %ld and %ld, not \"%s\"", what, low, high, text);
	return value;
}

static _Noreturn void show(const char *usage, int status)
{
	fputs(usage, status ? stderr : stdout);
	if (status == 0)
		finish_output();
	exit(status);
}

struct ends ends_of(int argc, char **argv, const char *usage, int server_words, int client_words)
{
	struct ends ends = { .port = DEFAULT_PORT };
	int option;

	while ((option = getopt(argc, argv, "p:b:lh")) != -1) {
		switch (option) {
		case 'p':
			/* getaddrinfo(3) takes larger ones, of which it drops what is too much. */
			number(optarg, "-p", 1, 65535);
			ends.port = optarg;
			break;
		case 'b':
			ends.address = optarg;
			break;
		case 'l':
			ends.server = 1;
			break;
		case 'h':
			show(usage, 0);
		default:
			show(usage, 2);
		}
	}
	if (argc - optind != (ends.server ? server_words : client_words))
		show(usage, 2);
	return ends;
}

/* The first address that the name stands for. The caller frees it. */
static struct addrinfo *resolve(const char *host, const char *port, int flags)
{
	struct addrinfo hints = { .ai_flags = flags, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	int error = getaddrinfo(host, port, &hints, &found);

	if (error)
		refuse("%s port %s: %s", host ? host : "any address", port, gai_strerror(error));
	return found;
}

int listening(const char *host, const char *port, int socktype)
{
	struct addrinfo *address = resolve(host, port, AI_PASSIVE);
	int fd = exs_socket(address->ai_family, socktype, 0);

	if (fd < 0)
		fail("exs_socket");
	if (exs_bind(fd, address->ai_addr, address->ai_addrlen) < 0)
		fail("exs_bind");
	if (exs_listen(fd, 128) < 0)
		fail("exs_listen");
	freeaddrinfo(address);
	return fd;
}

int connected(const char *host, const char *port, int socktype)
{
	const struct timespec pause = { .tv_nsec = 100 * 1000 * 1000 };
	struct addrinfo *address = resolve(host, port, 0);
	int attempts = 50;
	int fd = exs_socket(address->ai_family, socktype, 0);

	if (fd < 0)
		fail("exs_socket");
	while (exs_blocking_connect(fd, address->ai_addr, address->ai_addrlen) < 0) {
		if (errno != ECONNREFUSED || --attempts == 0)
			fail(host);
		nanosleep(&pause, NULL);
	}
	freeaddrinfo(address);
	return fd;
}

void read_all(int fd, void *buffer, size_t length)
{
	ssize_t got = exs_blocking_recv(fd, buffer, length, MSG_WAITALL, NULL);

	if (got < 0)
		fail("receiving");
	if ((size_t)got != length)
		refuse("the peer has closed the connection");
}
