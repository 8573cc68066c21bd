// SPDX-License-Identifier: MIT OR Apache-2.0
//
// ATOMIC WRITE: eight bytes that are stored at once, by ibv_post_send() and by the builder.

#include "endpoint.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

enum { ROUNDS = 3000 };

static struct address to;

static struct endpoint *open_words(void)
{
	return open_pair(&(struct options){0}, &(struct options){0}, NULL, &to);
}

static void posted(void)
{
	struct endpoint *e = open_words();
	uint64_t before = 0x1111111111111111, word = 0x0123456789abcdef, there[3];

	for (int i = 0; i < 3; i++)
		remote_write(0, 8 * i, &before, 8);
	memcpy(e->buffer, &word, 8);
	CHECK_EQ(post(e, 1, IBV_WR_ATOMIC_WRITE, 0, 8, &to, 8, IBV_SEND_SIGNALED), 0);
	struct ibv_wc wc = expect_wc(e->send_cq, 1, IBV_WC_SUCCESS);

	CHECK_EQ(wc.opcode, IBV_WC_ATOMIC_WRITE);
	remote_read(0, 0, there, sizeof(there));
	CHECK_EQ(there[0], before);
	CHECK_EQ(there[1], word);
	CHECK_EQ(there[2], before);
}

static void built(void)
{
	struct endpoint *e = open_words(), *other;
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = e->send_cq,
		.recv_cq = e->recv_cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = e->pd,
		.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE,
	};
	struct ibv_qp *plain;
	struct ibv_qp_ex *qpx;
	uint64_t word = 0xfedcba9876543210, there;

	// The queue pair takes the place of another endpoint's, which is connected as usual.
	to = remote_open(&(struct options){0});
	other = open_endpoint(&(struct options){.share_plus_one = 1, .share_cq = true});
	plain = other->qp;
	other->qp = ibv_create_qp_ex(e->context, &init);
	CHECK(other->qp, "ibv_create_qp_ex: %s", strerror(errno));
	CHECK_EQ(ibv_destroy_qp(plain), 0);
	struct address own = address_of(other);

	connect_endpoint(other, &to, NULL);
	remote_connect(1, &own, NULL);
	qpx = ibv_qp_to_qp_ex(other->qp);
	ibv_wr_start(qpx);
	qpx->wr_id = 7;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(qpx, to.rkey, to.va + 16, &word);
	word = 0; // the value was taken
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	CHECK_EQ(expect_wc(e->send_cq, 7, IBV_WC_SUCCESS).opcode, IBV_WC_ATOMIC_WRITE);
	remote_read(1, 16, &there, 8);
	CHECK_EQ(there, 0xfedcba9876543210);
}

static void not_offered(void)
{
	struct endpoint *e = open_words();

	for (int type = IBV_QPT_UC; type <= IBV_QPT_UD; type++) {
		struct ibv_qp_init_attr_ex init = {
			.qp_type = type,
			.send_cq = e->send_cq,
			.recv_cq = e->recv_cq,
			.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			.pd = e->pd,
			.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE,
		};

		errno = 0;
		CHECK(!ibv_create_qp_ex(e->context, &init), "type %d has no ATOMIC WRITE", type);
		CHECK_EQ(errno, EOPNOTSUPP);
	}
}

static void of_another_length(void)
{
	struct endpoint *e = open_words();

	for (size_t length = 0; length <= 64; length++) {
		if (length != 8)
			CHECK_EQ(post(e, 1, IBV_WR_ATOMIC_WRITE, 0, length, &to, 0, IBV_SEND_SIGNALED), EINVAL);
	}
	CHECK_EQ(post(e, 2, IBV_WR_ATOMIC_WRITE, 0, 8, &to, 0, IBV_SEND_SIGNALED), 0);
	expect_wc(e->send_cq, 2, IBV_WC_SUCCESS);
}

static void misaligned(void)
{
	struct endpoint *e = open_words();

	CHECK_EQ(post(e, 1, IBV_WR_ATOMIC_WRITE, 0, 8, &to, 4, IBV_SEND_SIGNALED), 0);
	CHECK_EQ(post(e, 2, IBV_WR_ATOMIC_WRITE, 0, 8, &to, 0, IBV_SEND_SIGNALED), 0);
	expect_wc(e->send_cq, 1, IBV_WC_REM_INV_REQ_ERR);
	expect_flushes(e, 2, 3);
}

static void without_the_right(void)
{
	struct endpoint *e = open_words();
	struct address reading = remote_register(0, 0, 64, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE);

	CHECK_EQ(post(e, 1, IBV_WR_ATOMIC_WRITE, 0, 8, &reading, 0, IBV_SEND_SIGNALED), 0);
	expect_wc(e->send_cq, 1, IBV_WC_REM_ACCESS_ERR);
}

struct writing {
	struct endpoint *endpoint;
	struct address to;
	size_t from;
};

static void *write_words(void *argument)
{
	struct writing *w = argument;

	for (int i = 0; i < ROUNDS; i++) {
		CHECK_EQ(post(w->endpoint, i, IBV_WR_ATOMIC_WRITE, w->from, 8, &w->to, 0, IBV_SEND_SIGNALED), 0);
		expect_wc(w->endpoint->send_cq, i, IBV_WC_SUCCESS);
	}
	return NULL;
}

// Two write, one looks: it never sees some bytes of one and some of the other.
static void never_in_parts(void)
{
	struct writing writers[2];
	struct endpoint *targets[2];
	pthread_t threads[2];
	struct options options = {0};

	for (int i = 0; i < 2; i++) {
		struct address own, theirs;

		writers[i].endpoint = open_endpoint(&options);
		options.share_plus_one = 1;
		targets[i] = open_endpoint(&options);
		own = address_of(writers[i].endpoint);
		theirs = address_of(targets[i]);
		connect_endpoint(writers[i].endpoint, &theirs, NULL);
		connect_endpoint(targets[i], &own, NULL);
		writers[i].to = theirs;
		writers[i].from = 64 + 8 * i;
	}
	char *buffer = targets[0]->buffer;
	uint64_t *word = (uint64_t *)buffer;

	memset(buffer, 0x11, 8);
	memset(buffer + 64, 0x11, 8);
	memset(buffer + 72, 0xee, 8);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, write_words, &writers[i]), 0);
	for (int running = 2; running > 0;) {
		uint64_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);

		CHECK(seen == 0x1111111111111111 || seen == 0xeeeeeeeeeeeeeeee, "half a word: %#llx", (unsigned long long)seen);
		running = 0;
		for (int i = 0; i < 2; i++) {
			if (threads[i] && pthread_tryjoin_np(threads[i], NULL) == 0)
				threads[i] = 0;
			running += threads[i] != 0;
		}
	}
}

PROGRAM({"posted", posted, 0}, {"built", built, 0}, {"not_offered", not_offered, 0}, {"of_another_length", of_another_length, 0},
	{"misaligned", misaligned, 0}, {"without_the_right", without_the_right, 0}, {"never_in_parts", never_in_parts, 0})
