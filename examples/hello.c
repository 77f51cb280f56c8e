/* SPDX-License-Identifier: MIT */
/* hello.c - one task, enqueued and run by the same program. Usage: hello [BROKER]. */
#include <quern/quern.h>
#include <stdio.h>

static quern_outcome hello(quern_run *run, const quern_task *task, void *user)
{
    (void)run, (void)user;
    printf("hello, %.*s\n", (int)task->payload_size, (const char *)task->payload);
    return QUERN_DONE;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "hello.db"; /* a file is a broker */
    const quern_task task = {.type = "hello", .payload = QUERN_TEXT("world")};
    const quern_worker_options options = {.drain = true}; /* stop when the queue is empty */
    quern_client *client = NULL;
    quern_mux *mux = NULL;
    quern_worker *worker = NULL;
    quern_error err;

    bool ok = quern_client_open(url, NULL, &client, &err) == QUERN_OK &&
              quern_client_enqueue(client, &task, NULL, &err) == QUERN_OK &&
              quern_mux_new(&mux, &err) == QUERN_OK &&
              quern_mux_handle(mux, "hello", hello, NULL, NULL, &err) == QUERN_OK &&
              quern_worker_new(url, mux, &options, &worker, &err) == QUERN_OK &&
              quern_worker_run(worker, &err) == QUERN_OK;
    if (!ok) {
        fprintf(stderr, "hello: %s\n", err.text);
    }
    quern_worker_free(worker);
    quern_mux_free(mux);
    quern_client_free(client);
    return ok ? 0 : 1;
}
