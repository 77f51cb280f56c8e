/* SPDX-License-Identifier: MIT */
/* test_users.c - the user that docs/protocol/redis.md advises for clients: it can do all that a
 * client does, by each of its rights, by TLS and on a cluster, too, and nothing that a worker does.
 *
 * The server logs what an ACL refuses. A right that could be taken away without a line there would
 * be one too many. */
#include <pthread.h>
#include <string.h>

#include "lib_redis.h"
#include "lib_store.h"
#include "quern/quern.h"

/* As the page has it (tests/docs/test_acl.sh). */
static const char keys[] =
    "%R~asynq:* ~asynq:queues ~asynq:{*}: ~asynq:{*}:t:* ~asynq:{*}:pending ~asynq:{*}:scheduled"
    " ~asynq:{*}:groups ~asynq:{*}:g:* ~asynq:{*}:unique:* ~asynq:{*}:quern:s:*"
    " ~asynq:{*}:quern:due ~asynq:{*}:quern:meta ~asynq:{*}:quern:lane*";
static const char rights[] =
    "+eval +evalsha +time +exists +get +getrange +hget +hlen +hmget +hstrlen +llen +pttl"
    " +scard +sscan +zcard +zmscore +zrangebyscore +zscore +del +hset +lpush +sadd +set +zadd"
    " +zrem +client|id +client|tracking +subscribe";
/* For a task that changes its state between two reads, which no test can bring about when it
 * wishes. */
static const char rare_right[] = "+lpos";

static struct test_redis redis;
static char urls[2][512]; /* of a client, of a worker */
static bool is_old;       /* 6.2: keys have no rights of their own */

/* One word after the other; "": there are no more. */
static const char *next_word(const char *text, char out[64])
{
    size_t size = strcspn(text, " ");
    (void)snprintf(out, 64, "%.*s", (int)size, text);
    return text + size + (text[size] == ' ' ? 1 : 0);
}

static void grant(const char *words)
{
    char word[64];
    for (const char *at = next_word(words, word); word[0] != '\0'; at = next_word(at, word)) {
        assert_string_equal(test_redis_do(&redis, "ACL SETUSER client %s", word), "OK");
    }
}

static void start_as(const struct test_redis_options *options)
{
    test_redis_start(&redis, options);
    (void)test_redis_do(&redis, "ACL SETUSER client on >secret -@all resetchannels %s",
                        "&__redis__:invalidate");
    is_old = strcmp(test_redis_do(&redis, "ACL SETUSER client %s", "%R~x"), "OK") != 0;
    (void)test_redis_do(&redis, "ACL SETUSER client resetkeys");
    grant(is_old ? "~asynq:*" : keys);
    grant(rights);
    grant(rare_right);
}

/* Where the users are named to the left of this place. */
static void set_urls(const char *scheme, const char *place)
{
    static const char *const names[] = {"client", "worker"};
    for (size_t i = 0; i < TEST_COUNT(urls); i++) {
        (void)snprintf(urls[i], sizeof urls[i], "%s://%s:secret@%s", scheme, names[i], place);
    }
}

static int start(void **state)
{
    (void)state;
    start_as(&(struct test_redis_options){.config = test_worker_user});
    set_urls("redis-socket", redis.socket_path);
    return 0;
}

static int start_with_tls(void **state)
{
    (void)state;
    start_as(&(struct test_redis_options){.config = test_worker_user, .tls = true});
    set_urls("rediss", redis.tls_url + strlen("rediss://"));
    return 0;
}

static bool is_formed(void *user)
{
    (void)user;
    return strstr(test_redis_do(&redis, "CLUSTER INFO"), "cluster_state:ok") != NULL;
}

/* Of one node, which has all keys, with the right that the page adds. */
static int start_cluster(void **state)
{
    (void)state;
    char config[1024];
    (void)snprintf(config, sizeof config,
                   "cluster-enabled yes\ncluster-config-file nodes.conf\n%s +cluster|slots",
                   test_worker_user);
    start_as(&(struct test_redis_options){.config = config, .tcp = true});
    grant("+cluster|slots");
    for (int slot = 0; slot < 16384; slot++) {
        (void)test_redis_do(&redis, "CLUSTER ADDSLOTS %d", slot);
    }
    assert_true(test_until(is_formed, NULL));
    set_urls("redis-cluster", redis.tcp_url + strlen("redis://"));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    test_redis_stop(&redis);
    return 0;
}

/* --- What a client does ------------------------------------------------------------------ */

