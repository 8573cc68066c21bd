// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The framework as appendix B of the thesis describes it: what a test file needs whose tests are
// blocks of one function, test_FUNCTION, which is given the parameters and looks at their test
// number. It includes the other headers and all setup files. (This directory's own programs are
// tables of cases instead, case.h, over the same parameters, results and setup files.)

#ifndef RESULT_H
#define RESULT_H

#include "case.h"
#include "names.h"

#include <fcntl.h>
#include <netdb.h>
#include <unistd.h>

// The parameters, which setup_options() fills in.
extern param *p;
// Where the two FIFOs are that setup_options() makes.
extern char exs_test_fifo_1[], exs_test_fifo_2[];

// Runs tests of test_func, a void *(*)(void *), as the command line says, of those that there are
// up to num_tests. main() of a test file; answers its exit code. Each test is run in a process of
// its own, for a bounded time. A test that returns without a result is one that is not performed in
// this mode.
#define execute(argc, argv, test_func, num_tests) execute_function(argc, argv, test_func, #test_func, num_tests)
int execute_function(int argc, char *argv[], void *test_func, const char *name, int num_tests);
// One of them: 0 if it passed, 1 if it failed, -1 if it was not performed.
int run_test(int i, void *test_func);

#include "setup/exs_accept_setup.h"
#include "setup/exs_bind_setup.h"
#include "setup/exs_blocking_accept_setup.h"
#include "setup/exs_blocking_close_setup.h"
#include "setup/exs_blocking_connect_setup.h"
#include "setup/exs_blocking_recv_setup.h"
#include "setup/exs_blocking_recvfile_setup.h"
#include "setup/exs_blocking_send_setup.h"
#include "setup/exs_blocking_sendfile_setup.h"
#include "setup/exs_client_setup.h"
#include "setup/exs_close_setup.h"
#include "setup/exs_connect_setup.h"
#include "setup/exs_fcntl_setup.h"
#include "setup/exs_init_setup.h"
#include "setup/exs_listen_setup.h"
#include "setup/exs_mderegister_setup.h"
#include "setup/exs_mregister_setup.h"
#include "setup/exs_qcreate_setup.h"
#include "setup/exs_qdelete_setup.h"
#include "setup/exs_qdequeue_setup.h"
#include "setup/exs_qmodify_setup.h"
#include "setup/exs_qstatus_setup.h"
#include "setup/exs_read_setup.h"
#include "setup/exs_recv_setup.h"
#include "setup/exs_recvfile_setup.h"
#include "setup/exs_send_setup.h"
#include "setup/exs_sendfile_setup.h"
#include "setup/exs_server_setup.h"
#include "setup/exs_shutdown_setup.h"
#include "setup/exs_socket_setup.h"
#include "setup/exs_write_setup.h"

#endif
