/* SPDX-License-Identifier: MIT */
/* worker.c - the worker of the soak test, its children, and the wall clock that jumps under it.
 *
 * The clock's offset from the real one is in a file that all processes of the test map. */
#include "soak.h"

#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CONCURRENCY 8

/* --- The wall clock of all processes here ----------------------------------------------- */

static _Atomic int64_t *jump_ms; /* shared by them */
static bool jumps;               /* it is the clock of this process, too */

int clock_gettime(clockid_t id, struct timespec *ret_now)
{
    int code = (int)syscall(SYS_clock_gettime, id, ret_now);
    if (code == 0 && id == CLOCK_REALTIME && jumps) {
        int64_t ns = ret_now->tv_nsec + atomic_load(jump_ms) % 1000 * 1000000 + 1000000000;
        ret_now->tv_sec += atomic_load(jump_ms) / 1000 + ns / 1000000000 - 1;
        ret_now->tv_nsec = ns % 1000000000;
    }
    return code;
}

static void map_jump(const char *journal, int flags)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s.jump", journal);
    int fd = open(path, flags | O_RDWR | O_CLOEXEC, 0600);
    TEST_REQUIRE(fd >= 0 && ftruncate(fd, sizeof *jump_ms) == 0);
    void *map = mmap(NULL, sizeof *jump_ms, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    TEST_REQUIRE(map != MAP_FAILED);
    (void)close(fd);
    jump_ms = map;
}

void soak_clock_open(const char *journal, bool ours)
{
    map_jump(journal, O_CREAT);
    jumps = ours;
}

void soak_clock_close(void)
{
    jumps = false;
    (void)munmap((void *)(uintptr_t)jump_ms, sizeof *jump_ms);
    jump_ms = NULL;
}

void soak_clock_jump(int64_t ms)
{
    atomic_store(jump_ms, ms);
}

/* --- The worker ------------------------------------------------------------------------- */

struct journal {
    const char *path;
    int fd;
};

/* One of 10 takes a second or two, one of 10 fails the first time, the others are short. */
static quern_outcome run_any(quern_run *run, const quern_task *task, void *user)
{
    const int *journal = &((const struct journal *)user)->fd;
    uint64_t number = fault_number(task);
    int ms = number % 10 == 0 ? 1000 + (int)(number % 1000) : (int)(number % 20);
    struct pollfd cancelled = {.fd = quern_run_cancel_fd(run), .events = POLLIN};
    fault_write(*journal, FAULT_START, run, number);
    if (poll(&cancelled, 1, ms) != 0) {
        return QUERN_RETRY;
    }
    if (number % 10 == 1 && quern_run_retry_count(run) == 0) {
        fault_write(*journal, (enum fault_kind)SOAK_FAILED, run, number);
        return QUERN_RETRY;
    }
    fault_write(*journal, FAULT_END, run, number);
    return QUERN_DONE;
}

/* A child has no descriptor of its parents. */
static void open_in_child(void *user)
{
    struct journal *journal = user;
    journal->fd = fault_journal_open(journal->path);
}

static quern_zygote *start_zygote(quern_mux *mux, struct journal *journal)
{
    const quern_zygote_options options = {.on_child_start = open_in_child, .user = journal};
    quern_zygote *zygote = NULL;
    fault_write_for(getpid());
    TEST_REQUIRE(quern_zygote_start(mux, &options, &zygote, NULL) == QUERN_OK);
    return zygote;
}

int soak_worker(int argc, char **argv)
{
    TEST_REQUIRE(argc == 3);
    struct journal journal = {.path = argv[1], .fd = fault_journal_open(argv[1])};
    bool prefork = strcmp(argv[2], "prefork") == 0;
    quern_mux *mux = NULL;
    quern_error err = {0};
    map_jump(argv[1], 0);
    jumps = true;
    TEST_REQUIRE(quern_mux_new(&mux, &err) == QUERN_OK);
    TEST_REQUIRE(quern_mux_handle(mux, "any", run_any, &journal, NULL, &err) == QUERN_OK);
    quern_zygote *zygote = prefork ? start_zygote(mux, &journal) : NULL;
    const quern_worker_options options = {.concurrency = CONCURRENCY,
                                          .lease_ms = SOAK_LEASE_MS,
                                          .pool = prefork ? QUERN_POOL_PREFORK : QUERN_POOL_THREADS,
                                          .zygote = zygote};
    int code = fault_serve(argv[0], mux, &options);
    quern_zygote_free(zygote);
    quern_mux_free(mux);
    return code;
}

/* --- Its processes ----------------------------------------------------------------------- */

#define BELOW_MAX 256
#define DEPTH_MAX 4 /* worker, zygote, guard, child */

struct found {
    int pids[BELOW_MAX];
    size_t count;
};

static bool has_name(int pid, const char *name)
{
    char path[64];
    char line[32] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/comm", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    bool equal = fgets(line, sizeof line, file) != NULL && strcspn(line, "\n") == strlen(name) &&
                 strncmp(line, name, strlen(name)) == 0;
    (void)fclose(file);
    return equal;
}

static void find_all(int pid, const char *name, int depth, struct found *found)
{
    char path[64];
    int child;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fscanf(file, "%d", &child) == 1) { /* NOLINT(cert-err34-c) */
        if (has_name(child, name) && found->count < BELOW_MAX) {
            found->pids[found->count++] = child;
        } else if (depth > 1) {
            find_all(child, name, depth - 1, found);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

int soak_find_below(int worker, const char *name, uint64_t dice)
{
    struct found found = {.count = 0};
    find_all(worker, name, DEPTH_MAX, &found);
    return found.count == 0 ? 0 : found.pids[dice % found.count];
}
