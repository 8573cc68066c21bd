// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Gloo over its transport `ibverbs`: `gloo_allreduce RANK SIZE DIRECTORY`. Every rank adds up vectors with all others by both rings and compares
// the sums; ranks meet by files in the directory.

#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier_all_to_all.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <unistd.h>
#include <vector>

// Sums of up to this many small numbers are exact.
static float value(int rank, int at)
{
	return static_cast<float>((rank + 1) * (at % 1000));
}

// An algorithm with its vector. Neither is ever destroyed: Gloo's algorithms return before their sends have completed, and a
// buffer that is destroyed with a send under way ends the program.
template <class Algorithm> static bool sums(const std::shared_ptr<gloo::Context> &context, int count)
{
	auto &numbers = *new std::vector<float>(count);
	int ranks = context->size, all = ranks * (ranks + 1) / 2;

	for (int i = 0; i < count; i++)
		numbers[i] = value(context->rank, i);
	(new Algorithm(context, {numbers.data()}, count))->run();
	for (int i = 0; i < count; i++) {
		if (numbers[i] == value(all - 1, i))
			continue;
		fprintf(stderr, "number %d of %d is %f\n", i, count, numbers[i]);
		return false;
	}
	return true;
}

static bool broadcast(const std::shared_ptr<gloo::Context> &context, int count)
{
	auto &numbers = *new std::vector<float>(count);

	for (int i = 0; i < count; i++)
		numbers[i] = value(context->rank, i);
	(new gloo::BroadcastOneToAll<float>(context, {numbers.data()}, count))->run();
	for (int i = 0; i < count; i++) {
		if (numbers[i] == value(0, i))
			continue;
		fprintf(stderr, "number %d of %d is %f\n", i, count, numbers[i]);
		return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: gloo_allreduce RANK SIZE DIRECTORY\n");
		return 2;
	}
	gloo::transport::ibverbs::attr attr;
	attr.name = "ferroce0";
	attr.port = 1;
	attr.index = 0;
	auto device = gloo::transport::ibverbs::CreateDevice(attr);
	gloo::rendezvous::FileStore store(argv[3]);
	auto context = std::make_shared<gloo::rendezvous::Context>(atoi(argv[1]), atoi(argv[2]));
	context->connectFullMesh(store, device);

	for (int count : {1, 1000, 1000000}) {
		if (!sums<gloo::AllreduceRing<float>>(context, count) ||
		    !sums<gloo::AllreduceRingChunked<float>>(context, count) || !broadcast(context, count))
			return 1;
		printf("ok %d numbers\n", count);
	}
	// Whoever leaves takes his queue pairs along: not before all others are here.
	auto &barrier = *new gloo::BarrierAllToAll(context);
	barrier.run();
	barrier.run();
	fflush(stdout);
	_exit(0);
}
