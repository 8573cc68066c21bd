// SPDX-License-Identifier: MIT OR Apache-2.0

#include "cmdline.h"

#include "port.h"
#include "case.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void usage(const param *p)
{
	printf("usage: test_%s [-h] [-l] [-t N] [-v] [-a ADDRESS] [-p PORT] [-n] [N | N-M]...\n"
	       "  -h -H          this text\n"
	       "  -l -L          list all tests\n"
	       "  -t -T N        show test N\n"
	       "  -v -V          print passing results too\n"
	       "  -a -A ADDRESS  interface address, %s unless given\n"
	       "  -p -P PORT     port, %s unless given\n"
	       "  -n -N          non-blocking mode\n"
	       "  N, N-M         tests to run; all unless given\n",
	       p->func, EXS_TEST_ADDRESS, EXS_TEST_PORT);
}

static void defaults(param *p)
{
	p->mode = 0;
	p->flags = EXS_BLOCK;
	p->addr = EXS_TEST_ADDRESS;
	p->port = EXS_TEST_PORT;
	p->version = EXS_VERSION;
	p->family = PF_INET;
	p->socktype = SOCK_STREAM;
	p->protocol = 0;
	p->backlog = 10;
	p->depth = 10;
	p->fd = p->listen_fd = p->file_fd = -1;
	p->address_len = sizeof(struct sockaddr_in);
	p->qh = NULL;
	p->mh = EXS_MHANDLE_UNREGISTERED;
	p->ah = &p->test_number;
	p->SEND_BUFSIZE = p->RECV_BUFSIZE = TEST_BUFSIZE;
	p->send_buf = p->send_store;
	p->recv_buf = p->recv_store;
	p->addrvec_cnt = p->evtvec_cnt = p->sendvec_cnt = 1;
	for (size_t i = 0; i < TEST_BUFSIZE; i++)
		p->send_store[i] = pattern(i);
}

// A number, or -1. strtol() takes spaces and signs before it.
static long number(const char *text, char **end)
{
	errno = 0;
	long value = strtol(text, end, 10);

	return *text < '0' || *text > '9' || errno || value < 1 || value > INT_MAX ? -1 : value;
}

// getaddrinfo() takes more than there are, and drops what is too much.
static int take_port(param *p, const char *text)
{
	char *end;
	long port = number(text, &end);

	if (port < 0 || port > UINT16_MAX || *end) {
		fprintf(stderr, "test_%s: Invalid Port: %s\n", p->func, text);
		return -1;
	}
	p->port = text;
	return 0;
}

// "N" or "N-M" of tests that there are.
static int add_range(param *p, const char *text)
{
	char *end;
	long first = number(text, &end);
	long last = *end == '-' ? number(end + 1, &end) : first;

	if (first < 0 || last < first || *end || !is_test(p, first) || !is_test(p, last)) {
		fprintf(stderr, "test_%s: Invalid Test Number: %s\n", p->func, text);
		return -1;
	}
	for (long i = first; i <= last; i++) {
		if (!is_test(p, i))
			continue;
		struct iter *element = calloc(1, sizeof(*element));
		struct iter **tail = &p->iter;

		while (*tail)
			tail = &(*tail)->next;
		element->number = i;
		*tail = element;
	}
	return 0;
}

static int make_directory(param *p)
{
	const char *shared = getenv("EXS_TEST_DIR"), *tmp = getenv("TMPDIR");

	if (shared) {
		// The other process of a test: its first one made it.
		snprintf(p->dir, sizeof(p->dir), "%s", shared);
	} else {
		snprintf(p->dir, sizeof(p->dir), "%s/exs-test-XXXXXX", tmp ? tmp : "/tmp");
		if (!mkdtemp(p->dir)) {
			perror(p->dir);
			return -1;
		}
	}
	for (int i = 0; i < 2; i++) {
		snprintf(p->fifo[i], sizeof(p->fifo[i]), "%s/fifo%d", p->dir, i + 1);
		if (!shared && mkfifo(p->fifo[i], 0600)) {
			perror(p->fifo[i]);
			return -1;
		}
	}
	return 0;
}

void remove_directory(const param *p)
{
	DIR *dir = opendir(p->dir);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(p->dir);
}

int parse_options(int argc, char *argv[], param *p)
{
	int option;

	defaults(p);
	while ((option = getopt(argc, argv, "hHlLt:T:vVa:A:p:P:nN")) != -1) {
		switch (option) {
		case 'h': case 'H':
			usage(p);
			return 1;
		case 'l': case 'L':
			list_tests(p, 0);
			return 1;
		case 't': case 'T':
			if (add_range(p, optarg))
				return -1;
			list_tests(p, p->iter->number);
			return 1;
		case 'v': case 'V':
			p->verbose = 1;
			break;
		case 'a': case 'A':
			p->addr = optarg;
			break;
		case 'p': case 'P':
			if (take_port(p, optarg))
				return -1;
			break;
		case 'n': case 'N':
			p->mode = 1;
			p->flags = 0;
			break;
		default:
			usage(p);
			return -1;
		}
	}
	const char *peer = getenv("EXS_TEST_PEER_ADDR");
	p->peer_addr = peer ? peer : p->addr;
	if (strchr(p->addr, ':'))
		p->family = PF_INET6;
	for (; optind < argc; optind++)
		if (add_range(p, argv[optind]))
			return -1;
	return make_directory(p);
}
