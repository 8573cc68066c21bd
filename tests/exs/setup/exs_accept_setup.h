// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_ACCEPT_SETUP_H
#define EXS_ACCEPT_SETUP_H

#include "../event.h"
#include "exs_listen_setup.h"

// The socket of the connection becomes that of p. The peer's address is compared by those who know it.
static inline int ok_exs_accept(param *p)
{
	static struct sockaddr_storage from;
	exs_acceptaddr_t *element = &p->acceptaddr[0];

	*element = (exs_acceptaddr_t){(struct sockaddr *)&from, sizeof(from), -1, p->ah};
	int ret = exs_accept(p->fd, element, 1, p->flags, p->qh);
	if (ret < 0) {
		print_error("ok_exs_accept");
		return -1;
	}
	if (p->mode) {
		exs_event_t event = take_event(p, EXS_EVT_ACCEPT, p->fd, 0);
		const exs_evt_accept_t *accept = &event.exs_evt_union.exs_evt_accept;

		CHECK(accept->exs_evt_newsocket == element->exs_newsocket, "event and element name different sockets");
		CHECK(accept->exs_evt_addr == element->exs_addr, "event and element name different addresses");
	}
	CHECK(ret == 0 && element->exs_newsocket >= 0, "no socket was accepted");
	p->listen_fd = p->fd;
	p->fd = element->exs_newsocket;
	return 0;
}

#endif
