/* SPDX-License-Identifier: MIT */
/* aggregator.c - a quern worker for the interop tests that aggregates groups.
 *
 *     interop_aggregator URL LEASE_MS QUEUE STEP CALL PATTERN=GRACE_MS,DELAY_MS,SIZE...
 *
 * Of the members it makes a task of the type "result" as asynq_peer's server makes one of the type
 * "ok" (server.go): GROUP=PAYLOAD+PAYLOAD... Runs of both types are done at once and kept. With the
 * STEP "before" or "after" it kills itself in that call of the aggregator, before or after it has
 * stored the task; "never" otherwise. Prints "ready" before it begins; TERM ends it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quern/worker.h"

static quern_worker *the_worker; /* for the signal handler */

struct death {
    const char *step;
    int left; /* calls until it dies */
};

static void on_signal(int number)
{
    (void)number;
    quern_worker_stop(the_worker);
}

static void die_if(const struct death *death, const char *step)
{
    if (death->left == 0 && strcmp(death->step, step) == 0) {
        (void)raise(SIGKILL);
    }
}

static char *join(const quern_aggregation *aggregation, const quern_task *const *members,
                  size_t count)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL) {
        abort();
    }
    (void)fprintf(stream, "%s=", quern_aggregation_group(aggregation));
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(stream, "%s%.*s", i > 0 ? "+" : "", (int)members[i]->payload_size,
                      (const char *)members[i]->payload);
    }
    if (fclose(stream) != 0) {
        abort();
    }
    return text;
}

static quern_outcome aggregate(quern_aggregation *aggregation, const quern_task *const *members,
                               size_t count, void *user)
{
    struct death *death = user;
    quern_error err;
    death->left--;
    die_if(death, "before");
    char *text = join(aggregation, members, count);
    const quern_task sum = {
        .type = "result", .payload = text, .payload_size = strlen(text), .retention_ms = 3600000};
    quern_status status = quern_aggregation_store(aggregation, &sum, &err);
    free(text);
    die_if(death, "after");
    return status == QUERN_OK ? QUERN_DONE
                              : quern_aggregation_fail(aggregation, QUERN_RETRY, "%s", err.text);
}

static quern_outcome keep(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)task;
    (void)user;
    return QUERN_DONE;
}

/* PATTERN=GRACE_MS,DELAY_MS,SIZE */
static quern_status add_rule(quern_mux *mux, char *rule, struct death *death, quern_error *err)
{
    char *equals = strrchr(rule, '=');
    quern_group_options groups = {0};
    long long numbers[3];
    if (equals == NULL ||
        sscanf(equals + 1, "%lld,%lld,%lld", &numbers[0], &numbers[1], &numbers[2]) != 3) {
        (void)fprintf(stderr, "interop_aggregator: no rule: %s\n", rule);
        exit(2);
    }
    *equals = '\0';
    groups.grace_ms = numbers[0];
    groups.max_delay_ms = numbers[1];
    groups.max_size = numbers[2];
    return quern_mux_aggregate(mux, rule, aggregate, death, &groups, err);
}

int main(int argc, char **argv)
{
    if (argc < 7) {
        (void)fputs("usage: interop_aggregator URL LEASE_MS QUEUE STEP CALL RULE...\n", stderr);
        return 2;
    }
    struct death death = {.step = argv[4], .left = (int)strtol(argv[5], NULL, 10)};
    const quern_queue queue = {.name = argv[3]};
    const quern_worker_options options = {.queues = &queue,
                                          .queue_count = 1,
                                          .concurrency = 2,
                                          .lease_ms = strtoll(argv[2], NULL, 10),
                                          .shutdown_timeout_ms = 200};
    quern_error err;
    quern_mux *mux = NULL;
    quern_status status = quern_mux_new(&mux, &err);
    if (status == QUERN_OK) {
        status = quern_mux_handle(mux, "*", keep, NULL, NULL, &err);
    }
    for (int i = 6; status == QUERN_OK && i < argc; i++) {
        status = add_rule(mux, argv[i], &death, &err);
    }
    if (status == QUERN_OK) {
        status = quern_worker_new(argv[1], mux, &options, &the_worker, &err);
    }
    if (status == QUERN_OK) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
        (void)sigaction(SIGTERM, &action, NULL);
        (void)puts("ready");
        (void)fflush(stdout);
        status = quern_worker_run(the_worker, &err);
    }
    if (status != QUERN_OK) {
        (void)fprintf(stderr, "interop_aggregator: %s\n", err.text);
    }
    quern_worker_free(the_worker);
    quern_mux_free(mux);
    return status == QUERN_OK ? 0 : 1;
}
