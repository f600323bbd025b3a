"""A field that is smoothed around a ring of processes, and a list that grows: its state depends on every message. Prints its
checksum from process 0. Usage: field.py STEPS"""

import hashlib
import sys

import numpy
import standfast_group
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.Get_rank(), comm.Get_size()
last = int(sys.argv[1])
field = numpy.arange(40_000, dtype=numpy.float64) + rank
step = numpy.zeros(1, dtype=numpy.int64)
seen = []


def put(value):
    seen[:] = value


group = standfast_group.join(comm)
group.protect(0, step)
group.protect(1, field)
group.protect_object(2, lambda: seen, put)
try:
    group.protect(3, field[::2])
    raise SystemExit("what is not one stretch was registered")
except standfast_group.StandfastError as error:
    assert "one writable stretch" in str(error)
if group.joined != standfast_group.NEW:
    group.restore()
    assert len(seen) == int(step[0]), (len(seen), step)
while step[0] < last:
    left = comm.sendrecv(float(field[-1]), dest=(rank + 1) % ranks, source=(rank - 1) % ranks)
    field[int(step[0]) % 97 :: 97] *= 0.5
    field[0] += left
    seen.append(left)
    step[0] += 1
    if group.due(0):
        if not group.checkpoint():
            raise SystemExit(group.reason)
        if rank == 0:
            print(f"epoch {group.epoch}", file=sys.stderr, flush=True)
digest = hashlib.sha256(field.tobytes() + repr(seen).encode()).hexdigest()
all_digests = comm.gather(digest)
group.finish()
if rank == 0:
    print("checksum", hashlib.sha256("".join(all_digests).encode()).hexdigest())