static void put(quern_client *client, const quern_task *task)
{
    quern_error err = {0};
    (void)!quern_client_enqueue(client, task, NULL, &err);
}

static quern_outcome finish(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    (void)user;
    quern_error err = {0};
    return quern_run_write_result(run, "r", 1, &err) == QUERN_OK ? QUERN_DONE : QUERN_RETRY;
}

static void *work(void *worker)
{
    quern_error err = {0};
    return quern_worker_run(worker, &err) == QUERN_OK ? NULL : worker;
}

/* A client waits for a task that a worker, started afterwards, completes. */
static quern_status wait_for_end(quern_client *client, const char *id, quern_error *err)
{
    quern_mux *mux = NULL;
    quern_worker *worker = NULL;
    quern_task_info *info = NULL;
    pthread_t thread;
    void *failed = NULL;
    assert_ok(quern_mux_new(&mux, err), *err);
    assert_ok(quern_mux_handle(mux, "w", finish, NULL, NULL, err), *err);
    assert_ok(quern_worker_new(urls[1], mux, NULL, &worker, err), *err);
    (void)!quern_client_wait(client, id, 0, &info, err);
    quern_task_info_free(info);
    info = NULL;
    assert_int_equal(pthread_create(&thread, NULL, work, worker), 0);
    quern_status status = quern_client_wait(client, id, TEST_PATIENCE_MS, &info, err);
    quern_task_info_free(info);
    quern_worker_stop(worker);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    quern_worker_free(worker);
    quern_mux_free(mux);
    return status;
}

/* A task that is given this state, as if a worker had done so. */
static void find_in(quern_client *client, const char *state)
{
    quern_error err = {0};
    quern_task_info *info = NULL;
    put(client, &(quern_task){.type = "t", .id = state});
    (void)test_redis_do(&redis, "LREM asynq:{default}:pending 1 %s", state);
    (void)test_redis_do(&redis, "HSET asynq:{default}:t:%s state %s", state, state);
    (void)test_redis_do(&redis,
                        strcmp(state, "active") == 0 ? "LPUSH asynq:{default}:%s %s"
                                                     : "ZADD asynq:{default}:%s 9999999999 %s",
                        state, state);
    (void)test_redis_do(&redis, "ZADD asynq:{default}:lease 9999999999 active");
    (void)!quern_client_find(client, NULL, state, &info, &err);
    quern_task_info_free(info);
}

/* Everything, each time on an empty server. */
static void use_all(bool waits)
{
    quern_error err = {0};
    quern_client *client = NULL;
    quern_task_info *info = NULL;
    test_redis_empty(&redis);
    (void)test_redis_do(&redis, "SCRIPT FLUSH");
    (void)test_redis_do(&redis, "SET asynq:{default}:quern:max_pending 1000");
    (void)test_redis_do(&redis, "ZADD asynq:{default}:quern:due 1 stale 2 staler");
    if (quern_client_open(urls[0], &(quern_client_options){.command_timeout_ms = 1000}, &client,
                          &err) != QUERN_OK) {
        return;
    }
    const quern_task batch[] = {{.type = "t"}, {.type = "t", .id = "second"}};
    (void)!quern_client_enqueue_batch(client, batch, TEST_COUNT(batch), NULL, &err);
    put(client, &(quern_task){.type = "t", .id = "second"});
    const quern_task unique = {.type = "u", .unique_ms = 60000, .delay_ms = 60001};
    put(client, &unique);
    put(client, &unique);
    for (int policy = 0; policy < 4; policy++) {
        quern_task again = unique;
        again.unique_key = "k";
        again.on_duplicate = policy;
        put(client, &again);
    }
    static const char *const states[] = {"active", "retry", "archived", "completed"};
    for (size_t i = 0; i < TEST_COUNT(states); i++) {
        find_in(client, states[i]);
    }
    put(client, &(quern_task){.type = "t", .group = "g", .id = "grouped"});
    (void)!quern_client_find(client, NULL, "grouped", &info, &err);
    quern_task_info_free(info);
    info = NULL;
    put(client, &(quern_task){.type = "t", .limit_key = "k"});
    put(client, &(quern_task){.type = "t", .id = "held", .delay_ms = 1000000});
    (void)!quern_client_find(client, NULL, "second", &info, &err);
    quern_task_info_free(info);
    info = NULL;
    (void)!quern_client_find(client, "default", "held", &info, &err);
    quern_task_info_free(info);
    put(client, &(quern_task){.type = "w", .id = "wait", .retention_ms = 60000});
    if (waits) {
        (void)!wait_for_end(client, "wait", &err);
    } else {
        (void)!quern_client_wait(client, "wait", 100, &info, &err);
    }
    quern_client_free(client);
}

