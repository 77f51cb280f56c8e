/* SPDX-License-Identifier: MIT */
/* aggregate.c - many small tasks become one: a group for each customer, one mail for each group.
 *
 * Each "note" waits in the group of its customer. When a group has three, or nothing came for a
 * second, the aggregator makes one "mail" of them; it is stored in the same transaction that
 * removes the notes. Usage: aggregate [BROKER]. */
#include <quern/quern.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static quern_outcome make_mail(quern_aggregation *aggregation, const quern_task *const *members,
                               size_t count, void *user)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    (void)user;
    for (size_t i = 0; stream != NULL && i < count; i++) {
        fprintf(stream, "%s%s", i > 0 ? ", " : "", (const char *)members[i]->payload);
    }
    if (stream == NULL || fclose(stream) != 0) {
        free(text);
        return quern_aggregation_fail(aggregation, QUERN_RETRY, "no memory for the mail");
    }
    quern_error err;
    const quern_header to = {"to", quern_aggregation_group(aggregation)};
    const quern_task mail = {
        .type = "mail", .payload = text, .payload_size = size, .headers = &to, .header_count = 1};
    quern_status status = quern_aggregation_store(aggregation, &mail, &err);
    free(text);
    return status == QUERN_OK ? QUERN_DONE
                              : quern_aggregation_fail(aggregation, QUERN_RETRY, "%s", err.text);
}

static quern_outcome send_mail(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)user;
    printf("%s: %s\n", task->headers[0].value, (const char *)task->payload);
    return QUERN_DONE;
}

static int enqueue_notes(const char *url, quern_error *err)
{
    static const char *const notes[][2] = {{"customer:ann", "order 1 is paid"},
                                           {"customer:bob", "welcome"},
                                           {"customer:ann", "order 1 is packed"},
                                           {"customer:ann", "order 1 is sent"}};
    quern_client *client = NULL;
    quern_status status = quern_client_open(url, NULL, &client, err);
    for (size_t i = 0; status == QUERN_OK && i < sizeof notes / sizeof notes[0]; i++) {
        const quern_task note = {.type = "note",
                                 .group = notes[i][0],
                                 .payload = notes[i][1],
                                 .payload_size = strlen(notes[i][1])};
        status = quern_client_enqueue(client, &note, NULL, err);
    }
    quern_client_free(client);
    return status == QUERN_OK;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "aggregate.db";
    const quern_group_options groups = {.grace_ms = 1000, .max_size = 3};
    const quern_worker_options options = {.concurrency = 1, .drain = true};
    quern_mux *mux = NULL;
    quern_worker *worker = NULL;
    quern_error err;
    int exit_code = 1;
    if (!enqueue_notes(url, &err) || quern_mux_new(&mux, &err) != QUERN_OK ||
        quern_mux_aggregate(mux, "customer:", make_mail, NULL, &groups, &err) != QUERN_OK ||
        quern_mux_handle(mux, "mail", send_mail, NULL, NULL, &err) != QUERN_OK ||
        quern_worker_new(url, mux, &options, &worker, &err) != QUERN_OK ||
        quern_worker_run(worker, &err) != QUERN_OK) {
        fprintf(stderr, "aggregate: %s\n", err.text);
    } else {
        exit_code = 0;
    }
    quern_worker_free(worker);
    quern_mux_free(mux);
    return exit_code;
}
