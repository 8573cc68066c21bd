// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_RECVFILE_SETUP_H
#define EXS_RECVFILE_SETUP_H

#include "../event.h"
#include "../file.h"
#include "exs_socket_setup.h"

// Receives into what the vector names: the number of bytes.
static inline off_t ok_exs_recvfile(param *p)
{
	off_t ret = exs_recvfile(p->fd, p->sendvec, p->sendvec_cnt, p->flags, queue_of(p), p->ah);

	if (ret < 0) {
		print_error("ok_exs_recvfile");
		return -1;
	}
	if (p->mode) {
		CHECK(ret == 0, "exs_recvfile answers %lld", (long long)ret);
		exs_event_t event = take_event(p, EXS_EVT_RECVFILE, p->fd, 0);
		ret = transferred_file(&event, p->sendvec, p->sendvec_cnt);
	}
	return ret;
}

// The names of the tests, by number.
static const char *const all_recvfile_tests[] = {
	[1 - 1] = "exs_recvfile(fd, recvvec, recvvec_cnt, flags, qh, ah) [no exs_init]",
	[2 - 1] = "exs_recvfile(NOT_CONNECTED_FD, recvvec, recvvec_cnt, flags, qh, ah)",
	[3 - 1] = "exs_recvfile(BAD_FD, recvvec, recvvec_cnt, flags, qh, ah)",
	[4 - 1] = "exs_recvfile(fd, recvvec, recvvec_cnt, flags, qh, ah) [a pipe]",
	[5 - 1] = "exs_recvfile(fd, recvvec, recvvec_cnt, flags, qh, ah) [bad exs_fildes]",
	[6 - 1] = "exs_recvfile(fd, recvvec, recvvec_cnt, flags, qh, ah) [bad exs_path]",
	[7 - 1] = "exs_recvfile(fd, recvvec, recvvec_cnt, flags, qh, ah) [not open for writing]",
	[8 - 1] = "exs_recvfile(fd, recvvec, ZERO_COUNT, flags, qh, ah)",
	[9 - 1] = "exs_recvfile(fd, recvvec, recvvec_cnt, flags, qh, ah) [bad exs_xfv_type]",
	[10 - 1] = "exs_recvfile(fd, recvvec, recvvec_cnt, BAD_FLAG, qh, ah)",
	[11 - 1] = "exs_recvfile(fd, recvvec, recvvec_cnt, EXS_UNSIGNALED | EXS_BLOCK, qh, ah)",
	[12 - 1] = "exs_recvfile(fd, recvvec, recvvec_cnt, flags, qh, ah)",
	[13 - 1] = "exs_recvfile(fd, recvvec, recvvec_cnt, flags, qh, ah) [exs_pathvec]",
	[14 - 1] = "exs_recvfile(fd, recvvec, recvvec_cnt, flags, qh, ah) [in two parts]",
	[15 - 1] = "exs_recvfile(fd, recvvec, recvvec_cnt, flags, qh, ah) [the peer is killed]",
	[16 - 1] = "exs_recvfile(fd, recvvec, recvvec_cnt, flags, INVALID_QHANDLE, ah)",
	[17 - 1] = "exs_recvfile(fd, recvvec, recvvec_cnt, 0, NULL, ah)",
	[20 - 1] = "exs_recvfile(fd, recvvec, 3, flags, qh, ah) [bad exs_flags of the third; the others stay as they are]",
	[21 - 1] = "exs_recvfile(fd, recvvec, 3, flags, qh, ah) [bad exs_xfv_type of the third; the others stay as they are]",
	[22 - 1] = "exs_recvfile(fd, recvvec, 3, flags, qh, ah) [bad exs_path of the third; the others stay as they are]",
	[23 - 1] = "exs_recvfile(fd, recvvec, 3, flags, qh, ah) [unmapped exs_path of the third; the others stay as they are]",
	[24 - 1] = "exs_recvfile(fd, recvvec, recvvec_cnt, flags, qh, ah) [exs_pathvec of a longer file]",
	[25 - 1] = "exs_recvfile(fd, recvvec, 2, flags, qh, ah) [memory, descriptor]",
	[26 - 1] = "exs_recvfile(fd, recvvec, 2, flags, qh, ah) [exs_pathvec, the peer is killed; the files stay as they are]",
	[27 - 1] = "exs_recvfile(fd, recvvec, recvvec_cnt, flags, qh, ah) [exs_pathvec, the peer is killed behind some bytes]",
	[28 - 1] = "exs_recvfile(fd, recvvec, recvvec_cnt, flags, qh, ah) [O_APPEND]",
	[30 - 1] = "exs_recvfile(fd, recvvec, 3, flags, INVALID_QHANDLE, ah) [exs_pathvec, the files stay as they are]",
	[31 - 1] = "exs_recvfile(fd, recvvec, 3, 0, NULL, ah) [exs_pathvec, the files stay as they are]",
	[32 - 1] = "exs_recvfile(fd, recvvec, 3, EXS_UNSIGNALED, qh, ah) [too many; exs_pathvec, the files stay as they are]",
};

TEST_NAMES(recvfile, RECVFILE)

#endif
