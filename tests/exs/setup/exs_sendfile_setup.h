// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_SENDFILE_SETUP_H
#define EXS_SENDFILE_SETUP_H

#include "../event.h"
#include "../file.h"
#include "exs_client_setup.h"

// Sends what the vector names.
static inline int ok_exs_sendfile(param *p, off_t length)
{
	ssize_t ret = exs_sendfile(p->fd, p->sendvec, p->sendvec_cnt, p->flags, p->qh, p->ah);

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

#endif
