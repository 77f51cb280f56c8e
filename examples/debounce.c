/* SPDX-License-Identifier: MIT */
/* debounce.c - many events, one run.
 *
 * Each change of a shop asks for a new index of it, 30 s later. While that task waits, the next
 * change replaces its data and puts it off (QUERN_ON_DUPLICATE_DEBOUNCE); so it runs once, with the
 * latest data, when nothing has changed for 30 s. An alert is sent once an hour at most, whatever
 * becomes of its task (QUERN_UNIQUE_UNTIL_EXPIRED); the others are left out. Usage: debounce
 * [BROKER]. */
#include <quern/quern.h>
#include <stdio.h>
#include <string.h>

#define HOUR_MS (60 * 60 * 1000)

/* Prints the payload of the task that is there afterwards. */
static int enqueue(quern_client *client, quern_task *task, const char *payload)
{
    quern_error err;
    quern_task_info *info = NULL;
    task->payload = payload;
    task->payload_size = strlen(payload);
    if (quern_client_enqueue(client, task, &info, &err) != QUERN_OK) {
        fprintf(stderr, "debounce: %s\n", err.text);
        return 1;
    }
    size_t size = 0;
    const char *there = quern_task_info_payload(info, &size);
    printf("%s \"%s\": \"%s\" is there\n", task->type, payload, there);
    quern_task_info_free(info);
    return 0;
}

int main(int argc, char **argv)
{
    quern_client *client = NULL;
    quern_error err;
    if (quern_client_open(argc > 1 ? argv[1] : "debounce.db", NULL, &client, &err) != QUERN_OK) {
        fprintf(stderr, "debounce: %s\n", err.text);
        return 1;
    }
    quern_task reindex = {.type = "reindex",
                          .delay_ms = 30 * 1000,
                          .unique_ms = HOUR_MS,
                          .unique_key = "shop 7",
                          .on_duplicate = QUERN_ON_DUPLICATE_DEBOUNCE};
    int failures = enqueue(client, &reindex, "version 1");
    failures += enqueue(client, &reindex, "version 2");
    failures += enqueue(client, &reindex, "version 3");

    quern_task alert = {.type = "alert",
                        .unique_ms = HOUR_MS,
                        .unique_key = "alert of shop 7",
                        .unique_until = QUERN_UNIQUE_UNTIL_EXPIRED,
                        .on_duplicate = QUERN_ON_DUPLICATE_IGNORE};
    failures += enqueue(client, &alert, "disk at 91 %");
    failures += enqueue(client, &alert, "disk at 92 %");
    quern_client_free(client);
    return failures == 0 ? 0 : 1;
}
