// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A small test harness. A program is a table of tests; each runs in a process of its own, for a
// bounded time, and is reported in one line: "ok NAME", "skip NAME: why" or "not ok NAME: why".

#ifndef HARNESS_H
#define HARNESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct test {
	const char *name;
	void (*run)(void);
	// Seconds until the test counts as hung; 0 means 60.
	unsigned limit;
};

int harness_main(int argc, char **argv, const struct test *tests, size_t count);

#define PROGRAM(...)                                                                     \
	static const struct test program_tests[] = {__VA_ARGS__};                        \
	int main(int argc, char **argv)                                                  \
	{                                                                                \
		return harness_main(argc, argv, program_tests,                           \
				    sizeof(program_tests) / sizeof(*program_tests));     \
	}

// Ends the test.
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define STRINGIFY_(x) #x
#define STRINGIFY(x) STRINGIFY_(x)
#define WHERE __FILE__ ":" STRINGIFY(__LINE__) " "

// CHECK(condition, "what was seen %d", value)
#define CHECK(condition, format, ...)                                                    \
	do {                                                                             \
		if (!(condition))                                                        \
			fail(WHERE format, ##__VA_ARGS__);                               \
	} while (0)

// Both sides as integers.
#define CHECK_EQ(seen, wanted)                                                           \
	do {                                                                             \
		long long seen_ = (long long)(seen), wanted_ = (long long)(wanted);      \
		if (seen_ != wanted_)                                                    \
			fail(WHERE "%s is %lld, not %lld", #seen, seen_, wanted_);       \
	} while (0)

// Monotonic time in milliseconds.
uint64_t now_ms(void);

// Comes to where so many processes meet, and waits for the others, for a minute. The count is in
// memory that they share.
void meet(atomic_int *arrived, int processes);

// The second process of a test: this program again, on the other host if there is one. Started on
// first use, waited for at the end of the test. It runs peer_serve() (endpoint.h) on its end of the
// socket.
int peer_socket(void);
void peer_kill(void);

// In whole, or the test fails.
void send_all(int fd, const void *data, size_t length);
// False at the end of the stream.
bool receive_all(int fd, void *data, size_t length);

#endif
