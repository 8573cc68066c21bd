// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A test's process: it has so much time, and leaves nobody behind.

#ifndef PROCESS_H
#define PROCESS_H

// Seconds that a test has whose table says `usual`, 0 for the usual: $EXS_TEST_SECONDS is another
// number for those.
unsigned test_limit(unsigned usual);
// Runs body in a process of its own with an alarm at its limit; its status as wait(2) gives it.
// Whatever it has started is killed.
int run_bounded(unsigned limit, void (*body)(void *argument), void *argument);

#endif
