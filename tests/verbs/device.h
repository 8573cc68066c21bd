// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The device that is tested: the one that VERBS_DEVICE names, or ferroce's. A machine may have
// others.

#ifndef DEVICE_H
#define DEVICE_H

#include <infiniband/verbs.h>

const char *device_name(void);
struct ibv_context *open_device(void);

#endif
