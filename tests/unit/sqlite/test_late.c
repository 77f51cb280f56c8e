/* SPDX-License-Identifier: MIT */
/* test_late.c - the indexes of lanes and groups are made when the file first needs them, by the
 * connection that needs them, and are used by those that had opened the file before. */
#include "lib_sqlite.h"

#include <stdlib.h>
#include <string.h>

#include "broker/group.h"
#include "broker/limit/limit.h"

#define LANE "'quern_task_lane'"
#define GROUPS "'quern_task_group', 'quern_task_set'"

struct place {
    struct lib_sqlite dir;
    struct qn_broker *broker;
};

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    lib_sqlite_make(&place->dir);
    place->broker = lib_sqlite_open(place->dir.path);
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    qn_broker_close(place->broker);
    lib_sqlite_remove(&place->dir);
    free(place);
    return 0;
}

static int64_t count_indexes(const struct place *place, const char *names)
{
    char sql[160];
    (void)snprintf(sql, sizeof sql,
                   "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND name IN (%s)",
                   names);
    return lib_sqlite_query(place->dir.path, sql);
}

static const struct qn_task plain = {
    .id = "plain", .queue = "default", .type = "t", .state = QUERN_TASK_PENDING};
static const struct qn_task keyed = {
    .id = "keyed", .queue = "default", .type = "t", .limit_key = "k", .state = QUERN_TASK_PENDING};
static const struct qn_task member = {
    .id = "member", .queue = "default", .type = "t", .group = "g", .state = QUERN_TASK_AGGREGATING};

static void enqueue(struct qn_broker *broker, const struct qn_task *task)
{
    quern_status result = QUERN_E_INVALID;
    quern_error err = {0};
    assert_ok(qn_broker_enqueue(broker,
                                &(struct qn_enqueue){.tasks = task, .count = 1, .results = &result},
                                &err),
              err);
    assert_int_equal(result, QUERN_OK);
}

static void enqueue_in(const struct place *place, sqlite3 *db, const struct qn_task *task)
{
    quern_status result = QUERN_E_INVALID;
    quern_error err = {0};
    assert_ok(qn_broker_enqueue_in(
                  place->broker, db,
                  &(struct qn_enqueue){.tasks = task, .count = 1, .results = &result}, &err),
              err);
    assert_int_equal(result, QUERN_OK);
}

static void execute(sqlite3 *db, const char *sql)
{
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
}

struct missed {
    size_t count;
    char text[128]; /* of the last one */
};

static void note_violated(const quern_finding *finding, void *user)
{
    struct missed *missed = user;
    if (finding->severity == QUERN_SEVERITY_VIOLATED) {
        missed->count++;
        (void)snprintf(missed->text, sizeof missed->text, "%s", finding->text);
    }
}

static struct missed check(struct qn_broker *broker)
{
    struct missed missed = {.count = 0};
    quern_error err = {0};
    assert_ok(qn_broker_doctor(broker, false, note_violated, &missed, &err), err);
    return missed;
}

static bool aggregate_now(const char *queue, const char *group,
                          struct qn_group_settings *ret_settings, void *user)
{
    (void)queue, (void)group, (void)user;
    *ret_settings = (struct qn_group_settings){.max_size = 1};
    return true;
}

/* The number of members of the set that it got. */
static size_t aggregate(struct qn_broker *broker)
{
    struct qn_group_cursor cursor = {0};
    const struct qn_aggregate request = {.queue = "default",
                                         .worker_id = "w",
                                         .lease_ms = 30000,
                                         .cursor = &cursor,
                                         .settings = aggregate_now};
    struct qn_aggregate_reply reply = {0};
    quern_error err = {0};
    assert_ok(qn_broker_aggregate(broker, &request, &reply, &err), err);
    size_t count = reply.set != NULL ? reply.set->count : 0;
    qn_group_set_free(reply.set);
    return count;
}

