/* SPDX-License-Identifier: MIT */
/* testing.c - tests a handler by itself, and then with a broker and a clock that is turned.
 *
 * quern_test_run_handler calls a handler once, as a worker would, with a run that is made up: no
 * broker, no thread, no file. For what happens between runs, give client, inspector and worker one
 * quern_clock, and turn it: an hour of waiting takes no time. The broker is in the memory of this
 * program unless another one is named. Usage: testing [BROKER]. */
#include <quern/quern.h>
#include <quern/testing.h>
#include <stdio.h>
#include <string.h>

#define HOUR_MS (INT64_C(3600) * 1000)
#define START_MS INT64_C(1800000000000) /* in 2027: any moment will do */

static quern_outcome remind(quern_run *run, const quern_task *task, void *user)
{
    int *sent = user;
    if (task->payload_size == 0) {
        return quern_run_fail(run, QUERN_ARCHIVE, "no address");
    }
    (*sent)++;
    return QUERN_DONE;
}

/* The handler alone: how does it handle a task without payload? */
static bool test_alone(quern_error *err)
{
    const quern_task task = {.type = "remind"};
    int sent = 0;
    quern_test_run *run = NULL;
    if (quern_test_run_handler(remind, &task, &sent, NULL, &run, err) != QUERN_OK) {
        return false;
    }
    bool archived = quern_test_run_outcome(run) == QUERN_ARCHIVE;
    printf("alone: %s, because: %s\n", archived ? "archived" : "WRONG", quern_test_run_error(run));
    quern_test_run_free(run);
    return true;
}

/* Runs the tasks that are due by the clock. The worker ends by itself, since it must not wait for
 * the rest. */
static bool run_due(const char *url, const quern_clock *clock, int *sent, quern_error *err)
{
    const quern_worker_options options = {.drain = true, .clock = clock};
    quern_mux *mux = NULL;
    quern_worker *worker = NULL;
    bool ok = quern_mux_new(&mux, err) == QUERN_OK &&
              quern_mux_handle(mux, "remind", remind, sent, NULL, err) == QUERN_OK &&
              quern_worker_new(url, mux, &options, &worker, err) == QUERN_OK &&
              quern_worker_run(worker, err) == QUERN_OK;
    quern_worker_free(worker);
    quern_mux_free(mux);
    return ok;
}

/* The whole way: it waits for an hour, and not a moment less. */
static bool test_delay(const char *url, quern_clock *clock, quern_error *err)
{
    const quern_client_options client_options = {.clock = clock};
    const quern_inspector_options inspector_options = {.clock = clock};
    const quern_task task = {.type = "remind",
                             .id = "call-ada",
                             .payload = "ada",
                             .payload_size = 3,
                             .delay_ms = HOUR_MS};
    quern_client *client = NULL;
    quern_inspector *inspector = NULL;
    quern_task_info *info = NULL;
    int sent = 0;
    bool ok = quern_client_open(url, &client_options, &client, err) == QUERN_OK &&
              quern_client_enqueue(client, &task, NULL, err) == QUERN_OK &&
              quern_inspector_open(url, &inspector_options, &inspector, err) == QUERN_OK &&
              quern_inspector_task(inspector, NULL, "call-ada", &info, err) == QUERN_OK;
    if (ok) {
        printf("delay: %s, %d sent\n", quern_task_state_name(quern_task_info_state(info)), sent);
        quern_clock_advance(clock, HOUR_MS);
        ok = run_due(url, clock, &sent, err);
        printf("delay: an hour later %d sent\n", sent);
    }
    quern_task_info_free(info);
    quern_inspector_free(inspector);
    quern_client_free(client);
    return ok && sent == 1;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "memory:";
    quern_clock *clock = NULL;
    quern_error err = {.text = "a handler did not do what it should"};
    bool ok = quern_clock_new(START_MS, &clock, &err) == QUERN_OK && test_alone(&err) &&
              test_delay(url, clock, &err);
    if (!ok) {
        fprintf(stderr, "testing: %s\n", err.text);
    }
    quern_clock_free(clock);
    return ok ? 0 : 1;
}
