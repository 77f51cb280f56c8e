/* SPDX-License-Identifier: MIT */
/* feed.c - the client of the soak test: a thread that enqueues tasks without end, and repeats those
 * that were not confirmed. */
#include "soak.h"

#include <string.h>

#define BATCH 5
#define BATCH_GAP_MS 80
#define KEPT_MS (24 * 3600 * INT64_C(1000)) /* so that a stored id can be recognized */

/* Whether all of them are known to be stored; a task that was stored before is a conflict. */
static bool put_batch(quern_client *client, size_t first)
{
    quern_task tasks[BATCH];
    char numbers[BATCH][24];
    quern_enqueue_result results[BATCH];
    quern_error err = {0};
    bool all = true;
    for (size_t i = 0; i < BATCH; i++) {
        size_t number = first + i;
        (void)snprintf(numbers[i], sizeof numbers[i], "%zu", number);
        tasks[i] = (quern_task){.type = "any",
                                .id = numbers[i],
                                .payload = numbers[i],
                                .payload_size = strlen(numbers[i]),
                                .retention_ms = KEPT_MS,
                                .retry = QUERN_BACKOFF_FIXED(1500),
                                .delay_ms = number % 10 == 2 ? 1 + (int64_t)(number % 3000) : 0};
    }
    quern_status status = quern_client_enqueue_batch(client, tasks, BATCH, results, &err);
    for (size_t i = 0; status != QUERN_OK && i < BATCH; i++) {
        all = all && (results[i].status == QUERN_OK || results[i].status == QUERN_E_CONFLICT);
    }
    return all;
}

static void *feed(void *argument)
{
    struct soak_feeder *feeder = argument;
    quern_client *client = NULL;
    quern_error err = {0};
    while (quern_client_open(feeder->url, NULL, &client, &err) != QUERN_OK) {
        test_pause_ms(BATCH_GAP_MS);
    }
    while (atomic_load(&feeder->feeding) &&
           atomic_load(&feeder->stored) + BATCH <= SOAK_TASKS_MAX) {
        while (!put_batch(client, atomic_load(&feeder->stored))) {
            test_pause_ms(BATCH_GAP_MS);
        }
        (void)atomic_fetch_add(&feeder->stored, BATCH);
        test_pause_ms(BATCH_GAP_MS);
    }
    quern_client_free(client);
    return NULL;
}

void soak_feed_start(struct soak_feeder *feeder, const char *url)
{
    feeder->url = url;
    atomic_store(&feeder->feeding, true);
    assert_int_equal(pthread_create(&feeder->thread, NULL, feed, feeder), 0);
}

void soak_feed_stop(struct soak_feeder *feeder)
{
    atomic_store(&feeder->feeding, false);
    assert_int_equal(pthread_join(feeder->thread, NULL), 0);
}
