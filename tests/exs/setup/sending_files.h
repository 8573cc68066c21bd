// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef SENDING_FILES_H
#define SENDING_FILES_H

#include "exs_sendfile_setup.h"
#include "peers.h"
#include "twists.h"

#include <fcntl.h>
#include <unistd.h>

// What exs_sendfile() and exs_blocking_sendfile() have in common: the first twelve tests, and how a
// file arrives.

static inline void cannot_be_mapped(param *p)
{
	int ends[2];

	CHECK(!pipe(ends), "pipe: %s", strerror(errno));
	p->sendvec[0].exs_xfv.exs_fdv.exs_fildes = ends[0];
}

static inline void bad_file(param *p)
{
	p->sendvec[0].exs_xfv.exs_fdv.exs_fildes = BAD_DESCRIPTOR;
}

static inline void bad_path(param *p)
{
	strcat(p->path, "-that-is-not-there");
	by_path(p, 0, 0);
}

static inline void too_big(param *p)
{
	require(make_sparse_file(p, EXS_FILE_LIMIT + 1));
}

static inline void beyond_the_end(param *p)
{
	by_descriptor(p, 1000, p->file_size - 999);
}

static inline void offset_beyond_the_end(param *p)
{
	by_descriptor(p, p->file_size + 1, 0);
}

static inline void bad_vector_count(param *p)
{
	p->sendvec_cnt = 0;
}

static inline void too_many_elements(param *p)
{
	p->sendvec_cnt = EXS_XFERVEC_MAX + 1;
}

static inline void bad_type(param *p)
{
	p->sendvec[0].exs_xfv_type = 77;
}

static inline void write_only(param *p)
{
	p->sendvec[0].exs_xfv.exs_fdv.exs_fildes = open(p->path, O_WRONLY);
}

static inline void negative_offset(param *p)
{
	by_descriptor(p, -1, 0);
}

static inline void wild_path(param *p)
{
	by_path(p, 0, 0);
	p->sendvec[0].exs_xfv.exs_pathv.exs_path = (char *)64;
}

static inline exs_xferfile_t memory(void *address, size_t length)
{
	return (exs_xferfile_t){
		.exs_xfv_type = EXS_IOVEC,
		.exs_xfv.exs_iov = {.exs_iov_base = address, .exs_iov_len = length},
	};
}

// The call to its failure, at once or in its event: -1 and errno. `length`: the bytes that are sent
// before it.
static inline long failed_after(param *p, int error, off_t length)
{
	errno = 0;
	long ret = p->call(p);

	if (!p->mode)
		return ret;
	CHECK(ret == 0, "answers %ld, %s", ret, strerror(errno));
	exs_event_t event = take_event(p, EXS_EVT_SENDFILE, p->fd, error);
	off_t sent = transferred_file(&event, p->sendvec, p->sendvec_cnt);
	CHECK(sent == length, "%lld bytes are sent, not %lld", (long long)sent, (long long)length);
	errno = error;
	return -1;
}

// Memory is looked at when its turn comes, which may be after the call.
static inline void wild_memory(param *p)
{
	p->sendvec[0] = memory((void *)64, 100);
	long ret = failed_after(p, EFAULT, 0);
	print_macro(p->test_number, p->test_value, p->test_name, ret, -1, EFAULT);
}

static inline int not_connected_with_file(param *p)
{
	return with_socket(p) < 0 ? -1 : make_file(p, TEST_FILE);
}

static inline int shut_down_with_file(param *p)
{
	return shut_down(p) < 0 ? -1 : make_file(p, TEST_FILE);
}

// The call to its end, `length` bytes of the file.
static inline void send_file(param *p, off_t length)
{
	long ret = p->call(p);

	CHECK(ret == 0, "answers %ld, %s", ret, strerror(errno));
	if (p->mode) {
		exs_event_t event = take_event(p, EXS_EVT_SENDFILE, p->fd, 0);
		off_t sent = transferred_file(&event, p->sendvec, p->sendvec_cnt);

		CHECK(sent == length, "%lld bytes of %lld are sent", (long long)sent, (long long)length);
	}
}

static inline void sent(param *p)
{
	hang_up(p);
	print_pass(0);
}

static inline void ok_file(param *p)
{
	send_file(p, TEST_FILE);
	CHECK(lseek(p->file_fd, 0, SEEK_CUR) == 0, "the file's own offset has moved");
	sent(p);
}

static inline void ok_file_twice(param *p)
{
	send_file(p, TEST_FILE);
	send_file(p, TEST_FILE);
	sent(p);
}

static inline void ok_path(param *p)
{
	by_path(p, 0, 0);
	send_file(p, TEST_FILE);
	sent(p);
}

