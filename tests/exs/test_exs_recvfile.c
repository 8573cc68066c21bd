// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/receiving_files.h"

static long call(param *p)
{
	return exs_recvfile(p->fd, p->sendvec, p->sendvec_cnt, p->flags, p->qh, p->ah);
}

static const struct test_case all_tests[] = {
	RECVFILE_TESTS("exs_recvfile", ", qh, ah)", OK_EXS_RECVFILE),
	{16, ERROR(EINVAL), "exs_recvfile(fd, recvvec, recvvec_cnt, flags, INVALID_QHANDLE, ah)", REFUSED, .twist = bad_qhandle},
	{17, ERROR(EINVAL), "exs_recvfile(fd, recvvec, recvvec_cnt, 0, NULL, ah)", REFUSED, .twist = no_qhandle},
};

PROGRAM("exs_recvfile", call)
