/* SPDX-License-Identifier: MIT */
/* test_lease_steps.c - a lease costs the same however many tasks wait behind limits and keys: its
 * steps of SQLite's virtual machine are counted. */
#include "lib_store.h"

#include <stdlib.h>
#include <string.h>

#include "broker/limit/limit.h"
#include "broker/sqlite/sqlite.h"
#include "quern/client.h"
#include "task/limits.h"

#define ROOM 4
#define LEASES 30

struct site {
    struct test_store store;
    struct qn_broker *broker;
    uint64_t sequence;
    uint64_t steps;
};

static int count_step(void *user)
{
    struct site *site = user;
    site->steps++;
    return 0;
}

/* `count` tasks of so many types, with so many keys; keys 0: without. */
static void put(struct site *site, size_t count, size_t types, size_t keys)
{
    enum { BATCH = 500 };
    static quern_task tasks[BATCH];
    static char names[BATCH][2][24];
    quern_client *client = NULL;
    quern_error err = {0};
    assert_ok(quern_client_open(site->store.url, NULL, &client, &err), err);
    for (size_t at = 0; at < count; at += BATCH) {
        size_t size = count - at < BATCH ? count - at : BATCH;
        for (size_t i = 0; i < size; i++) {
            (void)snprintf(names[i][0], sizeof names[i][0], "t%zu", (at + i) % types);
            (void)snprintf(names[i][1], sizeof names[i][1], "k%zu", keys > 0 ? (at + i) % keys : 0);
            tasks[i] =
                (quern_task){.type = names[i][0], .limit_key = keys > 0 ? names[i][1] : NULL};
        }
        assert_ok(quern_client_enqueue_batch(client, tasks, size, NULL, &err), err);
    }
    quern_client_free(client);
}

static void set_limit(struct site *site, quern_limit_scope scope, const char *name, int64_t count,
                      int64_t period_ms)
{
    quern_error err = {0};
    const quern_limit limit = {.queue = "default",
                               .scope = (int32_t)scope,
                               .name = name,
                               .count = count,
                               .period_ms = period_ms};
    assert_ok(qn_broker_set_limit(site->broker, &limit, &err), err);
}

/* Ends what the lease before took, if `done`, and leases; returns how many. */
static size_t lease(struct site *site, struct qn_leased **runs, size_t held, bool done)
{
    struct qn_outcome outcomes[ROOM] = {0};
    enum qn_applied applied[ROOM];
    struct qn_leased *next[ROOM];
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = ROOM};
    quern_error err = {0};
    for (size_t i = 0; i < held; i++) {
        outcomes[i] = (struct qn_outcome){.run = runs[i], .kind = QN_DONE, .started = true};
    }
    struct qn_exchange exchange = {.stamp = {.session = 77, .sequence = ++site->sequence},
                                   .outcomes = outcomes,
                                   .outcome_count = done ? held : 0,
                                   .worker_id = "steps",
                                   .host = "host",
                                   .lease_ms = QN_LEASE_MS,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = ROOM,
                                   .start_count_now = ROOM};
    struct qn_exchange_reply reply = {.applied = applied, .runs = next};
    assert_ok(qn_broker_exchange(site->broker, &exchange, &reply, &err), err);
    for (size_t i = 0; i < held; i++) {
        qn_leased_free(runs[i]);
    }
    memcpy(runs, next, reply.run_count * sizeof(struct qn_leased *));
    return reply.run_count;
}

/* The steps of the dearest of some leases. */
static uint64_t steps_of(struct site *site, bool done)
{
    struct qn_leased *runs[ROOM];
    size_t held = 0;
    uint64_t most = 0;
    sqlite3 *db = qn_sqlite_of(site->broker)->writer.db;
    sqlite3_progress_handler(db, 1, count_step, site);
    for (int i = 0; i < LEASES; i++) {
        site->steps = 0;
        held = lease(site, runs, held, done);
        most = i > 0 && site->steps > most ? site->steps : most;
    }
    sqlite3_progress_handler(db, 0, NULL, NULL);
    while (held > 0) {
        qn_leased_free(runs[--held]);
    }
    return most;
}

