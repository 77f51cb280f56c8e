/* SPDX-License-Identifier: MIT */
/* lib_obey.c - the handler of lib_worker.h. */
#include "lib_worker.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

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
    start->pid = getpid();
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

/* A child may be killed at any moment, and must not be in the condition then. */
static void hold(struct rig *rig)
{
    while (rig->zygote_used && !atomic_load(&rig->gate)) {
        test_pause_ms(1);
    }
    pthread_mutex_lock(&rig->mutex);
    while (!atomic_load(&rig->gate)) {
        pthread_cond_wait(&rig->change, &rig->mutex);
    }
    pthread_mutex_unlock(&rig->mutex);
}

static quern_outcome wait_for_cancel(quern_run *run, quern_outcome outcome)
{
    struct pollfd cancel = {.fd = quern_run_cancel_fd(run), .events = POLLIN};
    int ready = poll(&cancel, 1, TEST_PATIENCE_MS);
    if (ready < 0 && errno == EINTR) { /* in a child it is the signal that says so */
        ready = poll(&cancel, 1, TEST_PATIENCE_MS);
    }
    if (ready != 1 || !quern_run_cancelled(run)) {
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
    if (strcmp(word, "die") == 0) {
        (void)kill(getpid(), SIGKILL);
    }
    if (strcmp(word, "abort") == 0) {
        abort();
    }
    if (strcmp(word, "exit") == 0 || strcmp(word, "leave") == 0) {
        (void)fprintf(stderr, "last words\n");
        _exit(strcmp(word, "exit") == 0 ? 3 : 0);
    }
    while (strcmp(word, "spin") == 0) {
        (void)sched_yield();
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
