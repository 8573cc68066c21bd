// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Blocks of exs_send() as section 2.4.7 has one, and a transfer whose ends wait for each other at
// the two FIFOs.

#include "result.h"

#include <sys/wait.h>

// The other end. Its opening of the first FIFO comes to an end when the client opens it, too: then
// it listens.
static void serve(param *p)
{
	if (ok_exs_init(p) < 0 || ok_exs_socket(p) < 0 || ok_exs_bind(p) < 0 || ok_exs_listen(p) < 0)
		exit(EXIT_FAILURE);
	int fd = open(exs_test_fifo_1, O_WRONLY);
	if (ok_exs_accept(p) < 0)
		exit(EXIT_FAILURE);
	close(fd);
	if (ok_exs_recv(p) < (ssize_t)p->RECV_BUFSIZE || memcmp(p->recv_buf, p->send_buf, p->RECV_BUFSIZE))
		exit(EXIT_FAILURE);
	if (ok_exs_close(p) < 0)
		exit(EXIT_FAILURE);
	fd = open(exs_test_fifo_2, O_RDONLY);
	close(fd);
	exit(EXIT_SUCCESS);
}

void *test_send(void *test_void_ptr)
{
	setup_fault_catcher(p, getpid());
	param *p = (param *)test_void_ptr;
	int test = p->test_number;

	/* ENOTCONN: the socket is not connected */
	if (test == 1) {
		p->test_value = "ENOTCONN";
		p->test_name = all_send_tests[test - 1];
		if (ok_exs_init(p) < 0)
			exit(EXIT_FAILURE);
		if (p->mode == 1)
			if (ok_exs_qcreate(p) < 0)
				exit(EXIT_FAILURE);
		if (ok_exs_socket(p) < 0)
			exit(EXIT_FAILURE);
		int ret = exs_send(p->fd, p->send_buf, p->SEND_BUFSIZE, p->flags, p->qh, p->ah, p->mh);
		print_macro(test, p->test_value, p->test_name, ret, -1, ENOTCONN);
	}

	/* all bytes, from end to end */
	else if (test == 16) {
		p->test_value = "OK_EXS_SEND";
		p->test_name = all_send_tests[test - 1];
		pid_t server = fork();
		if (server == 0)
			serve(p);
		int fd = open(exs_test_fifo_1, O_RDONLY), status = -1;
		if (ok_exs_init(p) < 0 || ok_exs_socket(p) < 0 || ok_exs_connect(p) < 0)
			exit(EXIT_FAILURE);
		close(fd);
		int ret = ok_exs_send(p);
		if (ok_exs_close(p) < 0)
			exit(EXIT_FAILURE);
		fd = open(exs_test_fifo_2, O_WRONLY);
		close(fd);
		if (waitpid(server, &status, 0) != server || status)
			exit(EXIT_FAILURE);
		print_macro(test, p->test_value, p->test_name, ret, p->SEND_BUFSIZE, 0);
	}
	return NULL;
}

int main(int argc, char *argv[])
{
	return execute(argc, argv, test_send, SEND_TESTS);
}
