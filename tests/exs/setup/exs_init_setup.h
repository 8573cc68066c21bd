// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_INIT_SETUP_H
#define EXS_INIT_SETUP_H

#include "../address.h"
#include "../result.h"

static inline int ok_exs_init(param *p)
{
	int ret = exs_init(p->version);

	if (ret < 0)
		print_error("ok_exs_init");
	return ret;
}

// Before exs_init(): nothing but an address for those that take one.
static inline int not_initialized(param *p)
{
	return aim(p, p->addr);
}

#endif
