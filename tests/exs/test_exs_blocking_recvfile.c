// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/receiving_files.h"

static long call(param *p)
{
	return exs_blocking_recvfile(p->fd, p->sendvec, p->sendvec_cnt, p->flags == EXS_BLOCK ? 0 : p->flags);
}

static const struct test_case all_tests[] = {
	RECVFILE_TESTS(OK_EXS_BLOCKING_RECVFILE),
};

PROGRAM("exs_blocking_recvfile", call, .is_blocking_only = 1)
