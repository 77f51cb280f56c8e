/* SPDX-License-Identifier: MIT */
/* test_planted.c - absurd numbers are planted in the data of tasks: in columns, in fields, scores,
 * counters and messages. Every operation reads them; with the sanitizer none may overflow, and all
 * results are within the limits. */
#include "lib_contract.h"

#include <sqlite3.h>
#include <string.h>

#include "lib_round.h"

#define TASK_COUNT 8
#define Q "asynq:{default}:"

/* One task in each state, and one more that is pending. */
static void set_up(struct contract *c)
{
    static const quern_task tasks[TASK_COUNT] = {
        {.id = "t0", .retry_max = 9, .retention_ms = 60000},
        {.id = "t1", .retention_ms = 3600000},
        {.id = "t2"},
        {.id = "t3"},
        {.id = "t4", .delay_ms = 60000},
        {.id = "t5", .group = "g"},
        {.id = "t6"},
        {.id = "t7", .timeout_ms = 1500, .unique_ms = 60000},
    };
    static const enum qn_outcome_kind ends[] = {QN_GIVE_BACK, QN_DONE, QN_RETRY, QN_ARCHIVE};
    struct qn_leased *active = NULL;
    for (size_t i = 0; i < TASK_COUNT; i++) {
        quern_task task = tasks[i];
        task.type = "t";
        task.queue = "default";
        contract_enqueue(c, &task);
        if (i > 0 && i < TEST_COUNT(ends)) {
            assert_int_equal(contract_finish(c, contract_take_id(c, "default", task.id), ends[i]),
                             QN_APPLIED);
        } else if (i == 0) {
            active = contract_take_id(c, "default", task.id);
        }
    }
    qn_leased_free(active);
}

/* In a transaction of the caller, where the broker has one. */
static void enqueue_and_roll_back(struct contract *c)
{
    const struct qn_task task = {
        .id = "t9", .queue = "default", .type = "t", .payload = "", .state = QUERN_TASK_PENDING};
    quern_status result = QUERN_OK;
    if (c->maker->begin != NULL) {
        void *tx = c->maker->begin(c);
        (void)!qn_broker_enqueue_in(
            c->broker, tx, &(struct qn_enqueue){.tasks = &task, .count = 1, .results = &result},
            NULL);
        c->maker->end(tx, false);
    }
}

static void go_round(struct contract *c, const char *what, const char *value)
{
    char copy_path[TEST_DIR_SIZE + 32];
    (void)snprintf(copy_path, sizeof copy_path, "%s/copy.db", c->store.dir);
    struct test_round round = {.broker = c->broker,
                               .watcher = contract_open(c),
                               .copy_path = copy_path,
                               .worker_id = "round"};
    enqueue_and_roll_back(c);
    test_round(&round);
    qn_broker_close(round.watcher);
    if (round.strange != NULL) {
        fail_msg("%s = %s: %s is %lld", what, value, round.strange, (long long)round.number);
    }
}

/* --- SQLite ----------------------------------------------------------------------------- */

static const char *const integers[] = {
    "9223372036854775807", "-9223372036854775808", "9223372036854775", "9007199254740993", "-1",
};

static const char *const columns[] = {
    "place",          "at_ms",           "token",          "lease_until",
    "worker",         "started_at_ms",   "cause",          "retry_count",
    "retry_max",      "crash_count",     "crashed_at_ms",  "timeout_ms",
    "deadline_at_ms", "retention_ms",    "enqueued_at_ms", "due_at_ms",
    "failed_at_ms",   "completed_at_ms", "retry_kind",     "retry_base_ms",
    "retry_cap_ms",   "progress",        "lone",           "life_ms",
    "died_at_ms",     "due_boot_ms",     "start_by_at_ms", "unique_terms",
    "level",
};

