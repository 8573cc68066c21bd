// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Preloaded into perftest: time passes sixteen times as fast.
//
// Before each row of its table perftest finds out how fast the processor's clock is, by asking for
// the time of day again and again until 0.22 s have passed, which is all that it wants that for. And
// ib_write_bw and ib_write_lat sleep for a second before they say a first word to each other. Its
// figures, which are divided by what it finds, are those of a clock of a sixteenth of the
// frequency: a test that looks at them must not preload this.

#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { HASTE = 16, NSEC = 1000000000, USEC = 1000 };

// Of no date: from when the machine started.
int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	struct timespec now;

	(void)tz;
	if (clock_gettime(CLOCK_MONOTONIC, &now) < 0)
		return -1;

	long long fraction = (long long)now.tv_nsec * HASTE;

	tv->tv_sec = now.tv_sec * HASTE + fraction / NSEC;
	tv->tv_usec = fraction % NSEC / USEC;
	return 0;
}

unsigned int sleep(unsigned int seconds)
{
	return usleep(seconds * 1000000 / HASTE);
}
