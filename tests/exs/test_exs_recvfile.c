// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/receiving_files.h"

static long call(param *p)
{
	return exs_recvfile(p->fd, p->sendvec, p->sendvec_cnt, p->flags, p->qh, p->ah);
}

static void keeps_for_bad_qhandle(param *p)
{
	leaves_files_alone(p, bad_qhandle, EINVAL);
}

static void keeps_for_no_qhandle(param *p)
{
	leaves_files_alone(p, no_qhandle, EINVAL);
}

static void asynchronous(param *p)
{
	p->flags = EXS_UNSIGNALED;
}

// Behind a transfer to which nothing comes wait as many as there may be.
static void keeps_when_there_are_too_many(param *p)
{
	p->sendvec[0] = (exs_xferfile_t){
		.exs_xfv_type = EXS_IOVEC,
		.exs_xfv.exs_iov = {.exs_iov_base = p->recv_buf, .exs_iov_len = 1},
	};
	for (int i = 0; i <= EXS_RECVS_MAX; i++)
		CHECK(!exs_recvfile(p->fd, p->sendvec, 1, EXS_UNSIGNALED, NULL, NULL), "exs_recvfile: %s", strerror(errno));
	leaves_files_alone(p, asynchronous, EAGAIN);
}

static const struct test_case all_tests[] = {
	RECVFILE_TESTS(OK_EXS_RECVFILE),
	{16, ERROR(EINVAL), REFUSED, .twist = bad_qhandle},
	{17, ERROR(EINVAL), REFUSED, .twist = no_qhandle},
	{30, ERROR(EINVAL), REFUSED, .run = keeps_for_bad_qhandle},
	{31, ERROR(EINVAL), REFUSED, .run = keeps_for_no_qhandle},
	{32, ERROR(EAGAIN), REFUSED, .run = keeps_when_there_are_too_many},
};

PROGRAM("exs_recvfile", call)
