/* SPDX-License-Identifier: MIT */
/* retry.c - a task that fails twice and then works, one that never works, and one that waits.
 *
 * A handler returns how its run ended. QUERN_RETRY runs the task again after the delay of its retry
 * policy, until its attempts are used up; QUERN_ARCHIVE gives up at once; QUERN_SNOOZE only asks
 * for a later moment and uses up no attempt. Usage: retry [BROKER]. */
#include <quern/quern.h>
#include <stdio.h>

static quern_outcome flaky(quern_run *run, const quern_task *task, void *user)
{
    (void)task, (void)user;
    if (quern_run_retry_count(run) < 2) {
        printf("flaky: attempt %d fails\n", (int)quern_run_retry_count(run) + 1);
        return quern_run_fail(run, QUERN_RETRY, "the other side did not answer");
    }
    printf("flaky: attempt %d works\n", (int)quern_run_retry_count(run) + 1);
    return QUERN_DONE;
}

static quern_outcome broken(quern_run *run, const quern_task *task, void *user)
{
    (void)user;
    printf("broken: no sense in another attempt\n");
    return quern_run_fail(run, QUERN_ARCHIVE, "no address in %s", task->id);
}

static quern_outcome patient(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    int *calls = user;
    if (++*calls == 1) {
        printf("patient: not yet\n");
        return quern_run_again_in(run, 700);
    }
    printf("patient: now, with %d retries used\n", (int)quern_run_retry_count(run));
    return QUERN_DONE;
}

static bool run_all(const char *url, quern_client *client, quern_mux *mux, quern_error *err)
{
    const quern_task tasks[] = {
        /* The policy can be the task's, the handler's or the worker's; the task's goes first. */
        {.type = "flaky", .retry = QUERN_BACKOFF_FIXED(200)},
        {.type = "broken", .id = "letter-7"},
        {.type = "patient"},
    };
    int calls = 0;
    const quern_worker_options options = {.concurrency = 1, .drain = true};
    quern_worker *worker = NULL;
    bool ok = quern_client_enqueue_batch(client, tasks, 3, NULL, err) == QUERN_OK &&
              quern_mux_handle(mux, "flaky", flaky, NULL, NULL, err) == QUERN_OK &&
              quern_mux_handle(mux, "broken", broken, NULL, NULL, err) == QUERN_OK &&
              quern_mux_handle(mux, "patient", patient, &calls, NULL, err) == QUERN_OK &&
              quern_worker_new(url, mux, &options, &worker, err) == QUERN_OK &&
              quern_worker_run(worker, err) == QUERN_OK;
    quern_worker_free(worker);
    return ok;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "retry.db";
    quern_client *client = NULL;
    quern_mux *mux = NULL;
    quern_error err;
    bool ok = quern_client_open(url, NULL, &client, &err) == QUERN_OK &&
              quern_mux_new(&mux, &err) == QUERN_OK && run_all(url, client, mux, &err);
    if (!ok) {
        fprintf(stderr, "retry: %s\n", err.text);
    }
    quern_mux_free(mux);
    quern_client_free(client);
    return ok ? 0 : 1;
}
