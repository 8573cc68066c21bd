// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/sending_files.h"
#include "setup/exs_mregister_setup.h"

#include <sys/resource.h>
#include <unistd.h>

static long call(param *p)
{
	return exs_sendfile(p->fd, p->sendvec, p->sendvec_cnt, p->flags, p->qh, p->ah);
}

static void blocking_and_bad_qhandle(param *p)
{
	p->flags = EXS_BLOCK;
	bad_qhandle(p);
}

// Memory, the middle of a file, the rest of it: the file's bytes in their order.
static void all_kinds(param *p)
{
	enum { FIRST = 1000, SECOND = 30000 };

	p->sendvec_cnt = 3;
	by_path(p, FIRST + SECOND, 0);
	p->sendvec[2] = p->sendvec[0];
	by_descriptor(p, FIRST, SECOND);
	p->sendvec[1] = p->sendvec[0];
	p->sendvec[0] = memory(p->send_buf, FIRST);
	send_file(p, TEST_FILE);
	sent(p);
}

// The connection stays open in the other direction.
static void shuts_down(param *p)
{
	p->sendvec[0].exs_xfv.exs_fdv.exs_flags = EXS_SHUT_WR;
	send_file(p, TEST_FILE);
	meet(p);
	CHECK(exs_send(p->fd, p->send_buf, 1, EXS_BLOCK, NULL, NULL, NULL) == -1 && errno == EPIPE, "exs_send: %s", strerror(errno));
	CHECK(exs_recv(p->fd, p->recv_buf, 1, EXS_BLOCK, NULL, NULL, NULL) == 1, "exs_recv: %s", strerror(errno));
	print_pass(0);
}

static void peer_answers_at_the_end(param *p)
{
	peer_receives_file(p);
	p->SEND_BUFSIZE = 1;
	require(ok_exs_send(p));
	meet(p);
}

static void dead_peer(param *p)
{
	kill_peer();
	errno = 0;
	long ret = call(p);
	if (p->mode && ret == 0) {
		take_event(p, EXS_EVT_SENDFILE, p->fd, ECONNRESET);
		errno = 0;
		ret = call(p);
	}
	print_macro(p->test_number, p->test_value, p->test_name, ret, -1, ECONNRESET);
}

// It arrives, and nobody is told: the only event is that of the transfer behind it.
static void unsignaled(param *p)
{
	int mark;

	require(with_own_queue(p));
	CHECK(!exs_sendfile(p->fd, p->sendvec, 1, EXS_UNSIGNALED, p->qh, &mark), "exs_sendfile: %s", strerror(errno));
	CHECK(!exs_sendfile(p->fd, p->sendvec, 1, 0, p->qh, p->ah), "exs_sendfile: %s", strerror(errno));
	take_event(p, EXS_EVT_SENDFILE, p->fd, 0);
	hang_up(p);
	expect_no_event(p);
	print_pass(0);
}

enum { LONG_FILE = 64 << 20 };

// Cut when it has begun: nobody takes its bytes yet, and only the first few of them are on their
// way.
static void cut_short(param *p)
{
	require(with_own_queue(p));
	require(make_sparse_file(p, LONG_FILE));
	CHECK(!exs_sendfile(p->fd, p->sendvec, 1, 0, p->qh, p->ah), "exs_sendfile: %s", strerror(errno));
	CHECK(!ftruncate(p->file_fd, 0), "ftruncate: %s", strerror(errno));
	meet(p);
	exs_event_t event = take_event(p, EXS_EVT_SENDFILE, p->fd, EIO);
	CHECK(transferred_file(&event, p->sendvec, 1) < LONG_FILE, "all of it is said to be sent");
	hang_up(p);
	errno = EIO;
	print_macro(p->test_number, p->test_value, p->test_name, -1, -1, EIO);
}

static void peer_receives_less(param *p)
{
	uint64_t count = 0;
	ssize_t length;

	require(accepted(p));
	meet(p);
	while ((length = receive_some(p)) > 0)
		count += length;
	require(length);
	CHECK(count < LONG_FILE, "all of it has come");
	meet(p);
}

