/* SPDX-License-Identifier: MIT */
/* test_worker.c - a worker on Redis is notified of the actions of others, or finds them without a
 * notice: tasks of Go clients, delayed tasks, cancellations, while its connections and its server
 * die. */
#include "lib_worker.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory/arena.h"
#include "message/asynq/asynq.h"

#define PUSH                                                                                       \
    "redis.call('HSET', KEYS[1], 'msg', ARGV[1], 'state', 'pending', 'pending_since', ARGV[3])\n"  \
    "redis.call('LPUSH', KEYS[2], ARGV[2]) return 1"
#define SCHEDULE                                                                                   \
    "redis.call('HSET', KEYS[1], 'msg', ARGV[1], 'state', 'scheduled')\n"                          \
    "redis.call('ZADD', KEYS[2], ARGV[3], ARGV[2]) return 1"

/* --- What a Go client does ------------------------------------------------------------ */

struct go_task {
    const char *type;
    const char *id;
    const char *payload;
};

/* Stores a task by an asynq script. at: its last argument. */
static void store(const char *script, const char *place, const struct go_task *go, long long at)
{
    struct qn_arena arena = {0};
    struct qn_bytes bytes;
    quern_error err = {0};
    const struct qn_asynq_task task = {.type = go->type,
                                       .payload = go->payload,
                                       .payload_size = strlen(go->payload),
                                       .id = go->id,
                                       .queue = "default",
                                       .retry_max = 25,
                                       .timeout_ms = 1800000};
    assert_ok(qn_asynq_task_encode(&arena, &task, &bytes, &err), err);
    test_redis_do(test_store_server(), "SADD asynq:queues default");
    assert_int_equal(
        test_redis_count(test_store_server(),
                         "EVAL %s 2 asynq:{default}:t:%s asynq:{default}:%s %b %s %lld", script,
                         go->id, place, bytes.data, bytes.size, go->id, at),
        1);
    qn_arena_finish(&arena);
}

static void push(const char *id, const char *payload)
{
    store(PUSH, "pending", &(struct go_task){"t", id, payload}, 1800000000000000000);
}

/* --- Connections ---------------------------------------------------------------------- */

