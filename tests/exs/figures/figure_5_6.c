// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What figure 5-6 shows: exs_sendfile() of all of a file that is named by its path.

#include "server.h"

#include <string.h>

int main(int argc, char *argv[])
{
	exs_xferfile_t whole;

	if (argc < 2)
		return 1;
	memset(&whole, 0, sizeof(whole));
	whole.exs_xfv_type = EXS_PATHVEC;
	whole.exs_xfv.exs_pathv.exs_path = argv[1];
	whole.exs_xfv.exs_pathv.exs_offset = (off_t)0;
	whole.exs_xfv.exs_pathv.exs_length = (size_t)0;
	whole.exs_xfv.exs_pathv.exs_flags = 0;
	int sock = connect_to_server();

	return exs_sendfile(sock, &whole, 1, EXS_BLOCK, NULL, NULL) || exs_close(sock, EXS_BLOCK, NULL, NULL);
}
