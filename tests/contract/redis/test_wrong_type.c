/* SPDX-License-Identifier: MIT */
/* test_wrong_type.c - a key of the schema has another type than its own, whichever key and type:
 * that costs its queue, and each operation goes on in the other queues of the same request. */
#include "lib_contract.h"

#include <string.h>

#define Q "asynq:{default}:"
#define SILENCE_MS 3500

static const char *const queues[] = {"default", "other"};

/* Of the damaged queue. */
static const char *const keys[] = {
    Q "pending",
    Q "active",
    Q "lease",
    Q "scheduled",
    Q "retry",
    Q "archived",
    Q "completed",
    Q "groups",
    Q "g:g",
    Q "aggregation_sets",
    Q "paused",
    Q "processed",
    Q "failed",
    Q "processed:2027-01-15",
    Q "failed:2027-01-15",
    Q "t:t1",
    Q "quern:due",
    Q "quern:meta",
    Q "quern:charged:1",
    Q "quern:charged:4",
    Q "quern:skip",
    Q "quern:braked",
    Q "quern:limit:set",
    Q "quern:limit:use:1",
    Q "quern:workers",
    Q "quern:corrupt",
    Q "quern:s:000000000000004d:e",
    Q "quern:s:000000000000004d:l",
    Q "quern:s:000000000000004d:o",
    Q "unique:t:d41d8cd98f00b204e9800998ecf8427e",
};

/* Of all queues. */
static const char *const registries[] = {
    "asynq:queues",
    "asynq:servers",
    "asynq:workers",
    "asynq:quern:workers",
    "asynq:servers:{host-a:1:worker-1}",
    "asynq:workers:{host-a:1:worker-1}",
};

static const char *const types[] = {"string", "list", "set", "zset", "hash", "stream"};

static struct test_redis *server(void)
{
    return test_store_server();
}

static void plant(const char *key, size_t type)
{
    (void)test_redis_do(server(), "DEL %s", key);
    switch (type) {
    case 0:
        (void)test_redis_do(server(), "SET %s x", key);
        break;
    case 1:
        (void)test_redis_do(server(), "LPUSH %s x", key);
        break;
    case 2:
        (void)test_redis_do(server(), "SADD %s x", key);
        break;
    case 3:
        (void)test_redis_do(server(), "ZADD %s 1 x", key);
        break;
    case 4:
        (void)test_redis_do(server(), "HSET %s x y", key);
        break;
    default:
        (void)test_redis_do(server(), "XADD %s * x y", key);
    }
}

/* What went wrong, and where. */
static const char *planted;
static size_t complaints;
static bool is_registry; /* what needs the names of all queues may fail */

static void check(bool holds, const char *what, const char *why)
{
    if (!holds) {
        (void)fprintf(stderr, "%s: %s: %s\n", planted, what, why);
        complaints++;
    }
}

static void check_ok(quern_status status, const char *what, const quern_error *err)
{
    check(status == QUERN_OK, what, err->text);
}

/* Without the registry it may fail with the reason. */
static void check_look(quern_status status, const char *what, const quern_error *err)
{
    bool is_told = is_registry && status == QUERN_E_CORRUPT && strstr(err->text, "WRONGTYPE");
    check(status == QUERN_OK || is_told, what, err->text);
}

/* The damaged one may be reported. */
static void check_upkeep(quern_status status, const char *what, const quern_error *err)
{
    check(status == QUERN_OK || status == QUERN_E_CORRUPT, what, err->text);
}

/* --- Operations -------------------------------------------------------------------------- */

static void put(struct contract *c, const char *queue, const char *id, bool is_mine)
{
    quern_error err = {0};
    quern_status result = QUERN_OK;
    const struct qn_task task = {.id = id,
                                 .queue = queue,
                                 .type = "t",
                                 .payload = "",
                                 .retry_max = 3,
                                 .state = QUERN_TASK_PENDING};
    quern_status status = qn_broker_enqueue(
        c->broker, &(struct qn_enqueue){{c->session, ++c->sequence}, &task, 1, &result}, &err);
    if (is_mine && strstr(err.text, "stored, but not listed") == NULL) {
        check_ok(status == QUERN_OK ? result : status, "enqueue", &err);
    }
}

