/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the examples share: failing with a message, and getting a connected socket. */
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H

#include <stddef.h>
#include <stdint.h>

#include <exs.h>

#define DEFAULT_PORT "18600"

/* Prints "program: what: strerror(errno)" and ends the program with status 1. */
_Noreturn void fail(const char *what);

/* Prints "program: " and the formatted text, and ends the program with status 1. */
_Noreturn void refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Sees to it that all that was printed is where it was to go, or ends the program with status 1. */
void finish_output(void);

/* A decimal number between low and high, or the end of the program. */
long number(const char *text, const char *what, long low, long high);

/* Which end of a connection a program is, as its options say. */
struct ends {
	const char *port;    /* -p PORT */
	const char *address; /* -b ADDRESS, of the server; NULL for all */
	int server;	     /* -l */
};

/*
 * Reads the options. What follows them, from argv[optind] on, must be as many words as the end wants; otherwise, or after
 * -h, the program ends with its usage.
 */
struct ends ends_of(int argc, char **argv, const char *usage, int server_words, int client_words);

/* A listening socket at an address of this host, NULL for all of them. */
int listening(const char *host, const char *port, int socktype);

/* A socket that is connected to a listening one. Waits up to five seconds for it to be there. */
int connected(const char *host, const char *port, int socktype);

/* All bytes, or the end of the program. */
void read_all(int fd, void *buffer, size_t length);

#endif
