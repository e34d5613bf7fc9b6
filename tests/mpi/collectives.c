/* A ring, an allreduce, an all-to-all and a broadcast of a megabyte, each checked.
 * Every rank says "rank R of N on P: good" (P: its number among the ranks of its node).
 * With "abort R CODE" rank R calls MPI_Abort with that code after the allreduce; with
 * "die R" it kills itself there; with "leave R" it exits without MPI_Finalize, with 0. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "wrong: %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 99);
    }
}

static void ring(int rank, int size) {
    int token = rank == 0 ? 1 : 0;
    if (size == 1)
        return;
    if (rank == 0)
        MPI_Send(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(&token, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(token == (rank == 0 ? size : rank), "ring");
    token++;
    if (rank != 0)
        MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
}

static void all_to_all(int rank, int size) {
    int *out = calloc(size, sizeof(int)), *in = calloc(size, sizeof(int));
    for (int i = 0; i < size; i++)
        out[i] = rank * 1000 + i;
    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        check(in[i] == i * 1000 + rank, "all-to-all");
    free(out);
    free(in);
}

static void broadcast(int rank) {
    size_t length = 1 << 20;
    char *bytes = malloc(length);
    memset(bytes, rank == 0 ? 7 : 0, length);
    MPI_Bcast(bytes, (int)length, MPI_CHAR, 0, MPI_COMM_WORLD);
    check(bytes[0] == 7 && bytes[length - 1] == 7, "broadcast");
    free(bytes);
}

static void end_early(int argc, char **argv, int rank) {
    if (argc < 3 || atoi(argv[2]) != rank)
        return;
    if (!strcmp(argv[1], "abort"))
        MPI_Abort(MPI_COMM_WORLD, atoi(argv[3]));
    if (!strcmp(argv[1], "die"))
        kill(getpid(), SIGKILL);
    if (!strcmp(argv[1], "leave"))
        _exit(0);
}

int main(int argc, char **argv) {
    int rank, size, place, sum = 0;
    MPI_Comm node;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &place);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(sum == size * (size - 1) / 2, "allreduce");
    end_early(argc, argv, rank);
    ring(rank, size);
    all_to_all(rank, size);
    broadcast(rank);
    printf("rank %d of %d on %d: good\n", rank, size, place);
    MPI_Finalize();
    return 0;
}
