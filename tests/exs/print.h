// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Results, on standard output and in the log file. A result is one line of seven fields:
//
//   number : expected value : name : mode : PASS or FAIL : return value : reason
//
// The name ends with the test group, in brackets. There is no colon within a field. Nothing in a
// line changes from run to run, so that two logs can be compared with diff. The process of a test
// notes its result in memory that it shares with the framework, which prints it when the process
// has ended: a crash at the end counts too.

#ifndef PRINT_H
#define PRINT_H

#include "param.h"

// Opens the log file, $EXS_TEST_LOG or exs_test.log here, to append to it.
void print_open_log(void);

// The test whose result comes next.
void print_begin(const param *p);
// Prints its result, now that its process has ended with this status: 0 if it passed, 1 if it
// failed, -1 if it was not performed.
int print_verdict(int status);
// What it is called by now, in its process.
void print_head(const param *p);
// The test's process has come to its end: one that has no result was not performed.
void print_returned(void);

int print_error(const char *name);
// To the log file, and to standard output if verbose.
int print_message(const char *msg);

// Of a program's tests.
void print_sum(const param *p, int passed, int failed);

// The result of a call that answers a number. It passes if the return value is the expected one
// and, where that is -1, errno is ret_errno.
int print_macro(int test, const char *exp, const char *name, long ret_value, long ret_expected, int ret_errno);
int print_mhandle_macro(int test, const char *exp, const char *name, exs_mhandle_t ret_value, int ret_errno);
int print_qhandle_macro(int test, const char *exp, const char *name, exs_qhandle_t ret_value, int ret_errno);

// Other results of the test that runs. A failure stands, whatever comes after it.
void print_pass(long value);
void print_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
// From a signal handler.
void print_fault(const char *reason);

#endif
