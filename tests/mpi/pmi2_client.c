/* A client of PMI-2 that speaks the wire protocol itself, because Debian's MPICH asks for
 * PMI-1: every rank puts a value, comes to the fence, reads those of all others, and the
 * first rank of each node leaves an attribute that the others of the node wait for.
 * Says "rank R of N: good" and exits with 0; otherwise what was wrong, and 1.
 * With "abort R CODE" rank R asks for the end of the step after the fence. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONGEST 65536

static int fd;
static char answer[LONGEST + 1];

static void fail(const char *what) {
    fprintf(stderr, "%s; the last answer: %s\n", what, answer);
    exit(1);
}

static void write_all(const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t n = write(fd, bytes, length);
        if (n <= 0)
            fail("cannot write");
        bytes += n;
        length -= (size_t)n;
    }
}

static void read_all(char *bytes, size_t length) {
    while (length > 0) {
        ssize_t n = read(fd, bytes, length);
        if (n <= 0)
            fail("cannot read");
        bytes += n;
        length -= (size_t)n;
    }
}

static void say(const char *body) {
    char head[7];
    snprintf(head, sizeof head, "%6zu", strlen(body));
    write_all(head, 6);
    write_all(body, strlen(body));
}

static void hear(void) {
    char head[7] = {0};
    read_all(head, 6);
    size_t length = (size_t)atoi(head);
    if (length > LONGEST)
        fail("an answer that is too long");
    read_all(answer, length);
    answer[length] = 0;
}

/* Says something and expects these words in the answer, which must have rc=0. */
static void ask(const char *body, const char *expected) {
    say(body);
    hear();
    if (!strstr(answer, ";rc=0;") || !strstr(answer, expected))
        fail(body);
}

/* The number after a key of the last answer. */
static int number(const char *key) {
    const char *at = strstr(answer, key);
    if (!at)
        fail(key);
    return atoi(at + strlen(key));
}

static void greet(void) {
    const char *greeting = "cmd=init pmi_version=2 pmi_subversion=0\n";
    char byte = 0;
    size_t length = 0;
    write_all(greeting, strlen(greeting));
    while (byte != '\n' && length < LONGEST) {
        read_all(&byte, 1);
        answer[length++] = byte;
    }
    answer[length] = 0;
    if (!strstr(answer, "pmi_version=2") || !strstr(answer, "rc=0"))
        fail("no PMI-2 here");
}

int main(int argc, char **argv) {
    char body[512], expected[512], jobid[256];
    const char *rank_text = getenv("PMI_RANK"), *fd_text = getenv("PMI_FD");
    if (!rank_text || !fd_text)
        fail("PMI_RANK or PMI_FD is not set");
    int rank = atoi(rank_text);
    fd = atoi(fd_text);
    greet();
    snprintf(body, sizeof body, "cmd=fullinit;pmirank=%d;threaded=FALSE;", rank);
    ask(body, "cmd=fullinit-response;");
    int size = number(";size=");
    if (number(";rank=") != rank || size != atoi(getenv("PMI_SIZE")))
        fail("rank or size are not those of the environment");
    ask("cmd=job-getid;", "cmd=job-getid-response;");
    if (sscanf(strstr(answer, "jobid="), "jobid=%255[^;]", jobid) != 1)
        fail("no name of the job");
    ask("cmd=info-getjobattr;key=PMI_process_mapping;", ";found=TRUE;value=(vector,");

    snprintf(body, sizeof body, "cmd=kvs-put;key=card-%d;value=rank %d;;=\t%d;", rank, rank, rank);
    ask(body, "cmd=kvs-put-response;");
    ask("cmd=kvs-fence;", "cmd=kvs-fence-response;");
    if (argc > 3 && !strcmp(argv[1], "abort") && atoi(argv[2]) == rank) {
        snprintf(body, sizeof body, "cmd=abort;isworld=TRUE;exitcode=%s;msg=as asked;", argv[3]);
        say(body);
        pause();
    }
    for (int other = 0; other < size; other++) {
        snprintf(body, sizeof body, "cmd=kvs-get;jobid=%s;srcid=%d;key=card-%d;", jobid, other, other);
        snprintf(expected, sizeof expected, ";found=TRUE;value=rank %d;;=\t%d;", other, other);
        ask(body, expected);
    }
    if (atoi(getenv("MPI_LOCALRANKID")) == 0) {
        snprintf(body, sizeof body, "cmd=info-putnodeattr;key=first;value=%d;", rank);
        ask(body, "cmd=info-putnodeattr-response;");
    } else {
        ask("cmd=info-getnodeattr;key=first;wait=TRUE;", ";found=TRUE;value=");
    }
    ask("cmd=kvs-fence;", "cmd=kvs-fence-response;");
    ask("cmd=finalize;", "cmd=finalize-response;");
    printf("rank %d of %d: good\n", rank, size);
    return 0;
}
