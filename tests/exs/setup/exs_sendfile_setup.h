// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_SENDFILE_SETUP_H
#define EXS_SENDFILE_SETUP_H

#include "../event.h"
#include "../file.h"
#include "exs_client_setup.h"

// Sends what the vector names.
static inline int ok_exs_sendfile(param *p, off_t length)
{
	ssize_t ret = exs_sendfile(p->fd, p->sendvec, p->sendvec_cnt, p->flags, queue_of(p), p->ah);

	if (ret < 0) {
		print_error("ok_exs_sendfile");
		return -1;
	}
	CHECK(ret == 0, "exs_sendfile answers %zd", ret);
	if (p->mode) {
		exs_event_t event = take_event(p, EXS_EVT_SENDFILE, p->fd, 0);
		off_t sent = transferred_file(&event, p->sendvec, p->sendvec_cnt);

		CHECK(sent == length, "%lld bytes of %lld are sent", (long long)sent, (long long)length);
	}
	return 0;
}

enum { TEST_FILE = 100000 };

// A connection and a file to send over it.
static inline int connected_with_file(param *p)
{
	return connected(p) < 0 ? -1 : make_file(p, TEST_FILE);
}

// The names of the tests, by number.
static const char *const all_sendfile_tests[] = {
	[1 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [no exs_init]",
	[2 - 1] = "exs_sendfile(NOT_CONNECTED_FD, sendvec, sendvec_cnt, flags, qh, ah)",
	[3 - 1] = "exs_sendfile(BAD_FD, sendvec, sendvec_cnt, flags, qh, ah)",
	[4 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [a pipe]",
	[5 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [bad exs_fildes]",
	[6 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [bad exs_path]",
	[7 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [more than 1 GB]",
	[8 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [offset + length beyond the end]",
	[9 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [offset beyond the end]",
	[10 - 1] = "exs_sendfile(fd, sendvec, BAD_SENDVEC_CNT, flags, qh, ah)",
	[11 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, BAD_FLAG, qh, ah)",
	[12 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, EXS_UNSIGNALED | EXS_BLOCK, qh, ah)",
	[13 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, EXS_BLOCK, INVALID_QHANDLE, ah)",
	[14 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [shut down for writing]",
	[15 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah)",
	[16 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [the same file again]",
	[17 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [exs_pathvec]",
	[18 - 1] = "exs_sendfile(fd, sendvec, 3, flags, qh, ah) [memory, descriptor, path]",
	[19 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [EXS_SHUT_WR]",
	[20 - 1] = "exs_sendfile(fd, sendvec, EXS_XFERVEC_MAX + 1, flags, qh, ah)",
	[21 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [bad exs_xfv_type]",
	[22 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [not open for reading]",
	[23 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [negative offset]",
	[24 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, 0, NULL, ah)",
	[25 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [the peer is killed]",
	[26 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [unmapped exs_path]",
	[27 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [unmapped exs_iov_base]",
	[28 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, EXS_UNSIGNALED, qh, ah)",
	[29 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, 0, qh, ah) [the file is cut short meanwhile]",
	[30 - 1] = "exs_sendfile(fd, sendvec, 2, flags, qh, ah) [SOCK_SEQPACKET, unmapped exs_iov_base of the second; the next message is whole]",
	[31 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [SOCK_SEQPACKET, an empty file]",
	[32 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [the peer takes a part and closes]",
	[33 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [no memory left]",
	[34 - 1] = "exs_sendfile(fd, sendvec, sendvec_cnt, flags, qh, ah) [a file of procfs]",
};

TEST_NAMES(sendfile, SENDFILE)

#endif
