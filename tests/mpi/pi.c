/* The integral of 4 / (1 + x * x) from 0 to 1, summed up over all ranks. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    const long steps = 1000000;
    const double width = 1.0 / (double)steps;
    double mine = 0.0, pi = 0.0;
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (long n = rank; n < steps; n += size) {
        double x = width * ((double)n + 0.5);
        mine += 4.0 / (1.0 + x * x);
    }
    mine *= width;
    MPI_Reduce(&mine, &pi, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("pi by %d: %.6f\n", size, pi);
    MPI_Finalize();
    return 0;
}
