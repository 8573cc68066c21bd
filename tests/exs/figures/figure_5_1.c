// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What figure 5-1 shows: a file is read block by block into registered memory, and sent from there.

#include "server.h"

#include <fcntl.h>
#include <unistd.h>

int main(int argc, char *argv[])
{
	static char block[1024];
	int file = argc > 1 ? open(argv[1], O_RDONLY) : -1;
	ssize_t length;

	if (file < 0)
		return 1;
	int sock = connect_to_server();
	exs_mhandle_t memory = exs_mregister(block, sizeof(block), EXS_MRF_RECV_DISABLE);

	while ((length = read(file, block, sizeof(block))) > 0)
		if (exs_send(sock, block, length, EXS_BLOCK, NULL, NULL, memory) != length)
			return 1;
	return length < 0 || exs_mderegister(memory, 0) || exs_close(sock, EXS_BLOCK, NULL, NULL);
}
