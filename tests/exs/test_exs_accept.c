// SPDX-License-Identifier: MIT OR Apache-2.0

#include "setup/exs_server_setup.h"
#include "setup/peers.h"
#include "setup/twists.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static long call(param *p)
{
	p->acceptaddr[0].exs_ahandle = p->ah;
	return exs_accept(p->fd, p->acceptaddr, p->addrvec_cnt, p->flags, p->qh);
}

static void negative_count(param *p)
{
	p->addrvec_cnt = -1;
}

static void zero_count(param *p)
{
	p->addrvec_cnt = 0;
}

static void count_of_two(param *p)
{
	p->addrvec_cnt = 2;
}

// As the call is printed: not blocking, in either mode.
static void bad_qhandle_and_no_flags(param *p)
{
	p->flags = 0;
	bad_qhandle(p);
}

static void wild_vector(param *p)
{
	print_macro(p->test_number, p->test_value, p->test_name, exs_accept(p->fd, (void *)64, 1, p->flags, p->qh), -1, EFAULT);
}

// Refused before anybody is taken: whoever waits is there for the next call.
static void refused_and_kept(param *p, exs_acceptaddr_t *element)
{
	errno = 0;
	long ret = exs_accept(p->fd, element, 1, p->flags, p->qh);
	int error = errno;

	if (p->mode)
		expect_no_event(p);
	require(ok_exs_accept(p));
	errno = error;
	print_macro(p->test_number, p->test_value, p->test_name, ret, -1, EFAULT);
}

static void wild_room(param *p)
{
	exs_acceptaddr_t element = {(void *)64, sizeof(struct sockaddr_storage), -1, p->ah};

	refused_and_kept(p, &element);
}

static void constant_element(param *p)
{
	static const exs_acceptaddr_t element;

	refused_and_kept(p, (exs_acceptaddr_t *)&element);
}

// Room that can be written when the call is made, and no more when somebody comes.
static void room_taken_away(param *p)
{
	size_t page = sysconf(_SC_PAGESIZE);
	void *room = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(room != MAP_FAILED, "mmap: %s", strerror(errno));
	p->acceptaddr[0] = (exs_acceptaddr_t){room, page, -1, p->ah};
	CHECK(!exs_accept(p->fd, p->acceptaddr, 1, 0, p->qh), "exs_accept: %s", strerror(errno));
	// Not unmapped: something else might come to be there.
	CHECK(!mprotect(room, page, PROT_NONE), "mprotect: %s", strerror(errno));
	meet(p);
	take_event(p, EXS_EVT_ACCEPT, p->fd, EFAULT);
	expect_no_event(p);
	CHECK(p->acceptaddr[0].exs_newsocket == -1, "there is a socket");
	errno = EFAULT;
	print_macro(p->test_number, p->test_value, p->test_name, -1, -1, EFAULT);
}

// The new socket is another one, connected to whom the address names.
static void ok(param *p)
{
	int listener = p->fd;

	require(ok_exs_accept(p));
	CHECK(p->fd != listener, "the new socket is the one that listens");
	const exs_acceptaddr_t *from = &p->acceptaddr[0];
	CHECK(from->exs_addrlen == p->address_len, "an address of %u bytes", from->exs_addrlen);
	require(aim(p, p->peer_addr));
	CHECK(same_host(from->exs_addr, p->address), "the address is not the peer's");
	print_pass(0);
}

static void no_address_wanted(param *p)
{
	errno = 0;
	long ret = call(p);

	if (p->mode && ret == 0)
		take_event(p, EXS_EVT_ACCEPT, p->fd, 0);
	check_socket(p->acceptaddr[0].exs_newsocket);
	print_macro(p->test_number, p->test_value, p->test_name, ret, 0, 0);
}

static void nobody_there(param *p)
{
	CHECK(!exs_fcntl(p->fd, F_SETFL, O_NONBLOCK), "exs_fcntl: %s", strerror(errno));
}

// The second connection of the other process of the next test.
static void peer_connects_twice(param *p)
{
	require(connected(p));
	require(ok_exs_socket(p));
	require(ok_exs_connect(p));
	meet(p);
}

