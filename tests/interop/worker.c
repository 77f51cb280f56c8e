/* SPDX-License-Identifier: MIT */
/* worker.c - a quern worker for the interop tests: the type of a task controls its handler.
 *
 *     interop_worker URL JOURNAL NAME CONCURRENCY LEASE_MS RETRY_MS QUEUE[=WEIGHT]...
 *
 * It has the same types as asynq_peer's server (server.go): ok, result, fail, fail:N, skip, revoke,
 * rest:MS and hold; and checkpoint:QUEUE, whose run leaves "next: " before the payload, 77 retries
 * and the queue, unless that is "", and snooze, with the payload as its reason: both wait an hour.
 * Each start and each end of a handler is a line of JSON in the journal, an
 * O_APPEND file that survives every kill. Prints "ready" before it takes tasks; TERM and INT end
 * it; RETRY_MS -1 leaves the delay of a retry to the library. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "quern/worker.h"

#define QUEUES_MAX 16
#define LINE_SIZE 2048

struct place {
    const char *journal;
    const char *name;
    int journal_fd;
};

static quern_worker *the_worker; /* for the signal handler */

static void on_signal(int number)
{
    (void)number;
    quern_worker_stop(the_worker);
}

static long long now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* One write, so that lines of several workers do not mix. */
static void note(const struct place *place, const char *what, const quern_run *run,
                 const char *error)
{
    char line[LINE_SIZE];
    int size = snprintf(
        line, sizeof line,
        "{\"what\":\"%s\",\"worker\":\"%s\",\"pid\":%d,\"id\":\"%s\",\"queue\":\"%s\","
        "\"retried\":%lld,\"at_ns\":%lld,\"crashes\":%lld,\"cause\":\"%s\",\"fence\":%llu,"
        "\"error\":\"%s\"}\n",
        what, place->name, (int)getpid(), quern_run_task_id(run), quern_run_queue(run),
        (long long)quern_run_retry_count(run), now_ns(), (long long)quern_run_crash_count(run),
        quern_cause_name(quern_run_cause(run)), (unsigned long long)quern_run_fence(run), error);
    if (size <= 0 || size >= LINE_SIZE || write(place->journal_fd, line, (size_t)size) != size) {
        abort(); /* a test without records proves nothing */
    }
}

/* Whether the test lets a run of the type "hold" end: those of all workers, or only of this one. */
static bool is_released(const quern_run *run, const struct place *place)
{
    char path[LINE_SIZE];
    (void)snprintf(path, sizeof path, "%s.go.%s", place->journal, quern_run_task_id(run));
    if (access(path, F_OK) == 0) {
        return true;
    }
    (void)snprintf(path, sizeof path, "%s.go.%s.%s", place->journal, place->name,
                   quern_run_task_id(run));
    return access(path, F_OK) == 0;
}

/* Waits so long, or, with -1, until it is released; false when the run is cancelled before. */
static bool rest(quern_run *run, const struct place *place, long long limit_ms)
{
    long long end_ns = now_ns() + limit_ms * 1000000;
    while (!quern_run_cancelled(run)) {
        if (limit_ms < 0 ? is_released(run, place) : now_ns() >= end_ns) {
            return true;
        }
        struct pollfd cancel = {.fd = quern_run_cancel_fd(run), .events = POLLIN};
        (void)poll(&cancel, 1, 2);
    }
    return false;
}

/* Leaves a checkpoint: see above. */
static quern_outcome leave_checkpoint(quern_run *run, const quern_task *task, const char *queue)
{
    static const char before[] = "next: ";
    quern_error err = {0};
    size_t size = strlen(before) + task->payload_size;
    char *payload = malloc(size + 1);
    if (payload == NULL) {
        abort();
    }
    (void)memcpy(payload, before, sizeof before);
    if (task->payload_size > 0) {
        (void)memcpy(payload + strlen(before), task->payload, task->payload_size);
    }
    quern_status status = quern_run_change_payload(run, payload, size, &err);
    free(payload);
    if (status == QUERN_OK) {
        status = quern_run_change_retry_max(run, 77, &err);
    }
    if (status == QUERN_OK && queue[0] != '\0') {
        status = quern_run_change_queue(run, queue, &err);
    }
    (void)quern_run_again_in(run, 3600000);
    return quern_run_fail(run, QUERN_RETRY, "%s", status == QUERN_OK ? "checkpoint" : err.text);
}

