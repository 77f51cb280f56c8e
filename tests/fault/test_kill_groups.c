/* SPDX-License-Identifier: MIT */
/* test_kill_groups.c - workers that aggregate groups are killed between every two steps: each
 * member is counted exactly once in the tasks that were made.
 *
 * A member's payload is its number; the aggregator joins them with spaces, and a handler keeps the
 * task made of them as completed. A worker kills itself at one of the steps below, or is killed by
 * us at a moment by chance. */
#include "lib_store.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "broker/inspect.h"
#include "quern/client.h"
#include "quern/worker.h"

enum { MEMBERS_PER_KILL = 15, GROUPS = 4, SET_SIZE = 3 };
enum step { BEFORE_STORE, AFTER_STORE, AFTER_SET, BY_CHANCE, STEPS, NEVER = STEPS };
enum { KILLS = 5 * STEPS, KILLS_FULL = 200 * STEPS };

/* --- The worker ------------------------------------------------------------------------ */

static enum step die_at;
static int die_in;     /* this call of the aggregator, or a later one */
static int call_count; /* until now */

static void die_if(enum step step)
{
    if (step == die_at && call_count >= die_in) {
        (void)raise(SIGKILL);
    }
}

static quern_outcome join(quern_aggregation *aggregation, const quern_task *const *members,
                          size_t count, void *user)
{
    (void)user;
    char text[SET_SIZE * 12 + 1] = "";
    quern_error err;
    TEST_REQUIRE(count <= SET_SIZE);
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, "%.10s ",
                       (const char *)members[i]->payload);
    }
    die_if(AFTER_SET); /* of the call before */
    call_count++;
    die_if(BEFORE_STORE);
    const quern_task sum = {
        .type = "sum", .payload = text, .payload_size = strlen(text), .retention_ms = 3600000};
    quern_status status = quern_aggregation_store(aggregation, &sum, &err);
    die_if(AFTER_STORE);
    return status == QUERN_OK ? QUERN_DONE
                              : quern_aggregation_fail(aggregation, QUERN_RETRY, "%s", err.text);
}

static quern_outcome keep(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)task;
    (void)user;
    return QUERN_DONE;
}

/* argv: URL, step, call, "drain" or "stay" */
static int worker_main(int argc, char **argv)
{
    TEST_REQUIRE(argc == 4);
    quern_error err;
    quern_mux *mux = NULL;
    quern_worker *worker = NULL;
    die_at = (enum step)strtol(argv[1], NULL, 10);
    die_in = (int)strtol(argv[2], NULL, 10);
    const quern_group_options groups = {.max_size = SET_SIZE, .grace_ms = 1000};
    const quern_worker_options options = {
        .concurrency = 2, .lease_ms = 2000, .drain = strcmp(argv[3], "drain") == 0};
    TEST_REQUIRE(quern_mux_new(&mux, &err) == QUERN_OK);
    TEST_REQUIRE(quern_mux_aggregate(mux, "*", join, NULL, &groups, &err) == QUERN_OK);
    TEST_REQUIRE(quern_mux_handle(mux, "sum", keep, NULL, NULL, &err) == QUERN_OK);
    TEST_REQUIRE(quern_worker_new(argv[0], mux, &options, &worker, &err) == QUERN_OK);
    test_parent_send('w');
    TEST_REQUIRE(quern_worker_run(worker, &err) == QUERN_OK);
    quern_worker_free(worker);
    quern_mux_free(mux);
    return 0;
}

/* --- The test -------------------------------------------------------------------------- */

static struct test_child spawn(const struct test_store *store, enum step step, int calls)
{
    char step_text[12];
    char calls_text[12];
    (void)snprintf(step_text, sizeof step_text, "%d", (int)step);
    (void)snprintf(calls_text, sizeof calls_text, "%d", calls);
    const char *const args[] = {store->url, step_text, calls_text, step == NEVER ? "drain" : "stay",
                                NULL};
    struct test_child child = test_spawn("worker", args);
    assert_int_equal(test_child_receive(&child), 'w');
    return child;
}

