// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What a call returns together with the `errno` that it leaves.

#ifndef ANSWERS_H
#define ANSWERS_H

#include "harness.h"

#include <errno.h>

// No call's errno: what was there before.
enum { BEFORE = EXFULL };

#define ANSWERS(call, value, due)                                                                  \
	do {                                                                                       \
		errno = BEFORE;                                                                    \
		long result_ = (long)(call);                                                       \
		int left_ = errno;                                                                 \
		CHECK(result_ == (value) && left_ == (due),                                        \
		      "%s: returns %ld and leaves errno at %d, not %d", #call, result_, left_, due); \
	} while (0)

// Calls that return an errno, an object, 0 or -1.
#define REFUSED(call, due) ANSWERS(call, due, due)
#define NOTHING(call, due) ANSWERS(call, 0, due)
#define MINUS_ONE(call, due) ANSWERS(call, -1, due)

#endif
