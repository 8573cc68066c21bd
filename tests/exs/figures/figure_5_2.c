// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What figure 5-2 shows: a file is mapped whole, the mapping is registered and sent as one message.

#include "server.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

int main(int argc, char *argv[])
{
	int file = argc > 1 ? open(argv[1], O_RDONLY) : -1;
	struct stat status;

	if (file < 0 || fstat(file, &status))
		return 1;
	int sock = connect_to_server();
	void *mapping = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	exs_mhandle_t memory = exs_mregister(mapping, status.st_size, EXS_MRF_RECV_DISABLE);

	if (exs_send(sock, mapping, status.st_size, EXS_BLOCK, NULL, NULL, memory) != status.st_size)
		return 1;
	return exs_mderegister(memory, 0) || munmap(mapping, status.st_size) || exs_close(sock, EXS_BLOCK, NULL, NULL);
}
