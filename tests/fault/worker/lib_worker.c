/* SPDX-License-Identifier: MIT */
/* lib_worker.c - see lib_worker.h. */
#include "lib_worker.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "worker/internal.h"

#define RIG_NOW_MS INT64_C(1800000000000)

struct question {
    struct rig *rig;
    struct rig_worker *worker;
    const char *text;
    int state;
    size_t count;
};

static void on_log(quern_log_level level, const char *line, void *user)
{
    struct rig *rig = user;
    pthread_mutex_lock(&rig->mutex);
    size_t room = sizeof rig->log - rig->log_size;
    int length = snprintf(rig->log + rig->log_size, room, "%d %s\n", (int)level, line);
    if (length > 0 && (size_t)length < room) {
        rig->log_size += (size_t)length;
    }
    pthread_cond_broadcast(&rig->change);
    pthread_mutex_unlock(&rig->mutex);
}

static void on_run(const quern_run_report *report, void *user)
{
    struct rig *rig = user;
    pthread_mutex_lock(&rig->mutex);
    rig->report_count++;
    rig->stale_count += report->applied ? 0 : 1;
    pthread_cond_broadcast(&rig->change);
    pthread_mutex_unlock(&rig->mutex);
}

/* In memory that children share. */
static struct rig *make_rig(bool turned)
{
    quern_error error = {0};
    pthread_mutexattr_t mutex_shared;
    pthread_condattr_t cond_shared;
    struct rig *rig =
        mmap(NULL, sizeof *rig, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(rig != MAP_FAILED);
    rig->turned = turned;
    qn_clock_init(&rig->clock, RIG_NOW_MS, 1000000);
    pthread_mutexattr_init(&mutex_shared);
    pthread_mutexattr_setpshared(&mutex_shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&rig->mutex, &mutex_shared);
    pthread_condattr_init(&cond_shared);
    pthread_condattr_setpshared(&cond_shared, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&rig->change, &cond_shared);
    assert_ok(quern_mux_new(&rig->mux, &error), error);
    assert_ok(quern_mux_handle(rig->mux, "t", rig_handler(), rig, NULL, &error), error);
    return rig;
}

static void open_rig(struct rig *rig)
{
    quern_error error = {0};
    bool turned = rig->turned;
    test_store_open(&rig->store, turned ? RIG_NOW_MS : 0);
    rig->url = rig->store.url;
    const quern_client_options options = {.clock = turned ? &rig->clock : NULL};
    assert_ok(quern_client_open(rig->url, &options, &rig->client, &error), error);
    const struct qn_broker_options broker_options = {.clock = turned ? &rig->clock : NULL};
    assert_ok(qn_broker_open(rig->url, &broker_options, &rig->broker, &error), error);
}

struct rig *rig_new(bool turned)
{
    struct rig *rig = make_rig(turned);
    open_rig(rig);
    return rig;
}

struct rig *rig_new_prefork(void (*prepare)(struct rig *rig))
{
    quern_error error = {0};
    struct rig *rig = make_rig(false);
    if (prepare != NULL) {
        prepare(rig);
    }
    rig->zygote_used = true;
    const quern_zygote_options options = {.on_child_start = rig->on_child_start, .user = rig};
    assert_ok(quern_zygote_start(rig->mux, &options, &rig->zygote, &error), error);
    open_rig(rig);
    return rig;
}

void rig_free(struct rig *rig)
{
    quern_zygote_free(rig->zygote);
    quern_mux_free(rig->mux);
    qn_broker_close(rig->broker);
    quern_client_free(rig->client);
    test_store_close(&rig->store);
    (void)munmap(rig, sizeof *rig);
}

void rig_advance(struct rig *rig, int64_t ms)
{
    quern_clock_advance(&rig->clock, ms);
    test_store_advance(&rig->store, ms);
}

void rig_put_task(struct rig *rig, const quern_task *task)
{
    quern_error error = {0};
    quern_task copy = *task;
    copy.type = copy.type != NULL ? copy.type : "t";
    assert_ok(quern_client_enqueue(rig->client, &copy, NULL, &error), error);
}

void rig_put(struct rig *rig, const char *id, const char *payload)
{
    const quern_task task = {.id = id, .payload = payload, .payload_size = strlen(payload)};
    rig_put_task(rig, &task);
}

void rig_put_many(struct rig *rig, const char *queue, const char *prefix, size_t count)
{
    rig_put_many_of(rig, "t", queue, prefix, count);
}

void rig_put_many_of(struct rig *rig, const char *type, const char *queue, const char *prefix,
                     size_t count)
{
    enum { BATCH = 500 };
    static char ids[BATCH][40];
    quern_task tasks[BATCH];
    quern_error error = {0};
    for (size_t first = 0; first < count; first += BATCH) {
        size_t size = count - first < BATCH ? count - first : BATCH;
        for (size_t i = 0; i < size; i++) {
            (void)snprintf(ids[i], sizeof ids[i], "%s%05zu", prefix, first + i);
            tasks[i] = (quern_task){
                .type = type, .queue = queue, .id = ids[i], .payload = "done", .payload_size = 4};
        }
        assert_ok(quern_client_enqueue_batch(rig->client, tasks, size, NULL, &error), error);
    }
}

static void *run_worker(void *argument)
{
    struct rig_worker *worker = argument;
    worker->status = quern_worker_run(worker->worker, &worker->error);
    return NULL;
}

void rig_start(struct rig *rig, struct rig_worker *worker, const quern_worker_options *options)
{
    quern_worker_options filled = {.concurrency = 4};
    quern_error error = {0};
    if (options != NULL) {
        filled = *options;
    }
    filled.clock = rig->turned ? &rig->clock : NULL;
    filled.pool = rig->zygote != NULL ? QUERN_POOL_PREFORK : QUERN_POOL_THREADS;
    filled.zygote = rig->zygote;
    filled.on_log = on_log;
    filled.on_run = on_run;
    filled.user = rig;
    *worker = (struct rig_worker){.rig = rig};
    assert_ok(quern_worker_new(rig->url, rig->mux, &filled, &worker->worker, &error), error);
    assert_int_equal(pthread_create(&worker->thread, NULL, run_worker, worker), 0);
}

quern_status rig_join(struct rig_worker *worker)
{
    assert_int_equal(pthread_join(worker->thread, NULL), 0);
    quern_worker_free(worker->worker);
    return worker->status;
}

void rig_stop(struct rig_worker *worker)
{
    quern_worker_stop(worker->worker);
    quern_status status = rig_join(worker);
    assert_ok(status, worker->error);
}

/* --- Looking -------------------------------------------------------------------------- */

static bool copy_task(const quern_task_info *info, void *user)
{
    quern_task_info **copy = user;
    *copy = qn_task_info_copy(info);
    return false;
}

static quern_task_info *find_task(struct rig *rig, const char *id)
{
    quern_error error = {0};
    quern_task_info *info = NULL;
    const quern_task_filter filter = {.id = id};
    assert_ok(qn_broker_tasks(rig->broker, &filter, copy_task, &info, &error), error);
    return info;
}

int rig_state(struct rig *rig, const char *id)
{
    quern_task_info *info = find_task(rig, id);
    int state = info == NULL ? 0 : (int)quern_task_info_state(info);
    quern_task_info_free(info);
    return state;
}

quern_task_info *rig_inspect(struct rig *rig, const char *id)
{
    quern_task_info *info = find_task(rig, id);
    assert_non_null(info);
    return info;
}

struct queue_search {
    const char *name;
    quern_queue_info found;
};

static bool copy_queue(const quern_queue_info *queue, void *user)
{
    struct queue_search *search = user;
    if (strcmp(queue->name, search->name) == 0) {
        search->found = *queue;
    }
    return true;
}

quern_queue_info rig_queue(struct rig *rig, const char *queue)
{
    quern_error error = {0};
    struct queue_search search = {.name = queue};
    assert_ok(qn_broker_queues(rig->broker, NULL, copy_queue, &search, &error), error);
    search.found.name = NULL;
    return search.found;
}

static bool has_state(void *user)
{
    const struct question *question = user;
    return rig_state(question->rig, question->text) == question->state;
}

void rig_wait_state(struct rig *rig, const char *id, int state)
{
    struct question question = {.rig = rig, .text = id, .state = state};
    if (!test_until(has_state, &question)) {
        fail_msg("task %s is %d, not %d\n%s", id, rig_state(rig, id), state, rig->log);
    }
}

void rig_wait_result(struct rig *rig, const char *id, const char *result)
{
    size_t size = 0;
    rig_wait_state(rig, id, QUERN_TASK_COMPLETED);
    quern_task_info *info = rig_inspect(rig, id);
    const void *data = quern_task_info_result(info, &size);
    assert_int_equal(size, strlen(result));
    assert_memory_equal(data, result, size);
    quern_task_info_free(info);
}

static bool has_starts(void *user)
{
    const struct question *question = user;
    pthread_mutex_lock(&question->rig->mutex);
    bool enough = question->rig->start_count >= question->count;
    pthread_mutex_unlock(&question->rig->mutex);
    return enough;
}

void rig_wait_starts(struct rig *rig, size_t count)
{
    struct question question = {.rig = rig, .count = count};
    if (!test_until(has_starts, &question)) {
        fail_msg("%zu starts, not %zu\n%s", rig->start_count, count, rig->log);
    }
}

static bool has_reports(void *user)
{
    const struct question *question = user;
    pthread_mutex_lock(&question->rig->mutex);
    bool enough = question->rig->report_count >= question->count;
    pthread_mutex_unlock(&question->rig->mutex);
    return enough;
}

void rig_wait_reports(struct rig *rig, size_t count)
{
    struct question question = {.rig = rig, .count = count};
    if (!test_until(has_reports, &question)) {
        fail_msg("%zu reports, not %zu\n%s", rig->report_count, count, rig->log);
    }
}

static bool has_written(void *user)
{
    const struct question *question = user;
    pthread_mutex_lock(&question->rig->mutex);
    bool enough = question->rig->written_count >= question->count;
    pthread_mutex_unlock(&question->rig->mutex);
    return enough;
}

void rig_wait_written(struct rig *rig, size_t count)
{
    struct question question = {.rig = rig, .count = count};
    assert_true(test_until(has_written, &question));
}

bool rig_logged(struct rig *rig, const char *text)
{
    pthread_mutex_lock(&rig->mutex);
    bool logged = strstr(rig->log, text) != NULL;
    pthread_mutex_unlock(&rig->mutex);
    return logged;
}

static bool has_logged(void *user)
{
    const struct question *question = user;
    return rig_logged(question->rig, question->text);
}

void rig_wait_log(struct rig *rig, const char *text)
{
    struct question question = {.rig = rig, .text = text};
    if (!test_until(has_logged, &question)) {
        fail_msg("not in the log: %s\n%s", text, rig->log);
    }
}

static bool is_empty(void *user)
{
    struct rig *rig = user;
    pthread_mutex_lock(&rig->mutex);
    bool empty = rig->inside == 0;
    pthread_mutex_unlock(&rig->mutex);
    return empty;
}

void rig_wait_empty(struct rig *rig)
{
    assert_true(test_until(is_empty, rig));
}

void rig_open_gate(struct rig *rig)
{
    pthread_mutex_lock(&rig->mutex);
    atomic_store(&rig->gate, true);
    pthread_cond_broadcast(&rig->change);
    pthread_mutex_unlock(&rig->mutex);
}

struct rig_start rig_start_at(struct rig *rig, size_t index)
{
    pthread_mutex_lock(&rig->mutex);
    assert_true(index < rig->start_count);
    struct rig_start start = rig->starts[index];
    pthread_mutex_unlock(&rig->mutex);
    return start;
}

void rig_act(struct rig *rig, quern_action action, const char *id)
{
    quern_error error = {0};
    assert_ok(qn_broker_operate(rig->broker, action, NULL, id, &error), error);
}

quern_worker_stats rig_stats(struct rig_worker *worker)
{
    quern_worker_stats stats;
    quern_worker_get_stats(worker->worker, &stats);
    return stats;
}

static bool is_unready(void *user)
{
    return !rig_stats(user).ready;
}

void rig_wait_unready(struct rig_worker *worker)
{
    assert_true(test_until(is_unready, worker));
}

struct given_back {
    struct rig_worker *worker;
    uint64_t count;
};

static bool has_given_back(void *user)
{
    const struct given_back *wanted = user;
    return rig_stats(wanted->worker).given_back >= wanted->count;
}

void rig_wait_given_back(struct rig_worker *worker, uint64_t count)
{
    struct given_back wanted = {.worker = worker, .count = count};
    assert_true(test_until(has_given_back, &wanted));
}

bool rig_is_draining(void *user)
{
    struct quern_worker *worker = user;
    (void)pthread_mutex_lock(&worker->mutex);
    bool draining = worker->state != QN_WORKER_RUNNING;
    (void)pthread_mutex_unlock(&worker->mutex);
    return draining;
}
