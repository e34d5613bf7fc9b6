/* PMI-2 through Slurm's library of it (Debian: libpmi2-0-dev), an implementation of the
 * client's side that is not ours. Says "rank R of N: good" and exits with 0, or says which
 * call failed and exits with 1. */
#include <slurm/pmi2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void good(int result, const char *what) {
    if (!result) {
        fprintf(stderr, "failed: %s\n", what);
        exit(1);
    }
}

#define DO(call) good((call) == PMI2_SUCCESS, #call)

int main(void) {
    int spawned, size, rank, program, found, length, numbers[16];
    char jobid[PMI2_MAX_VALLEN], key[PMI2_MAX_KEYLEN], value[PMI2_MAX_VALLEN], expected[64];
    DO(PMI2_Init(&spawned, &size, &rank, &program));
    good(rank == atoi(getenv("PMI_RANK")) && size == atoi(getenv("PMI_SIZE")), "rank and size");
    good(!spawned && program == 0, "how it was started");
    DO(PMI2_Job_GetId(jobid, sizeof jobid));
    DO(PMI2_Info_GetJobAttr("PMI_process_mapping", value, sizeof value, &found));
    good(found && !strncmp(value, "(vector,", 8), "the mapping");
    DO(PMI2_Info_GetJobAttr("universeSize", value, sizeof value, &found));
    good(found && atoi(value) == size, "the size of the universe");
    DO(PMI2_Info_GetJobAttr("cartDims", value, sizeof value, &found));
    good(!found, "an attribute that nobody has");

    for (int round = 0; round < 3; round++) {
        snprintf(key, sizeof key, "key-%d-%d", round, rank);
        snprintf(value, sizeof value, "value;%d=%d", round, rank);
        DO(PMI2_KVS_Put(key, value));
        DO(PMI2_KVS_Fence());
        for (int other = 0; other < size; other++) {
            snprintf(key, sizeof key, "key-%d-%d", round, other);
            snprintf(expected, sizeof expected, "value;%d=%d", round, other);
            DO(PMI2_KVS_Get(jobid, other, key, value, sizeof value, &length));
            good(!strcmp(value, expected), key);
        }
    }
    DO(PMI2_Info_GetNodeAttr("nothing", value, sizeof value, &found, 0));
    good(!found, "an attribute of the node that nobody has left");
    if (atoi(getenv("MPI_LOCALRANKID")) == 0)
        DO(PMI2_Info_PutNodeAttr("numbers", "3,1,2"));
    else
        DO(PMI2_Info_GetNodeAttr("numbers", value, sizeof value, &found, 1));
    DO(PMI2_Info_GetNodeAttrIntArray("numbers", numbers, 16, &length, &found));
    good(found && length == 3 && numbers[2] == 2, "numbers of the node");
    if (rank == 0)
        DO(PMI2_Nameserv_publish("ocean", NULL, "port 7"));
    DO(PMI2_KVS_Fence());
    DO(PMI2_Nameserv_lookup("ocean", NULL, value, sizeof value));
    good(!strcmp(value, "port 7"), "what is published");
    good(PMI2_Nameserv_lookup("lake", NULL, value, sizeof value) != PMI2_SUCCESS, "a name of nothing");
    DO(PMI2_Finalize());
    printf("rank %d of %d: good\n", rank, size);
    return 0;
}
