/* SPDX-License-Identifier: MIT */
/* lib_worker.c - see lib_worker.h. */
#include "lib_worker.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define STAGE_NOW_MS INT64_C(1800000000000)

struct question {
    struct stage *stage;
    struct stage_worker *worker;
    const char *text;
    int state;
    size_t count;
};

static size_t note_start(struct stage *stage, quern_run *run)
{
    pthread_mutex_lock(&stage->mutex);
    size_t index = stage->start_count++;
    if (index >= STAGE_STARTS_MAX) {
        abort();
    }
    struct stage_start *start = &stage->starts[index];
    (void)snprintf(start->id, sizeof start->id, "%s", quern_run_task_id(run));
    (void)snprintf(start->queue, sizeof start->queue, "%s", quern_run_queue(run));
    start->at_ms = test_now_ms();
    start->retry_count = quern_run_retry_count(run);
    start->crash_count = quern_run_crash_count(run);
    start->cause = quern_run_cause(run);
    stage->inside++;
    stage->inside_max = stage->inside > stage->inside_max ? stage->inside : stage->inside_max;
    pthread_cond_broadcast(&stage->change);
    pthread_mutex_unlock(&stage->mutex);
    return index;
}

static void note_end(struct stage *stage, quern_run *run, size_t index)
{
    pthread_mutex_lock(&stage->mutex);
    stage->inside--;
    (void)snprintf(stage->starts[index].reason, sizeof stage->starts[index].reason, "%s",
                   quern_run_cancel_reason(run));
    pthread_cond_broadcast(&stage->change);
    pthread_mutex_unlock(&stage->mutex);
}

static void hold(struct stage *stage)
{
    pthread_mutex_lock(&stage->mutex);
    while (!stage->gate) {
        pthread_cond_wait(&stage->change, &stage->mutex);
    }
    pthread_mutex_unlock(&stage->mutex);
}

static quern_outcome wait_for_cancel(quern_run *run, quern_outcome outcome)
{
    struct pollfd cancel = {.fd = quern_run_cancel_fd(run), .events = POLLIN};
    if (poll(&cancel, 1, TEST_PATIENCE_MS) != 1 || !quern_run_cancelled(run)) {
        return quern_run_fail(run, QUERN_DROP, "was not cancelled");
    }
    return outcome;
}

static quern_outcome write_result(struct stage *stage, quern_run *run)
{
    quern_error error = {0};
    if (quern_run_write_result(run, "42", 2, &error) != QUERN_OK ||
        quern_run_write_progress(run, 50, "half", &error) != QUERN_OK) {
        return quern_run_fail(run, QUERN_ARCHIVE, "%s", error.text);
    }
    pthread_mutex_lock(&stage->mutex);
    stage->written_count++;
    pthread_mutex_unlock(&stage->mutex);
    return QUERN_DONE;
}

static quern_outcome obey_word(struct stage *stage, quern_run *run, const char *word)
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
        return write_result(stage, run);
    }
    if (strcmp(word, "result-hold") == 0) {
        quern_outcome outcome = write_result(stage, run);
        hold(stage);
        return outcome;
    }
    if (strcmp(word, "wait") == 0) {
        return wait_for_cancel(run, QUERN_RETRY);
    }
    if (strcmp(word, "wait-done") == 0) {
        return wait_for_cancel(run, QUERN_DONE);
    }
    if (strcmp(word, "hold") == 0 || strcmp(word, "hold-retry") == 0) {
        hold(stage);
        return strcmp(word, "hold") == 0 ? QUERN_DONE : QUERN_RETRY;
    }
    return strcmp(word, "done") == 0 ? QUERN_DONE : quern_run_fail(run, QUERN_ARCHIVE, "what?");
}

static quern_outcome obey(quern_run *run, const quern_task *task, void *user)
{
    struct stage *stage = user;
    char word[32];
    (void)snprintf(word, sizeof word, "%.*s", (int)task->payload_size,
                   task->payload_size > 0 ? (const char *)task->payload : "");
    size_t index = note_start(stage, run);
    quern_outcome outcome = obey_word(stage, run, word);
    note_end(stage, run, index);
    return outcome;
}

quern_handler stage_handler(void)
{
    return obey;
}

static void on_log(quern_log_level level, const char *line, void *user)
{
    struct stage *stage = user;
    pthread_mutex_lock(&stage->mutex);
    size_t room = sizeof stage->log - stage->log_size;
    int length = snprintf(stage->log + stage->log_size, room, "%d %s\n", (int)level, line);
    if (length > 0 && (size_t)length < room) {
        stage->log_size += (size_t)length;
    }
    pthread_cond_broadcast(&stage->change);
    pthread_mutex_unlock(&stage->mutex);
}

