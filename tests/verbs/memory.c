// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What may be registered, and what happens to memory afterwards.

#include "answers.h"
#include "endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ibv_pd *the_pd(void)
{
	static struct ibv_pd *pd;

	if (!pd)
		CHECK((pd = ibv_alloc_pd(open_device())), "ibv_alloc_pd: %s", strerror(errno));
	return pd;
}

// Far below where libraries map: what they need meanwhile must not fill a hole that a test makes.
static char *map(size_t length, int protection)
{
	static char *next = (char *)0x100000000000;
	char *memory = mmap(next, length, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	CHECK(memory == next, "mmap: %s", strerror(errno));
	next += length + (1 << 20);
	return memory;
}

static void refused(void *memory, size_t length, int access, int wanted, int or_wanted)
{
	errno = 0;
	struct ibv_mr *mr = ibv_reg_mr(the_pd(), memory, length, access);

	CHECK(!mr, "memory that must be refused was registered");
	CHECK(errno == wanted || errno == or_wanted, "errno is %d (%s), not %d", errno, strerror(errno), wanted);
}

static void unmapped(void)
{
	char *memory = map(65536, PROT_READ | PROT_WRITE);

	munmap(memory, 65536);
	refused(memory, 65536, ALL_ACCESS, EFAULT, EFAULT);
	refused(NULL, 4096, ALL_ACCESS, EFAULT, EFAULT);
}

static void hole_in_the_middle(void)
{
	char *memory = map(3 * 4096, PROT_READ | PROT_WRITE);

	munmap(memory + 4096, 4096);
	refused(memory, 3 * 4096, IBV_ACCESS_LOCAL_WRITE, EFAULT, EFAULT);
	refused(memory, 3 * 4096, IBV_ACCESS_REMOTE_READ, EFAULT, EFAULT);
	// Up to the hole is fine.
	CHECK(ibv_reg_mr(the_pd(), memory, 4096, ALL_ACCESS), "ibv_reg_mr: %s", strerror(errno));
	refused(memory, 4097, ALL_ACCESS, EFAULT, EFAULT);
}

static void read_only(void)
{
	char *memory = map(8192, PROT_READ);

	refused(memory, 8192, IBV_ACCESS_LOCAL_WRITE, EFAULT, EACCES);
	refused(memory, 8192, ALL_ACCESS, EFAULT, EACCES);
	// To be read from, it will do.
	CHECK(ibv_reg_mr(the_pd(), memory, 8192, IBV_ACCESS_REMOTE_READ), "ibv_reg_mr: %s", strerror(errno));
	CHECK(ibv_reg_mr(the_pd(), memory, 8192, 0), "ibv_reg_mr: %s", strerror(errno));
}

static void not_readable(void)
{
	refused(map(4096, PROT_NONE), 4096, 0, EFAULT, EACCES);
}

static void constant_data(void)
{
	static const char constant[4096] __attribute__((aligned(4096))) = "constant";

	refused((void *)constant, sizeof(constant), IBV_ACCESS_LOCAL_WRITE, EFAULT, EACCES);
	CHECK(ibv_reg_mr(the_pd(), (void *)constant, sizeof(constant), IBV_ACCESS_REMOTE_READ), "ibv_reg_mr: %s", strerror(errno));
}

// Remote write and remote atomic need local write.
static void contradictory_rights(void)
{
	char *memory = map(4096, PROT_READ | PROT_WRITE);

	refused(memory, 4096, IBV_ACCESS_REMOTE_WRITE, EINVAL, EINVAL);
	refused(memory, 4096, IBV_ACCESS_REMOTE_ATOMIC, EINVAL, EINVAL);
	refused(memory, 4096, ALL_ACCESS | 1 << 19, EINVAL, EOPNOTSUPP);
}

static void impossible_ranges(void)
{
	char *memory = map(4096, PROT_READ | PROT_WRITE);

	refused(memory, SIZE_MAX - 100, ALL_ACCESS, EINVAL, EFAULT);
	refused((void *)(UINTPTR_MAX - 100), 200, ALL_ACCESS, EINVAL, EFAULT);
	refused(memory, (size_t)1 << 50, ALL_ACCESS, EINVAL, EFAULT);
	// A kernel address.
	refused((void *)0xffff800000000000, 4096, ALL_ACCESS, EFAULT, EINVAL);
}

static void file_mapping(void)
{
	FILE *file = tmpfile();

	CHECK(file && ftruncate(fileno(file), 8192) == 0, "a temporary file: %s", strerror(errno));
	char *shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);

	CHECK(shared != MAP_FAILED, "mmap: %s", strerror(errno));
	CHECK(ibv_reg_mr(the_pd(), shared, 8192, ALL_ACCESS), "ibv_reg_mr: %s", strerror(errno));
	// Beyond the end of the file there is no memory, mapped as it may be.
	CHECK_EQ(ftruncate(fileno(file), 4096), 0);
	refused(shared, 8192, ALL_ACCESS, EFAULT, EFAULT);
}

