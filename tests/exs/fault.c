// SPDX-License-Identifier: MIT OR Apache-2.0

#include "fault.h"

#include "print.h"

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

static const struct {
	int number;
	const char *reason;
} faults[] = {
	{SIGSEGV, "SEGFAULT"},
	{SIGBUS, "Bus error"},
	{SIGABRT, "Abort"},
	{SIGALRM, "Time Out"},
};

static pid_t reporter;

// Runs with whatever the library holds: nothing here may allocate or lock.
static void on_fault(int number)
{
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		if (faults[i].number == number && getpid() == reporter)
			print_fault(faults[i].reason);
	_exit(EXIT_FAILURE);
}

void setup_fault_catcher(const param *p, pid_t process)
{
	struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_RESETHAND | SA_ONSTACK};

	reporter = process;
	(void)p;
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		sigaction(faults[i].number, &action, NULL);
}

void time_limit(unsigned seconds)
{
	alarm(seconds);
}
