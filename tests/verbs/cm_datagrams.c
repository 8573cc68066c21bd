// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Datagram services (`RDMA_PS_UDP`): who asks for one, who answers, and what goes wrong between
// them. A question is one message and its answer another, after which neither knows of the other.
// The ids have no queue pairs.

#include "cm_ids.h"
#include "own_address.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <string.h>

// IBTA's statuses of answers: no such service, and the consumer's own refusal.
enum { NO_SERVICE = 1, REFUSED = 2 };
// Private data: of 216 bytes of a question the service's IP header takes 36.
enum { QUESTION_DATA = 180, ANSWER_DATA = 136 };

static struct rdma_cm_id *service_on(struct rdma_event_channel *channel, struct sockaddr_in *address)
{
	struct rdma_cm_id *id = new_id_of(channel, RDMA_PS_UDP);

	listen_on(id, address);
	return id;
}

static struct rdma_cm_id *ready_to_ask(struct rdma_event_channel *channel, struct sockaddr_in *to)
{
	struct rdma_cm_id *id = new_id_of(channel, RDMA_PS_UDP);

	resolve(id, to);
	return id;
}

static struct rdma_cm_id *asking(struct rdma_event_channel *channel, struct sockaddr_in *to)
{
	struct rdma_cm_id *id = ready_to_ask(channel, to);
	struct rdma_conn_param param = parameters();

	CHECK(!rdma_connect(id, &param), "rdma_connect: %s", strerror(errno));
	return id;
}

static void prepare_service(struct pair *p)
{
	p->address = own_address(0);
	p->server = new_channel();
	p->client = new_channel();
	p->listener = service_on(p->server, &p->address);
}

// The service has the question and has not answered.
static void ask(struct pair *p)
{
	p->active = asking(p->client, &p->address);
	p->passive = requested(p->server);
}

static void answer(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = parameters();

	CHECK(!rdma_accept(id, &param), "rdma_accept: %s", strerror(errno));
}

