/* SPDX-License-Identifier: MIT */
/* lib_fault.c - the worker program of the kill tests, and the checker of its records. */
#include "lib_fault.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- The site ----------------------------------------------------------------------- */

void fault_site_open_at(struct fault_site *site, int64_t wall_ms)
{
    *site = (struct fault_site){0};
    test_store_open(&site->store, wall_ms);
    site->url = site->store.url;
    (void)snprintf(site->journal, sizeof site->journal, "%s/journal", site->store.dir);
    int fd = open(site->journal, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
}

void fault_site_open(struct fault_site *site)
{
    fault_site_open_at(site, 0);
}

void fault_site_close(struct fault_site *site)
{
    test_store_close(&site->store);
}

void fault_enqueue(struct fault_site *site, const char *type, size_t count)
{
    quern_client *client = NULL;
    quern_error err = {0};
    quern_task *tasks = calloc(count, sizeof *tasks);
    char(*numbers)[16] = calloc(count, sizeof *numbers);
    assert_non_null(tasks);
    assert_non_null(numbers);
    assert_ok(quern_client_open(site->url, NULL, &client, &err), err);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(numbers[i], sizeof numbers[i], "%zu", site->task_count + i);
        tasks[i] = (quern_task){.type = type,
                                .id = numbers[i],
                                .payload = numbers[i],
                                .payload_size = strlen(numbers[i]),
                                .retention_ms = 24 * 3600 * INT64_C(1000)};
    }
    assert_ok(quern_client_enqueue_batch(client, tasks, count, NULL, &err), err);
    site->task_count += count;
    quern_client_free(client);
    free(numbers);
    free(tasks);
}

/* --- The worker --------------------------------------------------------------------- */

static quern_outcome run_steady(quern_run *run, const quern_task *task, void *user)
{
    const int *journal = user;
    uint64_t number = fault_number(task);
    fault_write(*journal, FAULT_START, run, number);
    struct pollfd cancelled = {.fd = quern_run_cancel_fd(run), .events = POLLIN};
    (void)poll(&cancelled, 1, (int)(number % 4));
    fault_write(*journal, FAULT_END, run, number);
    return QUERN_DONE;
}

/* A file beside the journal: once it exists, handlers that hold their run end. */
static void release_path(const char *journal, char out[300])
{
    (void)snprintf(out, 300, "%s.release", journal);
}

/* Set once by the role before any handler runs. */
static char held_until[300];

/* Whether a run of this task may have been started before: a busy worker gives back runs that it
 * could not start in time, and the next is still the first. */
static bool is_repeated(const quern_run *run)
{
    quern_cause cause = quern_run_cause(run);
    return cause != QUERN_CAUSE_NONE && cause != QUERN_CAUSE_GIVEN_BACK;
}

/* Holds its run, even if it is cancelled, until the test releases it, and then succeeds. Only the
 * first run of a task does so. */
static quern_outcome run_held(quern_run *run, const quern_task *task, void *user)
{
    const int *journal = user;
    uint64_t number = fault_number(task);
    fault_write(*journal, FAULT_START, run, number);
    while (!is_repeated(run) && access(held_until, F_OK) != 0) {
        test_pause_ms(1);
    }
    fault_write(*journal, FAULT_END, run, number);
    return QUERN_DONE;
}

static quern_outcome run_poison(quern_run *run, const quern_task *task, void *user)
{
    const int *journal = user;
    fault_write(*journal, FAULT_START, run, fault_number(task));
    (void)kill(getpid(), SIGKILL);
    return QUERN_DONE;
}

struct listener {
    quern_worker *worker;
    int ended_fd; /* readable when the worker has ended on its own */
};

/* Stops the worker when the parent sends anything or is gone. */
static void *listen_to_parent(void *argument)
{
    const struct listener *listener = argument;
    struct pollfd fds[] = {{.fd = 0, .events = POLLIN},
                           {.fd = listener->ended_fd, .events = POLLIN}};
    (void)poll(fds, 2, -1);
    quern_worker_stop(listener->worker);
    return NULL;
}

static void complain(quern_log_level level, const char *line, void *user)
{
    (void)user;
    if (level >= QUERN_LOG_WARN && getenv("QUERN_TEST_LOG") != NULL) {
        (void)fprintf(stderr, "worker %d: %s\n", (int)getpid(), line);
    }
}

