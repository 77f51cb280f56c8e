/* SPDX-License-Identifier: MIT */
/* lib_ways.c - see lib_ways.h.
 *
 * The functions that crash have names that the linker exports, so that backtraces show them. */
#include "lib_ways.h"

#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib_journal.h"

/* Else UBSan would report them before they happen. */
#define DEADLY                                                                                     \
    __attribute__((noinline, visibility("default"), no_sanitize("address", "undefined", "thread")))

void crash_by_segv(void);
void crash_by_abort(void);
void crash_by_exit(void);
int crash_by_overflow(int depth);
void crash_by_double_free(void);
void crash_by_division(void);
void crash_by_loop(void);
void crash_by_memory(void);

#define TOUCH_MIB_MAX 2048

static volatile int zero;
static volatile char sink;

DEADLY void crash_by_segv(void)
{
    volatile char *nothing = (volatile char *)(uintptr_t)(16 + zero);
    *nothing = 1;
    sink = 1; /* no tail call: a frame of its own */
}

DEADLY void crash_by_abort(void)
{
    void (*volatile end)(void) = abort; /* that may return: else its frame is the next one */
    end();
    sink = 1;
}

DEADLY void crash_by_exit(void)
{
    _exit(0);
}

DEADLY int crash_by_overflow(int depth)
{
    volatile char frame[4096];
    frame[depth % 4096] = (char)depth;
    return depth > 100000000 ? 0 : crash_by_overflow(depth + 1) + frame[(depth + 1) % 4096];
}

DEADLY void crash_by_double_free(void)
{
    char *volatile memory = malloc(64);
    char *volatile same = memory;
    free(memory);
    free(same);
    sink = 1;
}

DEADLY void crash_by_division(void)
{
    volatile int many = 1000;
    sink = (char)(many / zero);
}

DEADLY void crash_by_loop(void)
{
    while (zero == 0) {
        sink = 1;
    }
}

/* ASan's malloc would end the process itself. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
static void *take_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}
#else
static void *take_memory(size_t size)
{
    return malloc(size);
}
#endif

/* As long as there is some. Its limit is one of address space, so it need not be touched. */
static void *hog(void)
{
    void *memory = take_memory((size_t)1 << 24);
    while (memory != NULL) {
        memory = take_memory((size_t)1 << 24);
    }
    return memory;
}

DEADLY void crash_by_memory(void)
{
    *(volatile char *)hog() = 1;
    sink = 1;
}

static void overflow(void)
{
    sink = (char)crash_by_overflow(zero);
}

/* Until the kernel kills it for that; the end is for a machine that does not. */
static void touch(void)
{
    for (int mib = 0; mib < TOUCH_MIB_MAX; mib++) {
        memset(take_memory((size_t)1 << 20), 1, (size_t)1 << 20);
    }
}

static void dump_core(void)
{
    struct rlimit limit;
    (void)getrlimit(RLIMIT_CORE, &limit);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_CORE, &limit);
    abort();
}

static void dump_none(void)
{
    const struct rlimit none = {0};
    (void)setrlimit(RLIMIT_CORE, &none);
    abort();
}

static const struct {
    const char *name;
    void (*crash)(void);
} ways[] = {
    {"segv", crash_by_segv}, {"abort", crash_by_abort},      {"exit", crash_by_exit},
    {"overflow", overflow},  {"free", crash_by_double_free}, {"division", crash_by_division},
    {"loop", crash_by_loop}, {"memory", crash_by_memory},    {"touch", touch},
    {"core", dump_core},     {"no-core", dump_none}};

/* --- The zygote --------------------------------------------------------------------------- */

struct journal {
    const char *path;
    int fd;
};

static void open_journal(void *user)
{
    struct journal *journal = user;
    journal->fd = fault_journal_open(journal->path);
    char *folder = strdup(journal->path); /* of a core dump */
    TEST_REQUIRE(folder != NULL && chdir(dirname(folder)) == 0);
    free(folder);
}

static void crash_now(const quern_task *task)
{
    const char *name = strchr((const char *)task->payload, ' ') + 1;
    char words[64];
    int size = snprintf(words, sizeof words, "last words of %s\n", name);
    (void)!write(STDERR_FILENO, words, (size_t)size);
    for (size_t i = 0; i < TEST_COUNT(ways); i++) {
        if (strcmp(ways[i].name, name) == 0) {
            ways[i].crash();
        }
    }
}

static quern_outcome run_task(quern_run *run, const quern_task *task, void *user)
{
    const struct journal *journal = user;
    uint64_t number = fault_number(task);
    fault_write(journal->fd, FAULT_START, run, number);
    bool is_over = strcmp(task->type, "once") == 0 && quern_run_crash_count(run) > 0;
    if (strcmp(task->type, "steady") == 0) {
        test_pause_ms((int)(number % 4));
    } else if (!is_over) {
        crash_now(task);
    }
    fault_write(journal->fd, FAULT_END, run, number);
    return QUERN_DONE;
}

/* Memory of so many MiB, once. */
static quern_outcome run_take(quern_run *run, const quern_task *task, void *user)
{
    size_t mib = (size_t)strtoul(strchr((const char *)task->payload, ' '), NULL, 10);
    void *memory = take_memory(mib << 20);
    (void)user;
    if (memory == NULL) {
        return quern_run_fail(run, QUERN_ARCHIVE, "no %zu MiB of memory", mib);
    }
    free(memory);
    return QUERN_DONE;
}

int ways_serve(int argc, char **argv)
{
    static const struct {
        const char *type;
        int32_t on_crash;
    } types[] = {{"steady", QUERN_ON_CRASH_REQUEUE},  {"once", QUERN_ON_CRASH_REQUEUE},
                 {"requeue", QUERN_ON_CRASH_REQUEUE}, {"fail", QUERN_ON_CRASH_FAIL},
                 {"archive", QUERN_ON_CRASH_ARCHIVE}, {"drop", QUERN_ON_CRASH_DROP}};
    TEST_REQUIRE(argc == 1);
    struct journal journal = {.path = argv[0], .fd = -1};
    quern_mux *mux = NULL;
    quern_error err = {0};
    TEST_REQUIRE(quern_mux_new(&mux, &err) == QUERN_OK);
    for (size_t i = 0; i < TEST_COUNT(types); i++) {
        const quern_handler_options options = {
            .on_crash = types[i].on_crash, .retry = QUERN_BACKOFF_FIXED(10), .kill_after_ms = 50};
        TEST_REQUIRE(quern_mux_handle(mux, types[i].type, run_task, &journal, &options, &err) ==
                     QUERN_OK);
    }
    const quern_handler_options wide = {.memory_max = (int64_t)1 << 50};
    TEST_REQUIRE(quern_mux_handle(mux, "take", run_take, NULL, &wide, &err) == QUERN_OK);
    const quern_zygote_options options = {.on_child_start = open_journal, .user = &journal};
    quern_status status = quern_zygote_serve(mux, &options, &err);
    quern_mux_free(mux);
    return status == QUERN_OK ? 0 : 1;
}
