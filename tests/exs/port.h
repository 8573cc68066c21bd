// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Where the tests meet unless the command line says otherwise.

#ifndef PORT_H
#define PORT_H

#define EXS_TEST_ADDRESS "localhost"
#define EXS_TEST_PORT "55555"

#endif