/* Leases of both queues, the damaged one first; returns the run of this id of the other one. */
static struct qn_leased *take(struct contract *c, const char *id)
{
    struct qn_leased *found = NULL;
    for (int i = 0; i < 3 && found == NULL; i++) {
        struct qn_queue_share shares[] = {{.name = "default", .weight = 1, .quota = 8},
                                          {.name = "other", .weight = 1, .quota = 8}};
        struct qn_exchange exchange = {.stamp = {c->session, ++c->sequence},
                                       .worker_id = CONTRACT_WORKER,
                                       .host = CONTRACT_HOST,
                                       .lease_ms = CONTRACT_LEASE_MS,
                                       .queues = shares,
                                       .queue_count = 2,
                                       .room = 16,
                                       .isolation = {.slots = 16},
                                       .start_count_now = 16};
        struct qn_leased *runs[16];
        struct qn_exchange_reply reply = {.runs = runs};
        quern_error err = {0};
        check_ok(qn_broker_exchange(c->broker, &exchange, &reply, &err), "lease", &err);
        for (size_t k = 0; k < reply.run_count; k++) {
            if (runs[k]->queue_index == 1 && strcmp(runs[k]->task.id, id) == 0) {
                found = runs[k];
            } else {
                qn_leased_free(runs[k]);
            }
        }
    }
    check(found != NULL, "lease of the other queue", id);
    return found;
}

/* Beside a run of the damaged queue. */
static void end(struct contract *c, struct qn_leased *damaged, struct qn_leased *sound,
                enum qn_outcome_kind kind)
{
    struct qn_leased *runs[] = {damaged, sound};
    struct qn_extension extensions[] = {{.run = damaged}, {.run = sound}};
    struct qn_outcome outcomes[2];
    enum qn_applied applied[2] = {QN_STALE, QN_STALE};
    quern_error err = {0};
    if (sound == NULL) {
        return;
    }
    check_ok(qn_broker_extend(c->broker, extensions, 2, CONTRACT_LEASE_MS, &err), "extend", &err);
    check(extensions[1].held, "extend", "the other lease is lost");
    check_ok(qn_broker_write_result(c->broker, sound, (struct qn_bytes){"42", 2}, &err), "result",
             &err);
    check_ok(qn_broker_write_progress(c->broker, sound, 50, "half", &err), "progress", &err);
    for (size_t i = 0; i < 2; i++) {
        outcomes[i] = (struct qn_outcome){
            .run = runs[i], .kind = kind, .started = true, .delay_ms = 1500, .error = "broken"};
    }
    struct qn_exchange exchange = {.stamp = {c->session, ++c->sequence},
                                   .worker_id = CONTRACT_WORKER,
                                   .host = CONTRACT_HOST,
                                   .lease_ms = CONTRACT_LEASE_MS,
                                   .outcomes = outcomes,
                                   .outcome_count = 2};
    struct qn_exchange_reply reply = {.applied = applied};
    check_ok(qn_broker_exchange(c->broker, &exchange, &reply, &err), "outcomes", &err);
    check(applied[1] != QN_STALE, "outcomes", "that of the other queue is not applied");
}

static void keep_up(struct contract *c)
{
    const struct qn_upkeep upkeep = {{queues, 2}, 100};
    size_t count = 0;
    int64_t next_due_at_ms = 0;
    quern_error err = {0};
    check_upkeep(qn_broker_forward(c->broker, upkeep, &count, &next_due_at_ms, &err), "forward",
                 &err);
    check_upkeep(qn_broker_recover(c->broker, upkeep, NULL, &count, &err), "recover", &err);
    check_upkeep(qn_broker_prune(c->broker, upkeep, &count, &err), "prune", &err);
}

