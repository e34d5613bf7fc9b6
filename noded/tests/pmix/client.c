/* A client without MPI: prints what it is told, and how each operation ends. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pmix_proc_t me;

static void show_with(const char *name, const char *key, pmix_rank_t rank,
                      const pmix_info_t *with, size_t count)
{
    pmix_proc_t who;
    pmix_value_t *value = NULL;
    PMIX_LOAD_PROCID(&who, me.nspace, rank);
    pmix_status_t status = PMIx_Get(&who, key, with, count, &value);
    if (status != PMIX_SUCCESS)
        printf(" %s?%d", name, status);
    else if (value->type == PMIX_STRING)
        printf(" %s=%s", name, value->data.string);
    else if (value->type == PMIX_UINT32 || value->type == PMIX_PROC_RANK)
        printf(" %s=%u", name, value->data.uint32);
    else if (value->type == PMIX_UINT16)
        printf(" %s=%u", name, value->data.uint16);
    else
        printf(" %s is of type %d", name, value->type);
}

static void show(const char *name, const char *key, pmix_rank_t rank)
{
    show_with(name, key, rank, NULL, 0);
}

/* What is known of a node by its name. */
static void show_node(const char *name)
{
    pmix_info_t with[2];
    bool yes = true;
    PMIX_INFO_LOAD(&with[0], PMIX_NODE_INFO, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&with[1], PMIX_HOSTNAME, name, PMIX_STRING);
    printf("\n %s:", name);
    show_with("peers", PMIX_LOCAL_PEERS, PMIX_RANK_WILDCARD, with, 2);
    show_with("here", PMIX_LOCAL_SIZE, PMIX_RANK_WILDCARD, with, 2);
}

static pmix_status_t fence(unsigned count, const pmix_rank_t *ranks)
{
    pmix_proc_t who[count];
    pmix_info_t collect;
    bool yes = true;
    for (unsigned i = 0; i < count; i++)
        PMIX_LOAD_PROCID(&who[i], me.nspace, ranks[i]);
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    return PMIx_Fence(who, count, &collect, 1);
}

static void put(const char *key, const char *prefix)
{
    char text[40];
    pmix_value_t value;
    snprintf(text, sizeof text, "%s%u", prefix, me.rank);
    PMIX_VALUE_LOAD(&value, text, PMIX_STRING);
    PMIx_Put(PMIX_GLOBAL, key, &value);
    PMIx_Commit();
}

static pmix_status_t publish(void)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, "name", "value", PMIX_STRING);
    return PMIx_Publish(&info, 1);
}

/* Three nodes with two tasks each. */
int main(void)
{
    const pmix_rank_t all = PMIX_RANK_WILDCARD;
    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS)
        return 1;
    printf("%u:", me.rank);
    show("size", PMIX_JOB_SIZE, all);
    show("universe", PMIX_UNIV_SIZE, all);
    show("nodes", PMIX_NUM_NODES, all);
    show("peers", PMIX_LOCAL_PEERS, all);
    show("here", PMIX_LOCAL_SIZE, all);
    for (pmix_rank_t rank = 0; rank < 6; rank += 3) {
        printf("\n %u:", rank);
        show("host", PMIX_HOSTNAME, rank);
        show("local", PMIX_LOCAL_RANK, rank);
        show("app", PMIX_APPNUM, rank);
    }
    show_node("n1");
    show_node("n3");
    put("word", "w");
    printf("\n fence %d", fence(1, &all));
    for (pmix_rank_t rank = 0; rank < 6; rank++)
        show("word", "word", rank);
    /* Again: the second exchange. */
    put("more", "m");
    printf("\n fence %d", fence(1, &all));
    show("more", "more", 5 - me.rank);
    const pmix_rank_t first = me.rank / 2 * 2, here[] = {first, first + 1};
    printf("\n here %d", fence(2, here));
    if (me.rank == 1 || me.rank == 2) {
        const pmix_rank_t some[] = {1, 2};
        printf("\n some %d", fence(2, some));
    }
    printf("\n publish %d\n", publish());
    show("unknown", "unknown", (me.rank + 2) % 6);
    printf("\n");
    return PMIx_Finalize(NULL, 0) != PMIX_SUCCESS;
}