/* Kills a connection of the worker; false: it has none of that name now. */
static bool kill_client(const char *role)
{
    char list[16384];
    char wanted[32];
    struct test_redis *server = test_store_server();
    (void)snprintf(list, sizeof list, "%s", test_redis_do(server, "CLIENT LIST"));
    (void)snprintf(wanted, sizeof wanted, "-%s ", role);
    char *rest = NULL;
    for (char *line = strtok_r(list, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        long long id = 0;
        if (strstr(line, wanted) != NULL && sscanf(line, "id=%lld", &id) == 1) {
            return test_redis_count(server, "CLIENT KILL ID %lld", id) == 1;
        }
    }
    return false;
}

static bool is_idle(void *user)
{
    const char *role = user;
    char wanted[32];
    (void)snprintf(wanted, sizeof wanted, "-%s ", role);
    return strstr(test_redis_do(test_store_server(), "CLIENT LIST"), wanted) != NULL;
}

static bool is_listened_to(void *user)
{
    (void)user;
    return strstr(test_redis_do(test_store_server(), "PUBSUB NUMSUB asynq:cancel"), "\n1\n") !=
           NULL;
}

/* As Go publishes; before anybody listens that would be lost. */
static void publish_cancellation(const char *id)
{
    assert_true(test_until(is_listened_to, NULL));
    assert_int_equal(test_redis_count(test_store_server(), "PUBLISH asynq:cancel %s", id), 1);
}

/* --- Tests ---------------------------------------------------------------------------- */

static void tasks_of_go_clients_run_whatever_happens_to_the_connections(void **state)
{
    (void)state;
    static const char *const roles[] = {"listener", "tracked", "pump"};
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    size_t count = 0;
    for (size_t i = 0; i < 24; i++) {
        char id[16];
        const char *role = roles[i % TEST_COUNT(roles)];
        (void)snprintf(id, sizeof id, "n%zu", i);
        assert_true(test_until(is_idle, (void *)(uintptr_t)role));
        (void)kill_client(role);
        push(id, "done");
        rig_wait_starts(rig, ++count);
    }
    rig_wait_reports(rig, count);
    rig_stop(&worker);
    assert_int_equal(rig->start_count, count);
    assert_int_equal(rig_queue(rig, "default").processed_total, count);
    rig_free(rig);
}

static void without_tracking_a_worker_polls(void **state)
{
    (void)state;
    char url[256];
    struct rig *rig = rig_new(false);
    struct test_redis *server = test_store_server();
    test_redis_do(server, "ACL SETUSER deaf on >secret ~asynq:* resetchannels &asynq:cancel "
                          "+@all -client +client|id +client|setname");
    (void)snprintf(url, sizeof url, "redis-socket://deaf:secret@%s", server->socket_path);
    rig->url = url;
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    push("a", "done");
    rig_wait_starts(rig, 1);
    push("b", "done");
    rig_wait_starts(rig, 2);
    push("c", "wait");
    rig_wait_starts(rig, 3);
    publish_cancellation("c");
    rig_wait_state(rig, "c", QUERN_TASK_RETRY);
    rig_stop(&worker);
    test_redis_do(server, "ACL DELUSER deaf");
    rig_free(rig);
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

/* The server has room for the connections that carry commands, but only for one or none of the two
 * that receive notices. */
static void without_listening_connections_a_worker_polls_and_reports_it_once(void **state)
{
    (void)state;
    static const char *const roles[] = {"listener", "tracked"};
    struct test_redis *server = test_store_server();
    for (size_t i = 0; i <= TEST_COUNT(roles); i++) {
        struct rig *rig = rig_new(false);
        struct rig_worker worker;
        rig_start(rig, &worker, NULL);
        push("a", "done");
        rig_wait_reports(rig, 1);
        for (size_t k = 0; k < TEST_COUNT(roles); k++) {
            assert_true(test_until(is_idle, (void *)(uintptr_t)roles[k]));
        }
        (void)test_redis_do(server, "CONFIG SET maxclients 1"); /* those that are there stay */
        for (size_t k = 0; k < TEST_COUNT(roles); k++) {
            assert_true(i == k || kill_client(roles[k]));
        }
        int64_t begin_ms = test_now_ms();
        for (size_t n = 2; n <= 20; n++) {
            char id[16];
            (void)snprintf(id, sizeof id, "n%zu", n);
            push(id, "done");
            rig_wait_reports(rig, n);
        }
        assert_true(test_now_ms() - begin_ms < INT64_C(19) * 1000); /* one may be late */
        rig_wait_log(rig, "broker does not answer");
        assert_int_equal(count_in_log(rig, "broker does not answer"), 1);
        (void)test_redis_do(server, "CONFIG SET maxclients 10000");
        if (i == TEST_COUNT(roles)) {
            rig_wait_log(rig, "broker answers again");
            assert_true(test_until(is_listened_to, NULL));
        }
        rig_stop(&worker);
        rig_free(rig);
    }
}

static long long script_calls(void)
{
    const char *stats = test_redis_do(test_store_server(), "INFO commandstats");
    const char *line = strstr(stats, "cmdstat_evalsha:calls=");
    return line == NULL ? 0 : strtoll(strchr(line, '=') + 1, NULL, 10);
}

static void many_spurious_notices_are_polled_only_now_and_then(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    struct test_redis *server = test_store_server();
    rig_start(rig, &worker, NULL);
    push("a", "done");
    rig_wait_reports(rig, 1);
    test_redis_do(server, "CONFIG RESETSTAT");
    int64_t begin_ms = test_now_ms();
    for (int i = 0; i < 5000; i++) {
        test_redis_do(server, "ZADD asynq:{default}:scheduled 4000000000 n%d", i);
    }
    long long calls = script_calls();
    /* Without pauses one poll, of two scripts, would follow the other. */
    assert_true(calls < 2 * (test_now_ms() - begin_ms) + 200);
    push("b", "done");
    rig_wait_reports(rig, 2);
    test_redis_do(server, "DEL asynq:{default}:scheduled");
    rig_stop(&worker);
    rig_free(rig);
}

static void cancellation_by_a_go_client_is_a_retry(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1});
    push("a", "wait");
    rig_wait_starts(rig, 1); /* it has no room now: it listens all the same */
    publish_cancellation("a");
    rig_wait_state(rig, "a", QUERN_TASK_RETRY);
    assert_string_equal(rig_start_at(rig, 0).reason, "cancelled");
    rig_stop(&worker);
    rig_free(rig);
}

static void lost_cancellation_comes_with_the_extension(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 2, .lease_ms = 1000});
    push("retry", "wait");
    push("archive", "wait");
    rig_wait_starts(rig, 2);
    struct test_redis *server = test_store_server();
    test_redis_do(server, "HSET asynq:{default}:t:retry quern_cancel retry");
    test_redis_do(server, "HSET asynq:{default}:t:archive quern_cancel archive");
    rig_wait_state(rig, "retry", QUERN_TASK_RETRY);
    rig_wait_state(rig, "archive", QUERN_TASK_ARCHIVED);
    rig_stop(&worker);
    rig_free(rig);
}

