// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What every test program here is made of. A program is a table of test cases and the call that
// they are about; each case runs in a process of its own, for a bounded time, and ends in exactly
// one result. What the cases are called is in the setup files.
//
// A case that expects an error is data: the state that the library is brought to, the parameter
// that is spoiled, the errno. A case that does more has a function of its own, which ends in
// print_pass, print_fail or one of the _macro functions.

#ifndef CASE_H
#define CASE_H

#include "cmdline.h"
#include "fault.h"
#include "param.h"
#include "print.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The modes that a case is performed in; none means both. ONLY_IPV4 leaves it out where the address
// is another.
enum { BLOCKING = 1, NON_BLOCKING = 2, BOTH = 3, ONLY_IPV4 = 4 };

// An answer: a descriptor of a new socket. Which number it is differs from run to run: the result
// says 0.
enum { A_SOCKET = -1000 };

struct test_case {
	int number;
	// The errno that is expected, 0 for success, and its name for the result.
	int error;
	const char *value;
	// The call as it is made; NULL where the function's setup file has it.
	const char *name;
	int modes;
	// What the other process does, if there is one.
	void (*peer)(param *p);
	// What comes before the call: 0, or negative if something failed that had to work.
	int (*state)(param *p);
	// What the call answers when it works: a number, 0 as a rule, or A_SOCKET.
	long answer;
	// Spoils a parameter.
	void (*twist)(param *p);
	// Instead of the program's call and the check of its errno.
	void (*run)(param *p);
	// Seconds; 0 means the usual limit.
	unsigned limit;
};

#define ERROR(e) .error = e, .value = #e
#define OK(v) .value = #v

struct program {
	// The function's name.
	const char *func;
	// The test group, where the function has none.
	const char *group;
	// The call with the parameters as they are.
	long (*call)(param *p);
	// It has no non-blocking form.
	int is_blocking_only;
	const struct test_case *cases;
	size_t count;
};

int run_program(int argc, char *argv[], const struct program *program);

#define PROGRAM(function, the_call, ...)                                                    \
	int main(int argc, char *argv[])                                                    \
	{                                                                                   \
		static const struct program program = {                                     \
			.func = function,                                                   \
			.call = the_call,                                                   \
			.cases = all_tests,                                                 \
			.count = sizeof(all_tests) / sizeof(*all_tests),                    \
			__VA_ARGS__                                                         \
		};                                                                          \
		return run_program(argc, argv, &program);                                   \
	}

// Whether p's program has such a test.
int is_test(const param *p, long number);
// All tests of p's program, or one.
void list_tests(const param *p, int number);

// A prerequisite: the test ends, and fails, if it did not work.
void require(int result);
// Ends the test with this failure.
#define FAIL(...) (print_fail(__VA_ARGS__), finish(EXIT_FAILURE))
#define CHECK(condition, ...) do { if (!(condition)) FAIL(__VA_ARGS__); } while (0)
// The same in either process: the other one tells on standard error.
_Noreturn void finish(int code);

// Waits until the other process has come to the same place: the first time at the first FIFO, then
// at the second, and so on in turn.
void meet(param *p);
// The other process does nothing, whatever happens to it, until it is told to go on. Returns when
// it has stopped.
void stop_peer(void);
void continue_peer(void);
// Ends the other process by SIGKILL and waits until it is gone.
void kill_peer(void);
// Does the same in so many microseconds, whatever the test does meanwhile.
void kill_peer_later(unsigned microseconds);
// Waits for the other process's end, which must be a good one.
void wait_for_peer(void);
// The end of the other process, if there is one, is not a failure from now on.
void expect_peer_death(void);

#endif
