/* SPDX-License-Identifier: MIT */
/* batch.c - stores a thousand tasks with one call, and checks the status of each.
 *
 * A batch is not a transaction: each task is stored or refused for itself. Here one task brings an
 * id that already exists, and one has no type; the other 998 are stored. Usage: batch [BROKER]. */
#include <quern/quern.h>
#include <stdio.h>
#include <stdlib.h>

#define TASK_COUNT 1000

static int enqueue_all(quern_client *client)
{
    quern_task *tasks = calloc(TASK_COUNT, sizeof *tasks);
    char(*payloads)[24] = calloc(TASK_COUNT, sizeof *payloads);
    quern_enqueue_result *results = calloc(TASK_COUNT, sizeof *results);
    int stored = -1;
    if (tasks == NULL || payloads == NULL || results == NULL) {
        goto done;
    }
    for (int i = 0; i < TASK_COUNT; i++) {
        int size = snprintf(payloads[i], sizeof payloads[i], "number %d", i);
        tasks[i] =
            (quern_task){.type = "count", .payload = payloads[i], .payload_size = (size_t)size};
    }
    tasks[0].id = "the-first";
    tasks[500].id = "the-first"; /* an id can be used once in a queue */
    tasks[600].type = "";        /* a task needs a type */

    quern_error err;
    if (quern_client_enqueue_batch(client, tasks, TASK_COUNT, results, &err) != QUERN_OK) {
        printf("the first failure is %s\n", err.text);
    }
    stored = 0;
    for (int i = 0; i < TASK_COUNT; i++) {
        if (results[i].status == QUERN_OK) {
            stored++;
        } else {
            printf("%d: %s\n", i, quern_status_name(results[i].status));
        }
    }
    printf("%d of %d are stored\n", stored, TASK_COUNT);

done:
    free(results);
    free(payloads);
    free(tasks);
    return stored;
}

int main(int argc, char **argv)
{
    quern_client *client = NULL;
    quern_error err;
    if (quern_client_open(argc > 1 ? argv[1] : "batch.db", NULL, &client, &err) != QUERN_OK) {
        fprintf(stderr, "batch: %s\n", err.text);
        return 1;
    }
    int stored = enqueue_all(client);
    quern_client_free(client);
    return stored > 0 ? 0 : 1;
}
