/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * exs_copy - copies a file to another host; no byte of it passes through this program's hands.
 *
 *   there:  exs_copy -l TARGET          here:  exs_copy FILE HOST
 */
#include "common.h"

#include <stdio.h>
#include <unistd.h>

static exs_xferfile_t whole_file(char *path, int flags)
{
	exs_xferfile_t file = { .exs_xfv_type = EXS_PATHVEC };

	file.exs_xfv.exs_pathv.exs_path = path;
	file.exs_xfv.exs_pathv.exs_flags = flags;
	return file;
}

/* The receiver confirms with one byte what is safely in its file. */
static void receive(const char *host, const char *port, char *target)
{
	exs_xferfile_t file = whole_file(target, 0);
	int door = listening(host, port, SOCK_STREAM);
	int fd = exs_blocking_accept(door, NULL, NULL);
	ssize_t bytes;

	if (fd < 0)
		fail("exs_blocking_accept");
	bytes = exs_blocking_recvfile(fd, &file, 1, 0);
	if (bytes < 0)
		fail(target);
	if (exs_write(fd, "+", 1) != 1)
		fail("confirming");
	printf("%s: %zd bytes\n", target, bytes);
	exs_blocking_close(fd);
	exs_blocking_close(door);
}

static void send_to(const char *host, const char *port, char *source)
{
	const off_t no_limit = 0;
	exs_xferfile_t file = whole_file(source, EXS_SHUT_WR);
	int fd = connected(host, port, SOCK_STREAM);
	char answer;

	if (exs_fcntl(fd, EXS_F_SETFILELIMIT, &no_limit) < 0)
		fail("exs_fcntl");
	if (exs_blocking_sendfile(fd, &file, 1, 0) < 0)
		fail(source);
	read_all(fd, &answer, 1);
	exs_blocking_close(fd);
}

int main(int argc, char **argv)
{
	static const char usage[] = "usage: exs_copy [-p PORT] FILE HOST\n"
				    "       exs_copy [-p PORT] [-b ADDRESS] -l TARGET\n";
	struct ends ends = ends_of(argc, argv, usage, 1, 2);

	if (exs_init(EXS_VERSION) < 0)
		fail("exs_init");
	if (ends.server)
		receive(ends.address, ends.port, argv[optind]);
	else
		send_to(argv[optind + 1], ends.port, argv[optind]);
	finish_output();
	return 0;
}
