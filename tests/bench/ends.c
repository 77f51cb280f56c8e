/* SPDX-License-Identifier: MIT */
/* ends.c - one load for ends.py: so many tasks are enqueued and run to their ends, in one process.
 *
 * ends URL once|kept|fails COUNT: tasks that are done at once, that are kept for an hour then, that
 * fail at their first run. Prints the CPU time of all of it in microseconds a task. Only the public
 * interface is used, so that the program runs with the library of any build. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <quern/quern.h>

#define BULK 1000

struct state {
    quern_worker *worker;
    size_t left;
    bool fails;
};

static void check(quern_status status, const quern_error *error)
{
    if (status != QUERN_OK) {
        (void)fprintf(stderr, "%s\n", error->text);
        exit(1);
    }
}

static quern_outcome handle(quern_run *run, const quern_task *task, void *user)
{
    const struct state *state = user;
    (void)task;
    if (state->fails && quern_run_retry_count(run) == 0) {
        return quern_run_fail(run, QUERN_RETRY, "connect to mail.example.org: no route to host");
    }
    return QUERN_DONE;
}

static void on_run(const quern_run_report *report, void *user)
{
    struct state *state = user;
    if (report->outcome == QUERN_DONE && report->applied && --state->left == 0) {
        quern_worker_stop(state->worker);
    }
}

/* The lines about failures would cost more than what is measured. */
static void on_log(quern_log_level level, const char *line, void *user)
{
    (void)level;
    (void)line;
    (void)user;
}

static void fill(const char *url, const char *load, size_t count)
{
    quern_error error;
    quern_client *client = NULL;
    static quern_task tasks[BULK];
    static char payload[100];
    memset(payload, 'x', sizeof payload);
    for (size_t i = 0; i < BULK; i++) {
        tasks[i] = (quern_task){.type = "bench",
                                .payload = payload,
                                .payload_size = sizeof payload,
                                .retry = QUERN_BACKOFF_FIXED(1),
                                .retention_ms = strcmp(load, "kept") == 0 ? 3600000 : 0};
    }
    check(quern_client_open(url, NULL, &client, &error), &error);
    for (size_t left = count; left > 0;) {
        size_t size = left < BULK ? left : BULK;
        check(quern_client_enqueue_batch(client, tasks, size, NULL, &error), &error);
        left -= size;
    }
    quern_client_free(client);
}

int main(int argc, char **argv)
{
    quern_error error;
    quern_mux *mux = NULL;
    struct rusage used;
    struct state state = {.left = argc == 4 ? strtoul(argv[3], NULL, 10) : 0};
    if (state.left == 0) {
        (void)fprintf(stderr, "usage: ends URL once|kept|fails COUNT\n");
        return 2;
    }
    size_t count = state.left;
    state.fails = strcmp(argv[2], "fails") == 0;
    const quern_worker_options options = {
        .concurrency = 64, .on_run = on_run, .on_log = on_log, .user = &state};
    fill(argv[1], argv[2], count);
    check(quern_mux_new(&mux, &error), &error);
    check(quern_mux_handle(mux, "bench", handle, &state, NULL, &error), &error);
    check(quern_worker_new(argv[1], mux, &options, &state.worker, &error), &error);
    check(quern_worker_run(state.worker, &error), &error);
    quern_worker_free(state.worker);
    quern_mux_free(mux);
    (void)getrusage(RUSAGE_SELF, &used);
    double us = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
                (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    printf("%.3f\n", us / (double)count);
    return 0;
}
