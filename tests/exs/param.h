// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What the framework and the test functions pass each other: everything a call of the library takes
// is here, set to good values before a test, spoiled by the test where a bad value is wanted.

#ifndef PARAM_H
#define PARAM_H

#include <exs.h>

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { TEST_BUFSIZE = 8192 };

// One of the tests that the command line asked for.
struct iter {
	int number;
	struct iter *next;
};

typedef struct param {
	// The function under test, without its arguments, and its test group where that is not the
	// function's own.
	const char *func, *group;
	// The table of tests, or, where they are blocks of a function, their number.
	const struct program *program;
	int num_tests;
	// 0: blocking, 1: non-blocking.
	int mode;
	// Where this process listens, where the other one does, and the port of both.
	const char *addr, *peer_addr, *port;
	// The call under test, with everything that is below.
	long (*call)(struct param *p);
	const char *test_name, *test_value; // of the test that runs
	int test_number;
	struct iter *iter;
	int verbose;
	// Whether this is the other process of a test.
	int is_peer;
	// Where the FIFOs and a test's files are.
	char dir[PATH_MAX - 64], fifo[2][PATH_MAX];

	// Arguments.
	int version;
	int flags;
	int family, socktype, protocol;
	// The socket under test; once a connection is accepted that one, and the one that listens
	// beside it.
	int fd, listen_fd;
	int how;
	// As calls take it, and all of it.
	union {
		struct sockaddr address[1];
		struct sockaddr_storage address_store;
	};
	socklen_t address_len;
	int backlog;
	const struct timeval *to;
	int attribute;
	int depth;
	exs_qhandle_t qh;
	exs_ahandle_t ah;
	exs_mhandle_t mh;
	int addrvec_cnt, evtvec_cnt, sendvec_cnt;
	exs_event_t *evtvec;
	exs_acceptaddr_t acceptaddr[4];
	exs_xferfile_t sendvec[4];
	// A file to send, its size and its descriptor.
	char path[PATH_MAX];
	off_t file_size;
	int file_fd;
	void *send_buf, *recv_buf;
	size_t SEND_BUFSIZE, RECV_BUFSIZE;
	unsigned char send_store[TEST_BUFSIZE], recv_store[TEST_BUFSIZE];
} param;

// What byte number i of everything that is sent is. The period is odd, so that blocks in the wrong
// place show.
static inline unsigned char pattern(uint64_t i)
{
	return (i * 167 + (i >> 8) * 31) % 251;
}

#endif
