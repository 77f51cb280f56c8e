/* SPDX-License-Identifier: MIT */
/* caller.c - the program link_caller: a client and an inspector that live as long as it does, for
 * tests in Python of what a program sees whose connections were lost meanwhile.
 *
 *     link_caller URL
 *
 * Lines of input are orders, each answered by a line, the name of a status and the text of the
 * error:
 *
 *     put QUEUE             enqueues a task
 *     look                  lists the queues
 *     reload client         reads the certificates again
 *     reload inspector
 *
 * It ends at the end of its input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quern/quern.h"

enum { LINE_SIZE = 200, COMMAND_MS = 3000 };

struct caller {
    quern_client *client;
    quern_inspector *inspector;
};

static quern_status put(const struct caller *caller, const char *queue, quern_error *err)
{
    const quern_task task = {.type = "t", .queue = queue, .retention_ms = 3600000};
    return quern_client_enqueue(caller->client, &task, NULL, err);
}

static quern_status look(const struct caller *caller, quern_error *err)
{
    quern_queue_list *queues = NULL;
    quern_status status = quern_inspector_queues(caller->inspector, &queues, err);
    if (status == QUERN_OK) {
        quern_queue_list_free(queues);
    }
    return status;
}

static quern_status obey(const struct caller *caller, const char *order, quern_error *err)
{
    if (strncmp(order, "put ", 4) == 0) {
        return put(caller, order + 4, err);
    }
    if (strcmp(order, "look") == 0) {
        return look(caller, err);
    }
    if (strcmp(order, "reload client") == 0) {
        return quern_client_reload_certificates(caller->client, err);
    }
    if (strcmp(order, "reload inspector") == 0) {
        return quern_inspector_reload_certificates(caller->inspector, err);
    }
    (void)fprintf(stderr, "link_caller: %s?\n", order);
    exit(64);
}

static void answer(quern_status status, const quern_error *error)
{
    (void)printf("%s %s\n", quern_status_name(status), status == QUERN_OK ? "" : error->text);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    char line[LINE_SIZE];
    struct caller caller = {0};
    quern_error error = {0};
    const quern_client_options client = {.command_timeout_ms = COMMAND_MS};
    const quern_inspector_options inspector = {.command_timeout_ms = COMMAND_MS};
    if (argc != 2 || quern_client_open(argv[1], &client, &caller.client, &error) != QUERN_OK ||
        quern_inspector_open(argv[1], &inspector, &caller.inspector, &error) != QUERN_OK) {
        (void)fprintf(stderr, "link_caller: %s\n", error.text);
        quern_client_free(caller.client);
        return 69;
    }
    answer(QUERN_OK, &error);
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        answer(obey(&caller, line, &error), &error);
    }
    quern_inspector_free(caller.inspector);
    quern_client_free(caller.client);
    return 0;
}
