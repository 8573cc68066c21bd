// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef EXS_SEND_SETUP_H
#define EXS_SEND_SETUP_H

#include "../event.h"
#include "exs_socket_setup.h"

// The number of bytes, which must be all.
static inline ssize_t ok_exs_send(param *p)
{
	ssize_t ret = exs_send(p->fd, p->send_buf, p->SEND_BUFSIZE, p->flags, p->qh, p->ah, p->mh);

	if (ret < 0) {
		print_error("ok_exs_send");
		return -1;
	}
	if (p->mode) {
		CHECK(ret == 0, "exs_send answers %zd", ret);
		exs_event_t event = take_event(p, EXS_EVT_SEND, p->fd, 0);
		ret = transferred(&event, p->send_buf, p->mh);
	}
	CHECK(ret == (ssize_t)p->SEND_BUFSIZE, "%zd bytes of %zu are sent", ret, p->SEND_BUFSIZE);
	return ret;
}

#endif