// The file so many times, then the end of the stream.
static inline void receive_file(param *p, int times)
{
	uint64_t count = 0;
	ssize_t length;

	while ((length = receive_some(p)) > 0)
		for (ssize_t i = 0; i < length; i++, count++)
			CHECK(((unsigned char *)p->recv_buf)[i] == pattern(count % TEST_FILE), "byte %llu is not the file's",
			      (unsigned long long)count);
	require(length);
	CHECK(count == (uint64_t)times * TEST_FILE, "%llu bytes of %d times %d", (unsigned long long)count, times, TEST_FILE);
	meet(p);
}

static inline void peer_receives_file(param *p)
{
	require(accepted(p));
	receive_file(p, 1);
}

static inline void peer_receives_file_twice(param *p)
{
	require(accepted(p));
	receive_file(p, 2);
}

// Messages.

enum { BEGINNING = 10 };

// The next message is so long, and the pattern.
static inline void receive_message(param *p, ssize_t length)
{
	memset(p->recv_buf, 0xff, p->RECV_BUFSIZE);
	ssize_t got = exs_recv(p->fd, p->recv_buf, p->RECV_BUFSIZE, EXS_BLOCK, NULL, NULL, NULL);
	CHECK(got == length, "a message of %zd bytes, not %zd", got, length);
	for (ssize_t i = 0; i < length; i++)
		CHECK(((unsigned char *)p->recv_buf)[i] == pattern(i), "byte %zd is not what was sent", i);
}

static inline void peer_receives_messages(param *p, ssize_t first)
{
	p->socktype = SOCK_SEQPACKET;
	require(accepted(p));
	receive_message(p, first);
	receive_message(p, TEST_BUFSIZE);
	meet(p);
}

static inline void peer_receives_empty_message(param *p)
{
	peer_receives_messages(p, 0);
}

static inline void peer_receives_beginning(param *p)
{
	peer_receives_messages(p, BEGINNING);
}

static inline int messages_with_file(param *p)
{
	p->socktype = SOCK_SEQPACKET;
	return connected_with_file(p);
}

static inline void ok_empty_file(param *p)
{
	require(make_sparse_file(p, 0));
	send_file(p, 0);
	require(ok_exs_send(p));
	sent(p);
}

// Of a message that fails the beginning comes, if it has one: the next one is whole.
static inline void failed_message(param *p)
{
	p->sendvec[0] = memory((void *)64, 100);
	CHECK(failed_after(p, EFAULT, 0) == -1 && errno == EFAULT, "memory that is not there is sent");
	p->sendvec[1] = p->sendvec[0];
	p->sendvec[0] = memory(p->send_buf, BEGINNING);
	p->sendvec_cnt = 2;
	long ret = failed_after(p, EFAULT, BEGINNING);
	int error = errno;
	require(ok_exs_send(p));
	hang_up(p);
	errno = error;
	print_macro(p->test_number, p->test_value, p->test_name, ret, -1, EFAULT);
}

#define REFUSED .peer = peer_accepts, .state = connected_with_file
#define MESSAGES .state = messages_with_file

// Tests 1 to 12, and from 20 on those beyond the documentation of the framework. `tail` is what
// follows the flags.
#define SENDFILE_TESTS \
	{1, ERROR(EPERM)}, \
	{2, ERROR(ENOTCONN), .state = not_connected_with_file}, \
	{3, ERROR(EBADF), REFUSED, .twist = bad_fd}, \
	{4, ERROR(ENODEV), REFUSED, .twist = cannot_be_mapped}, \
	{5, ERROR(EINVAL), REFUSED, .twist = bad_file}, \
	{6, ERROR(EINVAL), REFUSED, .twist = bad_path}, \
	{7, ERROR(EFBIG), REFUSED, .twist = too_big}, \
	{8, ERROR(EINVAL), REFUSED, .twist = beyond_the_end}, \
	{9, ERROR(EINVAL), REFUSED, .twist = offset_beyond_the_end}, \
	{10, ERROR(EINVAL), REFUSED, .twist = bad_vector_count}, \
	{11, ERROR(EINVAL), REFUSED, .twist = bad_flag}, \
	{12, ERROR(EINVAL), REFUSED, .twist = unsignaled_and_blocking}, \
	{20, ERROR(EINVAL), REFUSED, .twist = too_many_elements}, \
	{21, ERROR(EINVAL), REFUSED, .twist = bad_type}, \
	{22, ERROR(EACCES), REFUSED, .twist = write_only}, \
	{23, ERROR(EINVAL), REFUSED, .twist = negative_offset}, \
	{26, ERROR(EFAULT), REFUSED, .twist = wild_path}, \
	{27, ERROR(EFAULT), REFUSED, .run = wild_memory}, \
	{30, ERROR(EFAULT), MESSAGES, .peer = peer_receives_beginning, .run = failed_message}

#endif
