/* SPDX-License-Identifier: MIT */
/* lib_contract.c - the frame of the contract tests: makers of brokers, and the runner.
 *
 * Each test gets a broker with nothing in it, a clock that stands at CONTRACT_NOW_MS and a
 * registered worker of this process; both vanish after the test, even if it failed. The helpers for
 * acting and reading are in lib_steps.c and lib_inspect.c. */
#include "lib_contract.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "broker/owner.h"

#define CONTRACT_FAR_BOOT "01234567-89ab-cdef-0123-456789abcdef"

/* --- Makers ------------------------------------------------------------------------- */

static void *sqlite_begin(struct contract *c)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(c->url + strlen("sqlite://"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_busy_timeout(db, TEST_PATIENCE_MS), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static void sqlite_end(void *tx, bool commit)
{
    assert_int_equal(sqlite3_exec(tx, commit ? "COMMIT" : "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(tx), SQLITE_OK);
}

static const struct contract_maker makers[] = {
    {.name = "sqlite", .begin = sqlite_begin, .end = sqlite_end},
    {.name = "redis", .has_clock = true},
    {.name = "memory", .is_private = true},
    {.name = "cluster", .has_clock = true},
};

/* --- The runner --------------------------------------------------------------------- */

struct contract_case {
    const struct contract_maker *maker;
    const struct contract_test *test;
    struct contract contract;
};

static int set_up(void **state)
{
    struct contract_case *one = *state;
    struct contract *c = &one->contract;
    *c = (struct contract){.maker = one->maker, .session = 77};
    test_store_open_at(&c->store, c->maker->name, CONTRACT_NOW_MS);
    (void)snprintf(c->url, sizeof c->url, "%s", c->store.url);
    qn_clock_init(&c->clock, CONTRACT_NOW_MS, 5000000);
    qn_id_source_init(&c->ids);
    c->keeper = c->maker->is_private ? contract_open(c) : NULL;
    c->broker = contract_open(c);
    contract_heartbeat(c->broker, CONTRACT_WORKER);
    return 0;
}

static int tear_down(void **state)
{
    struct contract_case *one = *state;
    qn_broker_close(one->contract.broker);
    one->contract.broker = NULL;
    qn_broker_close(one->contract.keeper);
    test_store_close(&one->contract.store);
    return 0;
}

static void run_case(void **state)
{
    struct contract_case *one = *state;
    one->test->run(&one->contract);
}

/* The wanted cases: each test over each broker. */
static size_t make_cases(const struct contract_test *tests, size_t count,
                         struct contract_case *cases, struct CMUnitTest *units)
{
    size_t used = 0;
    for (size_t i = 0; i < count * TEST_COUNT(makers); i++) {
        const struct contract_maker *maker = &makers[i / count];
        bool fits = !maker->is_private || !tests[i % count].spawns;
        if (!fits || !test_broker_wanted(maker->name, tests[i % count].only)) {
            continue;
        }
        cases[used] = (struct contract_case){.maker = maker, .test = &tests[i % count]};
        units[used] =
            (struct CMUnitTest){.name = test_broker_name(tests[i % count].name, maker->name),
                                .test_func = run_case,
                                .setup_func = set_up,
                                .teardown_func = tear_down,
                                .initial_state = &cases[used]};
        used++;
    }
    return used;
}

int contract_main(int argc, char **argv, const struct contract_suite *suite)
{
    size_t count = suite->test_count;
    struct contract_case *cases = calloc(count * TEST_COUNT(makers), sizeof *cases);
    struct CMUnitTest *units = calloc(count * TEST_COUNT(makers), sizeof *units);
    int code = 1;
    if (cases != NULL && units != NULL) {
        size_t used = make_cases(suite->tests, count, cases, units);
        const struct test_group group = {.name = argv[0],
                                         .tests = units,
                                         .test_count = used,
                                         .roles = suite->roles,
                                         .role_count = suite->role_count};
        code = test_main(argc, argv, &group);
        for (size_t i = 0; i < used; i++) {
            free((void *)(uintptr_t)units[i].name);
        }
    }
    test_store_finish();
    free(units);
    free(cases);
    return code;
}

/* --- Brokers, workers, time --------------------------------------------------------- */

struct qn_broker *contract_open(struct contract *c)
{
    struct qn_broker_options options = {.clock = &c->clock, .create = true};
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    assert_ok(qn_broker_open(c->url, &options, &broker, &err), err);
    return broker;
}

struct qn_broker *contract_open_child(const char *url)
{
    struct qn_broker_options options = {.create = false};
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    quern_status status = qn_broker_open(url, &options, &broker, &err);
    if (status != QUERN_OK) {
        (void)fprintf(stderr, "child: %s\n", err.text);
    }
    TEST_REQUIRE(status == QUERN_OK);
    return broker;
}

/* Our own owner, or with another boot (far), or with another start of this process (dead). */
static void make_owner(const struct contract_worker *worker, char owner[QN_OWNER_SIZE])
{
    quern_error err = {0};
    assert_ok(qn_owner_self(owner, &err), err);
    if (worker->is_far) {
        memcpy(owner, CONTRACT_FAR_BOOT, strlen(CONTRACT_FAR_BOOT));
    }
    if (worker->is_dead) {
        (void)snprintf(strrchr(owner, ':'), 3, ":1");
        assert_int_equal(qn_owner_judge(owner), QN_OWNER_DEAD);
    }
}

void contract_heartbeat_as(struct qn_broker *broker, const struct contract_worker *worker)
{
    char owner[QN_OWNER_SIZE];
    quern_error err = {0};
    struct qn_queue_share queues[] = {{.name = "default", .weight = 1},
                                      {.name = "other", .weight = 1}};
    make_owner(worker, owner);
    struct qn_heartbeat heartbeat = {.worker_id = worker->id,
                                     .owner = owner,
                                     .host = worker->host != NULL ? worker->host : CONTRACT_HOST,
                                     .status = worker->status != NULL ? worker->status : "active",
                                     .queues = "default=1 other=1",
                                     .pid = 1,
                                     .started_at_ms = CONTRACT_NOW_MS,
                                     .concurrency = 4,
                                     .queue_shares = queues,
                                     .queue_count = TEST_COUNT(queues)};
    assert_ok(qn_broker_heartbeat(broker, &heartbeat, &err), err);
}

void contract_heartbeat(struct qn_broker *broker, const char *worker_id)
{
    contract_heartbeat_as(broker, &(struct contract_worker){.id = worker_id});
}

void contract_advance(struct contract *c, int64_t ms)
{
    atomic_fetch_add(&c->clock.boot_ms, ms);
    atomic_fetch_add(&c->clock.wall_ms, ms);
    test_store_advance(&c->store, ms);
}

void contract_jump(struct contract *c, int64_t ms)
{
    atomic_fetch_add(&c->clock.wall_ms, ms);
}
