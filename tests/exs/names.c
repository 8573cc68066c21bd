// SPDX-License-Identifier: MIT OR Apache-2.0

#include "names.h"

#include "result.h"

#define GROUP(number, function, FUNCTION) \
	{"exs_" #function, number, all_##function##_tests, FUNCTION##_TESTS, list_##function##_tests}

// 5.2 has the functions of the ES-API, 5.3 those of the library's own; five of them have no section
// there.
static const struct test_group groups[] = {
	GROUP("5.2.1", accept, ACCEPT),
	GROUP("5.2.2", connect, CONNECT),
	GROUP("5.2.3", init, INIT),
	GROUP("5.2.4", mderegister, MDEREGISTER),
	GROUP("5.2.5", mregister, MREGISTER),
	GROUP("5.2.6", qcreate, QCREATE),
	GROUP("5.2.7", qdelete, QDELETE),
	GROUP("5.2.8", qdequeue, QDEQUEUE),
	GROUP("5.2.9", recv, RECV),
	GROUP("5.2.10", send, SEND),
	GROUP("5.2.11", sendfile, SENDFILE),
	GROUP("5.2", qmodify, QMODIFY),
	GROUP("5.2", qstatus, QSTATUS),
	GROUP("5.3.1", bind, BIND),
	GROUP("5.3.2", blocking_accept, BLOCKING_ACCEPT),
	GROUP("5.3.3", blocking_close, BLOCKING_CLOSE),
	GROUP("5.3.4", blocking_connect, BLOCKING_CONNECT),
	GROUP("5.3.5", blocking_recv, BLOCKING_RECV),
	GROUP("5.3.6", blocking_send, BLOCKING_SEND),
	GROUP("5.3.7", close, CLOSE),
	GROUP("5.3.8", listen, LISTEN),
	GROUP("5.3.9", read, READ),
	GROUP("5.3.10", shutdown, SHUTDOWN),
	GROUP("5.3.11", socket, SOCKET),
	GROUP("5.3.12", write, WRITE),
	GROUP("5.3.13", blocking_sendfile, BLOCKING_SENDFILE),
	GROUP("5.3", blocking_recvfile, BLOCKING_RECVFILE),
	GROUP("5.3", fcntl, FCNTL),
	GROUP("5.3", recvfile, RECVFILE),
};

const struct test_group *group_of(const char *func)
{
	for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++)
		if (!strcmp(groups[i].func, func))
			return &groups[i];
	return NULL;
}

const char *name_of(const char *func, long number)
{
	const struct test_group *group = group_of(func);

	return group && number >= 1 && number <= group->count ? group->names[number - 1] : NULL;
}

void list_names(const char *const names[], int count, int number)
{
	for (int i = 1; i <= count; i++)
		if (names[i - 1] && (!number || number == i))
			printf("%d : %s\n", i, names[i - 1]);
}