// Both sides are as good as new.
static void exchange_works(struct pair *p)
{
	ask(p);
	answer(p->passive);
	expect_event(p->client, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK_EQ(rdma_destroy_id(p->active), 0);
	CHECK_EQ(rdma_destroy_id(p->passive), 0);
	CHECK(!readable(p->client, 0) && !readable(p->server, 0), "an event of ids that are gone");
}

static void the_service_answers(void)
{
	struct rdma_conn_param param = parameters(), answered = parameters();
	char question[QUESTION_DATA], data[ANSWER_DATA];
	const struct rdma_ud_param *ud;
	struct rdma_cm_event *event;
	struct pair p;

	memset(question, 'q', sizeof(question));
	memset(data, 'a', sizeof(data));
	prepare_service(&p);
	p.active = ready_to_ask(p.client, &p.address);
	param.private_data = question;
	param.private_data_len = sizeof(question);
	CHECK(!rdma_connect(p.active, &param), "rdma_connect: %s", strerror(errno));
	event = event_of(p.server, RDMA_CM_EVENT_CONNECT_REQUEST);
	p.passive = event->id;
	ud = &event->param.ud;
	CHECK(event->listen_id == p.listener, "the listener");
	CHECK(ud->private_data_len == sizeof(question) && !memcmp(ud->private_data, question, sizeof(question)),
	      "the question");
	rdma_ack_cm_event(event);

	answered.private_data = data;
	answered.private_data_len = sizeof(data);
	CHECK(!rdma_accept(p.passive, &answered), "rdma_accept: %s", strerror(errno));
	event = event_of(p.client, RDMA_CM_EVENT_ESTABLISHED);
	ud = &event->param.ud;
	CHECK_EQ(event->status, 0);
	CHECK_EQ(ud->qp_num, answered.qp_num);
	CHECK_EQ(ud->qkey, RDMA_UDP_QKEY);
	CHECK(ud->ah_attr.is_global && !memcmp(ud->ah_attr.grh.dgid.raw + 12, &p.address.sin_addr, 4), "where it is");
	CHECK(ud->private_data_len == sizeof(data) && !memcmp(ud->private_data, data, sizeof(data)), "the answer");
	rdma_ack_cm_event(event);
	CHECK(!readable(p.server, 0), "who answers is told nothing more");
}

static void nobody_has_the_service(void)
{
	struct pair p;

	// A listener for connections at the same port is not it.
	prepare(&p);
	p.active = asking(p.client, &p.address);
	expect_event(p.client, RDMA_CM_EVENT_UNREACHABLE, NO_SERVICE);
	CHECK(!readable(p.server, 0), "the other listener is told");
	CHECK_EQ(rdma_destroy_id(p.active), 0);
	// Nor is one that has gone.
	prepare_service(&p);
	CHECK_EQ(rdma_destroy_id(p.listener), 0);
	p.active = asking(p.client, &p.address);
	expect_event(p.client, RDMA_CM_EVENT_UNREACHABLE, NO_SERVICE);
	CHECK_EQ(rdma_destroy_id(p.active), 0);
}

static void refusal_carries_data(void)
{
	struct rdma_cm_event *event;
	struct pair p;

	prepare_service(&p);
	ask(&p);
	CHECK(!rdma_reject(p.passive, "not today", 10), "rdma_reject: %s", strerror(errno));
	event = event_of(p.client, RDMA_CM_EVENT_UNREACHABLE);
	CHECK_EQ(event->status, REFUSED);
	CHECK(event->param.ud.private_data_len >= 10 && !strcmp(event->param.ud.private_data, "not today"),
	      "private data");
	rdma_ack_cm_event(event);
	CHECK_EQ(rdma_destroy_id(p.active), 0);
	CHECK_EQ(rdma_destroy_id(p.passive), 0);
	exchange_works(&p);
}

static void private_data_is_bounded(void)
{
	struct rdma_conn_param param = parameters();
	char data[256] = "hello";
	struct pair p;

	prepare_service(&p);
	p.active = ready_to_ask(p.client, &p.address);
	param.private_data = data;
	param.private_data_len = QUESTION_DATA + 1;
	CHECK(rdma_connect(p.active, &param) == -1 && errno == EINVAL, "a long question: %s", strerror(errno));
	// Nothing has changed.
	param.private_data_len = QUESTION_DATA;
	CHECK(!rdma_connect(p.active, &param), "rdma_connect: %s", strerror(errno));
	p.passive = requested(p.server);
	CHECK(rdma_reject(p.passive, data, ANSWER_DATA + 1) == -1 && errno == EINVAL, "a long refusal: %s",
	      strerror(errno));
	// An answer that cannot be given is a refusal, as of connections.
	param.private_data_len = ANSWER_DATA + 1;
	CHECK(rdma_accept(p.passive, &param) == -1 && errno == EINVAL, "a long answer: %s", strerror(errno));
	expect_event(p.client, RDMA_CM_EVENT_UNREACHABLE, REFUSED);
	CHECK_EQ(rdma_destroy_id(p.active), 0);
	CHECK_EQ(rdma_destroy_id(p.passive), 0);

	ask(&p);
	CHECK(!rdma_reject(p.passive, data, ANSWER_DATA), "rdma_reject: %s", strerror(errno));
	expect_event(p.client, RDMA_CM_EVENT_UNREACHABLE, REFUSED);
}

static void calls_in_the_wrong_state(void)
{
	struct rdma_conn_param param = parameters();
	struct pair p;

	prepare_service(&p);
	CHECK(rdma_connect(p.listener, &param) == -1 && errno == EINVAL, "the listener asks: %s", strerror(errno));
	ask(&p);
	CHECK(rdma_connect(p.active, &param) == -1 && errno == EINVAL, "asking twice: %s", strerror(errno));
	CHECK(rdma_accept(p.active, &param) == -1 && errno == EINVAL, "who asks answers: %s", strerror(errno));
	CHECK(rdma_reject(p.active, NULL, 0) == -1 && errno == EINVAL, "who asks refuses: %s", strerror(errno));
	CHECK(rdma_listen(p.passive, 1) == -1 && errno == EINVAL, "listening on it: %s", strerror(errno));
	answer(p.passive);
	expect_event(p.client, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK(rdma_accept(p.passive, &param) == -1 && errno == EINVAL, "answering twice: %s", strerror(errno));
	CHECK(rdma_reject(p.passive, NULL, 0) == -1 && errno == EINVAL, "refusing afterwards: %s", strerror(errno));
	CHECK(rdma_connect(p.active, &param) == -1 && errno == EINVAL, "asking again: %s", strerror(errno));
	CHECK_EQ(rdma_destroy_id(p.active), 0);
	CHECK_EQ(rdma_destroy_id(p.passive), 0);
	exchange_works(&p);
}

static void destroying_in_every_state(void)
{
	struct pair p;

	// Not asked yet.
	prepare_service(&p);
	CHECK_EQ(rdma_destroy_id(new_id_of(p.client, RDMA_PS_UDP)), 0);
	CHECK_EQ(rdma_destroy_id(ready_to_ask(p.client, &p.address)), 0);
	// Asked: the answer comes too late.
	ask(&p);
	CHECK_EQ(rdma_destroy_id(p.active), 0);
	answer(p.passive);
	CHECK_EQ(rdma_destroy_id(p.passive), 0);
	exchange_works(&p);
	// Asked and not answered, by who should.
	ask(&p);
	CHECK_EQ(rdma_destroy_id(p.passive), 0);
	expect_event(p.client, RDMA_CM_EVENT_UNREACHABLE, REFUSED);
	CHECK_EQ(rdma_destroy_id(p.active), 0);
	// Answered, and the answer not read.
	ask(&p);
	answer(p.passive);
	CHECK_EQ(rdma_destroy_id(p.passive), 0);
	CHECK(readable(p.client, EVENT_MS), "no answer");
	CHECK_EQ(rdma_destroy_id(p.active), 0);
	exchange_works(&p);
	// Refused.
	ask(&p);
	CHECK_EQ(rdma_reject(p.passive, NULL, 0), 0);
	CHECK_EQ(rdma_destroy_id(p.passive), 0);
	expect_event(p.client, RDMA_CM_EVENT_UNREACHABLE, REFUSED);
	CHECK_EQ(rdma_destroy_id(p.active), 0);
	// A question that was not read goes with the listener, one that was does not.
	ask(&p);
	asking(p.client, &p.address);
	CHECK(readable(p.server, EVENT_MS), "no question");
	CHECK_EQ(rdma_destroy_id(p.listener), 0);
	expect_event(p.client, RDMA_CM_EVENT_UNREACHABLE, REFUSED);
	answer(p.passive);
	expect_event(p.client, RDMA_CM_EVENT_ESTABLISHED, 0);
}

// How far the one that dies has come.
enum stage { ASKED, ANSWERED };

struct order {
	struct sockaddr_in address; // where the service is
	enum stage stage;
	bool server;
};

void peer_serve(int fd)
{
	struct order order;
	struct pair p;

	if (!receive_all(fd, &order, sizeof(order)))
		return;
	p.address = order.address;
	if (order.server) {
		prepare_service(&p);
		send_all(fd, &p.address, sizeof(p.address));
		p.passive = requested(p.server);
		if (order.stage == ANSWERED)
			answer(p.passive);
	} else {
		p.client = new_channel();
		p.active = asking(p.client, &p.address);
		if (order.stage == ANSWERED)
			expect_event(p.client, RDMA_CM_EVENT_ESTABLISHED, 0);
	}
	reached(fd);
}

static void server_dies(enum stage stage)
{
	struct order order = {.stage = stage, .server = true};
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	send_all(peer_socket(), &order, sizeof(order));
	CHECK(receive_all(peer_socket(), &order.address, sizeof(order.address)), "the other process has ended");
	id = asking(channel, &order.address);
	wait_reached();
	if (stage == ANSWERED)
		expect_event(channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	peer_kill();
	// Who answers for the dead one is its host.
	if (stage == ASKED)
		expect_event(channel, RDMA_CM_EVENT_UNREACHABLE, REFUSED);
	CHECK_EQ(rdma_destroy_id(id), 0);
	// The service has gone with it: the question may meet it dying, or not at all.
	id = asking(channel, &order.address);
	event = event_of(channel, RDMA_CM_EVENT_UNREACHABLE);
	CHECK(event->status == REFUSED || event->status == NO_SERVICE, "status %d", event->status);
	rdma_ack_cm_event(event);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK(!readable(channel, 0), "an event of an id that is gone");
}

static void client_dies(enum stage stage)
{
	struct order order = {.stage = stage};
	struct pair p;

	prepare_service(&p);
	order.address = p.address;
	send_all(peer_socket(), &order, sizeof(order));
	p.passive = requested(p.server);
	if (stage == ANSWERED)
		answer(p.passive);
	wait_reached();
	peer_kill();
	// No message says that a question is taken back: the answer goes to nobody.
	if (stage == ASKED)
		answer(p.passive);
	CHECK_EQ(rdma_destroy_id(p.passive), 0);
	exchange_works(&p);
}

static void server_killed_with_a_question(void)
{
	server_dies(ASKED);
}

static void server_killed_after_its_answer(void)
{
	server_dies(ANSWERED);
}

static void client_killed_with_a_question(void)
{
	client_dies(ASKED);
}

static void client_killed_with_an_answer(void)
{
	client_dies(ANSWERED);
}

#define T(name) {#name, name, 0}
PROGRAM(T(the_service_answers), T(nobody_has_the_service), T(refusal_carries_data), T(private_data_is_bounded),
	T(calls_in_the_wrong_state), T(destroying_in_every_state), T(server_killed_with_a_question),
	T(server_killed_after_its_answer), T(client_killed_with_a_question), T(client_killed_with_an_answer))