static void wait_for_work(struct contract *c)
{
    bool work = false;
    bool drained = true;
    int64_t next_due_at_ms = 0;
    struct qn_wakeup wakeup = {0};
    quern_error err = {0};
    check_ok(qn_broker_arm(c->broker, (struct qn_names){queues, 2}, &work, &next_due_at_ms, &err),
             "arm", &err);
    put(c, "other", "w", true);
    check_ok(qn_broker_arm(c->broker, (struct qn_names){queues, 2}, &work, &next_due_at_ms, &err),
             "arm", &err);
    check(work, "arm", "there is work");
    check_ok(qn_broker_wait(c->broker, 0, &wakeup, &err), "wait", &err);
    check_ok(
        qn_broker_drained(c->broker, (struct qn_names){queues, 2}, QN_UNTIL_EMPTY, &drained, &err),
        "drained", &err);
    check(!drained, "drained", "the other queue is not");
}

/* Writes all parts that can be written. */
static void send_heartbeat(struct contract *c)
{
    const struct qn_queue_share shares[] = {{.name = "default", .weight = 1},
                                            {.name = "other", .weight = 1}};
    const struct qn_heartbeat heartbeat = {.worker_id = "worker-2",
                                           .owner = "nowhere",
                                           .host = CONTRACT_HOST,
                                           .status = "active",
                                           .queues = "default=1 other=1",
                                           .queue_shares = shares,
                                           .queue_count = 2};
    quern_error err = {0};
    check_upkeep(qn_broker_heartbeat(c->broker, &heartbeat, &err), "heartbeat", &err);
    check(test_redis_count(server(), "HEXISTS asynq:{other}:quern:workers worker-2") == 1,
          "heartbeat", "the worker is not in the other queue");
}

/* --- Looking ----------------------------------------------------------------------------- */

static bool find_other(const quern_queue_info *queue, void *user)
{
    *(bool *)user = *(bool *)user || strcmp(queue->name, "other") == 0;
    return true;
}

static bool count_task(const quern_task_info *info, void *user)
{
    (void)info;
    ++*(size_t *)user;
    return true;
}

static bool count_worker(const quern_worker_info *info, void *user)
{
    (void)info;
    ++*(size_t *)user;
    return true;
}

static bool count_id(const char *queue, const char *id, void *user)
{
    (void)queue, (void)id;
    ++*(size_t *)user;
    return true;
}

static void pass_fact(const char *name, const char *text, void *user)
{
    (void)name, (void)text, (void)user;
}

static void pass_finding(const quern_finding *finding, void *user)
{
    (void)finding;
    ++*(size_t *)user;
}

static void look(struct contract *c)
{
    bool found = false;
    size_t count = 0;
    quern_day days[2];
    char holder[QN_NAME_SIZE_MAX + 1];
    quern_error err = {0};
    quern_status status = qn_broker_queues(c->broker, NULL, find_other, &found, &err);
    check_look(status, "queues", &err);
    check(found || is_registry, "queues", "the other is not listed");
    const quern_task_filter filter = {.queue = "other", .state = QUERN_TASK_PENDING};
    check_look(qn_broker_tasks(c->broker, &filter, count_task, &count, &err), "tasks", &err);
    check(count > 0, "tasks", "none in the other queue");
    const quern_task_filter id = {.id = "w"};
    count = 0;
    status = qn_broker_tasks(c->broker, &id, count_task, &count, &err);
    check_look(status, "task by id", &err);
    check(count > 0 || is_registry, "task by id", "not found in the other queue");
    count = 0;
    check_look(qn_broker_workers(c->broker, count_worker, &count, &err), "workers", &err);
    check_look(qn_broker_history(c->broker, "other", 2, days, &err), "history", &err);
    check_look(qn_broker_find_queue(c->broker, "other", &err), "find_queue", &err);
    check_look(qn_broker_match_id(c->broker, "01234567", count_id, &count, &err), "match_id", &err);
    check_look(qn_broker_server_info(c->broker, pass_fact, NULL, &err), "server_info", &err);
    status = qn_broker_lock_holder(
        c->broker, "asynq:{other}:unique:t:d41d8cd98f00b204e9800998ecf8427e", holder, &err);
    check(status == QUERN_E_NOT_FOUND, "lock_holder", err.text);
}

