"""Ranks that exchange objects and buffers through mpi4py and compare what they get."""

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, ranks = world.Get_rank(), world.Get_size()


def expect(got, wanted, what):
    if got != wanted:
        raise SystemExit(f"rank {rank}: {what} is wrong")


def content(sender, size):
    return bytes((sender * 31 + at * 7 + at // 4096) % 251 for at in range(size))


# Objects, pickled.
following, previous = (rank + 1) % ranks, (rank - 1) % ranks
told = world.sendrecv({"from": rank, "text": "x" * 100_000}, dest=following, source=previous)
expect(told, {"from": previous, "text": "x" * 100_000}, "an object from the rank before")
expect(world.allgather(rank * rank), [other * other for other in range(ranks)], "allgather")
expect(world.allreduce(rank + 1), ranks * (ranks + 1) // 2, "allreduce")

# Buffers.
for size in (1, 4096, 1 << 20):
    got = bytearray(size)
    world.Sendrecv(content(rank, size), dest=following, recvbuf=got, source=previous)
    expect(got, content(previous, size), f"a buffer of {size} bytes")
    buffer = bytearray(content(0, size)) if rank == 0 else bytearray(size)
    world.Bcast(buffer, root=0)
    expect(buffer, content(0, size), f"a broadcast of {size} bytes")

# Memory of another rank.
memory = bytearray(4096)
window = MPI.Win.Create(memory, comm=world)
window.Fence()
# It is the library's until the second fence.
given = content(rank, 4096)
window.Put(given, following)
window.Fence()
expect(memory, content(previous, 4096), "what was put")
window.Free()

world.Barrier()
if rank == 0:
    print(f"ok {ranks} ranks")
