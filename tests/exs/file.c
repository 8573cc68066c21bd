// SPDX-License-Identifier: MIT OR Apache-2.0

#include "file.h"

#include <fcntl.h>
#include <unistd.h>

void by_descriptor(param *p, off_t offset, size_t length)
{
	p->sendvec[0] = (exs_xferfile_t){
		.exs_xfv_type = EXS_FDVEC,
		.exs_xfv.exs_fdv = {.exs_fildes = p->file_fd, .exs_offset = offset, .exs_length = length},
	};
}

void by_path(param *p, off_t offset, size_t length)
{
	p->sendvec[0] = (exs_xferfile_t){
		.exs_xfv_type = EXS_PATHVEC,
		.exs_xfv.exs_pathv = {.exs_path = p->path, .exs_offset = offset, .exs_length = length},
	};
}

int make_sparse_file(param *p, off_t size)
{
	snprintf(p->path, sizeof(p->path), "%s/file-%d", p->dir, p->is_peer);
	p->file_fd = open(p->path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (p->file_fd < 0 || ftruncate(p->file_fd, size)) {
		perror(p->path);
		return -1;
	}
	p->file_size = size;
	by_descriptor(p, 0, 0);
	return 0;
}

int make_file(param *p, off_t size)
{
	unsigned char block[TEST_BUFSIZE];

	if (make_sparse_file(p, size))
		return -1;
	for (off_t at = 0; at < size; at += sizeof(block)) {
		size_t length = size - at < (off_t)sizeof(block) ? (size_t)(size - at) : sizeof(block);

		for (size_t i = 0; i < length; i++)
			block[i] = pattern(at + i);
		if (pwrite(p->file_fd, block, length, at) != (ssize_t)length) {
			perror(p->path);
			return -1;
		}
	}
	return 0;
}