// Memory of every kind, odd addresses and lengths.
static void anything_else(void)
{
	static char data[10000];
	struct ibv_pd *pd = the_pd();
	char stack[100], *heap = malloc(1), *large = map(1 << 30, PROT_READ | PROT_WRITE);
	struct ibv_mr *mrs[] = {
		ibv_reg_mr(pd, data + 1, 9998, ALL_ACCESS),
		ibv_reg_mr(pd, stack + 3, 7, ALL_ACCESS),
		ibv_reg_mr(pd, heap, 1, ALL_ACCESS),
		ibv_reg_mr(pd, large, 1 << 20, ALL_ACCESS),
		ibv_reg_mr(pd, large, 1 << 20, ALL_ACCESS),
	};

	for (int i = 0; i < 5; i++)
		CHECK(mrs[i], "ibv_reg_mr number %d", i);
	CHECK(mrs[3]->rkey != mrs[4]->rkey && mrs[3]->lkey != mrs[4]->lkey, "two regions have one key");
	CHECK(mrs[0]->addr == data + 1 && mrs[0]->length == 9998, "address or length is wrong");
	for (int i = 0; i < 5; i++)
		CHECK_EQ(ibv_dereg_mr(mrs[i]), 0);
	// What was written before registration is still there, and registration writes nothing.
	for (int i = 0; i < 10000; i++)
		CHECK_EQ(data[i], 0);
}