/* Of the other tables. */
static const char *const others[] = {
    "quern_meta SET counter",
    "quern_queue SET paused_at_ms",
    "quern_queue SET processed",
    "quern_queue SET failed",
    "quern_queue SET trimmed",
    "quern_queue SET solo_rest_ms",
    "quern_queue SET max_pending",
    "quern_queue SET solo_owner = 'round', solo_since_ms",
    "quern_host SET ok_at_ms",
    "quern_host SET streak",
    "quern_host SET streak = 10, probes",
    "quern_host SET streak = 10, probe_at_ms",
    "quern_queue SET lanes = 1, limits",
    "quern_queue SET limits = 63, lanes",
    "quern_limit SET count",
    "quern_limit SET period_ms",
    "quern_limit SET burst",
    "quern_limit_use SET period_ms",
    "quern_limit_use SET at_ms",
    "quern_limit_use SET debt",
    "quern_limit_use SET paid_at_ms",
    "quern_limit_use SET clear_at_ms",
    "quern_lock SET until_ms",
    "quern_day SET processed",
    "quern_day SET day",
    "quern_worker SET pid",
    "quern_worker SET concurrency",
    "quern_worker SET started_at_ms",
    "quern_worker SET heartbeat_at_ms",
    "quern_session SET sequence",
    "quern_session SET at_ms",
    "quern_entry SET last_s",
    "quern_entry SET runs = 9223372036854775807, created_at_ms",
    "quern_entry SET late_ms = -1, jitter_ms",
    "quern_tick SET tick_s = 9223372036854775807, at_ms",
    "quern_leader SET epoch",
    "quern_leader SET lease_until = -1, until_ms",
};

static void execute(sqlite3 *db, const char *sql)
{
    char *why = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK) {
        fail_msg("%s: %s", sql, why);
    }
}

static void empty(sqlite3 *db)
{
    execute(db, "DELETE FROM quern_task; DELETE FROM quern_queue; DELETE FROM quern_lock;"
                "DELETE FROM quern_day; DELETE FROM quern_worker; DELETE FROM quern_session;"
                "DELETE FROM quern_entry; DELETE FROM quern_tick; DELETE FROM quern_leader;"
                "DELETE FROM quern_limit; DELETE FROM quern_limit_use;"
                "UPDATE quern_meta SET counter = 1000");
}

/* An entry, a tick of it, and a leader of another boot. */
static void plant_schedule(sqlite3 *db)
{
    execute(db, "INSERT INTO quern_entry SELECT no, 'e', 1, 'cli', '* * * * *', '', 0, 2, 1, 0, 0,"
                " 1, 0, 1, 0, x'01010100000074' FROM quern_queue WHERE name = 'default';"
                "INSERT INTO quern_tick SELECT no, 'e', 1, 1, 1, 1, 0, 'id' FROM quern_queue"
                " WHERE name = 'default';"
                "INSERT INTO quern_leader VALUES (1, 1, 1, 'nowhere', 'host:2:id', 1, 1)");
}

