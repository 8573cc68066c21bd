// SPDX-License-Identifier: MIT OR Apache-2.0

#include "case.h"

#include "names.h"
#include "peer.h"
#include "process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

static const struct test_case *find(const struct program *program, long number)
{
	for (size_t i = 0; i < program->count; i++)
		if (program->cases[i].number == number)
			return &program->cases[i];
	return NULL;
}

int is_test(const param *p, long number)
{
	if (p->program)
		return find(p->program, number) != NULL;
	// One of a function that is not the library's has no name.
	return number >= 1 && number <= p->num_tests && (!group_of(p->func) || name_of(p->func, number));
}

static const char *case_name(const struct program *program, const struct test_case *c)
{
	return c->name ? c->name : name_of(program->func, c->number);
}

void list_tests(const param *p, int number)
{
	const struct program *program = p->program;
	const struct test_group *group = group_of(p->func);

	for (size_t i = 0; program && i < program->count; i++) {
		const struct test_case *c = &program->cases[i];

		if (!number || c->number == number)
			printf("%d : %s : %s\n", c->number, c->value, case_name(program, c));
	}
	if (!program && group)
		group->list(number);
}

_Noreturn void finish(int code)
{
	// Not exit(): what the library does then is not what is tested, and a test ends where it
	// ends.
	fflush(stdout);
	_exit(code);
}

void require(int result)
{
	if (result < 0)
		FAIL("a correct call failed");
}

// A call that is to be refused posts nothing either. Before exs_init() there is nothing that could
// be asked.
static int no_event(const param *p, const struct test_case *c)
{
	struct timeval none = {0, 0};
	exs_event_t event;

	return !p->qh || c->error == EPERM || exs_qdequeue(p->qh, &event, 1, &none) == 0;
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
		CHECK(no_event(p, c), "an event is posted for a call that was refused");
	}
	errno = error;
	if (!c->error && c->answer == A_SOCKET) {
		CHECK(ret >= 0 && fcntl(ret, F_GETFD) >= 0, "answers %ld, which is no descriptor", ret);
		CHECK(exs_fcntl(ret, F_GETFL) == O_RDWR, "descriptor %ld is no new socket: %s", ret, strerror(errno));
		print_pass(0);
		return;
	}
	print_macro(c->number, c->value, p->test_name, ret, c->error ? -1 : c->answer, c->error);
}

// A case that is run, and with what.
struct run {
	param *p;
	const struct test_case *c;
};

static void test_process(void *of)
{
	const struct run *run = of;
	const struct test_case *c = run->c;
	param *p = run->p;

	setup_fault_catcher(p, getpid());
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

// Runs one test in a process of its own; 0 if it passed.
static int run_case(param *p, const struct test_case *c)
{
	struct run run = {p, c};

	p->test_number = c->number;
	p->test_value = c->value;
	p->test_name = case_name(p->program, c);
	print_begin(p);
	return print_verdict(run_bounded(test_limit(c->limit), test_process, &run));
}

static int is_performed(const struct test_case *c, const param *p)
{
	if ((c->modes & ONLY_IPV4) && p->family != PF_INET)
		return 0;
	return !c->modes || (c->modes & (p->mode ? NON_BLOCKING : BLOCKING));
}

static int run_tests(param *p)
{
	const struct program *program = p->program;
	int passed = 0, failed = 0;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (size_t i = 0; !p->iter && i < program->count; i++)
		if (is_performed(&program->cases[i], p))
			run_case(p, &program->cases[i]) ? failed++ : passed++;
	for (const struct iter *iter = p->iter; iter; iter = iter->next)
		if (is_performed(find(program, iter->number), p))
			run_case(p, find(program, iter->number)) ? failed++ : passed++;
	print_sum(p, passed, failed);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int run_program(int argc, char *argv[], const struct program *program)
{
	static param p;

	p.program = program;
	p.func = program->func;
	p.group = program->group;
	p.call = program->call;
	int done = parse_options(argc, argv, &p);
	if (done)
		return done < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
	if (getenv("EXS_TEST_PEER"))
		peer_process(&p, find(program, atoi(getenv("EXS_TEST_PEER"))));
	// There is nothing to run in the other mode, and that is all right.
	if (program->is_blocking_only && p.mode) {
		remove_directory(&p);
		return EXIT_SUCCESS;
	}
	print_open_log();
	int code = run_tests(&p);
	remove_directory(&p);
	return code;
}