static quern_outcome obey(quern_run *run, const quern_task *task, const struct place *place)
{
    const char *payload = task->payload_size > 0 ? task->payload : "";
    int size = (int)task->payload_size;
    const char *number = strchr(task->type, ':');
    long long value = number != NULL ? strtoll(number + 1, NULL, 10) : 0;
    if (strcmp(task->type, "ok") == 0) {
        return QUERN_DONE;
    }
    if (strcmp(task->type, "result") == 0) {
        quern_error err;
        if (quern_run_write_result(run, task->payload, task->payload_size, &err) != QUERN_OK) {
            return quern_run_fail(run, QUERN_RETRY, "%s", err.text);
        }
        return QUERN_DONE;
    }
    if (strncmp(task->type, "fail", 4) == 0) {
        if (number != NULL && quern_run_retry_count(run) >= value) {
            return QUERN_DONE;
        }
        return quern_run_fail(run, QUERN_RETRY, "%.*s", size, payload);
    }
    if (strcmp(task->type, "skip") == 0) {
        return quern_run_fail(run, QUERN_ARCHIVE, "%.*s", size, payload);
    }
    if (strcmp(task->type, "revoke") == 0) {
        return QUERN_DROP;
    }
    if (strncmp(task->type, "checkpoint:", strlen("checkpoint:")) == 0) {
        return leave_checkpoint(run, task, number + 1);
    }
    if (strcmp(task->type, "snooze") == 0) {
        (void)quern_run_again_in(run, 3600000);
        return quern_run_fail(run, QUERN_SNOOZE, "%.*s", size, payload);
    }
    bool hold = strcmp(task->type, "hold") == 0;
    if (!hold && strncmp(task->type, "rest:", 5) != 0) {
        return quern_run_fail(run, QUERN_RETRY, "no handler for \"%s\"", task->type);
    }
    if (!rest(run, place, hold ? -1 : value)) {
        return quern_run_fail(run, QUERN_RETRY, "%s", quern_run_cancel_reason(run));
    }
    return QUERN_DONE;
}

static quern_outcome handle(quern_run *run, const quern_task *task, void *user)
{
    const struct place *place = user;
    note(place, "start", run, "");
    quern_outcome outcome = obey(run, task, place);
    note(place, "end", run, outcome == QUERN_DONE ? "" : "not done");
    return outcome;
}

/* The outcome of a run, for a test of whether the broker accepted it. */
static void on_run(const quern_run_report *report, void *user)
{
    const struct place *place = user;
    char line[LINE_SIZE];
    int size = snprintf(line, sizeof line,
                        "{\"what\":\"reported\",\"worker\":\"%s\",\"pid\":%d,\"id\":\"%s\","
                        "\"outcome\":%d,\"applied\":%s,\"at_ns\":%lld}\n",
                        place->name, (int)getpid(), report->id, (int)report->outcome,
                        report->applied ? "true" : "false", now_ns());
    if (size <= 0 || size >= LINE_SIZE || write(place->journal_fd, line, (size_t)size) != size) {
        abort();
    }
}

static void on_log(quern_log_level level, const char *line, void *user)
{
    (void)user;
    if (level >= QUERN_LOG_WARN) {
        (void)fprintf(stderr, "%s\n", line);
    }
}

static size_t read_queues(char **words, int count, quern_queue *queues)
{
    size_t queue_count = 0;
    for (int i = 0; i < count && queue_count < QUEUES_MAX; i++) {
        char *equals = strchr(words[i], '=');
        uint32_t weight = 1;
        if (equals != NULL) {
            *equals = '\0';
            weight = (uint32_t)strtoul(equals + 1, NULL, 10);
        }
        queues[queue_count++] = (quern_queue){.name = words[i], .weight = weight};
    }
    return queue_count;
}

int main(int argc, char **argv)
{
    if (argc < 8) {
        (void)fputs("usage: interop_worker URL JOURNAL NAME CONCURRENCY LEASE_MS RETRY_MS "
                    "QUEUE...\n",
                    stderr);
        return 2;
    }
    struct place place = {.journal = argv[2], .name = argv[3]};
    place.journal_fd = open(argv[2], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    quern_queue queues[QUEUES_MAX];
    long long retry_ms = strtoll(argv[6], NULL, 10);
    quern_worker_options options = {
        .queues = queues,
        .queue_count = read_queues(argv + 7, argc - 7, queues),
        .concurrency = (uint32_t)strtoul(argv[4], NULL, 10),
        .lease_ms = strtoll(argv[5], NULL, 10),
        .shutdown_timeout_ms = 200,
        .on_log = on_log,
        .on_run = on_run,
        .user = &place,
    };
    if (retry_ms >= 0) {
        options.retry = (quern_retry_policy)QUERN_BACKOFF_FIXED(retry_ms);
    }
    quern_error err;
    quern_mux *mux = NULL;
    quern_status status = quern_mux_new(&mux, &err);
    static const char *const words[] = {"ok",    "result", "fail",        "skip",  "revoke",
                                        "rest:", "hold",   "checkpoint:", "snooze"};
    for (size_t i = 0; status == QUERN_OK && i < sizeof words / sizeof words[0]; i++) {
        status = quern_mux_handle(mux, words[i], handle, &place, NULL, &err);
    }
    if (status == QUERN_OK) {
        status = quern_worker_new(argv[1], mux, &options, &the_worker, &err);
    }
    if (status == QUERN_OK) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
        (void)sigaction(SIGTERM, &action, NULL);
        (void)sigaction(SIGINT, &action, NULL);
        (void)puts("ready");
        (void)fflush(stdout);
        status = quern_worker_run(the_worker, &err);
    }
    if (status != QUERN_OK) {
        (void)fprintf(stderr, "interop_worker: %s\n", err.text);
    }
    quern_worker_free(the_worker);
    quern_mux_free(mux);
    return status == QUERN_OK ? 0 : 1;
}
