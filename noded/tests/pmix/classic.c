/* The classic programs, and ways to fail: classic MODE. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

/* A number goes once round, each adds its rank. */
static int ring(void)
{
    int sum = 0;
    if (rank > 0)
        MPI_Recv(&sum, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    sum += rank;
    MPI_Send(&sum, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Recv(&sum, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("ring %d\n", sum);
    }
    return 0;
}

static int pi(void)
{
    const int steps = 100000;
    double mine = 0, all = 0;
    for (int i = rank; i < steps; i += size) {
        double x = (i + 0.5) / steps;
        mine += 4.0 / (1.0 + x * x);
    }
    MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("pi %.6f\n", all / steps);
    return 0;
}

static int all_to_all(void)
{
    int *out = malloc(size * sizeof(int)), *in = malloc(size * sizeof(int)), wrong = 0, sum;
    for (int i = 0; i < size; i++)
        out[i] = rank * 1000 + i;
    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        wrong += in[i] != i * 1000 + rank;
    MPI_Allreduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("alltoall %d wrong\n", sum);
    return 0;
}

static int where(void)
{
    int *app, set, local;
    MPI_Comm here;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &app, &set);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &local);
    printf("rank %d of %d, app %d, %d here\n", rank, size, set ? *app : -1, local);
    return 0;
}

/* One fails; the others wait for it. */
static int fail(void)
{
    if (rank == size - 1)
        exit(3);
    pause();
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "ring";
    int code = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(mode, "ring"))
        code = ring();
    else if (!strcmp(mode, "pi"))
        code = pi();
    else if (!strcmp(mode, "alltoall"))
        code = all_to_all();
    else if (!strcmp(mode, "where"))
        code = where();
    else if (!strcmp(mode, "directory"))
        printf("%s\n", getenv("PMIX_SERVER_TMPDIR"));
    else if (!strcmp(mode, "fail"))
        code = fail();
    else if (!strcmp(mode, "leave") && rank == size - 1)
        _exit(0);
    else if (!strcmp(mode, "leave"))
        pause();
    else if (!strcmp(mode, "abort") && rank == size - 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
    else if (!strcmp(mode, "abort") || !strcmp(mode, "stay")) {
        printf("up %d\n", rank);
        fflush(stdout);
        pause();
    } else
        code = 2;
    MPI_Finalize();
    return code;
}
