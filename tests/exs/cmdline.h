// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The command line of a test program:
//
//   -h  usage                          -a ADDRESS  interface of this process (and of the other,
//   unless $EXS_TEST_PEER_ADDR) -l  list all tests                 -p PORT     port to listen on -t
//   N  show one test                -n          non-blocking (asynchronous) mode -v  print passing
//   results too      N, N-M      tests to run, in this order
//
// Capital letters do the same.

#ifndef CMDLINE_H
#define CMDLINE_H

#include "param.h"

// Fills in the parameters' defaults and what the command line says, and makes the directory with
// the FIFOs. 0 to go on, 1 if all is done, -1 if the command line is not accepted.
int parse_options(int argc, char *argv[], param *p);
// The same for a program that is no table of tests, and all else that it needs (result.c).
int setup_options(int argc, char *argv[], param *p);
// Removes the directory.
void remove_directory(const param *p);

#endif
