// SPDX-License-Identifier: MIT OR Apache-2.0

#include "harness.h"
#include "endpoint.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_SKIP = 77, DEFAULT_LIMIT = 60 };

static int reason_fd = 2;
static int peer_fd = -1;
static pid_t peer_pid;
static unsigned limit = DEFAULT_LIMIT;

static _Noreturn void give_reason(int code, const char *format, va_list arguments)
{
	char text[512];
	int length = vsnprintf(text, sizeof(text) - 1, format, arguments);

	if (length > (int)sizeof(text) - 2)
		length = sizeof(text) - 2;
	text[length++] = '\n';
	if (write(reason_fd, text, length) < 0)
		code = 2;
	_exit(code);
}

void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	give_reason(1, format, arguments);
}

void skip(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	give_reason(EXIT_SKIP, format, arguments);
}

uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

void meet(atomic_int *arrived, int processes)
{
	uint64_t deadline = now_ms() + 60000;

	atomic_fetch_add(arrived, 1);
	while (atomic_load(arrived) < processes) {
		CHECK(now_ms() < deadline, "only %d of %d processes came", atomic_load(arrived), processes);
		usleep(1000);
	}
}

void send_all(int fd, const void *data, size_t length)
{
	const char *at = data;

	while (length) {
		ssize_t sent = send(fd, at, length, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		CHECK(sent > 0, "sending to the other process: %s", strerror(errno));
		at += sent;
		length -= sent;
	}
}

bool receive_all(int fd, void *data, size_t length)
{
	char *at = data;

	while (length) {
		ssize_t got = recv(fd, at, length, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		at += got;
		length -= got;
	}
	return true;
}

// PEER_COMMAND holds the words, one a line, of a command that runs what follows it on the other
// host.
static void exec_peer(int fd)
{
	char *words[64], descriptor[16], reasons[16], *prefix = getenv("PEER_COMMAND");
	static char self[4096];
	size_t count = 0;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		_exit(2);
	if (prefix) {
		unsetenv("LD_PRELOAD");
		unsetenv("RDMAV_DRIVERS");
		unsetenv("IBV_DRIVERS");
		unsetenv("FERROCE_RUNTIME_DIR");
		for (char *word = strtok(prefix, "\n"); word && count < 56; word = strtok(NULL, "\n"))
			words[count++] = word;
	}
	snprintf(descriptor, sizeof(descriptor), "%d", fd);
	snprintf(reasons, sizeof(reasons), "%d", reason_fd);
	words[count++] = self;
	words[count++] = "--peer";
	words[count++] = descriptor;
	words[count++] = reasons;
	words[count] = NULL;
	execvp(words[0], words);
	_exit(2);
}

int peer_socket(void)
{
	int ends[2];

	if (peer_fd >= 0)
		return peer_fd;
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair: %s", strerror(errno));
	peer_pid = fork();
	CHECK(peer_pid >= 0, "fork: %s", strerror(errno));
	if (peer_pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		exec_peer(ends[1]);
	}
	close(ends[1]);
	peer_fd = ends[0];
	return peer_fd;
}

void peer_kill(void)
{
	peer_socket();
	kill(peer_pid, SIGKILL);
	waitpid(peer_pid, NULL, 0);
	close(peer_fd);
	peer_fd = -1;
}

static void peer_join(void)
{
	int status;

	if (peer_fd < 0)
		return;
	shutdown(peer_fd, SHUT_WR);
	CHECK(waitpid(peer_pid, &status, 0) == peer_pid, "waitpid: %s", strerror(errno));
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the other process ended with status %#x", status);
}

// One test in a process of its own; 0 passed, 1 failed.
static int run(const struct test *test)
{
	char reason[512] = "";
	int ends[2], status, length = 0;
	ssize_t got;
	pid_t child;

	fflush(stdout);
	if (pipe(ends) || (child = fork()) < 0) {
		printf("not ok %s: %s\n", test->name, strerror(errno));
		return 1;
	}
	if (child == 0) {
		close(ends[0]);
		reason_fd = ends[1];
		limit = test->limit ? test->limit : DEFAULT_LIMIT;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(limit);
		test->run();
		peer_join();
		fflush(NULL);
		_exit(0);
	}
	close(ends[1]);
	while ((got = read(ends[0], reason + length, sizeof(reason) - 1 - length)) > 0)
		length += got;
	close(ends[0]);
	reason[length] = '\0';
	reason[strcspn(reason, "\n")] = '\0';
	waitpid(child, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		printf("ok %s\n", test->name);
		return 0;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIP) {
		printf("skip %s: %s\n", test->name, reason);
		return 0;
	}
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		printf("not ok %s: hung for %u s\n", test->name, test->limit ? test->limit : DEFAULT_LIMIT);
	else if (WIFSIGNALED(status))
		printf("not ok %s: died of signal %d (%s)\n", test->name, WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		printf("not ok %s: %s\n", test->name, reason[0] ? reason : "ended without a reason");
	return 1;
}

int harness_main(int argc, char **argv, const struct test *tests, size_t count)
{
	int failed = 0, found = 0;

	if (argc == 4 && strcmp(argv[1], "--peer") == 0) {
		reason_fd = atoi(argv[3]);
		alarm(300);
		peer_serve(atoi(argv[2]));
		return 0;
	}
	for (size_t i = 0; i < count; i++) {
		if (argc > 1 && strcmp(argv[1], "--list") == 0) {
			printf("%s\n", tests[i].name);
			found = 1;
		} else if (argc < 2 || strcmp(argv[1], tests[i].name) == 0) {
			failed += run(&tests[i]);
			found = 1;
		}
	}
	if (!found)
		fprintf(stderr, "no such test\n");
	return failed || !found;
}
