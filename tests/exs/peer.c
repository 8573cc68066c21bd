// SPDX-License-Identifier: MIT OR Apache-2.0

#include "peer.h"

#include "process.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_WORDS = 32 };

static volatile pid_t peer;
static volatile sig_atomic_t may_die;

// A process that waits at a FIFO for one that is gone would wait until its time is up.
static void on_child(int number)
{
	siginfo_t info = {0};
	int error = errno;

	(void)number;
	if (!may_die && peer > 0 && !waitid(P_PID, peer, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid == peer &&
	    (info.si_code != CLD_EXITED || info.si_status)) {
		print_fault("the other process failed");
		_exit(EXIT_FAILURE);
	}
	errno = error;
}

// The command's words, then this program with the same options.
static void exec_peer(const param *p)
{
	static char self[PATH_MAX];
	const char *words[MAX_WORDS + 8];
	char *prefix = getenv("PEER_COMMAND"), number[16];
	int count = 0;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return;
	for (char *word = prefix ? strtok(prefix, "\n") : NULL; word && count < MAX_WORDS; word = strtok(NULL, "\n"))
		words[count++] = word;
	words[count++] = self;
	words[count++] = "-a";
	words[count++] = p->peer_addr;
	words[count++] = "-p";
	words[count++] = p->port;
	if (p->mode)
		words[count++] = "-n";
	words[count] = NULL;
	snprintf(number, sizeof(number), "%d", p->test_number);
	setenv("EXS_TEST_PEER", number, 1);
	setenv("EXS_TEST_PEER_ADDR", p->addr, 1);
	setenv("EXS_TEST_DIR", p->dir, 1);
	execvp(words[0], (char **)words);
	perror(words[0]);
}

void start_peer(const param *p)
{
	struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART};

	sigaction(SIGCHLD, &action, NULL);
	peer = fork();
	CHECK(peer >= 0, "fork: %s", strerror(errno));
	if (peer == 0) {
		exec_peer(p);
		_exit(EXIT_FAILURE);
	}
}

_Noreturn void peer_process(param *p, const struct test_case *c)
{
	if (!c || !c->peer)
		finish(EXIT_FAILURE);
	p->is_peer = 1;
	p->test_number = c->number;
	// It may begin late; the test itself is over before.
	time_limit(c->limit ? c->limit : 3 * test_limit(0));
	c->peer(p);
	finish(EXIT_SUCCESS);
}

void expect_peer_death(void)
{
	may_die = 1;
}

int peer_lives(void)
{
	return peer > 0;
}

static int collect_peer(void)
{
	int status = 0;

	while (peer > 0 && waitpid(peer, &status, 0) < 0 && errno == EINTR)
		;
	peer = 0;
	return status;
}

void stop_peer(void)
{
	siginfo_t info;

	CHECK(!kill(peer, SIGSTOP), "kill: %s", strerror(errno));
	while (waitid(P_PID, peer, &info, WSTOPPED))
		CHECK(errno == EINTR, "waitid: %s", strerror(errno));
}

void continue_peer(void)
{
	CHECK(!kill(peer, SIGCONT), "kill: %s", strerror(errno));
}

static pthread_t killer;
static int has_killer;

static void *kill_later(void *microseconds)
{
	usleep((uintptr_t)microseconds);
	kill(peer, SIGKILL);
	return NULL;
}

void kill_peer_later(unsigned microseconds)
{
	expect_peer_death();
	has_killer = !pthread_create(&killer, NULL, kill_later, (void *)(uintptr_t)microseconds);
	CHECK(has_killer, "no thread");
}

void kill_peer(void)
{
	expect_peer_death();
	// Its process id is nobody's once it is collected: not before the one who is to kill it has
	// done so.
	if (has_killer)
		pthread_join(killer, NULL);
	else
		kill(peer, SIGKILL);
	has_killer = 0;
	collect_peer();
}

void wait_for_peer(void)
{
	int status = collect_peer();

	if (!may_die && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
		FAIL("the other process failed");
}

void meet(param *p)
{
	static unsigned times;
	unsigned place = times++ % 2;
	int fd = open(p->fifo[place], p->is_peer == (int)place ? O_RDONLY : O_WRONLY);

	if (fd < 0)
		FAIL("%s: %s", p->fifo[place], strerror(errno));
	close(fd);
}