/* Runs the worker while a thread of ours listens to the parent. */
static quern_status run_worker(quern_worker *worker, quern_error *err)
{
    pthread_t thread;
    int ended[2];
    TEST_REQUIRE(pipe2(ended, O_CLOEXEC) == 0);
    struct listener listener = {.worker = worker, .ended_fd = ended[0]};
    TEST_REQUIRE(pthread_create(&thread, NULL, listen_to_parent, &listener) == 0);
    quern_status status = quern_worker_run(worker, err);
    (void)close(ended[1]);
    TEST_REQUIRE(pthread_join(thread, NULL) == 0);
    (void)close(ended[0]);
    return status;
}

int fault_serve(const char *url, const quern_mux *mux, const quern_worker_options *options)
{
    quern_worker *worker = NULL;
    quern_error err = {0};
    quern_worker_options logged = *options;
    logged.on_log = complain;
    quern_status status = quern_worker_new(url, mux, &logged, &worker, &err);
    if (status == QUERN_OK) {
        status = run_worker(worker, &err);
    }
    if (status != QUERN_OK) {
        (void)fprintf(stderr, "worker %d: %s\n", (int)getpid(), err.text);
    }
    quern_worker_free(worker);
    return status == QUERN_OK ? 0 : 1;
}

int fault_worker(int argc, char **argv)
{
    TEST_REQUIRE(argc == 5);
    int journal = fault_journal_open(argv[1]);
    release_path(argv[1], held_until);
    quern_mux *mux = NULL;
    quern_error err = {0};
    const quern_worker_options options = {.concurrency = (uint32_t)strtoul(argv[2], NULL, 10),
                                          .drain = strcmp(argv[3], "drain") == 0,
                                          .lease_ms = strtol(argv[4], NULL, 10)};
    TEST_REQUIRE(quern_mux_new(&mux, &err) == QUERN_OK);
    TEST_REQUIRE(quern_mux_handle(mux, "steady", run_steady, &journal, NULL, &err) == QUERN_OK);
    TEST_REQUIRE(quern_mux_handle(mux, "poison", run_poison, &journal, NULL, &err) == QUERN_OK);
    TEST_REQUIRE(quern_mux_handle(mux, "held", run_held, &journal, NULL, &err) == QUERN_OK);
    int code = fault_serve(argv[0], mux, &options);
    quern_mux_free(mux);
    (void)close(journal);
    return code;
}

struct test_child fault_spawn_worker(const struct fault_site *site, const char *concurrency,
                                     const char *mode)
{
    char lease_ms[24];
    (void)snprintf(lease_ms, sizeof lease_ms, "%lld", (long long)site->lease_ms);
    const char *args[] = {site->url, site->journal, concurrency, mode, lease_ms, NULL};
    return test_spawn("worker", args);
}

void fault_release(const struct fault_site *site, bool release)
{
    char path[300];
    release_path(site->journal, path);
    if (!release) {
        (void)unlink(path);
        return;
    }
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
}

void fault_lose(struct fault_site *site, pid_t pid)
{
    assert_true(site->lost_count < FAULT_LOST_MAX);
    site->lost[site->lost_count++] = (int)pid;
}

void fault_kill(struct fault_site *site, struct test_child *child)
{
    fault_lose(site, child->pid);
    test_child_kill(child);
}

pid_t fault_parent_of(pid_t pid)
{
    char path[64];
    char text[512] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    TEST_REQUIRE(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    (void)close(fd);
    const char *behind_name = strrchr(text, ')');
    TEST_REQUIRE(behind_name != NULL && strlen(behind_name) > 4);
    return (pid_t)strtol(behind_name + 4, NULL, 10); /* ") S 123" */
}

/* --- The journal ----------------------------------------------------------------------- */

size_t fault_journal_size(const struct fault_site *site)
{
    struct stat info;
    assert_int_equal(stat(site->journal, &info), 0);
    return (size_t)info.st_size / sizeof(struct fault_record);
}

struct expected_records {
    const struct fault_site *site;
    size_t count;
};

static bool has_records(void *user)
{
    const struct expected_records *expected = user;
    return fault_journal_size(expected->site) >= expected->count;
}

void fault_wait_records(const struct fault_site *site, size_t count)
{
    assert_true(test_until(has_records, &(struct expected_records){site, count}));
}

struct fault_record *fault_journal_read(const struct fault_site *site, size_t *ret_count)
{
    size_t count = fault_journal_size(site);
    struct fault_record *records = calloc(count + 1, sizeof *records);
    int fd = open(site->journal, O_RDONLY | O_CLOEXEC);
    assert_non_null(records);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, records, count * sizeof *records), count * sizeof *records);
    (void)close(fd);
    *ret_count = count;
    return records;
}