static void steer(struct contract *c)
{
    quern_error err = {0};
    size_t count = 0;
    check_look(qn_broker_pause(c->broker, "other", true, &err), "pause", &err);
    check_look(qn_broker_pause(c->broker, "other", false, &err), "resume", &err);
    check_look(qn_broker_operate(c->broker, QUERN_ACTION_ARCHIVE, "other", "w", &err), "operate",
               &err);
    check_look(qn_broker_operate(c->broker, QUERN_ACTION_RUN, NULL, "w", &err), "operate anywhere",
               &err);
    const quern_task_filter filter = {.queue = "other", .state = QUERN_TASK_PENDING};
    check_look(qn_broker_operate_all(
                   c->broker, &(struct qn_bulk){QUERN_ACTION_ARCHIVE, &filter, 100}, &count, &err),
               "operate all", &err);
    count = 0;
    check_ok(qn_broker_doctor(c->broker, true, pass_finding, &count, &err), "doctor", &err);
}

static void watch(struct contract *c)
{
    struct qn_broker *watcher = contract_open(c);
    struct qn_notices notices;
    quern_error err = {0};
    check_ok(qn_broker_watch(watcher, "other", "w", &err), "watch", &err);
    check_ok(qn_broker_await(watcher, 0, &notices, &err), "await", &err);
    qn_broker_close(watcher);
}

/* --- The tests --------------------------------------------------------------------------- */

/* Tasks in each state in both queues; then a key is replaced. Both runs are then ended. */
static void try_plant(struct contract *c, const char *key, size_t type)
{
    char text[160];
    (void)snprintf(text, sizeof text, "%s is a %s", key, types[type]);
    planted = text;
    test_redis_empty(server());
    contract_heartbeat(c->broker, CONTRACT_WORKER);
    (void)test_redis_do(server(), "HSET " Q "quern:meta limits 1");
    (void)test_redis_do(server(), "HSET " Q "quern:limit:set 1r 1000 1s %s", "1000 1000 0");
    struct qn_leased *runs[4];
    for (size_t i = 0; i < 4; i++) {
        contract_put(c, queues[i % 2], i < 2 ? "a" : "b");
        runs[i] = contract_take_id(c, queues[i % 2], i < 2 ? "a" : "b");
    }
    for (size_t i = 0; i < 2; i++) {
        contract_put(c, queues[i], "t1");
        contract_enqueue(
            c, &(quern_task){.type = "t", .queue = queues[i], .id = "s", .delay_ms = 1500});
        contract_enqueue(c,
                         &(quern_task){.type = "t", .queue = queues[i], .id = "g", .group = "g"});
    }
    plant(key, type);
    put(c, "default", "d", false);
    end(c, runs[0], runs[1], QN_DONE);
    end(c, runs[2], runs[3], QN_RETRY);
    struct qn_leased *t1 = take(c, "t1");
    contract_advance(c, 2000);
    keep_up(c);
    struct qn_leased *s = take(c, "s");
    qn_leased_free(s);
    contract_advance(c, 3 * CONTRACT_LEASE_MS);
    keep_up(c);
    if (contract_state(c, "other", "t1") != QUERN_TASK_PENDING) {
        test_pause_ms(SILENCE_MS); /* on a busy machine the server seems to have been silent */
        keep_up(c);
    }
    check(contract_state(c, "other", "t1") == QUERN_TASK_PENDING, "recover", "t1 is not back");
    wait_for_work(c);
    look(c);
    watch(c);
    steer(c);
    send_heartbeat(c);
    qn_leased_free(t1);
    for (size_t i = 0; i < 4; i++) {
        qn_leased_free(runs[i]);
    }
}

static void key_of_another_type_costs_its_queue_only(struct contract *c)
{
    complaints = 0;
    is_registry = false;
    for (size_t k = 0; k < TEST_COUNT(keys); k++) {
        for (size_t t = k % 3; t < TEST_COUNT(types); t += 3) { /* all take long enough */
            try_plant(c, keys[k], t);
        }
    }
    assert_int_equal(complaints, 0);
}

