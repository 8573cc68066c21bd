// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What the figures of the thesis show, as programs of their own (figures), at whatever address and
// port the tests are.

#include "setup/peers.h"
#include "setup/sending_files.h"

#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

// Runs the listing, which lies beside this program, with one argument; 0 if it ends well.
static int run_listing(const char *name, const char *argument)
{
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 64);
	int status = -1;

	CHECK(length > 0, "readlink: %s", strerror(errno));
	path[length] = '\0';
	strcpy(strrchr(path, '/') + 1, name);
	pid_t child = fork();
	if (child == 0) {
		execl(path, name, argument, NULL);
		_exit(EXIT_FAILURE);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child, "running %s: %s", name, strerror(errno));
	return status;
}

static void without_a_connection(param *p)
{
	CHECK(run_listing("figure_2_2", NULL) == 0, "the listing fails");
	print_pass(0);
	(void)p;
}

static const char *const listings[] = {[2] = "figure_5_1", "figure_5_2", "figure_5_3", "figure_5_6"};

static void sends_a_file(param *p)
{
	setenv("FIGURE_ADDRESS", p->peer_addr, 1);
	setenv("FIGURE_PORT", p->port, 1);
	require(make_file(p, TEST_FILE));
	meet(p);
	CHECK(run_listing(listings[p->test_number], p->path) == 0, "the listing fails");
	print_pass(0);
}

// Figures 5-4 and 5-5 are declarations: every member is there, with its type.
static void declarations(param *p)
{
	struct exs_xferfile file = {0};
	union exs_xfvec *extent = &file.exs_xfv;
	exs_iovec_t *memory = &extent->exs_iov;
	exs_fdvec_t *descriptor = &extent->exs_fdv;
	struct exs_pathvec *path = &extent->exs_pathv;
	int *type = &file.exs_xfv_type;
	off_t *offset = &path->exs_offset;
	size_t *length = &path->exs_length;
	int *flags = &path->exs_flags;
	char **name = &path->exs_path;

	CHECK((void *)memory == extent && (void *)descriptor == extent && (void *)path == extent, "not a union");
	CHECK((void *)offset == path && (void *)length > (void *)offset && (void *)flags > (void *)length &&
	      (void *)name > (void *)flags && type != flags, "members in another order");
	print_pass(0);
	(void)p;
}

static const struct test_case all_tests[] = {
	{1, OK(OK_FIGURE_2_2), "open and close a socket", .run = without_a_connection},
	{2, OK(OK_FIGURE_5_1), "send a file with exs_send() in blocks", BOTH | ONLY_IPV4, .peer = peer_receives_file, .run = sends_a_file},
	{3, OK(OK_FIGURE_5_2), "send a file with exs_send() and mmap(2)", BOTH | ONLY_IPV4, .peer = peer_receives_file, .run = sends_a_file},
	{4, OK(OK_FIGURE_5_3), "send a file with exs_sendfile() and exs_fdvec", BOTH | ONLY_IPV4, .peer = peer_receives_file, .run = sends_a_file},
	{5, OK(OK_FIGURE_5_6), "send a file with exs_sendfile() and exs_pathvec", BOTH | ONLY_IPV4, .peer = peer_receives_file, .run = sends_a_file},
	{6, OK(OK_FIGURE_5_4), "exs_xferfile, exs_xfvec and exs_pathvec", .run = declarations},
};

PROGRAM("figures", NULL, .group = "5.4")
