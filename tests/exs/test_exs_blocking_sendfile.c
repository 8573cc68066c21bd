// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/sending_files.h"

static long call(param *p)
{
	return exs_blocking_sendfile(p->fd, p->sendvec, p->sendvec_cnt, p->flags == EXS_BLOCK ? 0 : p->flags);
}

static const struct test_case all_tests[] = {
	SENDFILE_TESTS,
	{13, ERROR(EPIPE), .peer = peer_accepts, .state = shut_down_with_file},
	{14, OK(OK_EXS_BLOCKING_SENDFILE), .peer = peer_receives_file, .state = connected_with_file, .run = ok_file},
	{15, OK(OK_EXS_BLOCKING_SENDFILE), .peer = peer_receives_file, .state = connected_with_file, .run = ok_path},
	{16, OK(OK_EXS_BLOCKING_SENDFILE), .peer = peer_receives_file_twice, .state = connected_with_file, .run = ok_file_twice},
	{31, OK(OK_EXS_BLOCKING_SENDFILE), MESSAGES, .peer = peer_receives_empty_message, .run = ok_empty_file},
};

PROGRAM("exs_blocking_sendfile", call, .is_blocking_only = 1)
