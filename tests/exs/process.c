// SPDX-License-Identifier: MIT OR Apache-2.0

#include "process.h"

#include "case.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Seconds for a test, and for one that does not heed them.
enum { LIMIT = 20, GRACE = 5 };

unsigned test_limit(unsigned usual)
{
	const char *seconds = getenv("EXS_TEST_SECONDS");

	if (usual)
		return usual;
	return seconds && atoi(seconds) > 0 ? (unsigned)atoi(seconds) : LIMIT;
}

// The test's own alarm should have ended it: this is for one that cannot be woken.
static int ends_within(pid_t child, unsigned seconds)
{
	struct pollfd end = {.fd = syscall(SYS_pidfd_open, child, 0), .events = POLLIN};

	if (end.fd < 0)
		return 1;
	int count = poll(&end, 1, seconds * 1000);
	close(end.fd);
	return count;
}

// Whatever a test leaves behind is in its process group, and ours to collect once its parent is
// gone.
static void end_group(pid_t group)
{
	kill(-group, SIGKILL);
	while (waitpid(-group, NULL, 0) > 0 || errno == EINTR)
		;
}

int run_bounded(unsigned limit, void (*body)(void *argument), void *argument)
{
	fflush(stdout);
	pid_t child = fork();
	if (child < 0) {
		print_fail("fork: %s", strerror(errno));
		return 0;
	}
	if (child == 0) {
		setpgid(0, 0);
		time_limit(limit);
		body(argument);
		_exit(EXIT_SUCCESS);
	}
	setpgid(child, child);
	int status = 0;
	if (!ends_within(child, limit + GRACE))
		kill(child, SIGKILL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	end_group(child);
	return status;
}