/* The words that the server has refused to the client; NULL: none. */
static const char *refused(void)
{
    static char copy[8192];
    (void)snprintf(copy, sizeof copy, "%s", test_redis_do(&redis, "ACL LOG"));
    return strstr(copy, "client") != NULL ? copy : NULL;
}

static void all_that_a_client_does_is_allowed(void **state)
{
    (void)state;
    quern_error err = {0};
    quern_client *client = NULL;
    (void)test_redis_do(&redis, "ACL LOG RESET");
    use_all(true);
    if (refused() != NULL) {
        fail_msg("%s", refused());
    }
    assert_string_equal(test_redis_do(&redis, "EXISTS asynq:{default}:t:second"), "1");
    assert_string_equal(test_redis_do(&redis, "HGET asynq:{default}:t:wait state"), "completed");
    assert_ok(quern_client_open(urls[0], NULL, &client, &err), err);
    assert_ok(quern_client_enqueue(
                  client, &(quern_task){.type = "w", .id = "x", .retention_ms = 60000}, NULL, &err),
              err);
    assert_ok(wait_for_end(client, "x", &err), err);
    quern_client_free(client);
    assert_null(refused());
}

static void all_that_a_client_does_is_allowed_over_tls(void **state)
{
    all_that_a_client_does_is_allowed(state);
}

static void all_that_a_client_does_is_allowed_on_a_cluster(void **state)
{
    all_that_a_client_does_is_allowed(state);
}

static void each_right_is_needed(void **state)
{
    (void)state;
    char word[64];
    char without[64];
    size_t count = 0;
    size_t unneeded = 0;
    for (const char *at = next_word(rights, word); word[0] != '\0'; at = next_word(at, word)) {
        (void)snprintf(without, sizeof without, "-%s", word + 1);
        (void)test_redis_do(&redis, "ACL LOG RESET");
        grant(without);
        use_all(false);
        if (refused() == NULL) {
            print_error("%s is not needed\n", word);
            unneeded++;
        }
        grant(word);
        count++;
    }
    assert_true(count > 20);
    assert_int_equal(unneeded, 0);
}

static void what_a_worker_does_is_refused(void **state)
{
    (void)state;
    static const char *const commands[] = {
        "EVAL return(redis.call('zrem',KEYS[1]..'lease','')) 1 asynq:{default}:",
        "LPUSH asynq:{default}:active x",
        "DEL asynq:{default}:active",
        "SET asynq:{default}:paused 1",
        "ZADD asynq:{default}:archived 1 x",
        "HSET asynq:{default}:quern:limit:set 1r 1",
        "SET other 1",
    };
    quern_error err = {0};
    quern_inspector *inspector = NULL;
    quern_client *client = NULL;
    test_redis_empty(&redis);
    assert_ok(quern_client_open(urls[0], NULL, &client, &err), err);
    put(client, &(quern_task){.type = "t", .id = "a"});
    quern_client_free(client);
    assert_ok(quern_inspector_open(urls[0], NULL, &inspector, &err), err);
    assert_int_equal(quern_inspector_act(inspector, QUERN_ACTION_DELETE, "default", "a", &err),
                     QUERN_E_BROKER);
    assert_non_null(strstr(err.text, "NOPERM"));
    quern_inspector_free(inspector);
    assert_string_equal(test_redis_do(&redis, "LRANGE asynq:{default}:pending 0 -1"), "a\n");
    if (is_old) {
        return; /* its commands are all that holds it back */
    }
    assert_string_equal(test_redis_do(&redis, "AUTH client secret"), "OK");
    for (size_t i = 0; i < TEST_COUNT(commands); i++) {
        const char *answer = test_redis_do(&redis, commands[i]);
        if (strstr(answer, "NOPERM") == NULL && strstr(answer, "can't access") == NULL) {
            fail_msg("%s: %s", commands[i], answer);
        }
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(all_that_a_client_does_is_allowed, start, stop),
    cmocka_unit_test_setup_teardown(all_that_a_client_does_is_allowed_over_tls, start_with_tls,
                                    stop),
    cmocka_unit_test_setup_teardown(all_that_a_client_does_is_allowed_on_a_cluster, start_cluster,
                                    stop),
    cmocka_unit_test_setup_teardown(each_right_is_needed, start, stop),
    cmocka_unit_test_setup_teardown(what_a_worker_does_is_refused, start, stop),
};

TEST_MAIN(tests)
