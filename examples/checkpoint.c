/* SPDX-License-Identifier: MIT */
/* checkpoint.c - a long work in pieces: each run does some rows and leaves the rest to the next.
 *
 * A run that ends with QUERN_SNOOZE or QUERN_RETRY may change the payload of its task, its queue
 * and its retries, in one step with the outcome. So work that was done is never done again, also
 * if the next run dies. Usage: checkpoint [BROKER]. */
#include <quern/quern.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 9

static quern_outcome copy_rows(quern_run *run, const quern_task *task, void *user)
{
    (void)user;
    char next[16];
    quern_error err;
    int row = (int)strtol(task->payload, NULL, 10);
    int end = row + 3 < ROWS ? row + 3 : ROWS;
    printf("%s: rows %d to %d in queue %s\n", task->id, row, end - 1, quern_run_queue(run));
    if (end == ROWS) {
        return QUERN_DONE;
    }
    (void)snprintf(next, sizeof next, "%d", end);
    /* The last piece is heavy: it goes to a queue of its own. */
    if (quern_run_change_payload(run, next, strlen(next), &err) != QUERN_OK ||
        (end == 6 && quern_run_change_queue(run, "heavy", &err) != QUERN_OK)) {
        return quern_run_fail(run, QUERN_RETRY, "%s", err.text);
    }
    (void)quern_run_again_in(run, 50);
    return quern_run_fail(run, QUERN_SNOOZE, "%d of %d rows", end, ROWS);
}

static bool run_all(const char *url, quern_client *client, quern_mux *mux, quern_error *err)
{
    const quern_task task = {.type = "copy", .id = "copy-1", .payload = QUERN_TEXT("0")};
    const quern_queue queues[] = {{.name = "default", .weight = 3}, {.name = "heavy", .weight = 1}};
    const quern_worker_options options = {
        .queues = queues, .queue_count = 2, .concurrency = 1, .drain = true};
    quern_worker *worker = NULL;
    bool ok = quern_client_enqueue(client, &task, NULL, err) == QUERN_OK &&
              quern_mux_handle(mux, "copy", copy_rows, NULL, NULL, err) == QUERN_OK &&
              quern_worker_new(url, mux, &options, &worker, err) == QUERN_OK &&
              quern_worker_run(worker, err) == QUERN_OK;
    quern_worker_free(worker);
    return ok;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "checkpoint.db";
    quern_client *client = NULL;
    quern_mux *mux = NULL;
    quern_error err;
    bool ok = quern_client_open(url, NULL, &client, &err) == QUERN_OK &&
              quern_mux_new(&mux, &err) == QUERN_OK && run_all(url, client, mux, &err);
    if (!ok) {
        fprintf(stderr, "checkpoint: %s\n", err.text);
    }
    quern_mux_free(mux);
    quern_client_free(client);
    return ok ? 0 : 1;
}
