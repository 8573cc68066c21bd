// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef ONE_PROCESS_H
#define ONE_PROCESS_H

#include "exs_accept_setup.h"
#include "exs_close_setup.h"

// Client and server in one process, and one queue, p's, for both: they connect at the test's port
// and so many more, one sends to the other, and both close.
static inline void converse_in_one_process(param *p, int port_offset)
{
	enum { LENGTH = 100 };
	exs_acceptaddr_t from = {.exs_ahandle = p->ah};
	int seen[EXS_EVT_CLOSE + 1] = {0};

	require(ok_exs_socket(p));
	require(aim(p, p->addr));
	aim_port(p, port_offset);
	require(ok_exs_bind(p));
	require(ok_exs_listen(p));
	int listener = p->fd;
	CHECK(!exs_accept(listener, &from, 1, 0, p->qh), "exs_accept: %s", strerror(errno));
	require(ok_exs_socket(p));
	CHECK(!exs_connect(p->fd, p->address, p->address_len, 0, NULL, p->qh, p->ah), "exs_connect: %s",
	      strerror(errno));
	for (int i = 0; i < 2; i++) {
		exs_event_t event = next_event(p);

		CHECK(!event.exs_evt_errno, "event of type %d: %s", event.exs_evt_type, strerror(event.exs_evt_errno));
		seen[event.exs_evt_type]++;
	}
	CHECK(seen[EXS_EVT_ACCEPT] == 1 && seen[EXS_EVT_CONNECT] == 1, "not an accept and a connect");
	memset(p->recv_store, 0, LENGTH);
	CHECK(!exs_recv(from.exs_newsocket, p->recv_store, LENGTH, MSG_WAITALL, p->qh, p->ah, p->mh), "exs_recv: %s", strerror(errno));
	CHECK(exs_send(p->fd, p->send_store, LENGTH, EXS_BLOCK, NULL, NULL, p->mh) == LENGTH, "exs_send: %s", strerror(errno));
	exs_event_t event = take_event(p, EXS_EVT_RECV, from.exs_newsocket, 0);
	CHECK(transferred(&event, p->recv_store, p->mh) == LENGTH, "not %d bytes", LENGTH);
	CHECK(!memcmp(p->recv_store, p->send_store, LENGTH), "not the bytes that were sent");
	hang_up(p);
	p->fd = from.exs_newsocket;
	hang_up(p);
	p->fd = listener;
	hang_up(p);
}

#endif
