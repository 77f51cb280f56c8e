/* SPDX-License-Identifier: MIT */
/* lib_crash.c - see lib_crash.h.
 *
 * The functions that crash have names that the linker exports, so that backtraces show them. Under
 * ASan a double free is its report and SIGABRT, as with glibc. */
#include "lib_crash.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"

/* Else UBSan would report them before they happen. */
#define DEADLY                                                                                     \
    __attribute__((noinline, visibility("default"), no_sanitize("address", "undefined", "thread")))
#define MEMORY_MAX ((int64_t)1 << 30)

void crash_by_segv(void);
void crash_by_abort(void);
void crash_by_exit(void);
int crash_by_overflow(int depth);
void crash_by_double_free(void);
void crash_by_division(void);
void crash_by_loop(void);
void crash_by_memory(void);

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

/* Its limit is one of address space: the memory need not be touched. */
DEADLY void crash_by_memory(void)
{
    char *memory;
    do {
        memory =
            mmap(NULL, (size_t)1 << 24, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    } while (memory != MAP_FAILED);
    *(volatile char *)memory = 1;
    sink = 1;
}

static void overflow(void)
{
    sink = (char)crash_by_overflow(zero);
}

static void (*const crashes[CRASH_WAY_COUNT])(void) = {
    crash_by_segv,        crash_by_abort,    crash_by_exit, overflow,
    crash_by_double_free, crash_by_division, crash_by_loop, crash_by_memory};

#define LOOP_TEXT "timeout of 100ms"
const struct crash_way crash_ways[CRASH_WAY_COUNT] = {
    {"segv", {"signal 11 (SIGSEGV)", "crash_by_segv", "at address 0x10"}},
    {"abort", {"signal 6 (SIGABRT)", "crash_by_abort", "memory "}},
    {"exit", {"exit status 0", "memory ", "CPU "}},
    {"overflow", {"signal 11 (SIGSEGV)", "crash_by_overflow", "CPU "}},
    {"free", {"signal 6 (SIGABRT)", "double", NULL}, true},
    {"division", {"signal 8 (SIGFPE)", "crash_by_division", "CPU "}},
    {"loop", {LOOP_TEXT, NULL, NULL}, true},
    {"memory", {"signal 11 (SIGSEGV)", "crash_by_memory", "CPU "}},
};

/* --- The zygote --------------------------------------------------------------------------- */

struct journal {
    const char *path;
    int fd;
};

static void open_journal(void *user)
{
    struct journal *journal = user;
    journal->fd = fault_journal_open(journal->path);
}

static void crash_now(const quern_task *task)
{
    const char *name = strchr((const char *)task->payload, ' ') + 1;
    char words[64];
    int size = snprintf(words, sizeof words, "last words of %s\n", name);
    (void)!write(STDERR_FILENO, words, (size_t)size);
    for (size_t i = 0; i < CRASH_WAY_COUNT; i++) {
        if (strcmp(crash_ways[i].name, name) == 0) {
            crashes[i]();
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

int crash_serve(int argc, char **argv)
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
    const quern_zygote_options options = {.on_child_start = open_journal, .user = &journal};
    quern_status status = quern_zygote_serve(mux, &options, &err);
    quern_mux_free(mux);
    return status == QUERN_OK ? 0 : 1;
}

/* --- The worker --------------------------------------------------------------------------- */

static void note_end(const quern_run_report *report, void *user)
{
    struct crash *crash = user;
    size_t number = strtoull(report->id, NULL, 10);
    struct crash_task *task = &crash->tasks[number];
    task->applied_at_ns = task->applied_at_ns == 0 ? qn_clock_mono_ns() : task->applied_at_ns;
}

static void *run_worker(void *user)
{
    struct crash *crash = user;
    crash->status = quern_worker_run(crash->worker, &crash->error);
    return NULL;
}

static void no_log(quern_log_level level, const char *line, void *user)
{
    (void)level;
    (void)line;
    (void)user;
}

static void start_worker(struct crash *crash, uint32_t concurrency)
{
    quern_error err = {0};
    char self[PATH_MAX] = "";
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    char *argv[] = {self, (char *)(uintptr_t) "--child", (char *)(uintptr_t) "crash",
                    crash->site.journal, NULL};
    assert_ok(quern_zygote_exec(self, argv, NULL, &crash->zygote, &err), err);
    const quern_worker_options options = {.concurrency = concurrency,
                                          .pool = QUERN_POOL_PREFORK,
                                          .zygote = crash->zygote,
                                          .quarantine_after_ms = 50,
                                          .on_run = note_end,
                                          .on_log = no_log,
                                          .user = crash};
    assert_ok(quern_worker_new(crash->site.url, NULL, &options, &crash->worker, &err), err);
    assert_int_equal(pthread_create(&crash->thread, NULL, run_worker, crash), 0);
}

struct crash *crash_open(uint32_t concurrency)
{
    quern_error err = {0};
    struct crash *crash = calloc(1, sizeof *crash);
    assert_non_null(crash);
    fault_site_open(&crash->site);
    assert_ok(quern_client_open(crash->site.url, NULL, &crash->client, &err), err);
    assert_ok(quern_inspector_open(crash->site.url, NULL, &crash->inspector, &err), err);
    start_worker(crash, concurrency);
    return crash;
}

size_t crash_put(struct crash *crash, const char *type, size_t way)
{
    quern_error err = {0};
    char id[16];
    char payload[24];
    size_t number = crash->site.task_count++;
    bool loops = way == CRASH_LOOP;
    assert_true(number < CRASH_TASKS_MAX);
    crash->tasks[number].type = type;
    crash->tasks[number].way = way;
    (void)snprintf(id, sizeof id, "%zu", number);
    int size = snprintf(payload, sizeof payload, "%zu %s", number, crash_ways[way].name);
    const quern_task task = {.id = id,
                             .type = type,
                             .payload = payload,
                             .payload_size = (size_t)size,
                             .retry_max = loops ? 1 : 2,
                             .timeout_ms = loops ? CRASH_LOOP_MS : 0,
                             .memory_max = way == CRASH_WAY_COUNT - 1 ? MEMORY_MAX : 0,
                             .retention_ms = 24 * 3600 * INT64_C(1000)};
    assert_ok(quern_client_enqueue(crash->client, &task, NULL, &err), err);
    return number;
}

void crash_put_steady(struct crash *crash, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        crash->tasks[crash->site.task_count + i].type = "steady";
    }
    fault_enqueue(&crash->site, "steady", count);
}

quern_queue_info crash_queue(struct crash *crash)
{
    quern_queue_list *list = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_queues(crash->inspector, &list, &err), err);
    assert_int_equal(quern_queue_list_size(list), 1);
    quern_queue_info info = *quern_queue_list_at(list, 0);
    quern_queue_list_free(list);
    return info;
}

void crash_end(struct crash *crash)
{
    size_t count = 0;
    quern_worker_get_stats(crash->worker, &crash->stats);
    quern_worker_stop(crash->worker);
    assert_int_equal(pthread_join(crash->thread, NULL), 0);
    assert_ok(crash->status, crash->error);
    quern_worker_free(crash->worker);
    quern_zygote_free(crash->zygote);
    struct fault_record *records = fault_journal_read(&crash->site, &count);
    for (size_t i = 0; i < count; i++) {
        struct crash_task *task = &crash->tasks[records[i].task];
        assert_true(records[i].task < crash->site.task_count);
        task->ends += records[i].kind == FAULT_END ? 1 : 0;
        task->starts += records[i].kind == FAULT_START ? 1 : 0;
        task->start_at_ns = task->start_at_ns == 0 ? records[i].at_ns : task->start_at_ns;
    }
    free(records);
}

static void show_violation(const quern_finding *finding, void *user)
{
    if (finding->severity >= 2) {
        print_error("%s %s/%s: %s\n", finding->invariant, finding->queue, finding->id,
                    finding->text);
        *(size_t *)user += 1;
    }
}

void crash_close(struct crash *crash)
{
    quern_error err = {0};
    size_t violated = 0;
    assert_ok(quern_inspector_check(crash->inspector, false, show_violation, &violated, &err), err);
    assert_int_equal(violated, 0);
    quern_inspector_free(crash->inspector);
    quern_client_free(crash->client);
    fault_site_close(&crash->site);
    free(crash);
}
