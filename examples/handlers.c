/* SPDX-License-Identifier: MIT */
/* handlers.c - C handlers for the program quern, as a shared object.
 *
 *     cc -shared -fPIC -o handlers.so handlers.c $(pkg-config --cflags quern)
 *     quern enqueue greet World
 *     quern work --pool prefork --handlers ./handlers.so
 *
 * Each task runs in a child process: one that crashes costs one run, not a worker. */
#include <stdio.h>

#include <quern/handlers.h>

static quern_outcome greet(quern_run *run, const quern_task *task, void *user)
{
    char text[64];
    quern_error err;
    (void)user;
    if (task->payload_size == 0 || task->payload_size > 32) {
        return quern_run_fail(run, QUERN_ARCHIVE, "a name of %zu bytes", task->payload_size);
    }
    int size = snprintf(text, sizeof text, "hello, %s", (const char *)task->payload);
    if (quern_run_write_result(run, text, (size_t)size, &err) != QUERN_OK) {
        return quern_run_fail(run, QUERN_RETRY, "%s", err.text);
    }
    return QUERN_DONE;
}

static quern_outcome divide(quern_run *run, const quern_task *task, void *user)
{
    int dividend = 0;
    int divisor = 0;
    (void)user;
    if (sscanf((const char *)task->payload, "%d %d", &dividend, &divisor) != 2) {
        return quern_run_fail(run, QUERN_ARCHIVE, "two numbers are needed");
    }
    printf("%d\n", dividend / divisor); /* 0 kills the child by SIGFPE */
    return QUERN_DONE;
}

QUERN_HANDLERS(mux, err)
{
    quern_status status = quern_mux_handle(mux, "greet", greet, NULL, NULL, err);
    if (status == QUERN_OK) {
        status = quern_mux_handle(mux, "divide", divide, NULL, NULL, err);
    }
    return status;
}
