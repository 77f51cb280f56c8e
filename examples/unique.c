/* SPDX-License-Identifier: MIT */
/* unique.c - the same work is not queued twice.
 *
 * With unique_ms a task holds a lock on its queue, type and payload until it is done, or until
 * that time has passed. A second one is refused with QUERN_E_DUPLICATE, which most callers take
 * for success: the work is queued. An id of your own does the same for as long as the task is
 * there, whatever its payload: QUERN_E_CONFLICT. Usage: unique [BROKER]. */
#include <quern/quern.h>
#include <stdio.h>
#include <string.h>

static int report(quern_client *client, const char *what, const quern_task *task)
{
    quern_error err;
    quern_status status = quern_client_enqueue(client, task, NULL, &err);
    printf("%s: %s\n", what, quern_status_name(status));
    if (status == QUERN_OK || status == QUERN_E_DUPLICATE || status == QUERN_E_CONFLICT) {
        return 0;
    }
    fprintf(stderr, "unique: %s\n", err.text);
    return 1;
}

int main(int argc, char **argv)
{
    quern_client *client = NULL;
    quern_error err;
    if (quern_client_open(argc > 1 ? argv[1] : "unique.db", NULL, &client, &err) != QUERN_OK) {
        fprintf(stderr, "unique: %s\n", err.text);
        return 1;
    }
    quern_task sync = {.type = "sync", .unique_ms = 60 * 60 * 1000};
    sync.payload = "user 1";
    sync.payload_size = strlen("user 1");
    int failures = report(client, "sync user 1", &sync);
    failures += report(client, "sync user 1 again", &sync);
    sync.payload = "user 2";
    failures += report(client, "sync user 2", &sync);

    quern_task invoice = {.type = "invoice", .id = "invoice-2026-11"};
    failures += report(client, "invoice of November", &invoice);
    invoice.payload = "corrected";
    invoice.payload_size = strlen("corrected");
    failures += report(client, "invoice of November, corrected", &invoice);
    quern_client_free(client);
    return failures == 0 ? 0 : 1;
}
