// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What figure 5-3 shows: exs_sendfile() of all of an open file, with members set one by one as old
// programs do.

#include "server.h"

#include <fcntl.h>
#include <string.h>

int main(int argc, char *argv[])
{
	int file = argc > 1 ? open(argv[1], O_RDONLY) : -1;
	exs_xferfile_t whole;

	if (file < 0)
		return 1;
	memset(&whole, 0, sizeof(whole));
	whole.exs_xfv_type = EXS_FDVEC;
	whole.exs_xfv.exs_fdv.exs_fildes = file;
	whole.exs_xfv.exs_fdv.exs_offset = (off_t)0;
	whole.exs_xfv.exs_fdv.exs_length = (size_t)0;
	whole.exs_xfv.exs_fdv.exs_flags = 0;
	int sock = connect_to_server();

	return exs_sendfile(sock, &whole, 1, EXS_BLOCK, NULL, NULL) || exs_close(sock, EXS_BLOCK, NULL, NULL);
}