struct verdict {
    uint64_t fence;
    int pid;
    size_t starts;
    size_t ends;
};

static bool was_lost(const struct fault_site *site, int pid)
{
    for (size_t i = 0; i < site->lost_count; i++) {
        if (site->lost[i] == pid) {
            return true;
        }
    }
    return false;
}

static const char *start_fault(const struct fault_site *site, const struct verdict *before,
                               const struct fault_record *record)
{
    if (record->fence <= before->fence) {
        return "its fence did not grow";
    }
    if (before->starts > 0 && record->cause == QUERN_CAUSE_NONE) {
        return "it says no cause";
    }
    if (before->starts > 0 && !was_lost(site, before->pid)) {
        return "the worker of the run before it was not lost";
    }
    return NULL;
}

static void judge_record(const struct fault_site *site, struct verdict *verdict,
                         const struct fault_record *record)
{
    if (record->kind == FAULT_END) {
        verdict->ends++;
        return;
    }
    const char *fault = start_fault(site, verdict, record);
    if (fault != NULL) {
        print_error("task %llu, start %zu, cause %d, fence %llu: %s\n",
                    (unsigned long long)record->task, verdict->starts + 1, record->cause,
                    (unsigned long long)record->fence, fault);
        fail();
    }
    verdict->starts++;
    verdict->fence = record->fence;
    verdict->pid = record->pid;
}

size_t fault_journal_judge_but(const struct fault_site *site,
                               bool (*excused)(uint64_t task, const void *user), const void *user)
{
    size_t count = 0;
    size_t extra = 0;
    struct fault_record *records = fault_journal_read(site, &count);
    struct verdict *verdicts = calloc(site->task_count, sizeof *verdicts);
    assert_non_null(verdicts);
    for (size_t i = 0; i < count; i++) {
        assert_true(records[i].task < site->task_count);
        judge_record(site, &verdicts[records[i].task], &records[i]);
    }
    for (size_t i = 0; i < site->task_count; i++) {
        if (verdicts[i].ends == 0 && !excused(i, user)) {
            print_error("task %zu never ended (%zu starts)\n", i, verdicts[i].starts);
            fail();
        }
        extra += verdicts[i].starts > 1 ? verdicts[i].starts - 1 : 0;
    }
    free(verdicts);
    free(records);
    return extra;
}

static bool is_poison(uint64_t task, const void *user)
{
    const size_t *poison = user;
    return task == *poison;
}

size_t fault_journal_judge(const struct fault_site *site, size_t poison)
{
    return fault_journal_judge_but(site, is_poison, &poison);
}

static void show_finding(const quern_finding *finding, void *user)
{
    size_t *violated = user;
    if (finding->severity == 0) {
        return;
    }
    print_message("%s %s/%s: %s\n", finding->invariant, finding->queue, finding->id, finding->text);
    *violated += finding->severity >= 2 ? 1 : 0;
}

void fault_assert_end(const struct fault_site *site, uint64_t completed, uint64_t archived)
{
    quern_inspector *inspector = NULL;
    quern_queue_list *list = NULL;
    quern_error err = {0};
    size_t violated = 0;
    assert_ok(quern_inspector_open(site->url, NULL, &inspector, &err), err);
    assert_ok(quern_inspector_queues(inspector, &list, &err), err);
    assert_int_equal(quern_queue_list_size(list), 1);
    const quern_queue_info *queue = quern_queue_list_at(list, 0);
    assert_int_equal(queue->counts[QUERN_TASK_COMPLETED], completed);
    assert_int_equal(queue->counts[QUERN_TASK_ARCHIVED], archived);
    assert_int_equal(queue->size, completed + archived);
    assert_int_equal(queue->processed_total, completed + archived);
    assert_int_equal(queue->failed_total, archived);
    quern_queue_list_free(list);
    assert_ok(quern_inspector_check(inspector, false, show_finding, &violated, &err), err);
    assert_int_equal(violated, 0);
    quern_inspector_free(inspector);
}
