// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_ACCEPT_SETUP_H
#define EXS_ACCEPT_SETUP_H

#include "../event.h"
#include "exs_listen_setup.h"

// The socket of the connection becomes that of p. The peer's address is compared by those who know
// it.
static inline int ok_exs_accept(param *p)
{
	static struct sockaddr_storage from;
	exs_acceptaddr_t *element = &p->acceptaddr[0];

	*element = (exs_acceptaddr_t){(struct sockaddr *)&from, sizeof(from), -1, p->ah};
	if (is_zero("ok_exs_accept", exs_accept(p->fd, element, 1, p->flags, queue_of(p))))
		return -1;
	if (p->mode) {
		exs_event_t event = take_event(p, EXS_EVT_ACCEPT, p->fd, 0);
		const exs_evt_accept_t *accept = &event.exs_evt_union.exs_evt_accept;

		CHECK(accept->exs_evt_newsocket == element->exs_newsocket, "event and element name different sockets");
		CHECK(accept->exs_evt_addr == element->exs_addr, "event and element name different addresses");
	}
	check_socket(element->exs_newsocket);
	p->listen_fd = p->fd;
	p->fd = element->exs_newsocket;
	return 0;
}

// The names of the tests, by number.
static const char *const all_accept_tests[] = {
	[1 - 1] = "exs_accept(p->fd, &acceptaddr, 1, EXS_BLOCK, NULL) [no exs_init]",
	[2 - 1] = "exs_accept(p->fd, &acceptaddr, 1, BAD_FLAG, NULL)",
	[3 - 1] = "exs_accept(p->fd, &acceptaddr, NEGATIVE_ADDRVEC_CNT, 0, qh)",
	[4 - 1] = "exs_accept(p->fd, &acceptaddr, ZERO_ADDRVEC_CNT, EXS_BLOCK, qh)",
	[5 - 1] = "exs_accept(p->fd, &acceptaddr, 1, 0, INVALID_QHANDLE)",
	[6 - 1] = "exs_accept(p->fd, &acceptaddr, 1, EXS_BLOCK, NULL) [no exs_listen]",
	[7 - 1] = "exs_accept(BAD_FD, &acceptaddr, 1, EXS_BLOCK, NULL)",
	[8 - 1] = "exs_accept(p->fd, &acceptaddr, 1, EXS_BLOCK, NULL)",
	[9 - 1] = "exs_accept(p->fd, &acceptaddr, 2, EXS_BLOCK, qh)",
	[10 - 1] = "exs_accept(p->fd, &acceptaddr, ZERO_ADDRVEC_CNT, 0, qh)",
	[11 - 1] = "exs_accept(p->fd, BAD_ADDRVEC, 1, flags, qh)",
	[12 - 1] = "exs_accept(p->fd, &acceptaddr, 1, EXS_BLOCK, NULL) [O_NONBLOCK, nobody connects]",
	[13 - 1] = "exs_accept(p->fd, &acceptaddr, 1, flags, qh) [no room for an address]",
	[14 - 1] = "exs_accept(p->fd, &acceptaddr, 2, 0, qh)",
	[15 - 1] = "exs_accept(p->fd, &acceptaddr, 1, 0, qh) [closed before anybody connects]",
	[16 - 1] = "exs_accept(CONNECTED_FD, &acceptaddr, 1, flags, qh)",
	[17 - 1] = "exs_accept(p->fd, &acceptaddr, 1, flags, qh) [unmapped exs_addr]",
	[18 - 1] = "exs_accept(p->fd, CONSTANT_ADDRVEC, 1, flags, qh)",
	[19 - 1] = "exs_accept(p->fd, &acceptaddr, 1, 0, qh) [exs_addr is closed before anybody connects]",
	[20 - 1] = "exs_accept(p->fd, &acceptaddr, 1, flags, qh) [no descriptor left for a while]",
};

TEST_NAMES(accept, ACCEPT)

#endif
