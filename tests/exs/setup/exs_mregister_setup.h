// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_MREGISTER_SETUP_H
#define EXS_MREGISTER_SETUP_H

#include "exs_qcreate_setup.h"

static inline int ok_exs_mregister(param *p, void *address, size_t length)
{
	p->mh = exs_mregister(address, length, 0);
	if (p->mh != EXS_MHANDLE_INVALID)
		return 0;
	print_error("ok_exs_mregister");
	return -1;
}

// The library and registered memory: all that the tests send from and receive into.
static inline int with_memory(param *p)
{
	return initialized(p) < 0 ? -1 : ok_exs_mregister(p, p, sizeof(*p));
}

// The names of the tests, by number.
static const char *const all_mregister_tests[] = {
	[1 - 1] = "exs_mregister(buf, BUFSIZE, 0) [no exs_init]",
	[3 - 1] = "exs_mregister(buf, ZERO_SIZE, 0)",
	[4 - 1] = "exs_mregister(buf, BUFSIZE, BAD_FLAG)",
	[5 - 1] = "exs_mregister(NULL_ADDR, BUFSIZE, 0)",
	[6 - 1] = "exs_mregister(buf, BUFSIZE, 0)",
	[7 - 1] = "exs_mregister(READ_ONLY, BUFSIZE, 0)",
	[8 - 1] = "exs_mregister(NO_ACCESS, BUFSIZE, EXS_MRF_RECV_DISABLE)",
	[9 - 1] = "exs_mregister(READ_ONLY, BUFSIZE, EXS_MRF_RECV_DISABLE)",
	[10 - 1] = "exs_mregister(UNMAPPED, BUFSIZE, 0)",
	[11 - 1] = "exs_mregister(buf, BUFSIZE, 0) [twice]",
	[12 - 1] = "exs_mregister(READ_ONLY, MORE_THAN_THERE_IS, EXS_MRF_RECV_DISABLE)",
};

TEST_NAMES(mregister, MREGISTER)

#endif
