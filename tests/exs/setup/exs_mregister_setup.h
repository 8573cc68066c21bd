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

static inline int ok_exs_mderegister(param *p)
{
	int ret = exs_mderegister(p->mh, 0);

	if (ret < 0)
		print_error("ok_exs_mderegister");
	return ret;
}

// The library and registered memory: all that the tests send from and receive into.
static inline int with_memory(param *p)
{
	return initialized(p) < 0 ? -1 : ok_exs_mregister(p, p, sizeof(*p));
}

#endif
