/* SPDX-License-Identifier: MIT */
/* worker.c - the worker of the soak test, and the wall clock that jumps under it.
 *
 * The clock's offset from the real one is in a file that all processes of the test map. */
#include "soak.h"

#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
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

/* One of 10 takes a second or two, one of 10 fails the first time, the others are short. */
static quern_outcome run_any(quern_run *run, const quern_task *task, void *user)
{
    const int *journal = user;
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

/* argv: URL, journal. */
int soak_worker(int argc, char **argv)
{
    TEST_REQUIRE(argc == 2);
    int journal = open(argv[1], O_WRONLY | O_APPEND | O_CLOEXEC);
    quern_mux *mux = NULL;
    quern_error err = {0};
    const quern_worker_options options = {.concurrency = CONCURRENCY, .lease_ms = SOAK_LEASE_MS};
    map_jump(argv[1], 0);
    jumps = true;
    TEST_REQUIRE(journal >= 0);
    TEST_REQUIRE(quern_mux_new(&mux, &err) == QUERN_OK);
    TEST_REQUIRE(quern_mux_handle(mux, "any", run_any, &journal, NULL, &err) == QUERN_OK);
    int code = fault_serve(argv[0], mux, &options);
    quern_mux_free(mux);
    return code;
}