// Registering a large range of untouched memory works.
static void large_and_untouched(void)
{
	char *memory = map((size_t)1 << 28, PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = ibv_reg_mr(the_pd(), memory, (size_t)1 << 28, ALL_ACCESS);

	CHECK(mr, "ibv_reg_mr: %s", strerror(errno));
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

// Two endpoints of this process, and memory registered at the second, which the first is told of.
struct reach {
	struct endpoint *from;
	struct address to;
	char *memory;
};

enum { REACH = 8192 };

static struct reach reachable(void)
{
	struct endpoint *a = open_endpoint(&(struct options){0}), *b = open_endpoint(&(struct options){0});
	struct address to_a = address_of(a);
	struct reach reach = {.from = a, .to = address_of(b), .memory = map(REACH, PROT_READ | PROT_WRITE)};
	struct ibv_mr *mr = ibv_reg_mr(b->pd, reach.memory, REACH, ALL_ACCESS);

	CHECK(mr, "ibv_reg_mr: %s", strerror(errno));
	connect_endpoint(a, &reach.to, NULL);
	connect_endpoint(b, &to_a, NULL);
	reach.to.va = (uintptr_t)reach.memory;
	reach.to.rkey = mr->rkey;
	CHECK_EQ(post(a, 1, IBV_WR_RDMA_WRITE, 0, REACH, &reach.to, 0, 0), 0);
	expect_wc(a->send_cq, 1, IBV_WC_SUCCESS);
	return reach;
}

static bool is_refused(const struct ibv_wc *wc)
{
	return wc->status == IBV_WC_REM_OP_ERR || wc->status == IBV_WC_REM_ACCESS_ERR;
}

// While a region is registered its memory goes: the peer's requests fail, the process lives.
static void goes(void (*go)(char *memory))
{
#ifndef __x86_64__
	skip("accesses are guarded on x86-64 only");
#endif
	const enum ibv_wr_opcode requests[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};

	for (int i = 0; i < 2; i++) {
		struct reach reach = reachable();

		go(reach.memory);
		CHECK_EQ(post(reach.from, 2, requests[i], 0, REACH, &reach.to, 0, 0), 0);
		struct ibv_wc wc = wait_wc(reach.from->send_cq);

		CHECK(is_refused(&wc), "request %d: status is %d (%s)", i, wc.status, ibv_wc_status_str(wc.status));
	}
}

static void unmap(char *memory)
{
	CHECK_EQ(munmap(memory, REACH), 0);
}

static void protect(char *memory)
{
	CHECK_EQ(mprotect(memory, REACH, PROT_NONE), 0);
}

// Only for as long as nothing else is mapped there, which map() sees to.
static void unmapped_later(void)
{
	goes(unmap);
}

// The way by which a program keeps the place from being filled.
static void protected_later(void)
{
	goes(protect);
}

// An adapter goes on with the pages that it pinned. Here it is the addresses that are registered:
// what is mapped there anew is reached.
static void replaced_later(void)
{
	struct reach reach = reachable();
	char *again = mmap(reach.memory, REACH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	CHECK(again == reach.memory, "mmap: %s", strerror(errno));
	fill(reach.from->buffer, REACH, 77);
	CHECK_EQ(post(reach.from, 2, IBV_WR_RDMA_WRITE, 0, REACH, &reach.to, 0, 0), 0);
	expect_wc(reach.from->send_cq, 2, IBV_WC_SUCCESS);
	check_filled(again, REACH, 77, "mapped anew");
}

static void block_faults(void)
{
	sigset_t faults;

	sigemptyset(&faults);
	sigaddset(&faults, SIGSEGV);
	sigaddset(&faults, SIGBUS);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &faults, NULL), 0);
}

// Polls for long enough to be who receives, not the helper, whose signals are its own.
static void poll_in_earnest(struct ibv_cq *cq)
{
	expect_no_wc(cq, 20);
}

// How often a packet comes to memory that is gone: who handles it, the thread that polls or the
// helper, is a matter of time.
enum { TIMES = 8 };

static bool refused_each_time(void)
{
	for (int i = 0; i < TIMES; i++) {
		struct reach reach = reachable();

		poll_in_earnest(reach.from->send_cq);
		protect(reach.memory);
		CHECK_EQ(post(reach.from, 2, i % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, 0, REACH, &reach.to, 0, 0), 0);
		struct ibv_wc wc = wait_wc(reach.from->send_cq);

		if (!is_refused(&wc))
			return false;
	}
	return true;
}

// A thread that has SIGSEGV blocked and polls: it gets the fault as an error, like any other,
// though the kernel ends a process for a fault that it cannot deliver.
static void protected_and_blocked(void)
{
#ifndef __x86_64__
	skip("accesses are guarded on x86-64 only");
#endif
	block_faults();
	CHECK(refused_each_time(), "a request succeeded");
}

// Posts a WRITE from memory that cannot be read. What is sent is read by the thread that posts, so
// this is sure to be its own fault.
static void send_what_is_gone(struct reach *reach)
{
	char *memory = map(REACH, PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = ibv_reg_mr(reach->from->pd, memory, REACH, IBV_ACCESS_LOCAL_WRITE);

	CHECK(mr, "ibv_reg_mr: %s", strerror(errno));
	protect(memory);
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = 100, .lkey = mr->lkey};
	struct ibv_send_wr *bad, wr = {
		.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = reach->to.va, .rkey = reach->to.rkey},
	};

	CHECK_EQ(ibv_post_send(reach->from->qp, &wr, &bad), 0);
}

