// SPDX-License-Identifier: MIT OR Apache-2.0

#include "device.h"
#include "harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *device_name(void)
{
	return getenv("VERBS_DEVICE") ? getenv("VERBS_DEVICE") : "ferroce0";
}

struct ibv_context *open_device(void)
{
	const char *wanted = device_name();
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context = NULL;

	CHECK(list, "ibv_get_device_list: %s", strerror(errno));
	for (int i = 0; i < count; i++)
		if (strcmp(ibv_get_device_name(list[i]), wanted) == 0)
			CHECK((context = ibv_open_device(list[i])), "ibv_open_device(%s): %s", wanted, strerror(errno));
	CHECK(context, "no device %s among %d", wanted, count);
	ibv_free_device_list(list);
	return context;
}
