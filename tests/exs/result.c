// SPDX-License-Identifier: MIT OR Apache-2.0

#include "result.h"

#include "process.h"

#include <pthread.h>
#include <sys/prctl.h>

// Seconds for what a program does beside its tests.
enum { WHOLE_LIMIT = 120 };

param *p;
char exs_test_fifo_1[PATH_MAX], exs_test_fifo_2[PATH_MAX];

static pid_t owner;

static void forget_directory(void)
{
	if (getpid() == owner)
		remove_directory(p);
}

// An alarm is not inherited.
static void limit_child(void)
{
	time_limit(WHOLE_LIMIT);
}

// Beside what the command line says: the server's address, the log file, and a working directory
// with the FIFOs, fifo1 and fifo2, which goes with the process. Neither it nor its children outlive
// their time.
int setup_options(int argc, char *argv[], param *of)
{
	int done = parse_options(argc, argv, of);

	if (done)
		return done;
	if (aim(of, of->addr))
		return -1;
	print_open_log();
	p = of;
	strcpy(exs_test_fifo_1, p->fifo[0]);
	strcpy(exs_test_fifo_2, p->fifo[1]);
	owner = getpid();
	atexit(forget_directory);
	if (chdir(p->dir)) {
		perror(p->dir);
		return -1;
	}
	time_limit(WHOLE_LIMIT);
	pthread_atfork(NULL, NULL, limit_child);
	return 0;
}

// What a test says of itself counts also where it ends before its call.
static void ends_early(void)
{
	print_head(p);
}

static void test_process(void *test_func)
{
	void *(*test)(void *) = test_func;

	atexit(ends_early);
	test(p);
	print_returned();
	finish(EXIT_SUCCESS);
}

int run_test(int i, void *test_func)
{
	const char *name = name_of(p->func, i);

	p->test_number = i;
	p->test_value = "unknown";
	p->test_name = name ? name : "unknown";
	print_begin(p);
	int status = run_bounded(test_limit(0), test_process, test_func);
	return print_verdict(status);
}

// The function under test, by the name of the one that tests it: test_connect tests exs_connect.
static const char *function_of(const char *name)
{
	static char func[64];
	const char *rest = strncmp(name, "test_", 5) ? name : name + 5;

	snprintf(func, sizeof(func), "exs_%s", rest);
	return group_of(func) ? func : name;
}

int execute_function(int argc, char *argv[], void *test_func, const char *name, int num_tests)
{
	static param parameters;
	// By how they ended: not performed, passed, failed.
	int count[3] = {0};

	p = &parameters;
	p->func = function_of(name);
	p->num_tests = num_tests;
	int done = setup_options(argc, argv, p);
	if (done)
		return done < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
	// Each test has its own time.
	time_limit(0);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (int i = 1; !p->iter && i <= num_tests; i++)
		if (is_test(p, i))
			count[1 + run_test(i, test_func)]++;
	for (const struct iter *iter = p->iter; iter; iter = iter->next)
		count[1 + run_test(iter->number, test_func)]++;
	print_sum(p, count[1], count[2]);
	return count[2] ? EXIT_FAILURE : EXIT_SUCCESS;
}
