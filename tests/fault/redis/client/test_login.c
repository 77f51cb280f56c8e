/* SPDX-License-Identifier: MIT */
/* test_login.c - a worker that runs, and whose login is withdrawn, or whose rights vanish. An
 * administrator may be about to change both, and will not restart each worker: it tries on, says so
 * once, is not ready, keeps what has ended, and goes on as soon as it is let in again. */
#include "lib_worker.h"

#include <stdlib.h>
#include <string.h>

#define ATTEMPTS_S_MAX 3 /* of each thread: a random pause of up to 1 s between two */

static struct {
    _Atomic int denied; /* attempts to log in that were refused */
    _Atomic bool is_unready;
} world;

static void note_failure(const quern_link_failure *failure, void *user)
{
    (void)user;
    world.denied += failure->status == QUERN_E_DENIED ? 1 : 0;
}

static void note_health(const quern_worker_health *health, void *user)
{
    (void)user;
    world.is_unready = health->started && !health->ready;
}

static bool is_refused(void *user)
{
    quern_worker_health health;
    bool refused = false;
    quern_worker_get_health(user, &health);
    for (size_t i = 0; i < health.check_count; i++) {
        refused = refused || (strcmp(health.checks[i].name, "broker") == 0 &&
                              strstr(health.checks[i].detail, "it refuses") != NULL);
    }
    return refused && !health.ready && health.live;
}

static bool is_ready(void *user)
{
    quern_worker_health health;
    quern_worker_get_health(user, &health);
    return health.ready;
}

static bool has_told(void *user)
{
    (void)user;
    return world.is_unready;
}

static size_t count_in_log(struct rig *rig, const char *text)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&rig->mutex);
    for (const char *at = strstr(rig->log, text); at != NULL; at = strstr(at + 1, text)) {
        count++;
    }
    (void)pthread_mutex_unlock(&rig->mutex);
    return count;
}

/* The words of the user as the server lists them, for ACL SETUSER. The caller frees them. */
static char *words_of_user(struct test_redis *server)
{
    static const char begin[] = "user worker ";
    const char *list = test_redis_do(server, "ACL LIST");
    const char *at = strstr(list, begin);
    assert_non_null(at);
    at += strlen(begin);
    return strndup(at, strcspn(at, "\n"));
}

/* One word each, as no word of them has a blank. */
static void set_user(struct test_redis *server, char *words)
{
    char *rest = NULL;
    assert_string_equal(test_redis_do(server, "ACL SETUSER worker reset"), "OK");
    for (char *word = strtok_r(words, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        assert_string_equal(test_redis_do(server, "ACL SETUSER worker %s", word), "OK");
    }
}

/* While it is not let in: how often it tries, and that it says so. */
static void check_patience(struct rig *rig, struct rig_worker *worker)
{
    enum { WATCHED_MS = 1500, THREADS = 8 };
    rig_wait_log(rig, "broker refuses this worker");
    assert_true(test_until(is_refused, worker->worker));
    assert_true(test_until(has_told, NULL));
    int before = world.denied;
    test_pause_ms(WATCHED_MS);
    print_message("%d logins refused in %d ms\n", world.denied - before, WATCHED_MS);
    assert_true(world.denied - before < 3 * THREADS * ATTEMPTS_S_MAX * WATCHED_MS / 1000);
    assert_int_equal(count_in_log(rig, "broker refuses this worker"), 1);
}

static void check(const char *const *withdrawal, size_t count, bool may_log_in)
{
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    struct test_redis *server = test_store_server();
    char *words = words_of_user(server);
    memset(&world, 0, sizeof world);
    rig_put(rig, "a", "hold");
    rig_put(rig, "b", "hold-retry");
    rig_start(rig, &worker,
              &(quern_worker_options){.concurrency = 4,
                                      .stall_timeout_ms = 2000,
                                      .on_link_failure = note_failure,
                                      .on_health = note_health});
    rig_wait_starts(rig, 2);
    for (size_t i = 0; i < count; i++) {
        (void)test_redis_do(server, withdrawal[i], NULL);
    }
    rig_open_gate(rig); /* they end while nothing can be said about it */
    rig_wait_empty(rig);
    check_patience(rig, &worker);
    assert_int_equal(world.denied > 0, !may_log_in);
    assert_int_equal(rig_stats(&worker).done, 0);
    set_user(server, words);
    rig_wait_state(rig, "a", 0);
    rig_wait_state(rig, "b", QUERN_TASK_RETRY);
    rig_wait_log(rig, "broker answers again");
    assert_true(test_until(is_ready, worker.worker));
    rig_put(rig, "c", "done");
    rig_wait_state(rig, "c", 0);
    rig_stop(&worker);
    assert_int_equal(rig->start_count, 3);
    assert_int_equal(rig->stale_count, 0);
    free(words);
    rig_free(rig);
}

static void a_user_that_is_deleted_comes_back(void **state)
{
    (void)state;
    static const char *const deleted[] = {"ACL DELUSER worker"}; /* closes its connections */
    check(deleted, TEST_COUNT(deleted), false);
}

static void a_password_that_is_changed_is_changed_back(void **state)
{
    (void)state;
    static const char *const changed[] = {"ACL SETUSER worker resetpass >other",
                                          "CLIENT KILL USER worker"};
    check(changed, TEST_COUNT(changed), false);
}

static void rights_that_vanish_come_back(void **state)
{
    (void)state;
    static const char *const taken[] = {"ACL SETUSER worker -@all"};
    check(taken, TEST_COUNT(taken), true);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", a_user_that_is_deleted_comes_back),
    TEST_ONLY_OVER("redis", a_password_that_is_changed_is_changed_back),
    TEST_ONLY_OVER("redis", rights_that_vanish_come_back),
};
TEST_MAIN_OVER_BROKERS(tests)
