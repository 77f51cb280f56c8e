/* SPDX-License-Identifier: MIT */
/* lib_worker.c - see lib_worker.h. */
#include "lib_worker.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "worker/internal.h"

#define RIG_NOW_MS INT64_C(1800000000000)

struct question {
    struct rig *rig;
    struct rig_worker *worker;
    const char *text;
    int state;
    size_t count;
};

static size_t note_start(struct rig *rig, quern_run *run)
{
    pthread_mutex_lock(&rig->mutex);
    size_t index = rig->start_count++;
    if (index >= RIG_STARTS_MAX) {
        abort();
    }
    struct rig_start *start = &rig->starts[index];
    (void)snprintf(start->id, sizeof start->id, "%s", quern_run_task_id(run));
    (void)snprintf(start->queue, sizeof start->queue, "%s", quern_run_queue(run));
    start->at_ms = test_now_ms();
    start->retry_count = quern_run_retry_count(run);
    start->crash_count = quern_run_crash_count(run);
    start->cause = quern_run_cause(run);
    rig->inside++;
    rig->inside_max = rig->inside > rig->inside_max ? rig->inside : rig->inside_max;
    pthread_cond_broadcast(&rig->change);
    pthread_mutex_unlock(&rig->mutex);
    return index;
}

static void note_end(struct rig *rig, quern_run *run, size_t index)
{
    pthread_mutex_lock(&rig->mutex);
    rig->inside--;
    (void)snprintf(rig->starts[index].reason, sizeof rig->starts[index].reason, "%s",
                   quern_run_cancel_reason(run));
    pthread_cond_broadcast(&rig->change);
    pthread_mutex_unlock(&rig->mutex);
}

static void hold(struct rig *rig)
{
    pthread_mutex_lock(&rig->mutex);
    while (!rig->gate) {
        pthread_cond_wait(&rig->change, &rig->mutex);
    }
    pthread_mutex_unlock(&rig->mutex);
}

static quern_outcome wait_for_cancel(quern_run *run, quern_outcome outcome)
{
    struct pollfd cancel = {.fd = quern_run_cancel_fd(run), .events = POLLIN};
    if (poll(&cancel, 1, TEST_PATIENCE_MS) != 1 || !quern_run_cancelled(run)) {
        return quern_run_fail(run, QUERN_DROP, "was not cancelled");
    }
    return outcome;
}

static quern_outcome write_result(struct rig *rig, quern_run *run)
{
    quern_error error = {0};
    if (quern_run_write_result(run, "42", 2, &error) != QUERN_OK ||
        quern_run_write_progress(run, 50, "half", &error) != QUERN_OK) {
        return quern_run_fail(run, QUERN_ARCHIVE, "%s", error.text);
    }
    pthread_mutex_lock(&rig->mutex);
    rig->written_count++;
    pthread_mutex_unlock(&rig->mutex);
    return QUERN_DONE;
}

static quern_outcome obey_word(struct rig *rig, quern_run *run, const char *word)
{
    if (strcmp(word, "retry") == 0) {
        return quern_run_fail(run, QUERN_RETRY, "broken");
    }
    if (strcmp(word, "archive") == 0) {
        return quern_run_fail(run, QUERN_ARCHIVE, "no use");
    }
    if (strcmp(word, "drop") == 0) {
        return QUERN_DROP;
    }
    if (strcmp(word, "odd") == 0) {
        return (quern_outcome)77;
    }
    if (strcmp(word, "snooze") == 0) {
        return quern_run_again_in(run, 3600000);
    }
    if (strcmp(word, "result") == 0) {
        return write_result(rig, run);
    }
    if (strcmp(word, "result-hold") == 0) {
        quern_outcome outcome = write_result(rig, run);
        hold(rig);
        return outcome;
    }
    if (strcmp(word, "wait") == 0) {
        return wait_for_cancel(run, QUERN_RETRY);
    }
    if (strcmp(word, "wait-done") == 0) {
        return wait_for_cancel(run, QUERN_DONE);
    }
    if (strcmp(word, "hold") == 0 || strcmp(word, "hold-retry") == 0) {
        hold(rig);
        return strcmp(word, "hold") == 0 ? QUERN_DONE : QUERN_RETRY;
    }
    return strcmp(word, "done") == 0 ? QUERN_DONE : quern_run_fail(run, QUERN_ARCHIVE, "what?");
}

static quern_outcome obey(quern_run *run, const quern_task *task, void *user)
{
    struct rig *rig = user;
    char word[32];
    (void)snprintf(word, sizeof word, "%.*s", (int)task->payload_size,
                   task->payload_size > 0 ? (const char *)task->payload : "");
    size_t index = note_start(rig, run);
    quern_outcome outcome = obey_word(rig, run, word);
    note_end(rig, run, index);
    return outcome;
}

quern_handler rig_handler(void)
{
    return obey;
}

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

struct rig *rig_new(bool turned)
{
    quern_error error = {0};
    struct rig *rig = calloc(1, sizeof *rig);
    assert_non_null(rig);
    rig->turned = turned;
    qn_clock_init(&rig->clock, RIG_NOW_MS, 1000000);
    pthread_mutex_init(&rig->mutex, NULL);
    pthread_cond_init(&rig->change, NULL);
    test_store_open(&rig->store, turned ? RIG_NOW_MS : 0);
    rig->url = rig->store.url;
    const quern_client_options options = {.clock = turned ? &rig->clock : NULL};
    assert_ok(quern_client_open(rig->url, &options, &rig->client, &error), error);
    const struct qn_broker_options broker_options = {.clock = turned ? &rig->clock : NULL};
    assert_ok(qn_broker_open(rig->url, &broker_options, &rig->broker, &error), error);
    assert_ok(quern_mux_new(&rig->mux, &error), error);
    assert_ok(quern_mux_handle(rig->mux, "t", obey, rig, NULL, &error), error);
    return rig;
}

void rig_free(struct rig *rig)
{
    quern_mux_free(rig->mux);
    qn_broker_close(rig->broker);
    quern_client_free(rig->client);
    test_store_close(&rig->store);
    pthread_cond_destroy(&rig->change);
    pthread_mutex_destroy(&rig->mutex);
    free(rig);
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
    rig->gate = true;
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
