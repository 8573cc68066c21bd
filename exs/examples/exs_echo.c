/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * exs_echo - sends back what comes. The server has any number of clients with one thread and one event queue.
 *
 *   exs_echo -l            serves until it is ended
 *   exs_echo HOST          sends its input line by line, and prints what comes back
 */
#include "common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVENTS 64

/* A client of the server: one buffer, which is being received into or sent from. */
struct client {
	int fd;
	exs_mhandle_t memory;
	char buffer[4096];
};

static void drop(struct client *client, int error)
{
	if (error)
		fprintf(stderr, "socket %d: %s\n", client->fd, strerror(error));
	if (exs_close(client->fd, EXS_BLOCK, NULL, NULL) < 0)
		fail("exs_close");
	if (exs_mderegister(client->memory, 0) < 0)
		fail("exs_mderegister");
	free(client);
}

/* Begins the next half of an exchange: what was received goes back, and what was sent makes room. */
static void receive(struct client *client, exs_qhandle_t queue)
{
	if (exs_recv(client->fd, client->buffer, sizeof(client->buffer), 0, queue, client, client->memory) < 0)
		drop(client, errno);
}

static void answer(struct client *client, size_t length, exs_qhandle_t queue)
{
	if (exs_send(client->fd, client->buffer, length, 0, queue, client, client->memory) < 0)
		drop(client, errno);
}

static void admit(const exs_event_t *event, exs_qhandle_t queue)
{
	struct client *client = calloc(1, sizeof(*client));

	if (event->exs_evt_errno) {
		errno = event->exs_evt_errno;
		fail("accepting");
	}
	if (!client)
		fail("a client");
	client->fd = event->exs_evt_union.exs_evt_accept.exs_evt_newsocket;
	client->memory = exs_mregister(client->buffer, sizeof(client->buffer), 0);
	if (client->memory == EXS_MHANDLE_INVALID)
		fail("exs_mregister");
	receive(client, queue);
}

static _Noreturn void serve(const char *host, const char *port)
{
	int door = listening(host, port, SOCK_STREAM);
	exs_acceptaddr_t newcomer = { .exs_addr = NULL };
	exs_qhandle_t queue = exs_qcreate(0);
	exs_event_t events[EVENTS];

	if (queue == EXS_QHANDLE_INVALID)
		fail("exs_qcreate");
	if (exs_accept(door, &newcomer, 1, 0, queue) < 0)
		fail("exs_accept");
	for (;;) {
		int n = exs_qdequeue(queue, events, EVENTS, NULL);

		if (n < 0)
			fail("exs_qdequeue");
		for (int i = 0; i < n; i++) {
			const exs_evt_xfer_t *xfer = &events[i].exs_evt_union.exs_evt_xfer;
			struct client *client = events[i].exs_evt_ahandle;

			if (events[i].exs_evt_type == EXS_EVT_ACCEPT) {
				admit(&events[i], queue);
				if (exs_accept(door, &newcomer, 1, 0, queue) < 0)
					fail("exs_accept");
			} else if (events[i].exs_evt_errno) {
				drop(client, events[i].exs_evt_errno);
			} else if (events[i].exs_evt_type == EXS_EVT_SEND) {
				receive(client, queue);
			} else if (xfer->exs_evt_length == 0) {
				drop(client, 0);
			} else {
				answer(client, xfer->exs_evt_length, queue);
			}
		}
	}
}

/* Reads a line with its end, or as much of it as there is room for. fgets(3) would not tell where a line ends that has a
 * zero in it. */
static size_t next_line(char *line, size_t room)
{
	size_t length = 0;
	int c = 0;

	while (length < room && c != '\n' && (c = getchar()) != EOF)
		line[length++] = (char)c;
	if (ferror(stdin))
		fail("reading the input");
	return length;
}

static void converse(const char *host, const char *port)
{
	int fd = connected(host, port, SOCK_STREAM);
	char line[4096];
	size_t length;

	while ((length = next_line(line, sizeof(line))) > 0) {
		if (exs_write(fd, line, length) != (ssize_t)length)
			fail("sending");
		read_all(fd, line, length);
		fwrite(line, 1, length, stdout);
		finish_output();
	}
	if (exs_blocking_close(fd) < 0)
		fail("exs_blocking_close");
}

int main(int argc, char **argv)
{
	static const char usage[] = "usage: exs_echo [-p PORT] HOST\n"
				    "       exs_echo [-p PORT] [-b ADDRESS] -l\n";
	struct ends ends = ends_of(argc, argv, usage, 0, 1);

	if (exs_init(EXS_VERSION) < 0)
		fail("exs_init");
	if (ends.server)
		serve(ends.address, ends.port);
	converse(argv[optind], ends.port);
	return 0;
}
