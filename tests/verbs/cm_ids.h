// SPDX-License-Identifier: MIT OR Apache-2.0
//
// rdma_cm ids and how far they come, without queue pairs unless they are made: connections are the
// connection manager's affair alone. Whatever fails ends the test.

#ifndef CM_IDS_H
#define CM_IDS_H

#include "harness.h"

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

enum { EVENT_MS = 20000 };

struct rdma_event_channel *new_channel(void);
// Of connections (`RDMA_PS_TCP`), as are those below that do not say.
struct rdma_cm_id *new_id(struct rdma_event_channel *channel);
struct rdma_cm_id *new_id_of(struct rdma_event_channel *channel, enum rdma_port_space space);
bool readable(struct rdma_event_channel *channel, int milliseconds);
// The next event, of this kind; the caller acknowledges it.
struct rdma_cm_event *event_of(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted);
void expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted, int status);
// Listens; a port that is 0 is filled in.
void listen_on(struct rdma_cm_id *id, struct sockaddr_in *address);
struct rdma_cm_id *listener_on(struct rdma_event_channel *channel, struct sockaddr_in *address);
// Makes an id ready to connect, and one that is.
void resolve(struct rdma_cm_id *id, struct sockaddr_in *to);
struct rdma_cm_id *resolved(struct rdma_event_channel *channel, struct sockaddr_in *to);
// With a queue pair's number that nobody else has: a second connection of one is refused.
struct rdma_conn_param parameters(void);
struct rdma_cm_id *connecting(struct rdma_event_channel *channel, struct sockaddr_in *to);
// The id of the request that comes.
struct rdma_cm_id *requested(struct rdma_event_channel *channel);

// Both sides in one process.
struct pair {
	struct rdma_event_channel *server, *client;
	struct rdma_cm_id *listener, *passive, *active;
	struct sockaddr_in address;
};

// Two channels and a listener; then a request that is not answered; or a connection.
void prepare(struct pair *p);
void request(struct pair *p);
void establish(struct pair *p);

// A small queue pair, for ids that shall have one.
void make_qp(struct rdma_cm_id *id);

// Where the other process of a test is to be killed: it tells that it has come so far and waits for
// its end, and the test waits for that.
void reached(int fd);
void wait_reached(void);

#endif
