"""The ring again, by mpi4py: a Python object goes round all ranks three times."""

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
token = {"count": 0}
for turn in range(3):
    if rank != 0:
        token = world.recv(source=rank - 1, tag=turn)
    token["count"] += 1
    world.send(token, dest=(rank + 1) % size, tag=turn)
    if rank == 0:
        token = world.recv(source=size - 1, tag=turn)
if rank == 0:
    print(f"python ring of {size}: token {token['count']}", flush=True)
