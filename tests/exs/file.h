// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Files to be sent.

#ifndef FILE_H
#define FILE_H

#include "case.h"

// Makes p's file, of this size, with the pattern in it, and an element of p's vector that names all
// of it by descriptor.
int make_file(param *p, off_t size);
// A file of this size without blocks on the disk.
int make_sparse_file(param *p, off_t size);
// The first element of p's vector, by descriptor or by path.
void by_descriptor(param *p, off_t offset, size_t length);
void by_path(param *p, off_t offset, size_t length);

#endif
