// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A test file in the form of figure 4-2: blocks of exs_connect(), and numbers that have none.

#include "result.h"
#include "setup/exs_client_setup.h"
#include "setup/exs_connect_setup.h"
#include "setup/exs_init_setup.h"
#include "setup/exs_server_setup.h"
#include "setup/exs_socket_setup.h"

#define BAD_FLAG 2

void *test_connect(void *test_void_ptr)
{
	// The global p: the parameter is not looked at yet.
	setup_fault_catcher(p, getpid());
	param *p = (param *)test_void_ptr;
	int test = p->test_number;

	/* EPERM: before exs_init() */
	if (test == 1) {
		p->test_value = "EPERM";
		p->test_name = all_connect_tests[test - 1];
		int ret = exs_connect(p->fd, p->address, p->address_len, p->flags, p->to, p->qh, p->ah);
		print_macro(test, p->test_value, p->test_name, ret, -1, EPERM);
	}

	/* EINVAL: a flag that is none */
	else if (test == 3) {
		p->test_value = "EINVAL";
		p->test_name = all_connect_tests[test - 1];
		if (ok_exs_init(p) < 0)
			exit(EXIT_FAILURE);
		if (p->mode == 1)
			if (ok_exs_qcreate(p) < 0)
				exit(EXIT_FAILURE);
		if (ok_exs_socket(p) < 0)
			exit(EXIT_FAILURE);
		int ret = exs_connect(p->fd, p->address, p->address_len, p->flags | BAD_FLAG, p->to, p->qh, p->ah);
		print_macro(test, p->test_value, p->test_name, ret, -1, EINVAL);
	}

	/* in blocking mode only */
	else if (test == 4) {
		if (p->mode == 1)
			return 0;
		p->test_value = "EBADF";
		p->test_name = all_connect_tests[test - 1];
		if (ok_exs_init(p) < 0)
			exit(EXIT_FAILURE);
		int ret = exs_connect(9999, p->address, p->address_len, p->flags, p->to, p->qh, p->ah);
		print_macro(test, p->test_value, p->test_name, ret, -1, EBADF);
	}

	/* a prerequisite that fails: no library, no socket */
	else if (test == 6) {
		p->test_value = "OK_EXS_CONNECT";
		p->test_name = all_connect_tests[test - 1];
		if (ok_exs_socket(p) < 0)
			exit(EXIT_FAILURE);
	}

	else if (test != 0) {
		fprintf(stdout, "Invalid Test Number: %d\n", test);
	}
	return NULL;
}

int main(int argc, char *argv[])
{
	return execute(argc, argv, test_connect, CONNECT_TESTS);
}
