/* Every rank makes a file up.RANK (moved into its place whole, with its process number)
   and then waits for ever. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank;
    char part[64], whole[64];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(part, sizeof part, "part.%d", rank);
    snprintf(whole, sizeof whole, "up.%d", rank);
    FILE *file = fopen(part, "w");
    if (!file)
        MPI_Abort(MPI_COMM_WORLD, 1);
    fprintf(file, "%ld\n", (long)getpid());
    fclose(file);
    rename(part, whole);
    for (;;)
        pause();
}