// The peer takes the beginning of what is sent in one part, for which it had a buffer, and closes.
static void partly_sent(param *p)
{
	static unsigned char part[1 << 20];

	CHECK(receive_some(p) == 1, "not a byte");
	p->sendvec[0] = memory(part, sizeof(part));
	p->sendvec_cnt = 1;
	long ret = failed_after(p, EPIPE, TEST_BUFSIZE);
	print_macro(p->test_number, p->test_value, p->test_name, ret, -1, EPIPE);
}

static void peer_takes_a_buffer_full(param *p)
{
	require(accepted(p));
	require(with_own_queue(p));
	require(ok_exs_mregister(p, p->recv_buf, TEST_BUFSIZE));
	CHECK(!exs_recv(p->fd, p->recv_buf, TEST_BUFSIZE, MSG_WAITALL, p->qh, p->ah, p->mh), "exs_recv: %s", strerror(errno));
	// Who has this knows of the buffer.
	CHECK(exs_send(p->fd, p->send_buf, 1, EXS_BLOCK, NULL, NULL, NULL) == 1, "exs_send: %s", strerror(errno));
	exs_event_t event = take_event(p, EXS_EVT_RECV, p->fd, 0);
	CHECK(transferred(&event, p->recv_buf, p->mh) == TEST_BUFSIZE, "not a buffer full");
	hang_up(p);
	meet(p);
}

// Regular, and with bytes in it, of which it does not say how many.
static void no_size(param *p)
{
	strcpy(p->path, "/proc/self/status");
	by_path(p, 0, 0);
}

// The call needs some mebibytes of its own.
static void no_memory(param *p)
{
	enum { HARDLY_ANY = 256 << 10 };
	struct rlimit limit;
	long pages = 0;
	FILE *statm = fopen("/proc/self/statm", "r");

	(void)p;
	CHECK(statm && fscanf(statm, "%ld", &pages) == 1, "/proc/self/statm: %s", strerror(errno));
	fclose(statm);
	limit.rlim_cur = limit.rlim_max = pages * sysconf(_SC_PAGESIZE) + HARDLY_ANY;
	CHECK(!setrlimit(RLIMIT_AS, &limit), "setrlimit: %s", strerror(errno));
}

static const struct test_case all_tests[] = {
	SENDFILE_TESTS,
	{13, ERROR(EINVAL), REFUSED, .twist = blocking_and_bad_qhandle},
	{14, ERROR(EPIPE), .peer = peer_accepts, .state = shut_down_with_file},
	{15, OK(OK_EXS_SENDFILE), .peer = peer_receives_file, .state = connected_with_file, .run = ok_file},
	{16, OK(OK_EXS_SENDFILE), .peer = peer_receives_file_twice, .state = connected_with_file, .run = ok_file_twice},
	{17, OK(OK_EXS_SENDFILE), .peer = peer_receives_file, .state = connected_with_file, .run = ok_path},
	{18, OK(OK_EXS_SENDFILE), .peer = peer_receives_file, .state = connected_with_file, .run = all_kinds},
	{19, OK(OK_EXS_SENDFILE), .peer = peer_answers_at_the_end, .state = connected_with_file, .run = shuts_down},
	{24, ERROR(EINVAL), REFUSED, .twist = no_qhandle},
	{25, ERROR(ECONNRESET), .peer = peer_accepts, .state = connected_with_file, .run = dead_peer},
	{28, OK(OK_EXS_SENDFILE), .peer = peer_receives_file_twice, .state = connected_with_file, .run = unsignaled},
	{29, ERROR(EIO), .peer = peer_receives_less, .state = connected, .run = cut_short},
	{31, OK(OK_EXS_SENDFILE), MESSAGES, .peer = peer_receives_empty_message, .run = ok_empty_file},
	{32, ERROR(EPIPE), .peer = peer_takes_a_buffer_full, .state = connected, .run = partly_sent},
	{33, ERROR(ENOMEM), .modes = BLOCKING, .peer = peer_accepts, .state = connected_with_file, .twist = no_memory},
	{34, ERROR(ENODEV), REFUSED, .twist = no_size},
};

PROGRAM("exs_sendfile", call)
