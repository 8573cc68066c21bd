// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_BLOCKING_RECVFILE_SETUP_H
#define EXS_BLOCKING_RECVFILE_SETUP_H

#include "../file.h"
#include "exs_socket_setup.h"

// The number of bytes.
static inline off_t ok_exs_blocking_recvfile(param *p)
{
	off_t ret = exs_blocking_recvfile(p->fd, p->sendvec, p->sendvec_cnt, 0);

	if (ret < 0)
		print_error("ok_exs_blocking_recvfile");
	return ret < 0 ? -1 : ret;
}

// The names of the tests, by number.
static const char *const all_blocking_recvfile_tests[] = {
	[1 - 1] = "exs_blocking_recvfile(fd, recvvec, recvvec_cnt, flags) [no exs_init]",
	[2 - 1] = "exs_blocking_recvfile(NOT_CONNECTED_FD, recvvec, recvvec_cnt, flags)",
	[3 - 1] = "exs_blocking_recvfile(BAD_FD, recvvec, recvvec_cnt, flags)",
	[4 - 1] = "exs_blocking_recvfile(fd, recvvec, recvvec_cnt, flags) [a pipe]",
	[5 - 1] = "exs_blocking_recvfile(fd, recvvec, recvvec_cnt, flags) [bad exs_fildes]",
	[6 - 1] = "exs_blocking_recvfile(fd, recvvec, recvvec_cnt, flags) [bad exs_path]",
	[7 - 1] = "exs_blocking_recvfile(fd, recvvec, recvvec_cnt, flags) [not open for writing]",
	[8 - 1] = "exs_blocking_recvfile(fd, recvvec, ZERO_COUNT, flags)",
	[9 - 1] = "exs_blocking_recvfile(fd, recvvec, recvvec_cnt, flags) [bad exs_xfv_type]",
	[10 - 1] = "exs_blocking_recvfile(fd, recvvec, recvvec_cnt, BAD_FLAG)",
	[11 - 1] = "exs_blocking_recvfile(fd, recvvec, recvvec_cnt, EXS_UNSIGNALED | EXS_BLOCK)",
	[12 - 1] = "exs_blocking_recvfile(fd, recvvec, recvvec_cnt, flags)",
	[13 - 1] = "exs_blocking_recvfile(fd, recvvec, recvvec_cnt, flags) [exs_pathvec]",
	[14 - 1] = "exs_blocking_recvfile(fd, recvvec, recvvec_cnt, flags) [in two parts]",
	[15 - 1] = "exs_blocking_recvfile(fd, recvvec, recvvec_cnt, flags) [the peer is killed]",
	[20 - 1] = "exs_blocking_recvfile(fd, recvvec, 3, flags) [bad exs_flags of the third; the others stay as they are]",
	[21 - 1] = "exs_blocking_recvfile(fd, recvvec, 3, flags) [bad exs_xfv_type of the third; the others stay as they are]",
	[22 - 1] = "exs_blocking_recvfile(fd, recvvec, 3, flags) [bad exs_path of the third; the others stay as they are]",
	[23 - 1] = "exs_blocking_recvfile(fd, recvvec, 3, flags) [unmapped exs_path of the third; the others stay as they are]",
	[24 - 1] = "exs_blocking_recvfile(fd, recvvec, recvvec_cnt, flags) [exs_pathvec of a longer file]",
	[25 - 1] = "exs_blocking_recvfile(fd, recvvec, 2, flags) [memory, descriptor]",
	[26 - 1] = "exs_blocking_recvfile(fd, recvvec, 2, flags) [exs_pathvec, the peer is killed; the files stay as they are]",
	[27 - 1] = "exs_blocking_recvfile(fd, recvvec, recvvec_cnt, flags) [exs_pathvec, the peer is killed behind some bytes]",
	[28 - 1] = "exs_blocking_recvfile(fd, recvvec, recvvec_cnt, flags) [O_APPEND]",
};

TEST_NAMES(blocking_recvfile, BLOCKING_RECVFILE)

#endif
