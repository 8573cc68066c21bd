// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The names of appendix B that the others have no use for, in tests of a function that is not the
// library's.

#include "result.h"

enum { NAMES_TESTS = 5 };

static int *nowhere;

void *test_names(void *test_void_ptr)
{
	setup_fault_catcher(p, getpid());
	param *p = (param *)test_void_ptr;
	int test = p->test_number;

	p->test_value = "OK_NAMES";
	if (test == 1) {
		p->test_name = "print_mhandle_macro";
		exs_mhandle_t ret = exs_mregister(p->send_buf, p->SEND_BUFSIZE, 0);
		print_mhandle_macro(test, "EPERM", "print_mhandle_macro", ret, EPERM);
	} else if (test == 2) {
		p->test_name = "print_qhandle_macro";
		if (ok_exs_init(p) < 0)
			exit(EXIT_FAILURE);
		print_qhandle_macro(test, (char *)p->test_value, (char *)p->test_name, exs_qcreate(p->depth), 0);
	} else if (test == 3) {
		p->test_name = "print_message and print_error";
		print_message("a message\n");
		errno = EIO;
		print_error("nothing");
		print_macro(test, p->test_value, p->test_name, 0, 0, 0);
	} else if (test == 4) {
		p->test_name = "a fault";
		*nowhere = 1;
	} else if (test == 5) {
		p->test_name = "list_tests and list_send_tests";
		p->func = "exs_connect";
		list_tests(p, 1);
		list_send_tests(1);
		list_blocking_sendfile_tests(16);
		print_macro(test, p->test_value, p->test_name, p->iter == NULL, 1, 0);
	}
	return NULL;
}

int main(int argc, char *argv[])
{
	return execute(argc, argv, test_names, NAMES_TESTS);
}
