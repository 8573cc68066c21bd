// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef RECEIVING_FILES_H
#define RECEIVING_FILES_H

#include "exs_sendfile_setup.h"
#include "peers.h"
#include "twists.h"

#include <fcntl.h>
#include <unistd.h>

// What exs_recvfile() and exs_blocking_recvfile() have in common.

// Microseconds in which a transfer has begun to wait.
enum { BREAK_AFTER = 100000 };

// A connection, and an empty file to receive into.
static inline int accepted_with_file(param *p)
{
	return accepted(p) < 0 ? -1 : make_sparse_file(p, 0);
}

static inline int not_connected_with_empty_file(param *p)
{
	return with_socket(p) < 0 ? -1 : make_sparse_file(p, 0);
}

static inline void pipe_to_write(param *p)
{
	int ends[2];

	CHECK(!pipe(ends), "pipe: %s", strerror(errno));
	p->sendvec[0].exs_xfv.exs_fdv.exs_fildes = ends[1];
}

static inline void no_such_file(param *p)
{
	p->sendvec[0].exs_xfv.exs_fdv.exs_fildes = BAD_DESCRIPTOR;
}

static inline void no_such_directory(param *p)
{
	strcat(p->path, "-that-is-not-there/file");
	by_path(p, 0, 0);
}

static inline void no_elements(param *p)
{
	p->sendvec_cnt = 0;
}

static inline void no_such_type(param *p)
{
	p->sendvec[0].exs_xfv_type = 77;
}

static inline void read_only(param *p)
{
	p->sendvec[0].exs_xfv.exs_fdv.exs_fildes = open(p->path, O_RDONLY);
}

static inline void appending(param *p)
{
	p->sendvec[0].exs_xfv.exs_fdv.exs_fildes = open(p->path, O_WRONLY | O_APPEND);
}

// The call to its end: the number of bytes.
static inline off_t receive_file(param *p)
{
	off_t ret = p->call(p);

	CHECK(ret >= 0, "answers -1, %s", strerror(errno));
	if (p->mode) {
		CHECK(ret == 0, "answers %lld", (long long)ret);
		exs_event_t event = take_event(p, EXS_EVT_RECVFILE, p->fd, 0);
		ret = transferred_file(&event, p->sendvec, p->sendvec_cnt);
	}
	return ret;
}

// The file at p's path, from `from` on, is the pattern from its beginning, and no more.
static inline void check_file(const param *p, off_t from, off_t length)
{
	static unsigned char bytes[TEST_FILE + 1];
	int fd = open(p->path, O_RDONLY);

	CHECK(fd >= 0, "the file: %s", strerror(errno));
	ssize_t got = pread(fd, bytes, sizeof(bytes), from);
	CHECK(got == length, "%zd bytes in the file, not %lld", got, (long long)length);
	for (ssize_t i = 0; i < got; i++)
		CHECK(bytes[i] == pattern(i), "byte %zd is not what was sent", i);
	close(fd);
}

static inline void ok_to_the_end(param *p)
{
	off_t length = receive_file(p);

	CHECK(length == TEST_FILE, "%lld bytes of %d", (long long)length, TEST_FILE);
	check_file(p, 0, TEST_FILE);
	print_pass(length);
}

static inline void ok_by_path(param *p)
{
	unlink(p->path);
	by_path(p, 0, 0);
	ok_to_the_end(p);
}

// So much and no more: the rest is for the next call.
static inline void ok_by_length(param *p)
{
	enum { FIRST = 40000, OFFSET = 12345 };

	by_descriptor(p, OFFSET, FIRST);
	off_t length = receive_file(p);
	CHECK(length == FIRST, "%lld bytes of %d", (long long)length, FIRST);
	by_descriptor(p, OFFSET + FIRST, 0);
	length = receive_file(p);
	CHECK(length == TEST_FILE - FIRST, "%lld bytes of %d", (long long)length, TEST_FILE - FIRST);
	check_file(p, OFFSET, TEST_FILE);
	print_pass(length);
}

static inline void dead_sender(param *p)
{
	if (!p->mode)
		kill_peer();
	errno = 0;
	long ret = p->call(p);
	if (p->mode) {
		CHECK(ret == 0, "answers %ld, %s", ret, strerror(errno));
		kill_peer();
		take_event(p, EXS_EVT_RECVFILE, p->fd, ECONNRESET);
		ret = reset_again(p, EXS_EVT_RECVFILE);
	}
	print_macro(p->test_number, p->test_value, p->test_name, ret, -1, ECONNRESET);
}