static void gone_at_the_sender_and_blocked(void)
{
#ifndef __x86_64__
	skip("accesses are guarded on x86-64 only");
#endif
	block_faults();
	struct reach reach = reachable();

	send_what_is_gone(&reach);
	expect_wc(reach.from->send_cq, 2, IBV_WC_LOC_PROT_ERR);
}

// A fault of a thread that has blocked it anew, after its first access, cannot be delivered: the
// kernel ends the process. As documented.
static void blocked_anew(void)
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (child == 0) {
		struct reach reach = reachable();

		block_faults();
		send_what_is_gone(&reach);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "the process ended with status %#x", status);
}

// The first again, in a thread that blocks everything, as worker threads do, while the first one
// does not.
static void *worker(void *refused)
{
	sigset_t all;

	sigfillset(&all);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
	*(bool *)refused = refused_each_time();
	return NULL;
}

static void protected_and_all_blocked_in_a_worker(void)
{
#ifndef __x86_64__
	skip("accesses are guarded on x86-64 only");
#endif
	struct reach reach = reachable();
	bool refused = false;
	pthread_t thread;

	poll_in_earnest(reach.from->send_cq);
	CHECK_EQ(pthread_create(&thread, NULL, worker, &refused), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK(refused, "a request succeeded");
}

// Who has SIGSEGV blocked to wait for it gets it when it is sent, whatever was done for faults:
// sent to the process and to the thread.
static void blocked_to_be_waited_for(void)
{
	sigset_t wanted;
	siginfo_t info;

	block_faults();
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGSEGV);
	struct reach reach = reachable();

	poll_in_earnest(reach.from->send_cq);
	for (int i = 0; i < 4; i++) {
		const union sigval value = {.sival_int = 1234 + i};

		CHECK_EQ(sigqueue(getpid(), SIGSEGV, value), 0);
		CHECK_EQ(sigtimedwait(&wanted, &info, &(struct timespec){.tv_sec = 10}), SIGSEGV);
		CHECK_EQ(info.si_value.sival_int, 1234 + i);
		CHECK_EQ(info.si_pid, getpid());
		CHECK_EQ(pthread_kill(pthread_self(), SIGSEGV), 0);
		CHECK_EQ(sigtimedwait(&wanted, &info, &(struct timespec){.tv_sec = 10}), SIGSEGV);
		CHECK_EQ(info.si_pid, getpid());
	}
}

enum { POLLING = 4 };
static pthread_barrier_t begun, polled;

static void *polls_and_stays(void *reach)
{
	pthread_barrier_wait(&begun);
	poll_in_earnest((*(struct reach *)reach).from->send_cq);
	pthread_barrier_wait(&polled);
	pause();
	return NULL;
}

// The same by kill(2), and where other threads have been unblocked, which began with the signals
// blocked.
static void blocked_in_all_threads_to_be_waited_for(void)
{
	sigset_t wanted;
	siginfo_t info;
	pthread_t thread;

	block_faults();
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGSEGV);
	sigaddset(&wanted, SIGBUS);
	struct reach reach;

	pthread_barrier_init(&begun, NULL, POLLING + 1);
	pthread_barrier_init(&polled, NULL, POLLING + 1);
	for (int i = 0; i < POLLING; i++)
		CHECK_EQ(pthread_create(&thread, NULL, polls_and_stays, &reach), 0);
	reach = reachable();
	pthread_barrier_wait(&begun);
	pthread_barrier_wait(&polled);
	for (int i = 0; i < 20; i++) {
		int sent = i % 2 ? SIGBUS : SIGSEGV;

		CHECK_EQ(kill(getpid(), sent), 0);
		CHECK_EQ(sigtimedwait(&wanted, &info, &(struct timespec){.tv_sec = 10}), sent);
		CHECK_EQ(info.si_code, SI_USER);
		CHECK_EQ(info.si_pid, getpid());
	}
}

