// SPDX-License-Identifier: MIT OR Apache-2.0

#include "mutant.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { SEVEN = 7, OTHER = -2 };

static bool is(const char *function, const char *what)
{
	char name[64];

	snprintf(name, sizeof(name), "%s.%s", function, what);
	return broken(name);
}

long answered(const char *function, long answer)
{
	int error = errno;
	long other = answer;

	if (answer == 0 && is(function, "answer"))
		other = SEVEN;
	if (answer == -1 && is(function, "failure"))
		other = OTHER;
	if (answer == -1 && is(function, "errno"))
		error = error == ENXIO ? EIO : ENXIO;
	errno = error;
	return other;
}

long counted(const char *function, long answer)
{
	if (answer > 0 && is(function, "count"))
		return answer - 1;
	return answered(function, answer);
}

bool let_through(const char *name, long answer, int error)
{
	return answer == -1 && errno == error && broken(name);
}

void spoil(void *bytes, size_t length)
{
	if (length)
		((unsigned char *)bytes)[length - 1] ^= 1;
}

void *spoiled_copy(const void *bytes, size_t length)
{
	void *copy = malloc(length);

	memcpy(copy, bytes, length);
	spoil(copy, length);
	return copy;
}

void spoil_file(const exs_xferfile_t *vector)
{
	off_t at;
	int fd;
	unsigned char byte;

	if (vector->exs_xfv_type == EXS_IOVEC) {
		spoil(vector->exs_xfv.exs_iov.exs_iov_base, vector->exs_xfv.exs_iov.exs_iov_len);
		return;
	}
	if (vector->exs_xfv_type == EXS_PATHVEC) {
		fd = open(vector->exs_xfv.exs_pathv.exs_path, O_RDWR);
		at = vector->exs_xfv.exs_pathv.exs_offset;
	} else {
		fd = dup(vector->exs_xfv.exs_fdv.exs_fildes);
		at = vector->exs_xfv.exs_fdv.exs_offset;
	}
	if (fd >= 0 && pread(fd, &byte, 1, at) == 1) {
		byte ^= 1;
		if (pwrite(fd, &byte, 1, at) != 1)
			abort();
	}
	close(fd);
}

// As much of the first element as there is, less a byte, in place of "all".
static void shorten(exs_xferfile_t *element)
{
	off_t end;

	switch (element->exs_xfv_type) {
	case EXS_IOVEC:
		element->exs_xfv.exs_iov.exs_iov_len--;
		break;
	case EXS_FDVEC:
		end = lseek(element->exs_xfv.exs_fdv.exs_fildes, 0, SEEK_END);
		lseek(element->exs_xfv.exs_fdv.exs_fildes, 0, SEEK_SET);
		if (!element->exs_xfv.exs_fdv.exs_length)
			element->exs_xfv.exs_fdv.exs_length = end - element->exs_xfv.exs_fdv.exs_offset;
		element->exs_xfv.exs_fdv.exs_length--;
		break;
	}
}

exs_xferfile_t *other_vector(const char *function, exs_xferfile_t *vector, int count)
{
	exs_xferfile_t *copy;

	if (count < 1 || count > EXS_XFERVEC_MAX || !vector)
		return vector;
	if (!is(function, "offset") && !is(function, "short") && !is(function, "order") && !is(function, "shut"))
		return vector;
	copy = malloc(count * sizeof(*copy));
	memcpy(copy, vector, count * sizeof(*copy));
	if (is(function, "offset"))
		copy->exs_xfv.exs_fdv.exs_offset += copy->exs_xfv_type == EXS_FDVEC;
	if (is(function, "short"))
		shorten(copy);
	for (int i = 0; is(function, "order") && i < count; i++)
		copy[i] = vector[count - 1 - i];
	for (int i = 0; is(function, "shut") && i < count; i++)
		if (copy[i].exs_xfv_type == EXS_FDVEC)
			copy[i].exs_xfv.exs_fdv.exs_flags = 0;
	return copy;
}
