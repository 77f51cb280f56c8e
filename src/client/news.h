/* SPDX-License-Identifier: MIT */
/* news.h - news of watched tasks, awaited by one thread for all that wait on a client. */
#ifndef QN_CLIENT_NEWS_H
#define QN_CLIENT_NEWS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "broker/broker.h"

struct qn_news {
    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t changed;
    uint64_t count; /* of news, so far */
    bool led;       /* a thread awaits them in the broker */
};

void qn_news_init(struct qn_news *news);
void qn_news_finish(struct qn_news *news);
/* Taken before a task is watched and looked at: what comes after that ends the wait below. */
uint64_t qn_news_count(struct qn_news *news);
/* Blocks until there is more news than `seen`, or until that moment. */
void qn_news_await(struct qn_news *news, struct qn_broker *broker, uint64_t seen,
                   int64_t until_mono_ns);

#endif