static void registry_of_another_type_stops_no_queue(struct contract *c)
{
    complaints = 0;
    is_registry = true;
    for (size_t k = 0; k < TEST_COUNT(registries); k++) {
        for (size_t t = 0; t < TEST_COUNT(types); t++) {
            try_plant(c, registries[k], t);
        }
    }
    assert_int_equal(complaints, 0);
}

/* Names of keys that the user of a worker may not even read, and of one of another type. */
static void foreign_names_among_the_sets_of_groups_are_left_alone(struct contract *c)
{
    bool found = false;
    size_t count = 0;
    quern_error err = {0};
    planted = "aggregation_sets";
    complaints = 0;
    contract_put(c, "other", "a");
    contract_put(c, "default", "lost");
    (void)test_redis_do(server(), "DEL " Q "pending");
    (void)test_redis_do(server(), "SET " Q "g:g:1 x");
    (void)test_redis_do(server(), "SET secret x");
    (void)test_redis_do(server(),
                        "ZADD " Q "aggregation_sets 1 secret 1 " Q " 1 " Q "g:g:1 1 " Q "g:");
    check_ok(qn_broker_queues(c->broker, NULL, find_other, &found, &err), "queues", &err);
    check(found, "queues", "the other is not listed");
    check_ok(qn_broker_doctor(c->broker, true, pass_finding, &count, &err), "doctor", &err);
    check(contract_state(c, "default", "lost") == QUERN_TASK_PENDING, "doctor", "lost is lost");
    check_ok(qn_broker_remove_queue(c->broker, "default", true, &err), "remove_queue", &err);
    check(test_redis_count(server(), "EXISTS secret") == 1, "remove_queue", "a foreign key went");
    assert_int_equal(complaints, 0);
}

static void count_unusable(const struct qn_unusable *unusable, void *user)
{
    (void)unusable;
    ++*(size_t *)user;
}

/* One of each queue is late, and one unreadable; only the other queue has an archive. */
static void task_that_could_not_be_put_away_is_not_counted(struct contract *c)
{
    size_t unusable_count = 0;
    struct qn_queue_share shares[] = {{.name = "default", .weight = 1, .quota = 4},
                                      {.name = "other", .weight = 1, .quota = 4}};
    struct qn_leased *runs[8];
    struct qn_exchange exchange = {.queues = shares,
                                   .queue_count = 2,
                                   .room = 8,
                                   .start_count_now = 8,
                                   .on_unusable = count_unusable,
                                   .user = &unusable_count};
    for (size_t i = 0; i < 2; i++) {
        contract_enqueue(c, &(quern_task){.type = "t",
                                          .queue = queues[i],
                                          .id = "late",
                                          .deadline_at_ms = CONTRACT_NOW_MS + 1000});
        (void)test_redis_do(server(), "HSET asynq:{%s}:t:bad msg x state pending", queues[i]);
        (void)test_redis_do(server(), "LPUSH asynq:{%s}:pending bad", queues[i]);
    }
    plant(Q "archived", 0);
    contract_advance(c, 2000);
    assert_int_equal(contract_exchange(c, &exchange, NULL, runs), 0);
    assert_int_equal(test_redis_count(server(), "ZCARD asynq:{other}:archived"), 2);
    assert_int_equal(contract_state(c, "default", "late"), QUERN_TASK_ACTIVE);
    assert_int_equal(c->late_count, 1);
    assert_int_equal(unusable_count, 1);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("redis", foreign_names_among_the_sets_of_groups_are_left_alone),
    CONTRACT_TEST_ONLY("redis", key_of_another_type_costs_its_queue_only),
    CONTRACT_TEST_ONLY("redis", registry_of_another_type_stops_no_queue),
    CONTRACT_TEST_ONLY("redis", task_that_could_not_be_put_away_is_not_counted),
};
CONTRACT_MAIN(tests)
