// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_BLOCKING_SENDFILE_SETUP_H
#define EXS_BLOCKING_SENDFILE_SETUP_H

#include "../file.h"
#include "exs_socket_setup.h"

static inline int ok_exs_blocking_sendfile(param *p)
{
	return is_zero("ok_exs_blocking_sendfile", exs_blocking_sendfile(p->fd, p->sendvec, p->sendvec_cnt, 0));
}

// The names of the tests, by number.
static const char *const all_blocking_sendfile_tests[] = {
	[1 - 1] = "exs_blocking_sendfile(fd, sendvec, sendvec_cnt, flags) [no exs_init]",
	[2 - 1] = "exs_blocking_sendfile(NOT_CONNECTED_FD, sendvec, sendvec_cnt, flags)",
	[3 - 1] = "exs_blocking_sendfile(BAD_FD, sendvec, sendvec_cnt, flags)",
	[4 - 1] = "exs_blocking_sendfile(fd, sendvec, sendvec_cnt, flags) [a pipe]",
	[5 - 1] = "exs_blocking_sendfile(fd, sendvec, sendvec_cnt, flags) [bad exs_fildes]",
	[6 - 1] = "exs_blocking_sendfile(fd, sendvec, sendvec_cnt, flags) [bad exs_path]",
	[7 - 1] = "exs_blocking_sendfile(fd, sendvec, sendvec_cnt, flags) [more than 1 GB]",
	[8 - 1] = "exs_blocking_sendfile(fd, sendvec, sendvec_cnt, flags) [offset + length beyond the end]",
	[9 - 1] = "exs_blocking_sendfile(fd, sendvec, sendvec_cnt, flags) [offset beyond the end]",
	[10 - 1] = "exs_blocking_sendfile(fd, sendvec, BAD_SENDVEC_CNT, flags)",
	[11 - 1] = "exs_blocking_sendfile(fd, sendvec, sendvec_cnt, BAD_FLAG)",
	[12 - 1] = "exs_blocking_sendfile(fd, sendvec, sendvec_cnt, EXS_UNSIGNALED | EXS_BLOCK)",
	[13 - 1] = "exs_blocking_sendfile(fd, sendvec, sendvec_cnt, flags) [shut down for writing]",
	[14 - 1] = "exs_blocking_sendfile(fd, sendvec, sendvec_cnt, flags)",
	[15 - 1] = "exs_blocking_sendfile(fd, sendvec, sendvec_cnt, flags) [exs_pathvec]",
	[16 - 1] = "exs_blocking_sendfile(fd, sendvec, sendvec_cnt, flags) [the same file again]",
	[20 - 1] = "exs_blocking_sendfile(fd, sendvec, EXS_XFERVEC_MAX + 1, flags)",
	[21 - 1] = "exs_blocking_sendfile(fd, sendvec, sendvec_cnt, flags) [bad exs_xfv_type]",
	[22 - 1] = "exs_blocking_sendfile(fd, sendvec, sendvec_cnt, flags) [not open for reading]",
	[23 - 1] = "exs_blocking_sendfile(fd, sendvec, sendvec_cnt, flags) [negative offset]",
	[26 - 1] = "exs_blocking_sendfile(fd, sendvec, sendvec_cnt, flags) [unmapped exs_path]",
	[27 - 1] = "exs_blocking_sendfile(fd, sendvec, sendvec_cnt, flags) [unmapped exs_iov_base]",
	[30 - 1] = "exs_blocking_sendfile(fd, sendvec, 2, flags) [SOCK_SEQPACKET, unmapped exs_iov_base of the second; the next message is whole]",
	[31 - 1] = "exs_blocking_sendfile(fd, sendvec, sendvec_cnt, flags) [SOCK_SEQPACKET, an empty file]",
};

TEST_NAMES(blocking_sendfile, BLOCKING_SENDFILE)

#endif
