// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A program in the form of figure 4-5: no test function, two processes made of ok_ functions alone,
// in either mode, which wait for each other at the FIFOs of the working directory that
// setup_options() has made.

#include "result.h"

#define MUST(call) do { if ((call) < 0) exit(EXIT_FAILURE); } while (0)

static void wait_at(const char *fifo, int flags)
{
	int fd = open(fifo, flags);

	MUST(fd);
	close(fd);
}

int main(int argc, char *argv[])
{
	p = calloc(1, sizeof(param));
	p->func = "pingpong";
	if (setup_options(argc, argv, p) != 0)
		return 0;

	pid_t pid = fork();
	if (pid == 0) {
		MUST(ok_exs_init(p));
		MUST(ok_exs_socket(p));
		MUST(ok_exs_bind(p));
		MUST(ok_exs_listen(p));
		wait_at("fifo1", O_WRONLY);
		MUST(ok_exs_accept(p));
		if (ok_exs_recv(p) < (ssize_t)p->RECV_BUFSIZE)
			exit(EXIT_FAILURE);
		MUST(ok_exs_close(p));
		wait_at("fifo2", O_RDONLY);
	} else {
		wait_at("fifo1", O_RDONLY);
		MUST(ok_exs_init(p));
		MUST(ok_exs_socket(p));
		MUST(ok_exs_connect(p));
		MUST(ok_exs_send(p));
		MUST(ok_exs_close(p));
		wait_at("fifo2", O_WRONLY);
	}
	return 0;
}
