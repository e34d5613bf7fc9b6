/* Every rank sends 1,000 numbers to every rank and checks those that it gets. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000 };

int main(int argc, char **argv) {
    int rank, size, wrong = 0, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    size_t total = (size_t)size * COUNT;
    int *out = malloc(total * sizeof *out), *in = calloc(total, sizeof *in);
    if (!out || !in)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int to = 0; to < size; to++)
        for (int n = 0; n < COUNT; n++)
            out[to * COUNT + n] = rank * 1000000 + to * 10000 + n;
    MPI_Alltoall(out, COUNT, MPI_INT, in, COUNT, MPI_INT, MPI_COMM_WORLD);
    for (int from = 0; from < size; from++)
        for (int n = 0; n < COUNT; n++)
            wrong += in[from * COUNT + n] != from * 1000000 + rank * 10000 + n;
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("all to all of %d: %d wrong\n", size, all);
    free(in);
    free(out);
    MPI_Finalize();
    return wrong != 0;
}
