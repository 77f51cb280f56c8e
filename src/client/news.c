/* SPDX-License-Identifier: MIT */
/* news.c - the broker is awaited by one thread at a time, so one of those that wait leads, and
 * wakes the others. Who leads ends its own wait as any other: then another one takes over. */
#include "client/news.h"

#include <poll.h>

#include "base/clock.h"
#include "base/cond.h"

#define PAUSE_MS 50 /* after a failure: all look then, and find out whether the broker is there */

void qn_news_init(struct qn_news *news)
{
    *news = (struct qn_news){.count = 0};
    pthread_mutex_init(&news->mutex, NULL);
    qn_cond_init(&news->changed);
}

void qn_news_finish(struct qn_news *news)
{
    pthread_cond_destroy(&news->changed);
    pthread_mutex_destroy(&news->mutex);
}

uint64_t qn_news_count(struct qn_news *news)
{
    pthread_mutex_lock(&news->mutex);
    uint64_t count = news->count;
    pthread_mutex_unlock(&news->mutex);
    return count;
}

/* With the mutex held, but not while the broker waits. */
static void lead(struct qn_news *news, struct qn_broker *broker, int64_t left_ms)
{
    bool changed = false;
    news->led = true;
    pthread_mutex_unlock(&news->mutex);
    if (qn_broker_await(broker, left_ms, &changed, NULL) != QUERN_OK) {
        changed = true;
        (void)poll(NULL, 0, left_ms < PAUSE_MS ? (int)left_ms : PAUSE_MS);
    }
    pthread_mutex_lock(&news->mutex);
    news->led = false;
    news->count += changed ? 1 : 0;
    pthread_cond_broadcast(&news->changed);
}

void qn_news_await(struct qn_news *news, struct qn_broker *broker, uint64_t seen,
                   int64_t until_mono_ns)
{
    pthread_mutex_lock(&news->mutex);
    int64_t left_ns = until_mono_ns - qn_clock_mono_ns();
    while (news->count == seen && left_ns > 0) {
        if (news->led) {
            (void)qn_cond_wait_until(&news->changed, &news->mutex, until_mono_ns);
        } else {
            lead(news, broker, (left_ns + QN_NS_PER_MS - 1) / QN_NS_PER_MS);
        }
        left_ns = until_mono_ns - qn_clock_mono_ns();
    }
    pthread_mutex_unlock(&news->mutex);
}
