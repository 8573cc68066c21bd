// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A library, to be preloaded, that breaks one promise of the Extended Sockets library, which
// $EXS_MUTANT names, and keeps all others: every function calls the library's own. With
// EXS_MUTANT=list the process prints them all, a tab between name and promise, and ends; with a
// name that is none it aborts.

#ifndef MUTANT_H
#define MUTANT_H

#include <dlfcn.h>
#include <errno.h>
#include <exs.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// A name: FUNCTION.WHAT, without exs_.
struct mutant {
	const char *name, *promise;
};

extern const struct mutant mutants[];
extern const size_t mutant_count;

// Whether this one is to be broken.
bool broken(const char *name);
// What all functions of one kind promise. The answer as it is given: for 0, FUNCTION.answer is 7;
// for -1, FUNCTION.failure is -2, and FUNCTION.errno has another errno.
long answered(const char *function, long answer);
// The same of functions that answer a number of bytes: FUNCTION.count is one less.
long counted(const char *function, long answer);
// Whether a call that failed with this errno is to be one that worked.
bool let_through(const char *name, long answer, int error);

// The library's own function.
#define REAL(function)                                                                   \
	({                                                                               \
		static __typeof__(&function) real;                                       \
		if (!real)                                                               \
			real = (__typeof__(&function))dlsym(RTLD_NEXT, #function);       \
		real;                                                                    \
	})

// A copy of bytes, the last of which is another. It stays: an operation may have it for long.
void *spoiled_copy(const void *bytes, size_t length);
// Changes the last of the bytes.
void spoil(void *bytes, size_t length);
// Changes a byte of what a vector of files was filled with.
void spoil_file(const exs_xferfile_t *vector);
// A copy of a vector with its first element changed: it begins a byte later, or has a byte less, or
// the elements stand the other way round.
exs_xferfile_t *other_vector(const char *function, exs_xferfile_t *vector, int count);

// An event that nobody was promised, for the next exs_qdequeue() of this queue.
void post(exs_qhandle_t queue, exs_event_t event);

#endif
