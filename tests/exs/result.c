// SPDX-License-Identifier: MIT OR Apache-2.0

#include "peer.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Seconds for a test, and for one that does not heed them.
enum { LIMIT = 20, GRACE = 5 };

static const struct program *program;

static const struct test_case *find(long number)
{
	for (size_t i = 0; i < program->count; i++)
		if (program->cases[i].number == number)
			return &program->cases[i];
	return NULL;
}

int is_test(long number)
{
	return find(number) != NULL;
}

void list_tests(const param *p, int number)
{
	for (size_t i = 0; i < program->count; i++) {
		const struct test_case *c = &program->cases[i];

		if (!number || c->number == number)
			printf("%d : %s : %s\n", c->number, c->value, c->name);
	}
	(void)p;
}

_Noreturn void finish(int code)
{
	// Not exit(): what the library does then is not what is tested, and a test ends where it ends.
	fflush(stdout);
	_exit(code);
}

void require(int result)
{
	if (result < 0)
		FAIL("a correct call failed");
}

// A call that is to be refused posts nothing either.
static int no_event(const param *p)
{
	struct timeval none = {0, 0};
	exs_event_t event;

	return !p->mode || !p->qh || exs_qdequeue(p->qh, &event, 1, &none) <= 0;
}

static void call_and_check(param *p, const struct test_case *c)
{
	exs_qhandle_t qh = p->qh;

	if (c->twist)
		c->twist(p);
	errno = 0;
	long ret = p->call(p);
	int error = errno;

	if (c->error && ret == -1 && error == c->error) {
		p->qh = qh;
		CHECK(no_event(p), "an event is posted for a call that was refused");
	}
	errno = error;
	print_macro(c->number, c->value, c->name, ret, c->error ? -1 : PRINT_ANY, c->error);
}

static unsigned limit_of(const struct test_case *c)
{
	return c->limit ? c->limit : LIMIT;
}

static _Noreturn void test_process(param *p, const struct test_case *c)
{
	setup_fault_catcher();
	time_limit(limit_of(c));
	if (c->peer)
		start_peer(p);
	if (c->state)
		require(c->state(p));
	if (c->run)
		c->run(p);
	else
		call_and_check(p, c);
	if (peer_lives()) {
		meet(p);
		wait_for_peer();
	}
	finish(EXIT_SUCCESS);
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

// Whatever a test leaves behind is in its process group, and ours to collect once its parent is gone.
static void end_group(pid_t group)
{
	kill(-group, SIGKILL);
	while (waitpid(-group, NULL, 0) > 0 || errno == EINTR)
		;
}

// Runs one test in a process of its own; 0 if it passed.
static int run_test(param *p, const struct test_case *c)
{
	p->test_number = c->number;
	p->test_value = c->value;
	p->test_name = c->name;
	print_begin(p);
	fflush(stdout);
	pid_t child = fork();
	if (child < 0) {
		print_fail("fork: %s", strerror(errno));
		return -1;
	}
	if (child == 0) {
		setpgid(0, 0);
		test_process(p, c);
	}
	setpgid(child, child);
	int status = 0;
	if (!ends_within(child, limit_of(c) + GRACE))
		kill(child, SIGKILL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	end_group(child);
	return print_verdict(status);
}

static int is_performed(const struct test_case *c, const param *p)
{
	if ((c->modes & ONLY_IPV4) && p->family != PF_INET)
		return 0;
	return !c->modes || (c->modes & (p->mode ? NON_BLOCKING : BLOCKING));
}

static int run_tests(param *p)
{
	int passed = 0, failed = 0;
	char line[256];

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (size_t i = 0; !p->iter && i < program->count; i++)
		if (is_performed(&program->cases[i], p))
			run_test(p, &program->cases[i]) ? failed++ : passed++;
	for (const struct iter *iter = p->iter; iter; iter = iter->next)
		if (is_performed(find(iter->number), p))
			run_test(p, find(iter->number)) ? failed++ : passed++;
	snprintf(line, sizeof(line), "# %s, %s: %d passed, %d failed\n", p->func, p->mode ? "non-blocking" : "blocking",
		 passed, failed);
	print_message(line);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int execute(int argc, char *argv[], const struct program *of)
{
	static param p;

	program = of;
	p.func = of->func;
	p.call = of->call;
	int done = setup_options(argc, argv, &p);
	if (done)
		return done < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
	if (getenv("EXS_TEST_PEER"))
		peer_process(&p, find(atoi(getenv("EXS_TEST_PEER"))));
	// There is nothing to run in the other mode, and that is all right.
	if (of->is_blocking_only && p.mode) {
		remove_directory(&p);
		return EXIT_SUCCESS;
	}
	print_open_log();
	int code = run_tests(&p);
	remove_directory(&p);
	return code;
}
