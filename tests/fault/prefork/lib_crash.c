/* SPDX-License-Identifier: MIT */
/* lib_crash.c - see lib_crash.h. Under ASan a double free is its report and SIGABRT, as with
 * glibc. */
#include "lib_crash.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define MEMORY_MAX ((int64_t)1 << 28)
#define QUEUE_NAME_SIZE 24
#define TEXT_OF(number) #number
#define LOOP_TEXT_OF(number) "timeout of " TEXT_OF(number) "ms"
#define LOOP_TEXT LOOP_TEXT_OF(CRASH_LOOP_MS)

const struct crash_way crash_ways[CRASH_WAY_COUNT] = {
    {"segv", {"signal 11 (SIGSEGV)", "crash_by_segv", "at address 0x10"}},
    {"abort", {"signal 6 (SIGABRT)", "crash_by_abort", "memory "}},
    {"exit", {"exit status 0", "memory ", "CPU "}},
    {"overflow", {"signal 11 (SIGSEGV)", "crash_by_overflow", "CPU "}, {"at address 0x7"}},
    {"free",
     {"signal 6 (SIGABRT)", "double", NULL},
     {"crash_by_double_free", "free(): double free"},
     .is_report = true},
    {"division", {"signal 8 (SIGFPE)", "crash_by_division", "CPU "}},
    {"loop", {LOOP_TEXT, NULL, NULL}, {NULL}, .is_ours = true},
    {"memory", {"signal 11 (SIGSEGV)", "crash_by_memory", "CPU "}, {"at address 0x0"}},
};

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

static void start_zygote(struct crash *crash)
{
    quern_error err = {0};
    char self[PATH_MAX] = "";
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    char *own[] = {self, (char *)(uintptr_t) "--child", (char *)(uintptr_t) "crash",
                   crash->site.journal, NULL};
    char *bare[] = {(char *)(uintptr_t)TEST_BARE_ZYGOTE, crash->site.journal, NULL};
    char **argv = crash->setup.is_bare ? bare : own;
    assert_ok(quern_zygote_exec(argv[0], argv, NULL, &crash->zygote, &err), err);
}

static void queue_name(size_t queue, char out[QUEUE_NAME_SIZE])
{
    (void)snprintf(out, QUEUE_NAME_SIZE, "%zu", queue);
}

static void start_worker(struct crash *crash)
{
    quern_error err = {0};
    quern_queue queues[CRASH_QUEUES_MAX] = {{0}};
    char names[CRASH_QUEUES_MAX][QUEUE_NAME_SIZE];
    assert_in_range(crash->setup.queues, 1, CRASH_QUEUES_MAX);
    for (size_t i = 0; i < crash->setup.queues; i++) {
        queue_name(i, names[i]);
        queues[i].name = names[i];
    }
    const quern_worker_options options = {.concurrency = crash->setup.concurrency,
                                          .queues = queues,
                                          .queue_count = crash->setup.queues,
                                          .pool = QUERN_POOL_PREFORK,
                                          .zygote = crash->zygote,
                                          .quarantine_after_ms = 50,
                                          .on_run = note_end,
                                          .on_log = no_log,
                                          .user = crash};
    assert_ok(quern_worker_new(crash->site.url, NULL, &options, &crash->worker, &err), err);
    assert_int_equal(pthread_create(&crash->thread, NULL, run_worker, crash), 0);
}

void crash_join(const char *cgroup)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/cgroup.procs", cgroup);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0 && write(fd, "0", 1) == 1);
    (void)close(fd);
}

struct crash *crash_open(const struct crash_setup *setup)
{
    quern_error err = {0};
    struct crash *crash = calloc(1, sizeof *crash);
    assert_non_null(crash);
    crash->setup = *setup;
    fault_site_open(&crash->site);
    assert_ok(quern_client_open(crash->site.url, NULL, &crash->client, &err), err);
    assert_ok(quern_inspector_open(crash->site.url, NULL, &crash->inspector, &err), err);
    if (setup->cgroup != NULL) {
        crash_join(setup->cgroup);
    }
    start_zygote(crash);
    start_worker(crash);
    return crash;
}

static size_t put(struct crash *crash, size_t queue, const struct crash_task *own,
                  const char *words, const quern_task *limits)
{
    quern_error err = {0};
    char id[16];
    char name[QUEUE_NAME_SIZE];
    char payload[64];
    size_t number = crash->site.task_count++;
    assert_true(number < CRASH_TASKS_MAX);
    crash->tasks[number] = *own;
    crash->tasks[number].queue = queue;
    (void)snprintf(id, sizeof id, "%zu", number);
    queue_name(queue, name);
    quern_task task = *limits;
    task.id = id;
    task.type = own->type;
    task.queue = name;
    task.payload = payload;
    task.payload_size = (size_t)snprintf(payload, sizeof payload, "%zu %s", number, words);
    task.retention_ms = 24 * 3600 * INT64_C(1000);
    assert_ok(quern_client_enqueue(crash->client, &task, NULL, &err), err);
    return number;
}

size_t crash_put(struct crash *crash, size_t queue, const char *type, size_t way)
{
    bool loops = way == CRASH_LOOP;
    return put(crash, queue, &(struct crash_task){.type = type, .way = way}, crash_ways[way].name,
               &(quern_task){.retry_max = loops ? 1 : 2,
                             .timeout_ms = loops ? CRASH_LOOP_MS : 0,
                             .memory_max = way == CRASH_WAY_COUNT - 1 ? MEMORY_MAX : 0});
}

void crash_put_steady(struct crash *crash, size_t queue, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)put(crash, queue, &(struct crash_task){.type = "steady"}, "", &(quern_task){0});
    }
}

size_t crash_put_limited(struct crash *crash, const char *type, const char *words,
                         const quern_task *limits)
{
    return put(crash, 0, &(struct crash_task){.type = type}, words, limits);
}

/* name: NULL for all. */
static quern_queue_info count_queues(struct crash *crash, const char *name)
{
    quern_queue_list *list = NULL;
    quern_error err = {0};
    quern_queue_info sum = {0};
    assert_ok(quern_inspector_queues(crash->inspector, &list, &err), err);
    for (size_t i = 0; i < quern_queue_list_size(list); i++) {
        const quern_queue_info *info = quern_queue_list_at(list, i);
        if (name == NULL || strcmp(info->name, name) == 0) {
            sum.size += info->size;
            for (size_t state = 0; state < TEST_COUNT(sum.counts); state++) {
                sum.counts[state] += info->counts[state];
            }
        }
    }
    quern_queue_list_free(list);
    return sum;
}

quern_queue_info crash_queue(struct crash *crash, size_t queue)
{
    char name[QUEUE_NAME_SIZE];
    queue_name(queue, name);
    return count_queues(crash, name);
}

quern_queue_info crash_queues(struct crash *crash)
{
    return count_queues(crash, NULL);
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
