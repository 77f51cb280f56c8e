/* SPDX-License-Identifier: MIT */
/* test_upkeep.c - what prune and the heartbeat do with data of Go's and with damaged data,
 * what they leave key by key, and that all upkeep works without memory. */
#include "lib_doctor.h"

#include <stdlib.h>

#include "message/asynq/asynq.h"
#include "task/limits.h"

static const char *const queue = "default";

static size_t prune(void)
{
    size_t removed = 0;
    quern_error err = {0};
    assert_ok(qn_broker_prune(doctor.broker, (struct qn_upkeep){{&queue, 1}, 100}, &removed, &err),
              err);
    return removed;
}

/* --- Prune ------------------------------------------------------------------------------ */

static void entry_of_a_task_that_lives_elsewhere_is_all_that_goes(void **state)
{
    (void)state;
    doctor_put("a");
    doctor_plant("ZADD " Q "completed 1700000000 a");
    doctor_plant("ZADD " Q "archived 1700000000 a");
    assert_int_equal(prune(), 2);
    assert_int_equal(test_redis_count(&doctor.redis, "EXISTS " Q "quern:meta"), 0);
    doctor_assert_runs("a");
}

/* Its existence cannot be determined: then no task that may exist is removed. */
static void task_whose_place_is_damaged_is_kept(void **state)
{
    (void)state;
    static const char *const places[] = {"scheduled", "retry"};
    for (size_t i = 0; i < TEST_COUNT(places); i++) {
        test_redis_empty(&doctor.redis);
        doctor_put("a");
        doctor_plant("HSET " T "a state %s", places[i]);
        doctor_plant("SET " Q "%s x", places[i]);
        doctor_plant("ZADD " Q "archived 1700000000 a");
        assert_int_equal(prune(), 1);
        assert_int_equal(test_redis_count(&doctor.redis, "HEXISTS " T "a msg"), 1);
    }
}

static void trimmed_task_frees_its_own_lock_only(void **state)
{
    (void)state;
    doctor_put_unique("a", 0);
    assert_int_equal(doctor_finish(doctor.broker, doctor_lease(doctor.broker), QN_ARCHIVE),
                     QN_APPLIED);
    doctor_end("b", QN_ARCHIVE);
    doctor_plant("HSET " T "b unique_key " Q "unique:t:1");
    doctor_plant("ZADD " Q "archived 1700000000 b");
    assert_int_equal(prune(), 1);
    assert_string_equal(test_redis_do(&doctor.redis, "GET " Q "unique:t:1"), "a");
    doctor_plant("ZADD " Q "archived 1700000000 a");
    assert_int_equal(prune(), 1);
    assert_int_equal(test_redis_count(&doctor.redis, "EXISTS " Q "unique:t:1"), 0);
    assert_int_equal(test_redis_count(&doctor.redis, "HGET " Q "quern:meta trimmed"), 2);
}

static void records_of_workers_go_a_day_after_the_last_heartbeat(void **state)
{
    (void)state;
    doctor_plant("HSET " Q "quern:workers old 1799913599999 young 1799913600001");
    assert_int_equal(prune(), 0);
    assert_int_equal(test_redis_count(&doctor.redis, "HEXISTS " Q "quern:workers old"), 0);
    assert_int_equal(test_redis_count(&doctor.redis, "HEXISTS " Q "quern:workers young"), 1);
}

static void queue_of_a_wrong_type_does_not_stop_pruning_the_others(void **state)
{
    (void)state;
    const char *queues[] = {"bad", "default"};
    static const char *const keys[] = {"archived", "quern:due", "quern:meta", "quern:workers",
                                       "lease"};
    for (size_t i = 0; i < TEST_COUNT(keys); i++) {
        size_t removed = 0;
        quern_error err = {0};
        test_redis_empty(&doctor.redis);
        /* More than one step, and as much in the damaged queue. */
        doctor_plant("EVAL %s 2 asynq:{bad}:completed " Q "completed",
                     "for i = 1, 600 do redis.call('ZADD', KEYS[1], 1, 'n' .. i) "
                     "redis.call('ZADD', KEYS[2], 1, 'n' .. i) end");
        doctor_plant("SET asynq:{bad}:%s x", keys[i]);
        assert_int_equal(
            qn_broker_prune(doctor.broker, (struct qn_upkeep){{queues, 2}, 1000}, &removed, &err),
            QUERN_E_CORRUPT);
        assert_non_null(strstr(err.text, "WRONGTYPE"));
        assert_int_equal(removed, 600);
        assert_int_equal(test_redis_count(&doctor.redis, "ZCARD " Q "completed"), 0);
    }
}

