/* SPDX-License-Identifier: MIT */
/* reading.c - one look at a broker. */
#include "inspect/explain/reading.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/queues.h"

static void take_fact(const char *name, const char *text, void *user)
{
    struct qn_reading *reading = user;
    if (strcmp(name, "path") == 0) {
        (void)snprintf(reading->path, sizeof reading->path, "%s", text);
    } else if (strcmp(name, "memory_max") == 0) {
        reading->memory_max = strtoull(text, NULL, 10);
    } else if (strcmp(name, "memory_used") == 0) {
        reading->memory_used = strtoull(text, NULL, 10);
    }
}

quern_status qn_reading_read(quern_inspector *inspector, const char *queue,
                             struct qn_reading *ret_reading, quern_error *err)
{
    struct qn_reading *reading = ret_reading;
    reading->inspector = inspector;
    reading->queues = NULL;
    reading->workers = NULL;
    reading->path[0] = '\0';
    reading->memory_max = 0;
    reading->memory_used = 0;
    quern_status status = queue == NULL ? quern_inspector_queues(inspector, &reading->queues, err)
                                        : qn_inspect_queues(inspector, (struct qn_names){&queue, 1},
                                                            &reading->queues, err);
    if (status == QUERN_OK) {
        status = quern_inspector_workers(inspector, &reading->workers, err);
    }
    if (status == QUERN_OK) {
        status = quern_inspector_broker(inspector, take_fact, reading, err);
    }
    if (status != QUERN_OK) {
        qn_reading_finish(reading);
    }
    return status;
}

void qn_reading_finish(struct qn_reading *reading)
{
    quern_queue_list_free(reading->queues);
    quern_worker_list_free(reading->workers);
    reading->queues = NULL;
    reading->workers = NULL;
}

const quern_queue_info *qn_reading_queue(const struct qn_reading *reading, const char *name)
{
    for (size_t i = 0; i < quern_queue_list_size(reading->queues); i++) {
        const quern_queue_info *queue = quern_queue_list_at(reading->queues, i);
        if (strcmp(queue->name, name) == 0) {
            return queue;
        }
    }
    return NULL;
}