static void put_members(const struct test_store *store, size_t first, size_t count)
{
    quern_error err;
    quern_client *client = NULL;
    assert_ok(quern_client_open(store->url, NULL, &client, &err), err);
    for (size_t i = first; i < first + count; i++) {
        char payload[24];
        char group[8];
        (void)snprintf(payload, sizeof payload, "%zu", i);
        (void)snprintf(group, sizeof group, "g%zu", i % GROUPS);
        const quern_task member = {
            .type = "member", .group = group, .payload = payload, .payload_size = strlen(payload)};
        assert_ok(quern_client_enqueue(client, &member, NULL, &err), err);
    }
    quern_client_free(client);
}

struct count {
    unsigned char *seen; /* per member, how often */
    size_t members;
    size_t sums;
    size_t others;
};

static bool count_sum(const quern_task_info *info, void *user)
{
    struct count *count = user;
    size_t size;
    if (strcmp(quern_task_info_type(info), "sum") != 0) {
        count->others++;
        return true;
    }
    count->sums++;
    char payload[64] = "";
    const char *bytes = quern_task_info_payload(info, &size);
    assert_true(size < sizeof payload);
    memcpy(payload, bytes, size); /* a broker's own info has no NUL behind it */
    char *at = NULL;
    for (const char *text = payload; *text != '\0'; text = at + 1) {
        size_t number = (size_t)strtoul(text, &at, 10);
        if (at == text || number >= count->members) {
            fail_msg("a task was made of \"%s\"", payload);
        }
        count->seen[number]++;
    }
    return true;
}

static void expect_each_once(const struct test_store *store, size_t members)
{
    quern_error err;
    struct qn_broker *broker = NULL;
    struct count count = {.members = members, .seen = calloc(members, 1)};
    const quern_task_filter filter = {.limit = 10000};
    assert_ok(qn_broker_open(store->url, &(struct qn_broker_options){.clock = qn_clock_system()},
                             &broker, &err),
              err);
    assert_ok(qn_broker_tasks(broker, &filter, count_sum, &count, &err), err);
    for (size_t i = 0; i < members; i++) {
        if (count.seen[i] != 1) {
            fail_msg("member %zu is in %d tasks", i, count.seen[i]);
        }
    }
    assert_int_equal(count.others, 0);
    print_message("%zu members in %zu tasks\n", members, count.sums);
    free(count.seen);
    qn_broker_close(broker);
}

/* Until the worker has killed itself, or by chance is killed by us. */
static void await_death(struct test_child *child, enum step step, struct qn_random *random)
{
    if (step == BY_CHANCE) {
        test_pause_ms((int)qn_random_below(random, 150));
        test_child_kill(child);
    } else {
        assert_int_equal(test_child_join(child), 128 + SIGKILL);
    }
}

static void each_member_is_counted_once(void **state)
{
    (void)state;
    size_t kills = test_full() ? KILLS_FULL : KILLS;
    size_t members = 0;
    struct test_store store;
    struct qn_random random;
    qn_random_init_seed(&random, test_seed());
    test_store_open(&store, 0);
    for (size_t i = 0; i < kills; i++) {
        enum step step = (enum step)(i % STEPS);
        put_members(&store, members, MEMBERS_PER_KILL);
        members += MEMBERS_PER_KILL;
        struct test_child child = spawn(&store, step, 1 + (int)qn_random_below(&random, 2));
        await_death(&child, step, &random);
    }
    struct test_child last = spawn(&store, NEVER, 1000000);
    assert_int_equal(test_child_join(&last), 0);
    expect_each_once(&store, members);
    test_store_close(&store);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(each_member_is_counted_once)};
static const struct test_role roles[] = {{"worker", worker_main}};

int main(int argc, char **argv)
{
    const struct test_group group = {.name = argv[0],
                                     .tests = tests,
                                     .test_count = TEST_COUNT(tests),
                                     .roles = roles,
                                     .role_count = TEST_COUNT(roles)};
    return test_main_over_brokers(argc, argv, &group);
}