static sqlite3 *open_beside(struct contract *c)
{
    sqlite3 *db = NULL;
    char path[TEST_DIR_SIZE + 32];
    (void)snprintf(path, sizeof path, "%s/tasks.db", c->store.dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    execute(db, "PRAGMA ignore_check_constraints = 1; PRAGMA synchronous = OFF");
    return db;
}

static void numbers_in_columns_overflow_nowhere(struct contract *c)
{
    sqlite3 *db = open_beside(c);
    char sql[256];
    for (size_t first = 0; first < TEST_COUNT(columns); first++) {
        empty(db);
        set_up(c);
        for (size_t task = 0; task < TASK_COUNT; task++) {
            size_t column = (first + 3 * task) % TEST_COUNT(columns);
            size_t value = (column + task) % TEST_COUNT(integers);
            (void)snprintf(sql, sizeof sql, "UPDATE quern_task SET %s = %s WHERE id = 't%zu'",
                           columns[column], integers[value], task);
            execute(db, sql);
        }
        go_round(c, columns[first], "and others");
    }
    (void)sqlite3_close(db);
}

static void task_that_a_check_would_refuse_holds_up_no_other(struct contract *c)
{
    static const char *const damage[] = {"retry_count = 7, retry_max = 3", "retry_max = -1",
                                         "cancel = 9"};
    sqlite3 *db = open_beside(c);
    char sql[256];
    for (size_t i = 0; i < TEST_COUNT(damage); i++) {
        empty(db);
        contract_put(c, "default", "bad");
        contract_put(c, "default", "good");
        (void)snprintf(sql, sizeof sql, "UPDATE quern_task SET %s WHERE id = 'bad'", damage[i]);
        execute(db, sql);
        contract_finish(c, contract_take_id(c, "default", "bad"), QN_DONE);
        contract_finish(c, contract_take_id(c, "default", "good"), QN_DONE);
    }
    (void)sqlite3_close(db);
}

/* A window and a bucket, both of them in use. */
static void plant_limits(sqlite3 *db)
{
    execute(db, "UPDATE quern_queue SET limits = 10, lanes = 2;"
                "UPDATE quern_task SET lane = char(31) || type;"
                "INSERT INTO quern_limit SELECT no, 1, '', 1, 100, 60000, 0 FROM quern_queue;"
                "INSERT INTO quern_limit SELECT no, 2, '*', 1, 100, 60000, 9 FROM quern_queue;"
                "INSERT INTO quern_limit_use SELECT no, 1, '', 60000, 1, 0, 0, x'01000000', 9"
                " FROM quern_queue;"
                "INSERT INTO quern_limit_use SELECT no, 2, 't', 60000, 1, 9, 0, NULL, 9"
                " FROM quern_queue");
}

static void numbers_in_other_tables_overflow_nowhere(struct contract *c)
{
    sqlite3 *db = open_beside(c);
    char sql[256];
    for (size_t i = 0; i < TEST_COUNT(others); i++) {
        for (size_t v = 0; v < 2; v++) {
            empty(db);
            set_up(c);
            contract_heartbeat(c->broker, CONTRACT_WORKER);
            plant_schedule(db);
            plant_limits(db);
            (void)snprintf(sql, sizeof sql, "UPDATE %s = %s", others[i], integers[v]);
            execute(db, sql);
            go_round(c, others[i], integers[v]);
        }
    }
    (void)sqlite3_close(db);
}

static void largest_counters_keep_no_run_from_ending(struct contract *c)
{
    static const char *const counters[] = {
        "quern_queue SET processed = 9223372036854775807",
        "quern_queue SET processed = 9223372036854775807, failed = 9223372036854775807",
        "quern_queue SET processed = 1, failed = 9223372036854775807",
        "quern_day SET processed = 9223372036854775807, failed = 9223372036854775807",
    };
    static const enum qn_outcome_kind ends[] = {QN_DONE, QN_RETRY};
    sqlite3 *db = open_beside(c);
    char sql[256];
    for (size_t i = 0; i < TEST_COUNT(counters); i++) {
        for (size_t end = 0; end < TEST_COUNT(ends); end++) {
            empty(db);
            assert_int_equal(contract_finish(c, contract_start(c, "a"), QN_DONE), QN_APPLIED);
            (void)snprintf(sql, sizeof sql, "UPDATE %s", counters[i]);
            execute(db, sql);
            assert_int_equal(contract_finish(c, contract_start(c, "b"), ends[end]), QN_APPLIED);
        }
    }
    (void)sqlite3_close(db);
}

static void expect(quern_status status, const quern_error *err, const char *doing, const char *sql)
{
    if (status != QUERN_OK) {
        fail_msg("%s after %s: %s", doing, sql, err->text);
    }
}

/* All upkeep of a worker, in a queue with such a number. */
static void keep_up(struct contract *c, const char *sql)
{
    const char *queue = "default";
    size_t count = 0;
    int64_t next_due_at_ms = 0;
    quern_error err = {0};
    contract_jump(c, 3600000); /* then delays are looked through */
    expect(qn_broker_forward(c->broker, (struct qn_upkeep){{&queue, 1}, 100}, &count,
                             &next_due_at_ms, &err),
           &err, "forward", sql);
    contract_jump(c, -3600000);
    expect(qn_broker_recover(c->broker, (struct qn_upkeep){{&queue, 1}, 100}, NULL, &count, &err),
           &err, "recover", sql);
    expect(qn_broker_prune(c->broker, (struct qn_upkeep){{&queue, 1}, 100}, &count, &err), &err,
           "prune", sql);
}

static void planted_number_keeps_no_queue_from_being_kept_up(struct contract *c)
{
    sqlite3 *db = open_beside(c);
    char sql[256];
    for (size_t i = 0; i < TEST_COUNT(columns); i++) {
        for (size_t v = 0; v < 3; v++) {
            empty(db);
            set_up(c);
            (void)snprintf(sql, sizeof sql, "UPDATE quern_task SET %s = %s", columns[i],
                           integers[v]);
            execute(db, sql);
            keep_up(c, sql);
        }
    }
    (void)sqlite3_close(db);
}

/* Its worker is dead, or keeps the lock. */
static void planted_solo_lock_keeps_nobody_from_returning_it(struct contract *c)
{
    sqlite3 *db = open_beside(c);
    char sql[256];
    for (size_t v = 0; v < 4; v++) {
        struct qn_queue_share share = {.name = "default", .weight = 1};
        struct qn_exchange exchange = {.queues = &share,
                                       .queue_count = 1,
                                       .isolation = {.slots = 4},
                                       .solo = v % 2 == 0 ? QN_SOLO_KEEP : QN_SOLO_END};
        struct qn_leased *runs[1];
        empty(db);
        set_up(c);
        (void)snprintf(sql, sizeof sql,
                       "UPDATE quern_queue SET solo_owner = '%s', solo_since_ms = %s, "
                       "solo_until_ms = %s",
                       CONTRACT_WORKER, integers[v / 2], integers[1 - v / 2]);
        execute(db, sql);
        assert_int_equal(contract_exchange(c, &exchange, NULL, runs), 0);
    }
    (void)sqlite3_close(db);
}

/* --- Redis ------------------------------------------------------------------------------ */

static const char *const numbers[] = {
    "9223372036854775807",
    "-9223372036854775808",
    "9007199254740993",
    "99999999999999999999999",
    "9e15",
    "1e308",
    "inf",
    "nan",
    "-1",
};

/* A '#' is replaced by the number. */
static const struct {
    const char *name;
    const char *text;
} fields[] = {
    {"pending_since", "#"},
    {"quern_opts", "# # # 2 # #"},
    {"quern_opts", "1800000000000 # 0 0 # 0 0"},
    {"quern_past", "# # # # # # # # # #"},
    {"quern_past", "4 1800000000000 # # 2 # 0 # # #"},
    {"quern_run", "1 # # # worker-1"},
    {"quern_run", "1 1800000000000 # 1800000030000 worker-1"},
    {"quern_progress", "# half"},
};

static const char *const zsets[] = {"lease",     "retry",     "archived", "completed",
                                    "scheduled", "quern:due", "g:g"};

static struct test_redis *server(void)
{
    return test_store_server();
}

static void fill_in(char out[400], const char *text, const char *number)
{
    size_t size = 0;
    for (; *text != '\0'; text++) {
        size += (size_t)snprintf(out + size, 400 - size, "%.*s", *text == '#' ? 60 : 1,
                                 *text == '#' ? number : text);
    }
}

static void numbers_in_fields_overflow_nowhere(struct contract *c)
{
    char text[400];
    for (size_t v = 0; v < TEST_COUNT(numbers); v++) {
        for (size_t first = 0; first < TEST_COUNT(fields); first++) {
            (void)test_redis_do(server(), "FLUSHDB");
            set_up(c);
            for (size_t task = 0; task < TASK_COUNT; task++) {
                size_t field = (first + task) % TEST_COUNT(fields);
                fill_in(text, fields[field].text, numbers[v]);
                (void)test_redis_do(server(), "HSET " Q "t:t%d %s %s", (int)task,
                                    fields[field].name, text);
            }
            go_round(c, fields[first].name, numbers[v]);
        }
    }
}

static void numbers_in_scores_overflow_nowhere(struct contract *c)
{
    static const char *const scores[] = {"9223372036854775807",
                                         "-9223372036854775808",
                                         "9223372036854775",
                                         "1e308",
                                         "-1e308",
                                         "inf",
                                         "-inf",
                                         "9007199254740993",
                                         "-1",
                                         "0.5"};
    for (size_t v = 0; v < TEST_COUNT(scores); v++) {
        (void)test_redis_do(server(), "FLUSHDB");
        set_up(c);
        for (size_t z = 0; z < TEST_COUNT(zsets); z++) {
            for (int task = 0; task < TASK_COUNT; task++) {
                (void)test_redis_do(server(), "ZADD " Q "%s XX %s t%d", zsets[z], scores[v], task);
            }
        }
        (void)test_redis_do(server(), "ZADD asynq:servers %s asynq:servers:{h:1:s}", scores[v]);
        go_round(c, "scores", scores[v]);
    }
}

static void numbers_in_counters_overflow_nowhere(struct contract *c)
{
    static const struct {
        const char *key;
        const char *field; /* NULL: the key is a text */
        const char *text;
    } places[] = {
        {"processed", NULL, "#"},
        {"failed", NULL, "#"},
        {"processed:2027-01-15", NULL, "#"},
        {"failed:2027-01-15", NULL, "#"},
        {"quern:meta", "fence", "#"},
        {"quern:meta", "h:" CONTRACT_HOST, "# # # # # # t3"},
        {"quern:meta", "solo", "# # # round"},
        {"quern:skip", NULL, "# # # t3"},
        {"quern:meta", "trimmed", "#"},
        {"quern:workers", "worker-1", "# active nowhere"},
        {"quern:workers", "worker-2", "#"},
    };
    char text[400];
    for (size_t v = 0; v < TEST_COUNT(numbers); v++) {
        (void)test_redis_do(server(), "FLUSHDB");
        set_up(c);
        for (size_t i = 0; i < TEST_COUNT(places); i++) {
            fill_in(text, places[i].text, numbers[v]);
            if (places[i].field == NULL) {
                (void)test_redis_do(server(), "SET " Q "%s %s", places[i].key, text);
            } else {
                (void)test_redis_do(server(), "HSET " Q "%s %s %s", places[i].key, places[i].field,
                                    text);
            }
        }
        go_round(c, "counters", numbers[v]);
        (void)test_redis_do(server(), "FLUSHDB");
        set_up(c);
        (void)test_redis_do(server(), "SET " Q "paused %s", numbers[v]);
        go_round(c, "paused", numbers[v]);
    }
}

/* Of a message in protobuf the last field counts; these are its numbers, as varints. */
static void numbers_in_messages_overflow_nowhere(struct contract *c)
{
    static const unsigned char tags[] = {5 << 3, 6 << 3, 8 << 3, 9 << 3, 11 << 3, 12 << 3, 13 << 3};
    static const char append[] = "return redis.call('HSET', KEYS[1], 'msg', redis.call('HGET', "
                                 "KEYS[1], 'msg') .. ARGV[1])";
    static const char *const varints[] = {
        "\xff\xff\xff\xff\xff\xff\xff\xff\x7f",     /* INT64_MAX */
        "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", /* INT64_MIN */
        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", /* -1 */
        "\xff\xff\xff\xff\x07",                     /* INT32_MAX */
    };
    for (size_t v = 0; v < TEST_COUNT(varints); v++) {
        for (size_t first = 0; first <= TEST_COUNT(tags); first++) {
            (void)test_redis_do(server(), "FLUSHDB");
            set_up(c);
            for (size_t task = 0; task < TASK_COUNT; task++) {
                char more[16];
                size_t tag = (first + task) % TEST_COUNT(tags);
                more[0] = (char)tags[tag];
                size_t size = strlen(varints[v]);
                memcpy(more + 1, varints[v], size);
                (void)test_redis_do(server(), "EVAL %s 1 " Q "t:t%d %b", append, (int)task, more,
                                    size + 1);
            }
            go_round(c, "message", "varint");
        }
    }
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("sqlite", numbers_in_columns_overflow_nowhere),
    CONTRACT_TEST_ONLY("sqlite", task_that_a_check_would_refuse_holds_up_no_other),
    CONTRACT_TEST_ONLY("sqlite", numbers_in_other_tables_overflow_nowhere),
    CONTRACT_TEST_ONLY("sqlite", largest_counters_keep_no_run_from_ending),
    CONTRACT_TEST_ONLY("sqlite", planted_number_keeps_no_queue_from_being_kept_up),
    CONTRACT_TEST_ONLY("sqlite", planted_solo_lock_keeps_nobody_from_returning_it),
    CONTRACT_TEST_ONLY("redis", numbers_in_fields_overflow_nowhere),
    CONTRACT_TEST_ONLY("redis", numbers_in_scores_overflow_nowhere),
    CONTRACT_TEST_ONLY("redis", numbers_in_counters_overflow_nowhere),
    CONTRACT_TEST_ONLY("redis", numbers_in_messages_overflow_nowhere),
};
CONTRACT_MAIN(tests)
