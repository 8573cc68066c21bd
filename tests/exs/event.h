// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Completion events: each is checked in all its members, not only awaited.

#ifndef EVENT_H
#define EVENT_H

#include "case.h"

// The next event from the queue of p, whatever it is; the test fails if there is none within
// seconds.
exs_event_t next_event(const param *p);
// The next event, which must be of this type, socket and errno and carry p's ahandle, and must come
// within seconds. The test fails if not.
exs_event_t take_event(param *p, int type, int fd, int error);
// The call on a connection that is known to be broken: refused at once, or in its event.
long reset_again(param *p, int type);
// No event may be there now.
void expect_no_event(param *p);
// The bytes that a send or receive event reports, with its buffer and memory handle checked.
size_t transferred(const exs_event_t *event, const void *buffer, exs_mhandle_t mh);
// The same for sendfile and recvfile.
off_t transferred_file(const exs_event_t *event, const exs_xferfile_t *vector, int count);

#endif
