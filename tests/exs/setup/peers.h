// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef PEERS_H
#define PEERS_H

#include "exs_client_setup.h"
#include "exs_recv_setup.h"
#include "exs_send_setup.h"
#include "exs_server_setup.h"

// What the other process of a test may do. All end with a meeting: neither goes before the other is
// done.

// Listens, accepts nobody.
static inline void peer_listens(param *p)
{
	require(serving(p));
	meet(p);
}

static inline void peer_accepts(param *p)
{
	require(accepted(p));
	meet(p);
}

static inline void peer_connects(param *p)
{
	require(connected(p));
	meet(p);
}

// Receives to the end of the stream; the test compares what it counts at the second meeting.
static inline void peer_receives(param *p)
{
	require(accepted(p));
	CHECK(receive_to_the_end(p, 0) > 0, "nothing was received");
	meet(p);
}

// Receives whatever comes, until the connection ends.
static inline void peer_drains(param *p)
{
	require(accepted(p));
	while (receive_some(p) > 0)
		;
	meet(p);
}

// Sends a buffer full and keeps the connection.
static inline void peer_sends(param *p)
{
	require(connected(p));
	require(ok_exs_send(p));
	meet(p);
}

#endif