// Each element has an event of its own, with its own ahandle.
static void two_at_once(param *p)
{
	int marks[2] = {0, 0};

	p->acceptaddr[0].exs_ahandle = &marks[0];
	p->acceptaddr[1].exs_ahandle = &marks[1];
	CHECK(!exs_accept(p->fd, p->acceptaddr, 2, p->flags, p->qh), "exs_accept: %s", strerror(errno));
	for (int i = 0; i < 2; i++) {
		exs_event_t event = next_event(p);

		CHECK(event.exs_evt_type == EXS_EVT_ACCEPT && !event.exs_evt_errno, "event of type %d, %s",
		      event.exs_evt_type, strerror(event.exs_evt_errno));
		int element = (int *)event.exs_evt_ahandle - marks;
		CHECK((element == 0 || element == 1) && !marks[element]++, "an ahandle that is not one of the two");
		CHECK(event.exs_evt_union.exs_evt_accept.exs_evt_newsocket == p->acceptaddr[element].exs_newsocket,
		      "the event's socket is not its element's");
	}
	CHECK(p->acceptaddr[0].exs_newsocket != p->acceptaddr[1].exs_newsocket, "one socket for two connections");
	print_pass(0);
}

// Taken back by closing the socket that listens.
static void closed_while_accepting(param *p)
{
	CHECK(!call(p), "exs_accept: %s", strerror(errno));
	hang_up(p);
	take_event(p, EXS_EVT_ACCEPT, p->fd, ECANCELED);
	expect_no_event(p);
	print_pass(0);
}

static void peer_sends_later(param *p)
{
	require(connected(p));
	meet(p);
	require(ok_exs_send(p));
	meet(p);
}

// The connection waits for a descriptor.
static void no_descriptors_for_a_while(param *p)
{
	struct rlimit usual, none = {0, 0};
	int listener = p->fd;

	meet(p);
	CHECK(!getrlimit(RLIMIT_NOFILE, &usual), "getrlimit: %s", strerror(errno));
	none.rlim_max = usual.rlim_max;
	CHECK(!setrlimit(RLIMIT_NOFILE, &none), "setrlimit: %s", strerror(errno));
	errno = 0;
	long ret = call(p);
	int error = errno;
	if (p->mode && ret == 0) {
		take_event(p, EXS_EVT_ACCEPT, listener, EMFILE);
		ret = -1;
		error = EMFILE;
	}
	CHECK(!setrlimit(RLIMIT_NOFILE, &usual), "setrlimit: %s", strerror(errno));
	require(ok_exs_accept(p));
	CHECK(ok_exs_recv(p) == TEST_BUFSIZE, "not the bytes of who waited");
	errno = error;
	print_macro(p->test_number, p->test_value, p->test_name, ret, -1, EMFILE);
}

static const struct test_case all_tests[] = {
	{1, ERROR(EPERM)},
	{2, ERROR(EINVAL), .state = listening, .twist = bad_flag},
	{3, ERROR(EINVAL), .modes = NON_BLOCKING, .state = listening, .twist = negative_count},
	{4, ERROR(EINVAL), .modes = BLOCKING, .state = listening, .twist = zero_count},
	{5, ERROR(EINVAL), .state = listening, .twist = bad_qhandle_and_no_flags},
	{6, ERROR(EINVAL), .state = bound},
	{7, ERROR(EINVAL), .state = listening, .twist = bad_fd},
	{8, OK(OK_EXS_ACCEPT), .peer = peer_connects, .state = serving, .run = ok},
	{9, ERROR(EINVAL), .modes = BLOCKING, .state = listening, .twist = count_of_two},
	{10, ERROR(EINVAL), .modes = NON_BLOCKING, .state = listening, .twist = zero_count},
	{11, ERROR(EFAULT), .state = listening, .run = wild_vector},
	{12, ERROR(EAGAIN), .modes = BLOCKING, .state = listening, .twist = nobody_there},
	{13, OK(OK_EXS_ACCEPT), .peer = peer_connects, .state = serving, .run = no_address_wanted},
	{14, OK(OK_EXS_ACCEPT), .modes = NON_BLOCKING, .peer = peer_connects_twice, .state = serving, .run = two_at_once},
	{15, ERROR(ECANCELED), .modes = NON_BLOCKING, .state = listening, .run = closed_while_accepting},
	{16, ERROR(EINVAL), .peer = peer_accepts, .state = connected},
	{17, ERROR(EFAULT), .peer = peer_connects, .state = serving, .run = wild_room},
	{18, ERROR(EFAULT), .peer = peer_connects, .state = serving, .run = constant_element},
	{19, ERROR(EFAULT), .modes = NON_BLOCKING, .peer = peer_connects, .state = listening, .run = room_taken_away},
	{20, ERROR(EMFILE), .peer = peer_sends_later, .state = serving, .run = no_descriptors_for_a_while},
};

PROGRAM("exs_accept", call)
