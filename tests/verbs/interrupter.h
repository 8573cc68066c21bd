// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A thread that has a signal (SIGUSR1) come to the test's while that one waits, some microseconds
// after the wait began, or one that is cancelled. One program is one test: so there is one of each
// of these.

#ifndef INTERRUPTER_H
#define INTERRUPTER_H

#include "harness.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

static inline void sleep_us(unsigned us)
{
	nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000L}, NULL);
}

// As exactly as can be: what does not sleep does so for some 50 us.
static inline void spin_us(unsigned us)
{
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec < us * 1000L);
}

static atomic_int handled;

static inline void count_handled(int signal)
{
	(void)signal;
	atomic_fetch_add(&handled, 1);
}

static inline void handle(int flags)
{
	struct sigaction action = {.sa_handler = count_handled, .sa_flags = flags};

	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
}

static pthread_t waiter, other;
// Of the wait: 0 there is none, 1 it begins, 2 it is over.
static atomic_int waits;
static unsigned delay;
static int sent;

static inline void wait_for(int wanted)
{
	while (atomic_load(&waits) != wanted)
		sched_yield();
}

static inline void signal_waiter(void)
{
	wait_for(1);
	spin_us(delay);
	CHECK_EQ(pthread_kill(waiter, SIGUSR1), 0);
}

// A signal that comes before the thread sleeps, or is said to, is lost to it. So there are more.
static inline void *interrupt(void *unused)
{
	(void)unused;
	signal_waiter();
	for (sent = 1;; sent++) {
		for (int i = 0; i < 40; i++) {
			if (atomic_load(&waits) == 2)
				return NULL;
			sleep_us(500);
		}
		CHECK_EQ(pthread_kill(waiter, SIGUSR1), 0);
	}
}

// Starts a thread that does this when the wait begins, which is next, and so many microseconds on.
static inline void begin_wait(void *(*does)(void *), unsigned microseconds)
{
	waiter = pthread_self();
	delay = microseconds;
	atomic_store(&waits, 0);
	CHECK_EQ(pthread_create(&other, NULL, does, NULL), 0);
	atomic_store(&waits, 1);
}

// AddressSanitizer goes on to guard the frames of a thread that is cancelled, and finds that the
// end of the thread comes by: such frames are unwound unseen. This is for those that have variables.
#define UNGUARDED __attribute__((no_sanitize_address))

// Starts a thread that does this and is cancelled so many microseconds after it says that it waits,
// and awaits its end.
static inline void cancel(void *(*does)(void *), void *argument, unsigned microseconds)
{
	void *result;

	atomic_store(&waits, 0);
	CHECK_EQ(pthread_create(&other, NULL, does, argument), 0);
	wait_for(1);
	spin_us(microseconds);
	CHECK_EQ(pthread_cancel(other), 0);
	CHECK_EQ(pthread_join(other, &result), 0);
	CHECK(result == PTHREAD_CANCELED, "it came back");
}

// The wait is over, and so is the thread.
static inline void end_wait(void)
{
	atomic_store(&waits, 2);
	CHECK_EQ(pthread_join(other, NULL), 0);
}

#endif
