// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The tests of a function by number and name, as its setup file has them, and the test group that
// they are of.

#ifndef NAMES_H
#define NAMES_H

#include "param.h"

// After an array all_FUNCTION_tests of names by number less one, in which numbers may be missing:
// FUNCTION_TESTS, the last number, and list_FUNCTION_tests, which prints one or, for 0, all of
// them.
#define TEST_NAMES(function, FUNCTION)                                                                                \
	enum { FUNCTION##_TESTS = sizeof(all_##function##_tests) / sizeof(*all_##function##_tests) };                 \
	static inline void list_##function##_tests(int number)                                                        \
	{                                                                                                             \
		list_names(all_##function##_tests, FUNCTION##_TESTS, number);                                         \
	}

void list_names(const char *const names[], int count, int number);

struct test_group {
	const char *func;
	// The section of the thesis that the tests are of: of the function's own, or of those of
	// its kind.
	const char *number;
	const char *const *names;
	int count;
	void (*list)(int number);
};

// That of a function of the library; NULL if it has none.
const struct test_group *group_of(const char *func);
// The name of a test of a function; NULL if there is none.
const char *name_of(const char *func, long number);

#endif
