// SPDX-License-Identifier: MIT OR Apache-2.0
//
// no_io_uring PROGRAM ARGUMENTS: runs a program that cannot have io_uring, as in many containers: a
// seccomp filter answers io_uring_setup, _enter and _register with EPERM.

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

// The same numbers on every architecture.
enum { IO_URING_SETUP = 425, IO_URING_REGISTER = 427 };

int main(int argc, char **argv)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, IO_URING_SETUP, 0, 2),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, IO_URING_REGISTER, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(*code), .filter = code};

	if (argc < 2)
		return 2;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("prctl");
		return 2;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 2;
}