static void garbage_in_one_task_does_not_stop_pruning(void **state)
{
    (void)state;
    static const char *const states[] = {"what", "quern:meta", "pending", "groups", ""};
    doctor_plant("HSET " Q "quern:meta trimmed nonsense");
    for (size_t i = 0; i < TEST_COUNT(states); i++) {
        doctor_plant("SADD " Q "groups g");
        doctor_plant("ZADD " Q "archived 1 a 2 b");
        doctor_plant("HSET " T "a state %s unique_key " Q "groups", states[i]);
        doctor_plant("HSET " T "b state archived");
        assert_int_equal(prune(), 2);
        assert_int_equal(test_redis_count(&doctor.redis, "ZCARD " Q "archived"), 0);
        assert_int_equal(test_redis_count(&doctor.redis, "EXISTS " T "b"), 0);
    }
    doctor_assert_mended("I5 default/: the number of trimmed tasks has the value nonsense");
}

static void limit_of_pruning_holds_for_all_queues_together(void **state)
{
    (void)state;
    const char *queues[] = {"default", "low"};
    size_t removed = 0;
    quern_error err = {0};
    doctor_plant("ZADD " Q "archived 1 a 1 b 1 c");
    doctor_plant("ZADD asynq:{low}:completed 1 a 1 b 1 c");
    assert_ok(qn_broker_prune(doctor.broker, (struct qn_upkeep){{queues, 2}, 5}, &removed, &err),
              err);
    assert_int_equal(removed, 5);
    assert_int_equal(test_redis_count(&doctor.redis, "ZCARD asynq:{low}:completed"), 1);
    assert_ok(qn_broker_prune(doctor.broker, (struct qn_upkeep){{queues, 2}, 5}, &removed, &err),
              err);
    assert_int_equal(removed, 1);
}

/* --- The heartbeat ------------------------------------------------------------------------ */

#define SHOWN_MAX 65536

static quern_status try_heartbeat(const char *status, quern_error *err)
{
    static const char payload[SHOWN_MAX + 1] = "p";
    const struct qn_queue_share shares[] = {{.name = "default", .weight = 3},
                                            {.name = "low", .weight = 1}};
    const struct qn_heartbeat_run runs[] = {{.task_id = "a",
                                             .task_type = "image",
                                             .payload = payload,
                                             .payload_size = SHOWN_MAX,
                                             .queue = "default",
                                             .started_at_ms = DOCTOR_NOW_MS,
                                             .deadline_at_ms = DOCTOR_NOW_MS + 5000},
                                            {.task_id = "long",
                                             .task_type = "image",
                                             .payload = payload,
                                             .payload_size = SHOWN_MAX + 1,
                                             .queue = "default",
                                             .started_at_ms = DOCTOR_NOW_MS},
                                            {.task_id = "b",
                                             .task_type = "no \xff text",
                                             .queue = "default",
                                             .started_at_ms = DOCTOR_NOW_MS}};
    const struct qn_heartbeat heartbeat = {.worker_id = "id",
                                           .owner = "elsewhere:1:2:3",
                                           .host = "host",
                                           .status = status,
                                           .queues = "default=3 low=1",
                                           .pid = 7,
                                           .started_at_ms = DOCTOR_NOW_MS - 1,
                                           .concurrency = 9,
                                           .queue_shares = shares,
                                           .queue_count = 2,
                                           .runs = runs,
                                           .run_count = TEST_COUNT(runs)};
    return qn_broker_heartbeat(doctor.broker, &heartbeat, err);
}

static void send_heartbeat(const char *status)
{
    quern_error err = {0};
    assert_ok(try_heartbeat(status, &err), err);
}

static struct qn_asynq_server read_server(struct qn_arena *arena)
{
    struct qn_asynq_server server;
    quern_error err = {0};
    long long size = test_redis_count(&doctor.redis, "STRLEN asynq:servers:{host:7:id}");
    const char *bytes = test_redis_do(&doctor.redis, "GET asynq:servers:{host:7:id}");
    assert_ok(qn_asynq_server_decode(arena, bytes, (size_t)size, &server, &err), err);
    return server;
}

static struct qn_asynq_run read_run(struct qn_arena *arena, const char *id)
{
    struct qn_asynq_run run;
    quern_error err = {0};
    long long size = test_redis_count(&doctor.redis, "HSTRLEN asynq:workers:{host:7:id} %s", id);
    const char *bytes = test_redis_do(&doctor.redis, "HGET asynq:workers:{host:7:id} %s", id);
    assert_ok(qn_asynq_run_decode(arena, bytes, (size_t)size, &run, &err), err);
    return run;
}