static void on_run(const quern_run_report *report, void *user)
{
    struct stage *stage = user;
    pthread_mutex_lock(&stage->mutex);
    stage->report_count++;
    stage->stale_count += report->applied == 0 ? 1 : 0;
    pthread_cond_broadcast(&stage->change);
    pthread_mutex_unlock(&stage->mutex);
}

struct stage *stage_new(bool turned)
{
    quern_error error = {0};
    struct stage *stage = calloc(1, sizeof *stage);
    assert_non_null(stage);
    stage->turned = turned;
    qn_clock_init(&stage->clock, STAGE_NOW_MS, 1000000);
    pthread_mutex_init(&stage->mutex, NULL);
    pthread_cond_init(&stage->change, NULL);
    test_place_open(&stage->place, turned ? STAGE_NOW_MS : 0);
    stage->url = stage->place.url;
    const quern_client_options options = {.clock = turned ? &stage->clock : NULL};
    assert_ok(quern_client_open(stage->url, &options, &stage->client, &error), error);
    const struct qn_broker_options broker_options = {.clock = turned ? &stage->clock : NULL};
    assert_ok(qn_broker_open(stage->url, &broker_options, &stage->broker, &error), error);
    assert_ok(quern_mux_new(&stage->mux, &error), error);
    assert_ok(quern_mux_handle(stage->mux, "t", obey, stage, NULL, &error), error);
    return stage;
}

void stage_free(struct stage *stage)
{
    quern_mux_free(stage->mux);
    qn_broker_close(stage->broker);
    quern_client_free(stage->client);
    test_place_close(&stage->place);
    pthread_cond_destroy(&stage->change);
    pthread_mutex_destroy(&stage->mutex);
    free(stage);
}

void stage_advance(struct stage *stage, int64_t ms)
{
    quern_clock_advance(&stage->clock, ms);
    test_place_advance(&stage->place, ms);
}

void stage_put_task(struct stage *stage, const quern_task *task)
{
    quern_error error = {0};
    quern_task copy = *task;
    copy.type = copy.type != NULL ? copy.type : "t";
    assert_ok(quern_client_enqueue(stage->client, &copy, NULL, &error), error);
}

void stage_put(struct stage *stage, const char *id, const char *payload)
{
    const quern_task task = {.id = id, .payload = payload, .payload_size = strlen(payload)};
    stage_put_task(stage, &task);
}

void stage_put_many(struct stage *stage, const char *queue, const char *prefix, size_t count)
{
    stage_put_many_of(stage, "t", queue, prefix, count);
}

void stage_put_many_of(struct stage *stage, const char *type, const char *queue, const char *prefix,
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
        assert_ok(quern_client_enqueue_batch(stage->client, tasks, size, NULL, &error), error);
    }
}

static void *run_worker(void *argument)
{
    struct stage_worker *worker = argument;
    worker->status = quern_worker_run(worker->worker, &worker->error);
    return NULL;
}

void stage_start(struct stage *stage, struct stage_worker *worker,
                 const quern_worker_options *options)
{
    quern_worker_options filled = {.concurrency = 4};
    quern_error error = {0};
    if (options != NULL) {
        filled = *options;
    }
    filled.clock = stage->turned ? &stage->clock : NULL;
    filled.on_log = on_log;
    filled.on_run = on_run;
    filled.user = stage;
    *worker = (struct stage_worker){.stage = stage};
    assert_ok(quern_worker_new(stage->url, stage->mux, &filled, &worker->worker, &error), error);
    assert_int_equal(pthread_create(&worker->thread, NULL, run_worker, worker), 0);
}

quern_status stage_join(struct stage_worker *worker)
{
    assert_int_equal(pthread_join(worker->thread, NULL), 0);
    quern_worker_free(worker->worker);
    return worker->status;
}

void stage_stop(struct stage_worker *worker)
{
    quern_worker_stop(worker->worker);
    quern_status status = stage_join(worker);
    assert_ok(status, worker->error);
}

/* --- Looking -------------------------------------------------------------------------- */

static bool copy_task(const quern_task_info *info, void *user)
{
    quern_task_info **copy = user;
    *copy = qn_task_info_copy(info);
    return false;
}

static quern_task_info *find_task(struct stage *stage, const char *id)
{
    quern_error error = {0};
    quern_task_info *info = NULL;
    const quern_task_filter filter = {.id = id};
    assert_ok(qn_broker_tasks(stage->broker, &filter, copy_task, &info, &error), error);
    return info;
}

int stage_state(struct stage *stage, const char *id)
{
    quern_task_info *info = find_task(stage, id);
    int state = info == NULL ? 0 : (int)quern_task_info_state(info);
    quern_task_info_free(info);
    return state;
}

