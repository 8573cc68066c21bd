// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_LISTEN_SETUP_H
#define EXS_LISTEN_SETUP_H

#include "exs_bind_setup.h"

static inline int ok_exs_listen(param *p)
{
	int ret = exs_listen(p->fd, p->backlog);

	if (ret < 0)
		print_error("ok_exs_listen");
	return ret;
}

static inline int listening(param *p)
{
	return bound(p) < 0 ? -1 : ok_exs_listen(p);
}

#endif