enum { KEPT = 1000, PART = 10 };

// Two files by path, one that is there and one that is not.
static inline const char *two_by_path(param *p)
{
	static char missing[PATH_MAX + 8];

	require(make_file(p, KEPT));
	by_path(p, 0, PART);
	p->sendvec[1] = p->sendvec[0];
	snprintf(missing, sizeof(missing), "%s-new", p->path);
	p->sendvec[1].exs_xfv.exs_pathv.exs_path = missing;
	p->sendvec_cnt = 2;
	return missing;
}

// Neither is touched.
static inline void check_two(const param *p, const char *missing)
{
	check_file(p, 0, KEPT);
	CHECK(access(missing, F_OK) == -1 && errno == ENOENT, "a file is made for a call that fails");
}

// The same two; `spoil` makes it a call that must be refused.
static inline void leaves_files_alone(param *p, void (*spoil)(param *p), int error)
{
	exs_qhandle_t qh = p->qh;
	const char *missing = two_by_path(p);

	p->sendvec[2] = p->sendvec[0];
	p->sendvec_cnt = 3;
	spoil(p);
	errno = 0;
	long ret = p->call(p);
	int answer = errno;

	check_two(p, missing);
	p->qh = qh;
	if (p->mode)
		expect_no_event(p);
	errno = answer;
	print_macro(p->test_number, p->test_value, p->test_name, ret, -1, error);
}

// The call on a connection that breaks after this many bytes: -1 and errno, at once or in its
// event.
static inline long broken_after(param *p, off_t length)
{
	errno = 0;
	long ret = p->call(p);

	if (!p->mode || ret)
		return ret;
	exs_event_t event = take_event(p, EXS_EVT_RECVFILE, p->fd, ECONNRESET);
	off_t got = transferred_file(&event, p->sendvec, p->sendvec_cnt);
	CHECK(got == length, "the event says %lld bytes, not %lld", (long long)got, (long long)length);
	errno = ECONNRESET;
	return -1;
}

// A connection that breaks, and then one that is broken: nothing has come.
static inline void keeps_for_dead_sender(param *p)
{
	const char *missing = two_by_path(p);

	kill_peer_later(BREAK_AFTER);
	CHECK(broken_after(p, 0) == -1 && errno == ECONNRESET, "nothing, %s", strerror(errno));
	kill_peer();
	check_two(p, missing);
	long ret = broken_after(p, 0);
	int answer = errno;
	check_two(p, missing);
	errno = answer;
	print_macro(p->test_number, p->test_value, p->test_name, ret, -1, ECONNRESET);
}

// What came before the connection breaks is in the file, and counted.
static inline void keeps_what_came(param *p)
{
	by_path(p, 0, 0);
	meet(p);
	kill_peer_later(BREAK_AFTER);
	long ret = broken_after(p, TEST_BUFSIZE);
	int answer = errno;
	kill_peer();
	check_file(p, 0, TEST_BUFSIZE);
	errno = answer;
	print_macro(p->test_number, p->test_value, p->test_name, ret, -1, ECONNRESET);
}

static inline void peer_sends_until_killed(param *p)
{
	require(connected(p));
	require(ok_exs_send(p));
	meet(p);
	meet(p);
}

static inline void flags_of_third(param *p)
{
	p->sendvec[2].exs_xfv.exs_pathv.exs_flags = EXS_SHUT_WR;
}

static inline void type_of_third(param *p)
{
	p->sendvec[2].exs_xfv_type = 77;
}

static inline void directory_of_third(param *p)
{
	static char nowhere[PATH_MAX + 32];

	snprintf(nowhere, sizeof(nowhere), "%s-that-is-not-there/file", p->path);
	p->sendvec[2].exs_xfv.exs_pathv.exs_path = nowhere;
}

static inline void path_of_third(param *p)
{
	p->sendvec[2].exs_xfv.exs_pathv.exs_path = (char *)64;
}

static inline void keeps_for_bad_flags(param *p)
{
	leaves_files_alone(p, flags_of_third, EINVAL);
}