static bool is_blocked(int signal)
{
	sigset_t now;

	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	return sigismember(&now, signal);
}

static void other_and_own_are_blocked(int signal)
{
	_exit(!(is_blocked(SIGUSR1) && is_blocked(signal)));
}

static void neither_is_blocked(int signal)
{
	_exit(is_blocked(SIGUSR1) || is_blocked(signal));
}

static atomic_int handled;

static void count(int signal)
{
	(void)signal;
	handled++;
}

// What a child ends with that had this handler before it opened the device.
static int with_handler(const struct sigaction *action, int times, bool sent)
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (child == 0) {
		CHECK_EQ(sigaction(SIGSEGV, action, NULL), 0);
		struct reach reach = reachable();

		poll_in_earnest(reach.from->send_cq);
		protect(reach.memory);
		for (int i = 0; i < times; i++)
			if (sent)
				raise(SIGSEGV);
			else
				*(volatile char *)reach.memory = 1;
		_exit(handled);
	}
	CHECK(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
	return status;
}

// The program's own handler of faults runs as the kernel would run it.
static void handlers_run_as_they_ask(void)
{
	struct sigaction masked = {.sa_handler = other_and_own_are_blocked};
	struct sigaction not_deferred = {.sa_handler = neither_is_blocked, .sa_flags = SA_NODEFER};
	struct sigaction once = {.sa_handler = count, .sa_flags = SA_RESETHAND};
	struct sigaction each_time = {.sa_handler = count};
	struct sigaction ignored = {.sa_handler = SIG_IGN};

	sigaddset(&masked.sa_mask, SIGUSR1);
	for (int sent = 0; sent < 2; sent++) {
		CHECK_EQ(with_handler(&masked, 1, sent), 0);
		CHECK_EQ(with_handler(&not_deferred, 1, sent), 0);
	}
	CHECK_EQ(WEXITSTATUS(with_handler(&each_time, 3, true)), 3);
	CHECK_EQ(WEXITSTATUS(with_handler(&once, 1, true)), 1);
	CHECK_EQ(WTERMSIG(with_handler(&once, 2, true)), SIGSEGV);
	CHECK_EQ(with_handler(&ignored, 3, true), 0);
	CHECK_EQ(WTERMSIG(with_handler(&ignored, 1, false)), SIGSEGV);
}

// A wild access of the program's own, and a signal that nobody waits for, end the process as ever.
static void ends_all_the_same(void)
{
	for (int sent = 0; sent < 2; sent++) {
		int status;
		pid_t child = fork();

		CHECK(child >= 0, "fork: %s", strerror(errno));
		if (child == 0) {
			struct reach reach = reachable();

			protect(reach.memory);
			if (sent)
				kill(getpid(), SIGSEGV);
			else
				*(volatile char *)reach.memory = 1;
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "the process ended with status %#x", status);
	}
}

enum { SIGNALS = 200, NOBODY = INT_MAX };

// Sends a signal to another process now and then, until it has ended.
static pid_t pester(pid_t whom, int times)
{
	pid_t child = fork();

	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (child != 0)
		return child;
	for (int i = 0; i < times; i++) {
		nanosleep(&(struct timespec){.tv_nsec = 700000}, NULL);
		if (kill(whom, i % 2 ? SIGBUS : SIGSEGV) != 0)
			break;
	}
	_exit(0);
}

