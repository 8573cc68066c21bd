// SPDX-License-Identifier: MIT OR Apache-2.0

#include "print.h"

#include "names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int log_fd = -1;
static bool verbose;
static const char *mode_name, *group_name;
// Whether this is a test's process, or the framework while one runs.
static bool has_test;

// Shared by the framework and the process of a test.
static struct record {
	volatile enum { NONE, PASS, FAIL } verdict;
	volatile bool returned;
	long value;
	char head[768];
	char reason[512];
} *record;

void print_open_log(void)
{
	const char *name = getenv("EXS_TEST_LOG");

	log_fd = open(name ? name : "exs_test.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (log_fd < 0)
		perror(name ? name : "exs_test.log");
	record = mmap(NULL, sizeof(*record), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (record == MAP_FAILED) {
		perror("mmap");
		exit(EXIT_FAILURE);
	}
}

static void put(const char *line, bool to_stdout)
{
	if (to_stdout)
		fputs(line, stdout);
	fflush(stdout);
	if (log_fd >= 0 && write(log_fd, line, strlen(line)) < 0)
		perror("the log file");
}

static void make_head(int test, const char *exp, const char *name)
{
	const char *in = group_name ? " [group " : "", *end = group_name ? "]" : "";

	if (has_test)
		snprintf(record->head, sizeof(record->head), "%d : %s : %s%s%s%s : %s", test, exp, name, in,
			 group_name ? group_name : "", end, mode_name);
}

void print_begin(const param *p)
{
	verbose = p->verbose;
	mode_name = p->mode ? "non-blocking" : "blocking";
	const struct test_group *group = group_of(p->func);
	group_name = group ? group->number : p->group;
	has_test = true;
	record->verdict = NONE;
	record->returned = false;
	make_head(p->test_number, p->test_value, p->test_name);
}

// In the other process of a test there is no test to report of: it tells what failed on standard
// error.
static int note(bool pass, long value, const char *reason)
{
	if (!has_test) {
		if (!pass)
			fprintf(stderr, "the other process: %s\n", reason);
	} else if (record->verdict != FAIL) {
		record->value = value;
		// A signal handler comes here too: nothing that formats.
		size_t length = strnlen(reason, sizeof(record->reason) - 1);
		memcpy(record->reason, reason, length);
		record->reason[length] = '\0';
		// Colons are between fields.
		for (char *at = record->reason; (at = strchr(at, ':'));)
			*at = ';';
		record->verdict = pass ? PASS : FAIL;
	}
	return pass ? EXIT_SUCCESS : EXIT_FAILURE;
}

void print_returned(void)
{
	record->returned = true;
}

void print_head(const param *p)
{
	if (record->verdict == NONE)
		make_head(p->test_number, p->test_value, p->test_name);
}

int print_verdict(int status)
{
	char line[sizeof(*record) + 64];

	// Not performed in this mode.
	if (record->verdict == NONE && record->returned && !status) {
		has_test = false;
		return -1;
	}
	if (WIFSIGNALED(status))
		note(false, -1, strsignal(WTERMSIG(status)));
	else if (record->verdict == NONE)
		note(false, -1, "ended without a result");
	else if (WEXITSTATUS(status))
		note(false, -1, "failed after the call");
	bool pass = record->verdict == PASS;
	snprintf(line, sizeof(line), "%s : %s : %ld : %s\n", record->head, pass ? "PASS" : "FAIL", record->value,
		 record->reason);
	put(line, verbose || !pass);
	has_test = false;
	return !pass;
}

void print_sum(const param *p, int passed, int failed)
{
	char line[256];

	snprintf(line, sizeof(line), "# %s, %s: %d passed, %d failed\n", p->func, p->mode ? "non-blocking" : "blocking", passed,
		 failed);
	print_message(line);
}

int print_error(const char *name)
{
	char line[256];
	int error = errno;

	fprintf(stderr, "%s: %s\n", name, strerror(error));
	snprintf(line, sizeof(line), "A correct call to %s failed. The test suite will now terminate.\n", name);
	put(line, true);
	errno = error;
	return EXIT_FAILURE;
}

int print_message(const char *msg)
{
	put(msg, verbose);
	return EXIT_SUCCESS;
}

int print_macro(int test, const char *exp, const char *name, long ret_value, long ret_expected, int ret_errno)
{
	int error = errno;
	bool pass = ret_value == ret_expected;

	make_head(test, exp, name);
	if (ret_value == -1)
		return note(pass && error == ret_errno, error, strerror(error));
	if (pass)
		return note(true, ret_value, strerror(0));
	return note(false, ret_value, "not what was expected");
}

// A handle is good or not; its value is nobody's business.
static int note_handle(bool is_valid, int error, int ret_errno)
{
	if (is_valid)
		return note(ret_errno == 0, 0, strerror(0));
	return note(error == ret_errno, error, strerror(error));
}

int print_mhandle_macro(int test, const char *exp, const char *name, exs_mhandle_t ret_value, int ret_errno)
{
	int error = errno;

	make_head(test, exp, name);
	return note_handle(ret_value != EXS_MHANDLE_INVALID, error, ret_errno);
}

int print_qhandle_macro(int test, const char *exp, const char *name, exs_qhandle_t ret_value, int ret_errno)
{
	int error = errno;

	make_head(test, exp, name);
	return note_handle(ret_value != EXS_QHANDLE_INVALID, error, ret_errno);
}

void print_pass(long value)
{
	note(true, value, strerror(0));
}

void print_fail(const char *format, ...)
{
	char reason[sizeof(record->reason)];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(reason, sizeof(reason), format, arguments);
	va_end(arguments);
	note(false, -1, reason);
}

void print_fault(const char *reason)
{
	note(false, -1, reason);
}
