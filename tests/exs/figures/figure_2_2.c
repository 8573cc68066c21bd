// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What figure 2-2 shows: a socket is made and closed, without waiting and without an event. The
// header alone is enough.

#include <exs.h>

int main(void)
{
	if (exs_init(EXS_VERSION))
		return 1;
	int sock = exs_socket(PF_INET, SOCK_STREAM, 0);

	return sock < 0 || exs_close(sock, 0, NULL, NULL);
}