// Long WRITEs from one endpoint of the process to another, as long as `child` lives: nearly all of
// the time memory is copied.
static void copy_until_the_end_of(pid_t child)
{
	enum { SIZE = 1 << 20 };
	struct options options = {.size = SIZE};
	struct endpoint *a = open_endpoint(&options), *b = open_endpoint(&options);
	struct address to_a = address_of(a), to_b = address_of(b);
	int status;

	connect_endpoint(a, &to_b, NULL);
	connect_endpoint(b, &to_a, NULL);
	do {
		CHECK_EQ(post(a, 1, IBV_WR_RDMA_WRITE, 0, SIZE, &to_b, 0, 0), 0);
		expect_wc(a->send_cq, 1, IBV_WC_SUCCESS);
	} while (waitpid(child, &status, WNOHANG) != child);
}

// Faults are told from signals that another process sends while registered memory is copied: these
// are the program's, and the copy goes on.
static void sent_in_the_midst_of_a_copy(void)
{
	struct sigaction action = {.sa_handler = count};

	CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
	CHECK_EQ(sigaction(SIGBUS, &action, NULL), 0);
	copy_until_the_end_of(pester(getpid(), SIGNALS));
	CHECK(handled > SIGNALS / 4, "the handler ran %d times", handled);
}

// Without a handler they end the process, whatever they meet.
static void ended_in_the_midst_of_a_copy(void)
{
	for (int i = 0; i < 8; i++) {
		int status;
		pid_t child = fork();

		CHECK(child >= 0, "fork: %s", strerror(errno));
		if (child == 0)
			copy_until_the_end_of(NOBODY);
		nanosleep(&(struct timespec){.tv_nsec = 300000000 + i * 1000000}, NULL);
		CHECK_EQ(kill(child, SIGSEGV), 0);
		CHECK(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "the process ended with status %#x", status);
	}
}

// Changed in place: the keys stay, and what fails changes nothing.
static void reregister(void)
{
	struct options options = {.mr_access = IBV_ACCESS_LOCAL_WRITE};
	struct endpoint *e = open_endpoint(&options);
	uint32_t lkey = e->mr->lkey, rkey = e->mr->rkey;
	struct ibv_pd *other = ibv_alloc_pd(e->context);

	CHECK(other, "ibv_alloc_pd: %s", strerror(errno));
	CHECK_EQ(ibv_rereg_mr(e->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, e->buffer + 4096, 4096, 0), 0);
	CHECK(e->mr->addr == e->buffer + 4096 && e->mr->length == 4096, "range of the region");
	CHECK_EQ(ibv_rereg_mr(e->mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
	CHECK(e->mr->pd == other, "domain of the region");
	REFUSED(ibv_dealloc_pd(other), EBUSY);
	CHECK_EQ(ibv_rereg_mr(e->mr, IBV_REREG_MR_CHANGE_PD, e->pd, NULL, 0, 0), 0);
	CHECK_EQ(ibv_dealloc_pd(other), 0);
	CHECK_EQ(ibv_rereg_mr(e->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE), IBV_REREG_MR_ERR_CMD);
	CHECK_EQ(ibv_rereg_mr(e->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_ACCESS), 0);
	CHECK_EQ(e->mr->lkey, lkey);
	CHECK_EQ(e->mr->rkey, rkey);
}

#define T(name) {#name, name, 0}
PROGRAM(T(unmapped), T(hole_in_the_middle), T(read_only), T(not_readable), T(constant_data), T(contradictory_rights),
	T(impossible_ranges), T(file_mapping), T(anything_else), T(large_and_untouched), T(unmapped_later),
	T(protected_later), T(replaced_later), T(protected_and_blocked),
	T(gone_at_the_sender_and_blocked), T(blocked_anew), T(protected_and_all_blocked_in_a_worker), T(blocked_to_be_waited_for),
	T(blocked_in_all_threads_to_be_waited_for), T(handlers_run_as_they_ask), T(ends_all_the_same), T(sent_in_the_midst_of_a_copy),
	T(ended_in_the_midst_of_a_copy), T(reregister))
