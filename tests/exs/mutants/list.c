// SPDX-License-Identifier: MIT OR Apache-2.0

#include "mutant.h"

#include <stdio.h>

// What nearly all functions promise.
#define FAILS(function)                                                                    \
	{function ".failure", "a call that fails answers -1, or an invalid handle"},       \
	{function ".errno", "a call that fails says why in errno"}
#define ANSWERS_0(function) {function ".answer", "a call that works answers 0"}, FAILS(function)
#define COUNTS(function) {function ".count", "a transfer answers the number of its bytes"}, FAILS(function)

const struct mutant mutants[] = {
	ANSWERS_0("init"),
	{"init.version", "a version that is not supported is refused"},
	{"init.again", "the second call is refused"},
	FAILS("socket"),
	{"socket.descriptor", "the answer is a socket"},
	{"socket.family", "a family that is not supported is refused"},
	{"socket.type", "a type that is not supported is refused"},
	{"socket.protocol", "a protocol of another type is refused"},
	ANSWERS_0("bind"),
	{"bind.twice", "a socket is bound once"},
	{"bind.nothing", "a socket that is bound has the address"},
	ANSWERS_0("listen"),
	{"listen.backlog", "a negative backlog is refused"},
	{"listen.full", "no more connections are held than the backlog says"},
	{"listen.connected", "a socket that is connected or listens cannot be made to listen"},
	{"listen.nothing", "a socket that listens accepts connections"},
	ANSWERS_0("connect"),
	{"connect.flags", "flags that are none are refused"},
	{"connect.nothing", "a socket that is connected has a peer"},
	{"connect.timeout", "no more time is taken than was given"},
	{"connect.again", "a socket is connected once"},
	ANSWERS_0("blocking_connect"),
	{"blocking_connect.nothing", "a socket that is connected has a peer"},
	ANSWERS_0("accept"),
	{"accept.flags", "flags that are none are refused"},
	{"accept.socket", "the new socket is in the element"},
	{"accept.address", "the peer's address is in the element"},
	{"accept.length", "the length of the peer's address is in the element"},
	{"accept.none", "no element is no accept"},
	FAILS("blocking_accept"),
	{"blocking_accept.socket", "the answer is a new socket"},
	{"blocking_accept.address", "the peer's address is told"},
	{"blocking_accept.length", "the length of the peer's address is told"},
	FAILS("mregister"),
	{"mregister.flags", "flags that are none are refused"},
	{"mregister.empty", "no memory is not registered"},
	{"mregister.access", "memory that cannot be written is not registered to be written"},
	{"mregister.same", "each registration has a handle of its own"},
	ANSWERS_0("mderegister"),
	{"mderegister.flags", "flags that are none are refused"},
	{"mderegister.again", "a registration ends once"},
	{"mderegister.busy", "memory that is in use stays registered"},
	FAILS("qcreate"),
	{"qcreate.depth", "a negative depth is refused"},
	ANSWERS_0("qdelete"),
	{"qdelete.nothing", "a queue that is deleted is none"},
	{"qdelete.busy", "a queue that is in use stays"},
	FAILS("qdequeue"),
	{"qdequeue.count", "the answer is the number of events"},
	{"qdequeue.none", "room for no event is refused"},
	{"qdequeue.order", "events come in the order in which they were queued"},
	{"qdequeue.twice", "an event comes once"},
	{"qdequeue.loses", "every event comes"},
	{"qdequeue.time", "the time that was given is waited for"},
	{"qdequeue.all", "a negative count waits for so many events"},
	{"qdequeue.type", "an event has the type of its operation"},
	{"qdequeue.socket", "an event names the socket of its operation"},
	{"qdequeue.ahandle", "an event has the ahandle of its operation"},
	{"qdequeue.success", "the event of an operation that works has no errno"},
	{"qdequeue.silence", "the event of an operation that fails has an errno"},
	{"qdequeue.reason", "the event of an operation that fails says why"},
	{"qdequeue.newsocket", "the event of an accept names the new socket"},
	{"qdequeue.addr", "the event of an accept names where the address is"},
	{"qdequeue.addrlen", "the event of an accept has the length of the address"},
	{"qdequeue.buffer", "the event of a transfer names its buffer"},
	{"qdequeue.length", "the event of a transfer has the number of its bytes"},
	{"qdequeue.mhandle", "the event of a transfer names its registration"},
	{"qdequeue.end", "the event of a receive says that the stream has ended"},
	{"qdequeue.cut", "the event of a receive says that a message was cut"},
	{"qdequeue.vector", "the event of a file's transfer names its vector"},
	{"qdequeue.elements", "the event of a file's transfer has the number of elements"},
	{"qdequeue.bytes", "the event of a file's transfer has the number of its bytes"},
	ANSWERS_0("qmodify"),
	{"qmodify.nothing", "an attribute that is set is set"},
	ANSWERS_0("qstatus"),
	{"qstatus.depth", "the depth is the one that was asked for, or more"},
	{"qstatus.events", "the number of events is the number of those in the queue"},
	COUNTS("send"),
	{"send.started", "a transfer that does not wait answers 0"},
	{"send.flags", "flags that are none are refused"},
	{"send.byte", "bytes arrive as they are"},
	{"send.short", "all bytes are sent"},
	{"send.nothing", "what is said to be sent is sent"},
	{"send.unsignaled", "EXS_UNSIGNALED wants no event"},
	{"send.refused", "a call that is refused posts no event"},
	{"send.shut", "nothing can be sent after a shutdown"},
	COUNTS("recv"),
	{"recv.started", "a transfer that does not wait answers 0"},
	{"recv.flags", "flags that are none are refused"},
	{"recv.byte", "bytes arrive as they are"},
	{"recv.all", "MSG_WAITALL fills the buffer"},
	{"recv.end", "the end of the stream is no bytes"},
	{"recv.refused", "a call that is refused posts no event"},
	COUNTS("blocking_send"),
	{"blocking_send.byte", "bytes arrive as they are"},
	{"blocking_send.short", "all bytes are sent"},
	COUNTS("blocking_recv"),
	{"blocking_recv.byte", "bytes arrive as they are"},
	COUNTS("write"),
	{"write.byte", "bytes arrive as they are"},
	{"write.short", "all bytes are sent"},
	COUNTS("read"),
	{"read.byte", "bytes arrive as they are"},
	ANSWERS_0("sendfile"),
	{"sendfile.offset", "a file is sent from its offset on"},
	{"sendfile.short", "a file is sent to its end"},
	{"sendfile.order", "elements are sent in their order"},
	{"sendfile.shut", "EXS_SHUT_WR ends the stream"},
	{"sendfile.refused", "a call that is refused posts no event"},
	COUNTS("recvfile"),
	{"recvfile.byte", "bytes arrive as they are"},
	{"recvfile.refused", "a call that is refused posts no event"},
	ANSWERS_0("blocking_sendfile"),
	{"blocking_sendfile.offset", "a file is sent from its offset on"},
	{"blocking_sendfile.short", "a file is sent to its end"},
	COUNTS("blocking_recvfile"),
	{"blocking_recvfile.byte", "bytes arrive as they are"},
	ANSWERS_0("shutdown"),
	{"shutdown.flags", "flags that are none are refused"},
	{"shutdown.nothing", "what is shut down is shut down"},
	{"shutdown.direction", "one direction is shut down, not the other"},
	{"shutdown.event", "a shutdown that does not wait has an event"},
	ANSWERS_0("close"),
	{"close.flags", "flags that are none are refused"},
	{"close.nothing", "a socket that is closed is none"},
	{"close.event", "a close that does not wait has an event"},
	ANSWERS_0("blocking_close"),
	{"blocking_close.nothing", "a socket that is closed is none"},
	FAILS("fcntl"),
	{"fcntl.answer", "a command that sets answers 0"},
	{"fcntl.flags", "F_GETFL answers what F_SETFL has set"},
	{"fcntl.limit", "EXS_F_GETFILELIMIT answers what EXS_F_SETFILELIMIT has set"},
};

const size_t mutant_count = sizeof(mutants) / sizeof(*mutants);

static const char *wanted;

// Before main(), so that a name that is none is noticed whatever the program calls.
__attribute__((constructor)) static void choose(void)
{
	wanted = getenv("EXS_MUTANT");
	if (!wanted)
		return;
	bool list = !strcmp(wanted, "list");
	for (size_t i = 0; i < mutant_count; i++) {
		if (list)
			printf("%s\t%s\n", mutants[i].name, mutants[i].promise);
		else if (!strcmp(mutants[i].name, wanted))
			return;
	}
	if (list)
		exit(EXIT_SUCCESS);
	fprintf(stderr, "EXS_MUTANT=%s is no mutant\n", wanted);
	abort();
}

bool broken(const char *name)
{
	return wanted && !strcmp(name, wanted);
}
