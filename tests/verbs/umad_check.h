// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What the programs over libibumad have in common: how they say that something is not as with the
// kernel.

#ifndef UMAD_CHECK_H
#define UMAD_CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what)                                                                                                    \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			printf("not ok: line %d: %s (errno %d)\n", __LINE__, #what, errno);                            \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

#endif
