// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The other process of a test: this program again, behind the words of $PEER_COMMAND (one a line)
// where it is to run on another host. The two wait for each other at the FIFOs.

#ifndef PEER_H
#define PEER_H

#include "case.h"

void start_peer(const param *p);
// Whether there is one that was not killed.
int peer_lives(void);
// What the other process does.
_Noreturn void peer_process(param *p, const struct test_case *c);

#endif
