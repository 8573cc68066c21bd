// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_INIT_SETUP_H
#define EXS_INIT_SETUP_H

#include "../address.h"
#include "../case.h"
#include "../names.h"

// What a call answers that answers 0 when it works: 0, or -1 and a message. Any other number is not
// what was promised.
static inline int is_zero(const char *name, long ret)
{
	if (ret == 0)
		return 0;
	print_error(name);
	return -1;
}

// The same of a call that answers a number of bytes.
static inline ssize_t is_all(const char *name, ssize_t ret, size_t length)
{
	if (ret == (ssize_t)length)
		return ret;
	print_error(name);
	return -1;
}

static inline int ok_exs_init(param *p)
{
	return is_zero("ok_exs_init", exs_init(p->version));
}

// Before exs_init(): nothing but an address for those that take one.
static inline int not_initialized(param *p)
{
	return aim(p, p->addr);
}

// The names of the tests, by number.
static const char *const all_init_tests[] = {
	[1 - 1] = "exs_init(INVALID_VERSION)",
	[2 - 1] = "exs_init(VERSION)",
	[3 - 1] = "exs_init(VERSION) [exs_init already]",
	[4 - 1] = "exs_init(0)",
	[5 - 1] = "exs_init(VERSION) [after a version that is not supported]",
	[6 - 1] = "exs_init(VERSION) [in a child, after exs_init]",
	[7 - 1] = "exs_init(VERSION) [in a child, after exs_mregister]",
};

TEST_NAMES(init, INIT)

#endif