quern_task_info *stage_see(struct stage *stage, const char *id)
{
    quern_task_info *info = find_task(stage, id);
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

quern_queue_info stage_queue(struct stage *stage, const char *queue)
{
    quern_error error = {0};
    struct queue_search search = {.name = queue};
    assert_ok(qn_broker_queues(stage->broker, copy_queue, &search, &error), error);
    search.found.name = NULL;
    return search.found;
}

static bool has_state(void *user)
{
    const struct question *question = user;
    return stage_state(question->stage, question->text) == question->state;
}

void stage_wait_state(struct stage *stage, const char *id, int state)
{
    struct question question = {.stage = stage, .text = id, .state = state};
    if (!test_until(has_state, &question)) {
        fail_msg("task %s is %d, not %d\n%s", id, stage_state(stage, id), state, stage->log);
    }
}

static bool has_starts(void *user)
{
    const struct question *question = user;
    pthread_mutex_lock(&question->stage->mutex);
    bool enough = question->stage->start_count >= question->count;
    pthread_mutex_unlock(&question->stage->mutex);
    return enough;
}

void stage_wait_starts(struct stage *stage, size_t count)
{
    struct question question = {.stage = stage, .count = count};
    if (!test_until(has_starts, &question)) {
        fail_msg("%zu starts, not %zu\n%s", stage->start_count, count, stage->log);
    }
}

static bool has_reports(void *user)
{
    const struct question *question = user;
    pthread_mutex_lock(&question->stage->mutex);
    bool enough = question->stage->report_count >= question->count;
    pthread_mutex_unlock(&question->stage->mutex);
    return enough;
}

void stage_wait_reports(struct stage *stage, size_t count)
{
    struct question question = {.stage = stage, .count = count};
    if (!test_until(has_reports, &question)) {
        fail_msg("%zu reports, not %zu\n%s", stage->report_count, count, stage->log);
    }
}

static bool has_written(void *user)
{
    const struct question *question = user;
    pthread_mutex_lock(&question->stage->mutex);
    bool enough = question->stage->written_count >= question->count;
    pthread_mutex_unlock(&question->stage->mutex);
    return enough;
}

void stage_wait_written(struct stage *stage, size_t count)
{
    struct question question = {.stage = stage, .count = count};
    assert_true(test_until(has_written, &question));
}

bool stage_logged(struct stage *stage, const char *text)
{
    pthread_mutex_lock(&stage->mutex);
    bool logged = strstr(stage->log, text) != NULL;
    pthread_mutex_unlock(&stage->mutex);
    return logged;
}

static bool has_logged(void *user)
{
    const struct question *question = user;
    return stage_logged(question->stage, question->text);
}

void stage_wait_log(struct stage *stage, const char *text)
{
    struct question question = {.stage = stage, .text = text};
    if (!test_until(has_logged, &question)) {
        fail_msg("not in the log: %s\n%s", text, stage->log);
    }
}

static bool is_empty(void *user)
{
    struct stage *stage = user;
    pthread_mutex_lock(&stage->mutex);
    bool empty = stage->inside == 0;
    pthread_mutex_unlock(&stage->mutex);
    return empty;
}

void stage_wait_empty(struct stage *stage)
{
    assert_true(test_until(is_empty, stage));
}

void stage_open_gate(struct stage *stage)
{
    pthread_mutex_lock(&stage->mutex);
    stage->gate = true;
    pthread_cond_broadcast(&stage->change);
    pthread_mutex_unlock(&stage->mutex);
}

struct stage_start stage_start_at(struct stage *stage, size_t index)
{
    pthread_mutex_lock(&stage->mutex);
    assert_true(index < stage->start_count);
    struct stage_start start = stage->starts[index];
    pthread_mutex_unlock(&stage->mutex);
    return start;
}

void stage_act(struct stage *stage, quern_action action, const char *id)
{
    quern_error error = {0};
    assert_ok(qn_broker_act(stage->broker, action, NULL, id, &error), error);
}

quern_worker_stats stage_stats(struct stage_worker *worker)
{
    quern_worker_stats stats;
    quern_worker_get_stats(worker->worker, &stats);
    return stats;
}

static bool is_unready(void *user)
{
    return stage_stats(user).ready == 0;
}

void stage_wait_unready(struct stage_worker *worker)
{
    assert_true(test_until(is_unready, worker));
}

struct given_back {
    struct stage_worker *worker;
    uint64_t count;
};

static bool has_given_back(void *user)
{
    const struct given_back *wanted = user;
    return stage_stats(wanted->worker).given_back >= wanted->count;
}

void stage_wait_given_back(struct stage_worker *worker, uint64_t count)
{
    struct given_back wanted = {.worker = worker, .count = count};
    assert_true(test_until(has_given_back, &wanted));
}
