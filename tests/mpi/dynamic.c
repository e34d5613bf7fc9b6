/* What a step does not offer, and names, which it does: MPI_Comm_spawn fails with an error
 * instead of waiting for ever; a published name is found until it is taken back.
 * Says "rank R of N: good". */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static void check(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "wrong: %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 99);
    }
}

int main(int argc, char **argv) {
    int rank, size, errors[2];
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm children;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    check(MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children,
                         errors) != MPI_SUCCESS, "a spawn that worked");
    if (rank == 0) {
        check(MPI_Publish_name("ocean", MPI_INFO_NULL, "port-7") == MPI_SUCCESS, "publish");
        check(MPI_Lookup_name("ocean", MPI_INFO_NULL, port) == MPI_SUCCESS, "look up");
        check(!strcmp(port, "port-7"), "what was published");
        check(MPI_Unpublish_name("ocean", MPI_INFO_NULL, "port-7") == MPI_SUCCESS, "take back");
        check(MPI_Lookup_name("ocean", MPI_INFO_NULL, port) != MPI_SUCCESS, "a name of nothing");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d of %d: good\n", rank, size);
    MPI_Finalize();
    return 0;
}
