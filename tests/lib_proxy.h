/* SPDX-License-Identifier: MIT */
/* lib_proxy.h - stands between a client and a redis-server, and cuts connections at the worst
 * moments: before the request arrives, in the middle of it, when it was executed but no part of the
 * reply has come back, and in the middle of the reply. A thread of the test program. */
#ifndef TESTS_LIB_PROXY_H
#define TESTS_LIB_PROXY_H

#include "lib_redis.h"

enum test_cut {
    TEST_CUT_REQUEST_LOST,
    TEST_CUT_REQUEST_PART,
    TEST_CUT_REPLY_LOST,
    TEST_CUT_REPLY_PART,
    TEST_CUT_COUNT
};

struct test_proxy;
/* For the Unix socket of the server; cuts nothing until requested. */
struct test_proxy *test_proxy_start(const struct test_redis *redis, uint64_t seed);
void test_proxy_stop(struct test_proxy *proxy);
const char *test_proxy_url(const struct test_proxy *proxy);
/* From now on about this many of 1 000 requests are cut, in ways chosen by the seed; 0: none. */
void test_proxy_cut(struct test_proxy *proxy, unsigned permille);
/* From now on each answer is delayed by at least 3/4 of this time and at most all of it; 0: no
 * longer. */
void test_proxy_delay(struct test_proxy *proxy, int64_t delay_ms_max);
/* How often it has cut in this way. */
size_t test_proxy_count(const struct test_proxy *proxy, enum test_cut cut);

#endif
