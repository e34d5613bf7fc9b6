"""Sums ranks with mpi4py, and says which MPI it has."""

from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(world.rank)
library = MPI.Get_library_version().split(",")[0]
if world.rank == 0:
    print(f"mpi4py {total} of {world.size}, {library.split(' v')[0]}")