static void heartbeat_is_what_go_reads(void **state)
{
    (void)state;
    struct qn_arena arena = {0};
    send_heartbeat("draining");
    struct qn_asynq_server server = read_server(&arena);
    assert_string_equal(server.host, "host");
    assert_string_equal(server.id, "id");
    assert_string_equal(server.status, "stopped");
    assert_int_equal(server.queue_count, 2);
    assert_int_equal(server.queues[0].weight, 3);
    assert_int_equal(server.run_count, 3);
    send_heartbeat("braked");
    assert_string_equal(read_server(&arena).status, "active");
    assert_int_equal(test_redis_count(&doctor.redis, "TTL asynq:servers:{host:7:id}"), 10);
    assert_int_equal(test_redis_count(&doctor.redis, "TTL asynq:workers:{host:7:id}"), 10);
    assert_int_equal(
        test_redis_count(&doctor.redis, "ZSCORE asynq:servers asynq:servers:{host:7:id}"),
        1800000010);
    assert_int_equal(
        test_redis_count(&doctor.redis, "ZSCORE asynq:workers asynq:workers:{host:7:id}"),
        1800000010);
    assert_int_equal(test_redis_count(&doctor.redis, "SISMEMBER asynq:queues low"), 1);
    /* Payloads that Go could not read are left out. */
    assert_int_equal(test_redis_count(&doctor.redis, "HLEN asynq:workers:{host:7:id}"), 2);
    struct qn_asynq_run run = read_run(&arena, "a");
    assert_int_equal(run.payload_size, SHOWN_MAX);
    assert_string_equal(run.server_id, "id");
    assert_int_equal(qn_asynq_time_ms(run.deadline_at), DOCTOR_NOW_MS + 5000);
    assert_int_equal(read_run(&arena, "long").payload_size, 0);
    qn_arena_finish(&arena);
}

static void key_of_a_wrong_type_does_not_stop_the_rest_of_a_heartbeat(void **state)
{
    (void)state;
    static const char *const keys[] = {(Q "quern:workers"), "asynq:queues", "asynq:quern:workers",
                                       "asynq:servers", "asynq:workers"};
    for (size_t i = 0; i < TEST_COUNT(keys); i++) {
        quern_error err = {0};
        test_redis_empty(&doctor.redis);
        doctor_plant("SET %s x", keys[i]);
        assert_int_equal(try_heartbeat("active", &err), QUERN_E_CORRUPT);
        assert_non_null(strstr(err.text, "heartbeat: a key is not of the type"));
        /* All eight keys are there, the damaged one as it was. */
        assert_int_equal(test_redis_count(&doctor.redis,
                                          "EXISTS asynq:{low}:quern:workers asynq:quern:workers "
                                          "asynq:queues asynq:servers asynq:workers " Q
                                          "quern:workers asynq:servers:{host:7:id} "
                                          "asynq:workers:{host:7:id}"),
                         8);
        assert_string_equal(test_redis_do(&doctor.redis, "GET %s", keys[i]), "x");
    }
}

static void withdrawal_leaves_nothing(void **state)
{
    (void)state;
    quern_error err = {0};
    send_heartbeat("active");
    assert_ok(qn_broker_deregister(doctor.broker, "id", &err), err);
    assert_ok(qn_broker_deregister(doctor.broker, "w", &err), err);
    assert_string_equal(test_redis_do(&doctor.redis, "KEYS *"), "asynq:queues\n");
    assert_ok(qn_broker_deregister(doctor.broker, "absent", &err), err);
}

/* --- Workers ------------------------------------------------------------------------------ */

struct seen {
    size_t count;
    char text[1000];
};

static bool see(const quern_worker_info *worker, void *user)
{
    struct seen *seen = user;
    size_t used = strlen(seen->text);
    seen->count++;
    (void)snprintf(seen->text + used, sizeof seen->text - used, "%s %s %s %lld %lld %zu%s%s\n",
                   worker->id, quern_worker_status_name(worker->status), worker->queues,
                   (long long)worker->pid, (long long)worker->heartbeat_at_ms, worker->run_count,
                   worker->run_count > 0 ? " " : "",
                   worker->run_count > 0 ? worker->runs[0].id : "");
    return true;
}

static struct seen list_workers(void)
{
    struct seen seen = {0};
    quern_error err = {0};
    assert_ok(qn_broker_workers(doctor.broker, see, &seen, &err), err);
    return seen;
}

