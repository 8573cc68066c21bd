// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_MDEREGISTER_SETUP_H
#define EXS_MDEREGISTER_SETUP_H

#include "exs_mregister_setup.h"

static inline int ok_exs_mderegister(param *p)
{
	return is_zero("ok_exs_mderegister", exs_mderegister(p->mh, 0));
}

// The names of the tests, by number.
static const char *const all_mderegister_tests[] = {
	[1 - 1] = "exs_mderegister(mh, 0) [no exs_init]",
	[2 - 1] = "exs_mderegister(NULL, 0)",
	[3 - 1] = "exs_mderegister(EXS_MHANDLE_INVALID, 0)",
	[4 - 1] = "exs_mderegister(EXS_MHANDLE_UNREGISTERED, 0)",
	[5 - 1] = "exs_mderegister(mh, 0)",
	[6 - 1] = "exs_mderegister(mh, 0) [deregistered already]",
	[7 - 1] = "exs_mderegister(mh, BAD_FLAG)",
	[8 - 1] = "exs_mderegister(mh, 0) [a receive has it]",
};

TEST_NAMES(mderegister, MDEREGISTER)

#endif