static inline void keeps_for_bad_type(param *p)
{
	leaves_files_alone(p, type_of_third, EINVAL);
}

static inline void keeps_for_bad_path(param *p)
{
	leaves_files_alone(p, directory_of_third, EINVAL);
}

static inline void keeps_for_wild_path(param *p)
{
	leaves_files_alone(p, path_of_third, EFAULT);
}

// A longer file is cut where what comes begins.
static inline void ok_over_another(param *p)
{
	enum { OFFSET = 12345 };

	require(make_file(p, OFFSET + 2 * TEST_FILE));
	by_path(p, OFFSET, 0);
	off_t length = receive_file(p);
	CHECK(length == TEST_FILE, "%lld bytes of %d", (long long)length, TEST_FILE);
	check_file(p, OFFSET, TEST_FILE);
	print_pass(length);
}

// The first bytes to memory, the others to a file.
static inline void ok_memory_first(param *p)
{
	by_descriptor(p, TEST_BUFSIZE, 0);
	p->sendvec[1] = p->sendvec[0];
	p->sendvec[0] = (exs_xferfile_t){
		.exs_xfv_type = EXS_IOVEC,
		.exs_xfv.exs_iov = {.exs_iov_base = p->recv_buf, .exs_iov_len = TEST_BUFSIZE},
	};
	p->sendvec_cnt = 2;
	off_t length = receive_file(p);
	CHECK(length == TEST_FILE, "%lld bytes of %d", (long long)length, TEST_FILE);
	// Together they are the whole again.
	CHECK(pwrite(p->file_fd, p->recv_buf, TEST_BUFSIZE, 0) == TEST_BUFSIZE, "pwrite: %s", strerror(errno));
	check_file(p, 0, TEST_FILE);
	print_pass(length);
}

// Sends a file and the end of the stream.
static inline void peer_sends_file(param *p)
{
	require(connected_with_file(p));
	require(ok_exs_sendfile(p, TEST_FILE));
	p->how = SHUT_WR;
	require(ok_exs_shutdown(p));
	meet(p);
}

#define REFUSED .peer = peer_connects, .state = accepted_with_file
#define RECEIVED .peer = peer_sends_file, .state = accepted_with_file

#define RECVFILE_TESTS(ok) \
	{1, ERROR(EPERM)}, \
	{2, ERROR(ENOTCONN), .state = not_connected_with_empty_file}, \
	{3, ERROR(EBADF), REFUSED, .twist = bad_fd}, \
	{4, ERROR(ENODEV), REFUSED, .twist = pipe_to_write}, \
	{5, ERROR(EINVAL), REFUSED, .twist = no_such_file}, \
	{6, ERROR(EINVAL), REFUSED, .twist = no_such_directory}, \
	{7, ERROR(EACCES), REFUSED, .twist = read_only}, \
	{8, ERROR(EINVAL), REFUSED, .twist = no_elements}, \
	{9, ERROR(EINVAL), REFUSED, .twist = no_such_type}, \
	{10, ERROR(EINVAL), REFUSED, .twist = bad_flag}, \
	{11, ERROR(EINVAL), REFUSED, .twist = unsignaled_and_blocking}, \
	{12, OK(ok), RECEIVED, .run = ok_to_the_end}, \
	{13, OK(ok), RECEIVED, .run = ok_by_path}, \
	{14, OK(ok), RECEIVED, .run = ok_by_length}, \
	{15, ERROR(ECONNRESET), REFUSED, .run = dead_sender}, \
	{20, ERROR(EINVAL), REFUSED, .run = keeps_for_bad_flags}, \
	{21, ERROR(EINVAL), REFUSED, .run = keeps_for_bad_type}, \
	{22, ERROR(EINVAL), REFUSED, .run = keeps_for_bad_path}, \
	{23, ERROR(EFAULT), REFUSED, .run = keeps_for_wild_path}, \
	{24, OK(ok), RECEIVED, .run = ok_over_another}, \
	{25, OK(ok), RECEIVED, .run = ok_memory_first}, \
	{26, ERROR(ECONNRESET), REFUSED, .run = keeps_for_dead_sender}, \
	{27, ERROR(ECONNRESET), .peer = peer_sends_until_killed, .state = accepted_with_file, .run = keeps_what_came}, \
	{28, ERROR(EINVAL), REFUSED, .twist = appending}

#endif