static void announce_go_server(void)
{
    struct qn_arena arena = {0};
    quern_error err = {0};
    struct qn_bytes bytes;
    const struct qn_asynq_queue queues[] = {{"low", 1}, {"default", 3}};
    const struct qn_asynq_server server = {.host = "go",
                                           .pid = 8,
                                           .id = "sid",
                                           .queues = queues,
                                           .queue_count = 2,
                                           .status = "stopped"};
    const struct qn_asynq_run run = {
        .host = "go", .server_id = "sid", .task_id = "g", .queue = "low"};
    assert_ok(qn_asynq_server_encode(&arena, &server, &bytes, &err), err);
    doctor_plant("SET asynq:servers:{go:8:sid} %b", bytes.data, bytes.size);
    doctor_plant("ZADD asynq:servers 1800000004 asynq:servers:{go:8:sid}");
    assert_ok(qn_asynq_run_encode(&arena, &run, &bytes, &err), err);
    doctor_plant("HSET asynq:workers:{go:8:sid} g %b junk %b", bytes.data, bytes.size, "\x0a\xff",
                 (size_t)2);
    qn_arena_finish(&arena);
}

static void workers_of_go_and_ours_are_listed_and_garbage_is_not(void **state)
{
    (void)state;
    announce_go_server();
    send_heartbeat("braked");
    doctor_start("mine");
    doctor_plant("ZADD asynq:servers 1800000009 junk 1800000009 asynq:servers:{none}");
    doctor_plant("SET asynq:servers:{bad} %b", "\x0a\xff", (size_t)2);
    doctor_plant("ZADD asynq:servers 1800000009 asynq:servers:{bad}");
    doctor_plant("HSET asynq:quern:workers broken 17");
    struct seen seen = list_workers();
    assert_int_equal(seen.count, 3);
    assert_non_null(strstr(seen.text, "sid quiet default=3 low=1 8 1799999994000 1 g\n"));
    assert_non_null(strstr(seen.text, "id braked default=3 low=1 7 1800000000000 0\n"));
    assert_non_null(strstr(seen.text, "w active default=1 0 1800000000000 1 mine\n"));
    doctor_turn_to(5000);
    assert_int_equal(list_workers().count, 2); /* Go's has expired */
}

/* --- Without memory ------------------------------------------------------------------------- */

static void upkeep_goes_on_without_memory(void **state)
{
    (void)state;
    size_t moved = 0;
    int64_t next_due_at_ms = 0;
    quern_error err = {0};
    doctor_end("old", QN_ARCHIVE);
    doctor_put_later("a", 1500);
    doctor_put_later("b", 1500);
    doctor_plant("HSET " T "b group g");
    doctor_plant("CONFIG SET maxmemory 1");
    doctor_turn_to(QN_ARCHIVE_AGE_MS);
    send_heartbeat("active");
    assert_ok(qn_broker_forward(doctor.broker, (struct qn_upkeep){{&queue, 1}, 100}, &moved,
                                &next_due_at_ms, &err),
              err);
    assert_int_equal(moved, 2);
    assert_int_equal(prune(), 1);
    assert_ok(qn_broker_deregister(doctor.broker, "id", &err), err);
    doctor_assert_runs("a");
    doctor_plant("CONFIG SET maxmemory 0");
}

static const struct CMUnitTest tests[] = {
    DOCTOR_TEST(entry_of_a_task_that_lives_elsewhere_is_all_that_goes),
    DOCTOR_TEST(task_whose_place_is_damaged_is_kept),
    DOCTOR_TEST(trimmed_task_frees_its_own_lock_only),
    DOCTOR_TEST(records_of_workers_go_a_day_after_the_last_heartbeat),
    DOCTOR_TEST(queue_of_a_wrong_type_does_not_stop_pruning_the_others),
    DOCTOR_TEST(garbage_in_one_task_does_not_stop_pruning),
    DOCTOR_TEST(limit_of_pruning_holds_for_all_queues_together),
    DOCTOR_TEST(heartbeat_is_what_go_reads),
    DOCTOR_TEST(key_of_a_wrong_type_does_not_stop_the_rest_of_a_heartbeat),
    DOCTOR_TEST(withdrawal_leaves_nothing),
    DOCTOR_TEST(workers_of_go_and_ours_are_listed_and_garbage_is_not),
    DOCTOR_TEST(upkeep_goes_on_without_memory),
};

int main(int argc, char **argv)
{
    const struct test_group group = {
        .name = "redis_upkeep", .tests = tests, .test_count = TEST_COUNT(tests)};
    return doctor_main(argc, argv, &group);
}
