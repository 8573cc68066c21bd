// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The fault handler: a test that crashes, aborts or does not end is reported as a result like any other.

#ifndef FAULT_H
#define FAULT_H

// Reports SIGSEGV, SIGBUS, SIGABRT and SIGALRM in the line of the test that runs, and ends the process.
void setup_fault_catcher(void);

// SIGALRM comes after this many seconds.
void time_limit(unsigned seconds);

#endif
