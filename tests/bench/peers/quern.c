/* SPDX-License-Identifier: MIT */
/* The driver of quern; see README.md for its commands. */
#include "driver.h"

#include <quern/quern.h>

#define BULK 1000
#define CONCURRENCY 64

struct state {
    quern_worker *worker;
    size_t wanted; /* 0: echo */
    size_t done;
    int64_t begin_ns;
};

static void check(quern_status status, const quern_error *error)
{
    if (status != QUERN_OK) {
        driver_die(error->text);
    }
}

static const char *url(void)
{
    static char text[256];
    (void)snprintf(text, sizeof text, "redis://%s:%s/0", driver_environment("BENCH_HOST"),
                   driver_environment("BENCH_PORT"));
    return text;
}

static quern_client *open_client(void)
{
    quern_error error;
    quern_client *client = NULL;
    check(quern_client_open(url(), NULL, &client, &error), &error);
    return client;
}

static void single(size_t count)
{
    quern_error error;
    quern_client *client = open_client();
    char payload[PAYLOAD_SIZE];
    memset(payload, 'x', sizeof payload);
    const quern_task task = {.type = "bench", .payload = payload, .payload_size = sizeof payload};
    int64_t begin_ns = driver_now_ns();
    for (size_t i = 0; i < count; i++) {
        check(quern_client_enqueue(client, &task, NULL, &error), &error);
    }
    driver_print_seconds(begin_ns);
    quern_client_free(client);
}

static void bulk(size_t count)
{
    quern_error error;
    quern_client *client = open_client();
    char payload[PAYLOAD_SIZE];
    memset(payload, 'x', sizeof payload);
    static quern_task tasks[BULK];
    for (size_t i = 0; i < BULK; i++) {
        tasks[i] =
            (quern_task){.type = "bench", .payload = payload, .payload_size = sizeof payload};
    }
    int64_t begin_ns = driver_now_ns();
    for (size_t left = count; left > 0;) {
        size_t size = left < BULK ? left : BULK;
        check(quern_client_enqueue_batch(client, tasks, size, NULL, &error), &error);
        left -= size;
    }
    driver_print_seconds(begin_ns);
    quern_client_free(client);
}

static quern_outcome handle(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    const struct state *state = user;
    if (state->wanted == 0) {
        driver_echo(task->payload, task->payload_size);
    }
    return QUERN_DONE;
}

/* Counts what the broker has confirmed: later than the handler's end, which is what the other
 * drivers count. */
static void on_run(const quern_run_report *report, void *user)
{
    struct state *state = user;
    if (report->outcome == QUERN_DONE && report->applied && ++state->done == state->wanted) {
        driver_print_seconds(state->begin_ns);
        quern_worker_stop(state->worker);
    }
}

static void work(size_t count)
{
    quern_error error;
    quern_mux *mux = NULL;
    struct state state = {.wanted = count, .begin_ns = driver_now_ns()};
    const quern_worker_options options = {
        .concurrency = CONCURRENCY, .on_run = on_run, .user = &state};
    check(quern_mux_new(&mux, &error), &error);
    check(quern_mux_handle(mux, "bench", handle, &state, NULL, &error), &error);
    check(quern_worker_new(url(), mux, &options, &state.worker, &error), &error);
    if (count == 0) {
        puts("ready");
        (void)fflush(stdout);
    }
    check(quern_worker_run(state.worker, &error), &error);
    quern_worker_free(state.worker);
    quern_mux_free(mux);
}

static void forward_lines(void)
{
    quern_error error;
    quern_client *client = open_client();
    char payload[PAYLOAD_SIZE + 1];
    const quern_task task = {.type = "bench", .payload = payload, .payload_size = PAYLOAD_SIZE};
    char line[16];
    while (fgets(line, sizeof line, stdin) != NULL) {
        driver_stamp(payload);
        check(quern_client_enqueue(client, &task, NULL, &error), &error);
    }
    quern_client_free(client);
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    size_t count = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    if (strcmp(command, "version") == 0) {
        printf("quern %s, concurrency %d, bulk by enqueue_batch of %d\n", quern_version(),
               CONCURRENCY, BULK);
    } else if (strcmp(command, "single") == 0) {
        single(count);
    } else if (strcmp(command, "bulk") == 0) {
        bulk(count);
    } else if (strcmp(command, "work") == 0) {
        work(count);
    } else if (strcmp(command, "echo") == 0) {
        work(0);
    } else if (strcmp(command, "send") == 0) {
        forward_lines();
    }
    return 0;
}