/* --- Delayed tasks -------------------------------------------------------------------- */

struct due_journal {
    pthread_mutex_t mutex; /* guards the rest */
    size_t count;
    size_t early_count;
    size_t exact_count; /* not much later than the machine was busy */
    int64_t late_ms_max;
};

/* The payload is the moment before which it must not start. */
static quern_outcome check_moment(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    struct due_journal *journal = user;
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    char text[32] = "";
    memcpy(text, task->payload, task->payload_size < 31 ? task->payload_size : 31);
    int64_t late_us =
        (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 - strtoll(text, NULL, 10) * 1000;
    (void)pthread_mutex_lock(&journal->mutex);
    journal->count++;
    journal->early_count += late_us < 0 ? 1 : 0;
    journal->exact_count += late_us < 200000 ? 1 : 0;
    journal->late_ms_max =
        late_us / 1000 > journal->late_ms_max ? late_us / 1000 : journal->late_ms_max;
    (void)pthread_mutex_unlock(&journal->mutex);
    return QUERN_DONE;
}

static bool all_came(void *user)
{
    struct due_journal *journal = user;
    (void)pthread_mutex_lock(&journal->mutex);
    bool all = journal->count >= 40;
    (void)pthread_mutex_unlock(&journal->mutex);
    return all;
}

/* A task that is due at a moment, which is its payload. */
static void put_due(struct rig *rig, int number, int64_t at_ms, bool by_go)
{
    char id[16];
    char moment[32];
    (void)snprintf(id, sizeof id, "n%d", number);
    (void)snprintf(moment, sizeof moment, "%lld", (long long)at_ms);
    if (by_go) {
        store(SCHEDULE, "scheduled", &(struct go_task){"due", id, moment}, at_ms / 1000);
        return;
    }
    rig_put_task(rig, &(quern_task){.type = "due",
                                    .id = id,
                                    .payload = moment,
                                    .payload_size = strlen(moment),
                                    .process_at_ms = at_ms});
}

static void delayed_tasks_are_exact_and_never_early(void **state)
{
    (void)state;
    struct due_journal journal = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct rig *rig = rig_new(false);
    quern_error err = {0};
    assert_ok(quern_mux_handle(rig->mux, "due", check_moment, &journal, NULL, &err), err);
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    int64_t now_ms = qn_clock_wall_ms(qn_clock_system());
    for (int i = 0; i < 40; i++) {
        int64_t at_ms = now_ms + 150 + (i * 7919) % 1200;
        bool by_go = i % 8 == 0;
        put_due(rig, i, by_go ? (at_ms / 1000 + 1) * 1000 : at_ms, by_go); /* whole seconds */
    }
    assert_true(test_until(all_came, &journal));
    rig_stop(&worker);
    assert_int_equal(journal.count, 40);
    assert_int_equal(journal.early_count, 0);
    print_message("the latest came %lld ms late\n", (long long)journal.late_ms_max);
    assert_true(journal.exact_count >= 20); /* whole seconds would make it about 11 */
    assert_string_equal(test_redis_do(test_store_server(), "ZCARD asynq:{default}:quern:due"), "0");
    rig_free(rig);
}

/* --- Damage --------------------------------------------------------------------------- */

static void damaged_queue_costs_the_others_no_time_and_is_reported_once(void **state)
{
    (void)state;
    static const quern_queue queues[] = {{.name = "bad", .weight = 1},
                                         {.name = "default", .weight = 1}};
    struct due_journal journal = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    quern_error err = {0};
    assert_ok(quern_mux_handle(rig->mux, "due", check_moment, &journal, NULL, &err), err);
    (void)test_redis_do(test_store_server(), "SET asynq:{bad}:scheduled x");
    rig_start(rig, &worker,
              &(quern_worker_options){.concurrency = 4, .queues = queues, .queue_count = 2});
    rig_wait_log(rig, "WRONGTYPE");
    int64_t now_ms = qn_clock_wall_ms(qn_clock_system());
    for (int i = 0; i < 40; i++) {
        put_due(rig, i, now_ms + 100 + i * 50, false);
    }
    assert_true(test_until(all_came, &journal));
    assert_int_equal(journal.early_count, 0);
    assert_true(journal.exact_count >= 30);
    assert_int_equal(count_in_log(rig, "broker does not answer"), 1);
    (void)test_redis_do(test_store_server(), "DEL asynq:{bad}:scheduled");
    rig_wait_log(rig, "broker answers again");
    /* It was asked once a second: others rely on it. */
    unsigned after_ms = 0;
    unsigned failures = 0;
    const char *line = strstr(rig->log, "broker answers again");
    assert_int_equal(
        sscanf(line, "broker answers again\" after_ms=%u failures=%u", &after_ms, &failures), 2);
    assert_true(failures <= after_ms / 1000 + 1);
    rig_stop(&worker);
    rig_free(rig);
}

static void worker_starts_beside_damage_that_hinders_its_record(void **state)
{
    (void)state;
    static const quern_queue queues[] = {{.name = "bad", .weight = 1},
                                         {.name = "default", .weight = 1}};
    static const char *const keys[] = {"asynq:{bad}:quern:workers", "asynq:servers"};
    for (size_t i = 0; i < TEST_COUNT(keys); i++) {
        struct rig *rig = rig_new(false);
        struct rig_worker worker;
        (void)test_redis_do(test_store_server(), "SET %s x", keys[i]);
        rig_start(rig, &worker, &(quern_worker_options){.queues = queues, .queue_count = 2});
        rig_put(rig, "a", "done");
        rig_wait_reports(rig, 1);
        rig_wait_log(rig, "WRONGTYPE");
        (void)test_redis_do(test_store_server(), "DEL %s", keys[i]);
        rig_stop(&worker);
        rig_free(rig);
    }
}

/* --- The server ----------------------------------------------------------------------- */

static void runs_outlive_a_restart_of_the_server(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    struct test_redis *server = test_store_server();
    rig_start(rig, &worker, NULL);
    rig_put_task(
        rig,
        &(quern_task){.id = "a", .payload = "hold", .payload_size = 4, .retention_ms = 3600000});
    rig_put(rig, "b", "hold-retry");
    rig_wait_starts(rig, 2);
    test_redis_kill(server);
    rig_wait_log(rig, "broker does not answer");
    rig_open_gate(rig); /* they end while the broker is away */
    rig_wait_empty(rig);
    test_redis_launch(server);
    test_redis_await(server);
    rig_wait_state(rig, "a", QUERN_TASK_COMPLETED);
    rig_wait_state(rig, "b", QUERN_TASK_RETRY);
    push("c", "done");
    rig_wait_starts(rig, 3);
    rig_wait_reports(rig, 3);
    rig_stop(&worker);
    assert_int_equal(rig->start_count, 3);
    assert_int_equal(rig->stale_count, 0);
    /* Once for all threads; a call that was in progress may find out after the others are back. */
    assert_true(count_in_log(rig, "broker does not answer") <= 2);
    rig_free(rig);
}

/* --- The heartbeat -------------------------------------------------------------------- */

static bool is_announced(void *user)
{
    (void)user;
    struct test_redis *server = test_store_server();
    char key[256];
    (void)snprintf(key, sizeof key, "%s", test_redis_do(server, "ZRANGE asynq:workers 0 0"));
    key[strcspn(key, "\n")] = '\0';
    const char *runs = test_redis_do(server, "HGETALL %s", key);
    return strstr(runs, "task in hand") != NULL && strstr(runs, "default") != NULL;
}

static void heartbeat_shows_go_what_runs(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    push("task in hand", "hold");
    rig_wait_starts(rig, 1);
    quern_worker_quiet(worker.worker); /* a change of status is announced at once */
    assert_true(test_until(is_announced, NULL));
    rig_open_gate(rig);
    rig_stop(&worker);
    assert_string_equal(test_redis_do(test_store_server(), "ZCARD asynq:workers"), "0");
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", tasks_of_go_clients_run_whatever_happens_to_the_connections),
    TEST_ONLY_OVER("redis", without_tracking_a_worker_polls),
    TEST_ONLY_OVER("redis", without_listening_connections_a_worker_polls_and_reports_it_once),
    TEST_ONLY_OVER("redis", many_spurious_notices_are_polled_only_now_and_then),
    TEST_ONLY_OVER("redis", cancellation_by_a_go_client_is_a_retry),
    TEST_ONLY_OVER("redis", lost_cancellation_comes_with_the_extension),
    TEST_ONLY_OVER("redis", delayed_tasks_are_exact_and_never_early),
    TEST_ONLY_OVER("redis", damaged_queue_costs_the_others_no_time_and_is_reported_once),
    TEST_ONLY_OVER("redis", worker_starts_beside_damage_that_hinders_its_record),
    TEST_ONLY_OVER("redis", runs_outlive_a_restart_of_the_server),
    TEST_ONLY_OVER("redis", heartbeat_shows_go_what_runs),
};
TEST_MAIN_OVER_BROKERS(tests)
