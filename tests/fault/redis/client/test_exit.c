/* SPDX-License-Identifier: MIT */
/* test_exit.c - a program that calls exit() while its worker and clients use TLS.
 *
 * What the libraries do at the end of a process then happens beside threads that shake hands, send
 * and receive. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib_redis.h"
#include "quern/quern.h"

#define EXITS 50
#define CLIENTS 3

static quern_outcome done(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)task;
    (void)user;
    return QUERN_DONE;
}

/* Runs that ended with the processes before are recovered. */
static void ignore(quern_log_level level, const char *line, void *user)
{
    (void)level;
    (void)line;
    (void)user;
}

static void *work(void *worker)
{
    (void)!quern_worker_run(worker, NULL);
    return NULL;
}

/* Each client is new, so there is always a handshake. */
static void *enqueue_for_ever(void *user)
{
    static atomic_int stored;
    for (;;) {
        quern_client *client = NULL;
        if (quern_client_open(user, NULL, &client, NULL) == QUERN_OK &&
            quern_client_enqueue(client, &(quern_task){.type = "t"}, NULL, NULL) == QUERN_OK &&
            atomic_fetch_add(&stored, 1) == CLIENTS) {
            test_parent_send('r');
        }
        quern_client_free(client);
    }
    return NULL;
}

static int exit_main(int argc, char **argv)
{
    const quern_worker_options options = {.on_log = ignore};
    quern_mux *mux = NULL;
    quern_worker *worker = NULL;
    pthread_t threads[1 + CLIENTS];
    TEST_REQUIRE(argc == 2);
    if (strcmp(argv[1], "md5") == 0) { /* of a payload: that uses the library of TLS first */
        quern_client *client = NULL;
        const quern_task task = {.type = "t", .payload = "x", .payload_size = 1, .unique_ms = 1000};
        TEST_REQUIRE(quern_client_open("memory:", NULL, &client, NULL) == QUERN_OK);
        TEST_REQUIRE(quern_client_enqueue(client, &task, NULL, NULL) == QUERN_OK);
        quern_client_free(client);
    }
    TEST_REQUIRE(quern_mux_new(&mux, NULL) == QUERN_OK);
    TEST_REQUIRE(quern_mux_handle(mux, "t", done, NULL, NULL, NULL) == QUERN_OK);
    TEST_REQUIRE(quern_worker_new(argv[0], mux, &options, &worker, NULL) == QUERN_OK);
    TEST_REQUIRE(pthread_create(&threads[0], NULL, work, worker) == 0);
    for (size_t i = 1; i <= CLIENTS; i++) {
        TEST_REQUIRE(pthread_create(&threads[i], NULL, enqueue_for_ever, argv[0]) == 0);
    }
    (void)test_parent_receive();
    exit(0);
}

static void exit_while_tls_is_used_is_clean(void **state)
{
    (void)state;
    struct test_redis redis = {0};
    test_redis_start(&redis, &(struct test_redis_options){.tls = true});
    for (int i = 0; i < EXITS; i++) {
        const char *const args[] = {redis.tls_url, i % 2 == 0 ? "md5" : "", NULL};
        struct test_child child = test_spawn("exit", args);
        assert_int_equal(test_child_receive(&child), 'r');
        test_child_send(&child, 'e');
        assert_int_equal(test_child_join(&child), 0);
    }
    test_redis_stop(&redis);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(exit_while_tls_is_used_is_clean)};
static const struct test_role roles[] = {{"exit", exit_main}};

int main(int argc, char **argv)
{
    const struct test_group group = {"redis_client_exit", tests, TEST_COUNT(tests), roles,
                                     TEST_COUNT(roles)};
    return test_main(argc, argv, &group);
}
