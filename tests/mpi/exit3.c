/* The last rank leaves with exit code 3 in the middle; the others wait for it in vain. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1)
        _exit(3);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d went on\n", rank);
    MPI_Finalize();
    return 0;
}
