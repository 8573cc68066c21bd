// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The addresses that the tests bind and connect to.

#ifndef ADDRESS_H
#define ADDRESS_H

#include "param.h"

// Sets the address of p to this host and p's port; -1 if there is none.
int aim(param *p, const char *host);
// The port of p plus some, in its address.
void aim_port(param *p, int offset);
// Whether two are the same host.
int same_host(const struct sockaddr *a, const struct sockaddr *b);

#endif