static void open_site(struct site *site)
{
    quern_error err = {0};
    *site = (struct site){.sequence = 0};
    test_store_open(&site->store, 0);
    assert_ok(qn_broker_open(site->store.url, &(struct qn_broker_options){.create = true},
                             &site->broker, &err),
              err);
}

static void close_site(struct site *site)
{
    qn_broker_close(site->broker);
    test_store_close(&site->store);
}

struct row {
    const char *name;
    size_t small;
    size_t large;
    size_t types;
    size_t keys;  /* 0: none; SIZE_MAX: one for each task */
    bool limited; /* by queue, type and key, runs and starts */
    bool ends;    /* each lease ends the runs of the one before; else limits stay full */
};

static uint64_t measure(const struct row *row, size_t count)
{
    struct site site;
    open_site(&site);
    if (row->limited) {
        set_limit(&site, QUERN_LIMIT_QUEUE, "", 8, 0);
        set_limit(&site, QUERN_LIMIT_QUEUE, "", 1000, 1000);
        set_limit(&site, QUERN_LIMIT_TYPE, "*", 3, 0);
        set_limit(&site, QUERN_LIMIT_KEY, "*", 2, 0);
        set_limit(&site, QUERN_LIMIT_KEY, "*", 100, 1000);
    }
    put(&site, count, row->types, row->keys == SIZE_MAX ? count : row->keys);
    uint64_t steps = steps_of(&site, row->ends);
    close_site(&site);
    return steps;
}

static void lease_costs_the_same_however_many_wait(void **state)
{
    (void)state;
    size_t many = test_full() ? 100000 : 20000;
    const struct row rows[] = {
        {"plain", 200, many, 1, 0, false, true},
        {"one noisy key", 200, many, 1, 1, false, true},
        {"12 keys", 200, many, 1, 12, false, true},
        {"12 keys of 12 types with limits", 240, many, 12, 12, true, true},
        {"the same, limits full", 240, many, 12, 12, true, false},
        {"7 keys of 12 types, limits full", 240, many, 12, 7, true, false},
        {"300 keys, limits full", 300, many, 1, 300, true, false},
        {"a key for each task", 200, 5000, 1, SIZE_MAX, false, true},
        {"the same with limits", 200, 5000, 12, SIZE_MAX, true, true},
    };
    size_t faults = 0;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        uint64_t small = measure(&rows[i], rows[i].small);
        uint64_t large = measure(&rows[i], rows[i].large);
        bool grows = large > 3 * small;
        print_message("%-34s %6llu steps, with %zu tasks %llu%s\n", rows[i].name,
                      (unsigned long long)small, rows[i].large, (unsigned long long)large,
                      grows ? ": too many" : "");
        faults += grows ? 1 : 0;
    }
    assert_int_equal(faults, 0);
}

/* Where the limit of the whole queue is full, no key of it can run. */
static void full_limit_of_a_queue_is_noticed_before_its_keys_are_read(void **state)
{
    (void)state;
    const struct row few = {"", 0, 0, 12, 4, true, false};
    const struct row many = {"", 0, 0, 12, 300, true, false};
    uint64_t few_steps = measure(&few, 1200);
    uint64_t many_steps = measure(&many, 1200);
    print_message("%llu steps, with 300 keys %llu\n", (unsigned long long)few_steps,
                  (unsigned long long)many_steps);
    assert_true(many_steps <= 3 * few_steps);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("sqlite", lease_costs_the_same_however_many_wait),
    TEST_ONLY_OVER("sqlite", full_limit_of_a_queue_is_noticed_before_its_keys_are_read),
};

TEST_MAIN_OVER_BROKERS(tests)
