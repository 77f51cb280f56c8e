/* SPDX-License-Identifier: MIT */
/* program.c - uses an installed quern as a stranger would: enqueues a task and runs it.
 *
 * argv[1] is the path of a database to make. It is C and C++ at once. */
#include <stdio.h>
#include <string.h>

#include <quern/quern.h>

static quern_outcome greet(quern_run *run, const quern_task *task, void *user)
{
    int *greetings = (int *)user;
    (void)run;
    if (task->payload_size == 5 && memcmp(task->payload, "world", 5) == 0) {
        ++*greetings;
    }
    return QUERN_DONE;
}

static quern_status enqueue(const char *url, quern_error *err)
{
    quern_client *client = NULL;
    quern_status status = quern_client_open(url, NULL, &client, err);
    if (status != QUERN_OK) {
        return status;
    }
    quern_task task;
    memset(&task, 0, sizeof task);
    task.type = "greet";
    task.payload = "world";
    task.payload_size = 5;
    status = quern_client_enqueue(client, &task, NULL, err);
    quern_client_free(client);
    return status;
}

static quern_status work(const char *url, int *greetings, quern_error *err)
{
    quern_worker_options options;
    memset(&options, 0, sizeof options);
    options.drain = true;
    quern_worker *worker = NULL;
    quern_mux *mux = NULL;
    quern_status status = quern_mux_new(&mux, err);
    if (status == QUERN_OK) {
        status = quern_mux_handle(mux, "greet", greet, greetings, NULL, err);
    }
    if (status == QUERN_OK) {
        status = quern_worker_new(url, mux, &options, &worker, err);
    }
    if (status == QUERN_OK) {
        status = quern_worker_run(worker, err);
    }
    quern_worker_free(worker);
    quern_mux_free(mux);
    return status;
}

int main(int argc, char **argv)
{
    quern_error err;
    int greetings = 0;
    if (argc != 2 || strcmp(quern_version(), QUERN_VERSION) != 0) {
        fprintf(stderr, "usage: program FILE, with the library of its headers\n");
        return 2;
    }
    if (enqueue(argv[1], &err) != QUERN_OK || work(argv[1], &greetings, &err) != QUERN_OK) {
        fprintf(stderr, "%s: %s\n", quern_status_name(err.code), err.text);
        return 1;
    }
    printf("%d\n", greetings);
    return greetings == 1 ? 0 : 1;
}
