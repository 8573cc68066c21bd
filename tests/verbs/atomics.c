// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Atomics from several QPs on the same words, together with the CPU's own.

#include "endpoint.h"

#include <pthread.h>
#include <string.h>

enum { QPS = 8, EACH = 1000, DEPTH = 16 };

static struct endpoint *requesters[QPS];
static struct address remote[QPS];

static void open_all(void)
{
	struct options options = {0};

	for (int q = 0; q < QPS; q++) {
		requesters[q] = open_pair(&options, &options, NULL, &remote[q]);
		options.share_plus_one = 1;
	}
}

static void *add(void *argument)
{
	struct endpoint *e = argument;
	int q = 0, posted = 0, done = 0;

	while (requesters[q] != e)
		q++;
	while (done < EACH) {
		while (posted < EACH && posted - done < DEPTH) {
			CHECK_EQ(post_atomic(e, posted, IBV_WR_ATOMIC_FETCH_AND_ADD, 64 * q, &remote[q], 0, q + 1, 0), 0);
			posted++;
		}
		expect_wc(e->send_cq, done, IBV_WC_SUCCESS);
		done++;
	}
	return NULL;
}

static void fetch_and_add(void)
{
	pthread_t threads[QPS];
	uint64_t sum = 0;

	open_all();
	for (int q = 0; q < QPS; q++)
		CHECK_EQ(pthread_create(&threads[q], NULL, add, requesters[q]), 0);
	for (int q = 0; q < QPS; q++)
		pthread_join(threads[q], NULL);
	remote_read(0, 0, &sum, 8);
	CHECK_EQ(sum, EACH * QPS * (QPS + 1) / 2);
}

// Each adds one by reading and swapping until nobody was in between.
static void *increment(void *argument)
{
	struct endpoint *e = argument;
	int q = 0;

	while (requesters[q] != e)
		q++;
	uint64_t *seen = (uint64_t *)(e->buffer + 64 * q), guess = 0;

	for (int done = 0; done < EACH / 4;) {
		CHECK_EQ(post_atomic(e, done, IBV_WR_ATOMIC_CMP_AND_SWP, 64 * q, &remote[q], 8, guess, guess + 1), 0);
		expect_wc(e->send_cq, done, IBV_WC_SUCCESS);
		if (*seen == guess) {
			done++;
			guess++;
		} else {
			guess = *seen;
		}
	}
	return NULL;
}

static void compare_and_swap(void)
{
	pthread_t threads[QPS];
	uint64_t sum = 0;

	open_all();
	for (int q = 0; q < QPS; q++)
		CHECK_EQ(pthread_create(&threads[q], NULL, increment, requesters[q]), 0);
	for (int q = 0; q < QPS; q++)
		pthread_join(threads[q], NULL);
	remote_read(0, 8, &sum, 8);
	CHECK_EQ(sum, QPS * (EACH / 4));
}

// The target's own process adds to the word with CPU atomics at the same time.
static void with_the_cpu(void)
{
	struct endpoint *a, *b;
	struct address to_a, to_b;

	a = open_endpoint(&(struct options){0});
	b = open_endpoint(&(struct options){0});
	to_a = address_of(a);
	to_b = address_of(b);
	connect_endpoint(a, &to_b, NULL);
	connect_endpoint(b, &to_a, NULL);
	requesters[0] = a;
	remote[0] = to_b;
	pthread_t thread;
	uint64_t *word = (uint64_t *)b->buffer, mine = 0;

	CHECK_EQ(pthread_create(&thread, NULL, add, a), 0);
	while (pthread_tryjoin_np(thread, NULL) != 0) {
		__atomic_fetch_add(word, 1ull << 32, __ATOMIC_SEQ_CST);
		mine++;
	}
	CHECK_EQ(*word & 0xffffffff, EACH);
	CHECK_EQ(*word >> 32, mine & 0xffffffff);
}

PROGRAM({"fetch_and_add", fetch_and_add, 0}, {"compare_and_swap", compare_and_swap, 0}, {"with_the_cpu", with_the_cpu, 0})
