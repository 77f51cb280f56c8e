/* SPDX-License-Identifier: MIT */
/* results.c - a handler writes a result, and the client reads it.
 *
 * A finished task is deleted, unless it has retention_ms: then it stays that long, with its
 * result. quern_client_wait returns it then; the worker may as well be another process. Usage:
 * results [BROKER]. */
#include <quern/quern.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static quern_outcome square(quern_run *run, const quern_task *task, void *user)
{
    (void)user;
    char text[32] = "";
    memcpy(text, task->payload, task->payload_size < 31 ? task->payload_size : 31);
    long number = strtol(text, NULL, 10);
    int size = snprintf(text, sizeof text, "%ld", number * number);
    quern_error err;
    if (quern_run_write_result(run, text, (size_t)size, &err) != QUERN_OK) {
        return quern_run_fail(run, QUERN_RETRY, "%s", err.text);
    }
    return QUERN_DONE;
}

static bool work(const char *url, quern_error *err)
{
    const quern_worker_options options = {.drain = true};
    quern_mux *mux = NULL;
    quern_worker *worker = NULL;
    bool ok = quern_mux_new(&mux, err) == QUERN_OK &&
              quern_mux_handle(mux, "square", square, NULL, NULL, err) == QUERN_OK &&
              quern_worker_new(url, mux, &options, &worker, err) == QUERN_OK &&
              quern_worker_run(worker, err) == QUERN_OK;
    quern_worker_free(worker);
    quern_mux_free(mux);
    return ok;
}

static bool show(quern_client *client, const char *id, quern_error *err)
{
    quern_task_info *info = NULL;
    bool ok = quern_client_wait(client, id, 10 * 1000, &info, err) == QUERN_OK;
    if (ok) {
        size_t size = 0;
        const char *result = quern_task_info_result(info, &size);
        printf("%s: %.*s\n", quern_task_state_name(quern_task_info_state(info)), (int)size,
               result == NULL ? "" : result);
    }
    quern_task_info_free(info);
    return ok;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "results.db";
    const quern_task task = {
        .type = "square", .payload = QUERN_TEXT("12"), .retention_ms = 60 * 60 * 1000};
    quern_client *client = NULL;
    quern_task_info *stored = NULL;
    quern_error err;
    bool ok = quern_client_open(url, NULL, &client, &err) == QUERN_OK &&
              quern_client_enqueue(client, &task, &stored, &err) == QUERN_OK && work(url, &err) &&
              show(client, quern_task_info_id(stored), &err);
    if (!ok) {
        fprintf(stderr, "results: %s\n", err.text);
    }
    quern_task_info_free(stored);
    quern_client_free(client);
    return ok ? 0 : 1;
}
