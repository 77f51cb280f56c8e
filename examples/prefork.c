/* SPDX-License-Identifier: MIT */
/* prefork.c - handlers in child processes: one of them crashes, and only its own run is lost.
 *
 * The zygote, from which all children are forked, is started first thing in main, before there are
 * threads. The crashed task runs again, and knows it. Usage: prefork [BROKER]. */
#include <quern/quern.h>
#include <stdio.h>
#include <stdlib.h>

/* Output of children must be flushed: a child ends without exit(). */
static quern_outcome crash_once(quern_run *run, const quern_task *task, void *user)
{
    (void)task, (void)user;
    if (quern_run_crash_count(run) == 0) {
        printf("crash: the child ends\n");
        (void)fflush(stdout);
        abort();
    }
    printf("crash: works, after %d crash\n", (int)quern_run_crash_count(run));
    (void)fflush(stdout);
    return QUERN_DONE;
}

static quern_outcome count(quern_run *run, const quern_task *task, void *user)
{
    (void)run, (void)user;
    printf("count: %zu bytes\n", task->payload_size);
    (void)fflush(stdout);
    return QUERN_DONE;
}

/* Connections must not be shared by forks, so each child would open its own here. */
static void begin_child(void *user)
{
    (void)user;
}

static bool run_all(const char *url, quern_mux *mux, quern_zygote *zygote, quern_error *err)
{
    const quern_task tasks[] = {{.type = "crash"},
                                {.type = "count", .payload = "abc", .payload_size = 3}};
    const quern_worker_options options = {
        .concurrency = 2, .drain = true, .pool = QUERN_POOL_PREFORK, .zygote = zygote};
    quern_client *client = NULL;
    quern_worker *worker = NULL;
    bool ok = quern_client_open(url, NULL, &client, err) == QUERN_OK &&
              quern_client_enqueue_batch(client, tasks, 2, NULL, err) == QUERN_OK &&
              quern_worker_new(url, mux, &options, &worker, err) == QUERN_OK &&
              quern_worker_run(worker, err) == QUERN_OK;
    quern_worker_free(worker);
    quern_client_free(client);
    return ok;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "tasks.db";
    const quern_zygote_options options = {.on_child_start = begin_child};
    quern_error err = {0};
    quern_mux *mux = NULL;
    quern_zygote *zygote = NULL;
    bool ok = quern_mux_new(&mux, &err) == QUERN_OK &&
              quern_mux_handle(mux, "crash", crash_once, NULL, NULL, &err) == QUERN_OK &&
              quern_mux_handle(mux, "count", count, NULL, NULL, &err) == QUERN_OK &&
              quern_zygote_start(mux, &options, &zygote, &err) == QUERN_OK &&
              run_all(url, mux, zygote, &err);
    if (!ok) {
        (void)fprintf(stderr, "prefork: %s\n", err.text);
    }
    quern_zygote_free(zygote);
    quern_mux_free(mux);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
