// Every rank exchanges data with every other one by messages, collectives and one-sided operations,
// and compares each byte and sum with what it must be. One line for each kind, from rank 0: "ok
// WHAT, N bytes" or "not ok WHAT: ERRORS errors". mpi_exchange in-turn: no two ranks compare and
// swap at once.

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static long errors, moved;

static const int sizes[] = { 0, 1, 8, 4096, 65536, 1 << 20 };
#define SIZES ((int)(sizeof(sizes) / sizeof(sizes[0])))
#define LARGEST (1 << 20)

// Nothing that repeats with the length of a packet, and different for each sender, receiver and
// size.
static unsigned char byte_of(int from, int to, int size, int at)
{
	return (unsigned char)(from * 31 + to * 17 + size % 251 + at * 7 % 253 + at / 4096);
}

static void fill(unsigned char *buffer, int from, int to, int size)
{
	for (int i = 0; i < size; i++)
		buffer[i] = byte_of(from, to, size, i);
}

static void compare(const unsigned char *buffer, int from, int to, int size)
{
	for (int i = 0; i < size; i++)
		errors += buffer[i] != byte_of(from, to, size, i);
	moved += size;
}

static void expect(int64_t got, int64_t wanted)
{
	errors += got != wanted;
}

static unsigned char *room(size_t size)
{
	unsigned char *buffer = calloc(1, size ? size : 1);
	if (!buffer) {
		fprintf(stderr, "no memory\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	return buffer;
}

// All at once, all to all, received by size from anybody's point of view.
static void messages(void)
{
	unsigned char *out = room((size_t)ranks * LARGEST), *in = room((size_t)ranks * LARGEST);
	MPI_Request *requests = calloc(2 * (size_t)ranks, sizeof(*requests));
	MPI_Status *statuses = calloc(2 * (size_t)ranks, sizeof(*statuses));

	for (int s = 0; s < SIZES; s++) {
		int size = sizes[s], count = 0;

		for (int peer = 0; peer < ranks; peer++) {
			if (peer == rank)
				continue;
			MPI_Irecv(in + (size_t)peer * LARGEST, size, MPI_BYTE, peer, s, MPI_COMM_WORLD,
				  &requests[count++]);
		}
		for (int peer = 0; peer < ranks; peer++) {
			if (peer == rank)
				continue;
			fill(out + (size_t)peer * LARGEST, rank, peer, size);
			MPI_Isend(out + (size_t)peer * LARGEST, size, MPI_BYTE, peer, s, MPI_COMM_WORLD,
				  &requests[count++]);
		}
		MPI_Waitall(count, requests, statuses);
		for (int peer = 0; peer < ranks; peer++)
			if (peer != rank)
				compare(in + (size_t)peer * LARGEST, peer, rank, size);
	}

	// One after the other: a message whose receive was not there when it came, and one that
	// waits for its receiver.
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	for (int i = 0; i < 200; i++) {
		int size = (i * 977) % 20000;
		MPI_Status status;
		int received;

		fill(out, rank, next, size);
		if (rank % 2 == 0) {
			MPI_Ssend(out, size, MPI_BYTE, next, i, MPI_COMM_WORLD);
			MPI_Recv(in, LARGEST, MPI_BYTE, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &status);
		} else {
			MPI_Recv(in, LARGEST, MPI_BYTE, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &status);
			MPI_Ssend(out, size, MPI_BYTE, next, i, MPI_COMM_WORLD);
		}
		MPI_Get_count(&status, MPI_BYTE, &received);
		expect(received, size);
		expect(status.MPI_SOURCE, before);
		compare(in, before, rank, size);
	}
	free(requests);
	free(statuses);
	free(out);
	free(in);
}

static void collectives(void)
{
	enum { MANY = 50000 };
	int64_t *mine = (int64_t *)room(MANY * sizeof(int64_t)), *all = (int64_t *)room(MANY * sizeof(int64_t));
	int64_t sum_of_ranks = (int64_t)ranks * (ranks - 1) / 2;

	for (int count = 1; count <= MANY; count = count * 7 + 1) {
		for (int i = 0; i < count; i++)
			mine[i] = (int64_t)(rank + 1) * 1000003 + i;
		MPI_Allreduce(mine, all, count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
		for (int i = 0; i < count; i++)
			expect(all[i], (sum_of_ranks + ranks) * 1000003 + (int64_t)ranks * i);
		MPI_Scan(mine, all, count, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
		for (int i = 0; i < count; i++)
			expect(all[i], mine[i]);
		moved += 2 * count * (long)sizeof(int64_t);
	}

	for (int root = 0; root < ranks; root++) {
		for (int s = 0; s < SIZES; s++) {
			unsigned char *buffer = room((size_t)sizes[s]);

			if (rank == root)
				fill(buffer, root, root, sizes[s]);
			MPI_Bcast(buffer, sizes[s], MPI_BYTE, root, MPI_COMM_WORLD);
			compare(buffer, root, root, sizes[s]);
			free(buffer);
		}
	}

	for (int s = 0; s < SIZES; s++) {
		size_t size = (size_t)sizes[s] / (size_t)ranks;
		unsigned char *out = room(size * (size_t)ranks), *in = room(size * (size_t)ranks);

		for (int peer = 0; peer < ranks; peer++)
			fill(out + (size_t)peer * size, rank, peer, (int)size);
		MPI_Alltoall(out, (int)size, MPI_BYTE, in, (int)size, MPI_BYTE, MPI_COMM_WORLD);
		for (int peer = 0; peer < ranks; peer++)
			compare(in + (size_t)peer * size, peer, rank, (int)size);

		fill(out, rank, rank, (int)size);
		MPI_Allgather(out, (int)size, MPI_BYTE, in, (int)size, MPI_BYTE, MPI_COMM_WORLD);
		for (int peer = 0; peer < ranks; peer++)
			compare(in + (size_t)peer * size, peer, peer, (int)size);
		free(out);
		free(in);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	free(mine);
	free(all);
}

// A window of each rank's with a slot of LARGEST bytes for every other rank, and numbers that all
// add to. `in_turn`: one rank at a time compares and swaps.
static void one_sided(int in_turn)
{
	enum { ADDS = 100 };
	size_t slots = (size_t)ranks * LARGEST;
	unsigned char *memory, *out = room(LARGEST), *in = room(LARGEST);
	int64_t *numbers;
	MPI_Win window, counters;

	MPI_Win_allocate((MPI_Aint)slots, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
	MPI_Win_allocate(2 * sizeof(int64_t), sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &numbers, &counters);
	memset(memory, 0, slots);
	numbers[0] = 0;
	numbers[1] = -1;
	MPI_Barrier(MPI_COMM_WORLD);

	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	for (int s = 0; s < SIZES; s++) {
		int size = sizes[s];
		MPI_Aint slot = (MPI_Aint)rank * LARGEST;

		fill(out, rank, next, size);
		MPI_Win_fence(0, window);
		MPI_Put(out, size, MPI_BYTE, next, slot, size, MPI_BYTE, window);
		MPI_Win_fence(0, window);
		compare(memory + (size_t)before * LARGEST, before, rank, size);
		MPI_Win_fence(0, window);
		MPI_Get(in, size, MPI_BYTE, next, slot, size, MPI_BYTE, window);
		MPI_Win_fence(0, window);
		compare(in, rank, next, size);
	}

	int64_t one = 1, was;
	MPI_Win_lock_all(0, counters);
	for (int i = 0; i < ADDS; i++) {
		MPI_Fetch_and_op(&one, &was, MPI_INT64_T, 0, 0, MPI_SUM, counters);
		MPI_Win_flush(0, counters);
		errors += was < 0 || was >= (int64_t)ADDS * ranks;
	}
	// The first who comes leaves its number.
	int64_t free_yet = -1, me = rank;
	for (int turn = 0; turn < ranks; turn++) {
		if (in_turn)
			MPI_Barrier(MPI_COMM_WORLD);
		if (turn != rank)
			continue;
		MPI_Compare_and_swap(&me, &free_yet, &was, MPI_INT64_T, 0, 1, counters);
		MPI_Win_flush(0, counters);
	}
	MPI_Win_unlock_all(counters);
	int won = was == -1, winners;
	MPI_Allreduce(&won, &winners, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	expect(winners, 1);
	if (rank == 0) {
		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, counters);
		expect(numbers[0], (int64_t)ADDS * ranks);
		MPI_Win_unlock(0, counters);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_free(&counters);
	MPI_Win_free(&window);
	free(out);
	free(in);
}

static int report(const char *what)
{
	long mine[2] = { errors, moved }, all[2];

	MPI_Allreduce(mine, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0 && all[0])
		printf("not ok %s: %ld errors\n", what, all[0]);
	else if (rank == 0)
		printf("ok %s, %ld bytes\n", what, all[1]);
	fflush(stdout);
	errors = moved = 0;
	return all[0] != 0;
}

int main(int argc, char **argv)
{
	int failed = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);

	messages();
	failed |= report("messages");
	collectives();
	failed |= report("collectives");
	one_sided(argc > 1 && !strcmp(argv[1], "in-turn"));
	failed |= report("one-sided");

	MPI_Finalize();
	return failed;
}
