/* Each rank tells where it is: rank, size, host, Cosy's node, allowed processors. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static void processors(char *text, size_t room) {
    cpu_set_t set;
    size_t at = 0;
    CPU_ZERO(&set);
    text[0] = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    for (int n = 0; n < CPU_SETSIZE && at + 8 < room; n++)
        if (CPU_ISSET(n, &set))
            at += (size_t)snprintf(text + at, room - at, at ? ",%d" : "%d", n);
}

int main(int argc, char **argv) {
    int rank, size, length;
    char host[MPI_MAX_PROCESSOR_NAME], list[4096];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(host, &length);
    processors(list, sizeof list);
    const char *node = getenv("COSY_NODENAME");
    printf("rank %d of %d host %s node %s processors %s\n", rank, size, host,
           node ? node : "-", list);
    MPI_Finalize();
    return 0;
}
