// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_SERVER_SETUP_H
#define EXS_SERVER_SETUP_H

#include "exs_accept_setup.h"

// Listens, and the other process knows it.
static inline int serving(param *p)
{
	if (listening(p) < 0)
		return -1;
	meet(p);
	return 0;
}

static inline int accepted(param *p)
{
	return serving(p) < 0 ? -1 : ok_exs_accept(p);
}

#endif