static void indexes_come_with_the_first_task_that_needs_them(void **state)
{
    struct place *place = *state;
    enqueue(place->broker, &plain);
    assert_int_equal(count_indexes(place, LANE ", " GROUPS), 0);
    assert_int_equal(check(place->broker).count, 0);
    enqueue(place->broker, &keyed);
    assert_int_equal(count_indexes(place, LANE), 1);
    assert_int_equal(count_indexes(place, GROUPS), 0);
    enqueue(place->broker, &member);
    assert_int_equal(count_indexes(place, GROUPS), 2);
    assert_int_equal(check(place->broker).count, 0);
    qn_broker_close(lib_sqlite_open(place->dir.path)); /* the file is trusted */
}

static void index_of_lanes_comes_with_the_first_limit_by_key(void **state)
{
    struct place *place = *state;
    const quern_limit limit = {
        .queue = "default", .scope = QUERN_LIMIT_KEY, .name = "k", .count = 1};
    quern_error err = {0};
    assert_ok(qn_broker_set_limit(place->broker, &limit, &err), err);
    assert_int_equal(count_indexes(place, LANE), 1);
}

static void index_that_is_needed_is_missed_and_made_again(void **state)
{
    struct place *place = *state;
    enqueue(place->broker, &member);
    lib_sqlite_exec(place->dir.path, "DROP INDEX quern_task_group");
    struct missed missed = check(place->broker);
    assert_int_equal(missed.count, 1);
    assert_non_null(strstr(missed.text, "quern_task_group"));
    struct qn_task other = member;
    other.id = "other";
    enqueue(place->broker, &other);
    assert_int_equal(check(place->broker).count, 0);
}

static void those_who_had_opened_the_file_before_find_the_group(void **state)
{
    struct place *place = *state;
    struct qn_broker *other = lib_sqlite_open(place->dir.path);
    assert_int_equal(aggregate(other), 0);
    enqueue(place->broker, &member);
    assert_int_equal(aggregate(other), 1);
    qn_broker_close(other);
}

/* While the caller's connection reads something of its own. */
static void index_comes_in_a_transaction_of_the_caller_and_goes_with_it(void **state)
{
    struct place *place = *state;
    sqlite3 *db = NULL;
    sqlite3_stmt *reads = NULL;
    assert_int_equal(sqlite3_open(place->dir.path, &db), SQLITE_OK);
    execute(db, "CREATE TABLE mine (x); INSERT INTO mine VALUES (1), (2)");
    execute(db, "BEGIN IMMEDIATE");
    enqueue_in(place, db, &member);
    execute(db, "ROLLBACK");
    assert_int_equal(count_indexes(place, GROUPS), 0);
    execute(db, "BEGIN IMMEDIATE");
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT x FROM mine", -1, &reads, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(reads), SQLITE_ROW);
    enqueue_in(place, db, &member);
    enqueue_in(place, db, &keyed);
    assert_int_equal(sqlite3_step(reads), SQLITE_ROW);
    assert_int_equal(sqlite3_finalize(reads), SQLITE_OK);
    execute(db, "COMMIT");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(count_indexes(place, LANE ", " GROUPS), 3);
    assert_int_equal(aggregate(place->broker), 1);
    assert_int_equal(check(place->broker).count, 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(indexes_come_with_the_first_task_that_needs_them, set_up,
                                    tear_down),
    cmocka_unit_test_setup_teardown(index_of_lanes_comes_with_the_first_limit_by_key, set_up,
                                    tear_down),
    cmocka_unit_test_setup_teardown(index_that_is_needed_is_missed_and_made_again, set_up,
                                    tear_down),
    cmocka_unit_test_setup_teardown(those_who_had_opened_the_file_before_find_the_group, set_up,
                                    tear_down),
    cmocka_unit_test_setup_teardown(index_comes_in_a_transaction_of_the_caller_and_goes_with_it,
                                    set_up, tear_down),
};
TEST_MAIN(tests)
