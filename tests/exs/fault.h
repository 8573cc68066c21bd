// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The fault handler: a test that crashes, aborts or does not end is reported as a result like any
// other.

#ifndef FAULT_H
#define FAULT_H

#include "param.h"

#include <sys/types.h>

// Reports SIGSEGV, SIGBUS, SIGABRT and SIGALRM in the line of the test that runs, and ends the
// process. What p says is not looked at; children of this process report nothing of their own.
void setup_fault_catcher(const param *p, pid_t process);

// SIGALRM comes after this many seconds.
void time_limit(unsigned seconds);

#endif
