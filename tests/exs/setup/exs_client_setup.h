// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_CLIENT_SETUP_H
#define EXS_CLIENT_SETUP_H

#include "exs_close_setup.h"
#include "exs_connect_setup.h"
#include "exs_shutdown_setup.h"

// A socket aimed at the other process, which listens.
static inline int unconnected(param *p)
{
	if (initialized(p) < 0 || ok_exs_socket(p) < 0 || aim(p, p->peer_addr) < 0)
		return -1;
	meet(p);
	return 0;
}

static inline int connected(param *p)
{
	return unconnected(p) < 0 ? -1 : ok_exs_connect(p);
}

// A connection over which nothing can be sent any more.
static inline int shut_down(param *p)
{
	p->how = SHUT_WR;
	return connected(p) < 0 ? -1 : ok_exs_shutdown(p);
}

#endif
