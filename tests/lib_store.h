/* SPDX-License-Identifier: MIT */
/* lib_store.h - where the tasks of a test are stored: each test of a group runs once over each
 * broker, or only over the one that QUERN_TEST_BROKER names, and does not know which one it is.
 *
 * SQLite: a file in a directory of the test's own. Redis: one server for the whole program, emptied
 * for each store, with an AOF; so only one store can be open at a time. With QUERN_TEST_TLS it is
 * used by TLS. So it is with a cluster of TEST_CLUSTER_SIZE masters, which only
 * QUERN_TEST_BROKER=cluster asks for. */
#ifndef TESTS_LIB_STORE_H
#define TESTS_LIB_STORE_H

#include "lib_redis.h"
#include "lib_test.h"

#define TEST_CLUSTER_SIZE 3

struct test_store {
    const char *broker;      /* "sqlite" or "redis"; in contract tests also "memory", "cluster" */
    char dir[TEST_DIR_SIZE]; /* for files of the test itself */
    char url[256];
    int64_t wall_ms; /* of the broker's own clock, if it is turned; else 0 */
    void *lock;      /* while it is blocked */
};

/* The main of a program whose tests run over each broker; the first one's keep their bare names,
 * the others' are "name (broker)". Tests have no setup of their own. */
int test_main_over_brokers(int argc, char **argv, const struct test_group *group);
#define TEST_MAIN_OVER_BROKERS(array)                                                              \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        const struct test_group group = {                                                          \
            .name = argv[0], .tests = (array), .test_count = TEST_COUNT(array)};                   \
        return test_main_over_brokers(argc, argv, &group);                                         \
    }
/* A test of one broker. */
#define TEST_ONLY_OVER(broker, function)                                                           \
    {                                                                                              \
        .name = #function, .test_func = (function), .initial_state = (void *)(uintptr_t)(broker)   \
    }

#define TEST_BROKER_COUNT 2
extern const char *const test_brokers[TEST_BROKER_COUNT];
/* Whether tests are to run over this broker now; only: as given by the test, or NULL. */
bool test_broker_wanted(const char *broker, const char *only);
/* "name" or "name (broker)"; the caller frees it. */
char *test_broker_name(const char *name, const char *broker);

/* For the broker of the present test, or the one named. wall_ms: the time at which the broker's own
 * clock stands still from now on; 0: the real time. */
void test_store_open(struct test_store *store, int64_t wall_ms);
void test_store_open_at(struct test_store *store, const char *broker, int64_t wall_ms);
void test_store_close(struct test_store *store);
bool test_store_is(const struct test_store *store, const char *broker);
/* Time passes on the broker's own clock, if it has one. */
void test_store_advance(struct test_store *store, int64_t ms);
/* Writers get no answer until it is unblocked. */
void test_store_block(struct test_store *store);
void test_store_unblock(struct test_store *store);
/* Of a cluster: its nodes by number, and which of them owns a key. */
struct test_redis *test_store_node(int node);
int test_store_owner(const char *key);
/* Nothing gets an answer from that node until it speaks again, at the latest at close. */
void test_store_silence(int node);
void test_store_speak(int node);
/* The user "worker" with password "secret", a line of redis.conf: the user that
 * docs/protocol/redis.md recommends for workers. All stores in Redis are used by this user. */
extern const char test_worker_user[];
/* The server behind all stores in Redis. */
struct test_redis *test_store_server(void);
/* At the end of the program. */
void test_store_finish(void);

#endif
