/* SPDX-License-Identifier: MIT */
/* test_alloc.c - memory runs out at the n-th allocation of a scheduler, of what an operator does to
 * entries, and of the sync of a set, for every n: nothing crashes or leaks, and when there is
 * memory again each tick is enqueued, once. On Redis a server may have executed a request when
 * there is no memory for its answer, whose effect is unknown then. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "broker/redis/redis.h"
#include "lib_alloc.h"
#include "lib_store.h"
#include "lib_task.h"
#include "quern/inspector.h"
#include "quern/scheduler.h"
#include "schedule/origin.h"
#include "schedule/tick/ticker.h"

#define SWEEP_MAX 5000
#define DAY_S (24 * 3600)
#define MISSED 3

static struct test_store store;
static struct qn_broker *broker;
static struct qn_log log_of_all;
static struct qn_zones zones;

/* One round; n: which allocation fails. What it does with enough memory is at its end. */
typedef quern_status (*scene)(long n);

/* From here on there is memory. False: there was all the time. */
static bool end_shortage(void)
{
    return atomic_exchange(&test_alloc_until_failure, 0) <= 1;
}

/* Channels keep a piece of memory from one request to the next: so each round needs it again. */
static void forget_memory(void)
{
    for (size_t i = 0; test_store_is(&store, "redis") && i < QN_CHANNEL_COUNT; i++) {
        qn_arena_finish(&qn_redis_of(broker)->channels[i].arena);
    }
}

static bool may_follow(quern_status status)
{
    return status == QUERN_OK || status == QUERN_E_NOMEM ||
           (status == QUERN_E_UNKNOWN && test_store_is(&store, "redis"));
}

static bool was_short;

static void sweep(scene run, bool for_good)
{
    size_t failed = 0;
    for (long n = 1; n < SWEEP_MAX; n++) {
        forget_memory();
        test_alloc_for_good = for_good;
        atomic_store(&test_alloc_until_failure, n);
        quern_status status = run(n);
        if (!may_follow(status)) {
            fail_msg("allocation %ld: %s", n, quern_status_name(status));
        }
        failed += status == QUERN_OK ? 0 : 1;
        if (!was_short) {
            print_message("%ld allocations, %zu rounds failed\n", n - 1, failed);
            assert_true(failed > 0);
            return;
        }
    }
    fail_msg("the scene never came to an end");
}

static void ignore_line(quern_log_level level, const char *line, void *user)
{
    (void)level, (void)line, (void)user;
}

static void sweep_both(scene run)
{
    quern_error err = {0};
    const struct qn_broker_options options = {.create = true};
    test_store_open(&store, 0);
    assert_ok(qn_broker_open(store.url, &options, &broker, &err), err);
    qn_log_init(&log_of_all, ignore_line, NULL);
    sweep(run, false);
    sweep(run, true);
    qn_log_finish(&log_of_all);
    qn_broker_close(broker);
    test_store_close(&store);
}

/* --- Ticks -------------------------------------------------------------------------------- */

/* Once a day, about twelve hours from now; three of them are missed. */
static struct qn_schedule_entry make_entry(const char *name, const char *origin)
{
    static char cron[32];
    int64_t hour = qn_clock_wall_ms(qn_clock_system()) / 1000 % DAY_S / 3600;
    (void)snprintf(cron, sizeof cron, "0 %d * * *", (int)(hour + 12) % 24);
    return (struct qn_schedule_entry){.name = name,
                                      .task = test_task(NULL),
                                      .origin = origin,
                                      .cron = cron,
                                      .zone = "Europe/Berlin",
                                      .misfire = QN_MISFIRE_ALL,
                                      .misfire_max = 1000,
                                      .late_ms = 60000};
}

static void put_missed(const char *name)
{
    struct qn_schedule_entry entry = make_entry(name, "cli");
    quern_error err = {0};
    long left = atomic_exchange(&test_alloc_until_failure, 0);
    entry.last_s = qn_clock_wall_ms(qn_clock_system()) / 1000 - MISSED * DAY_S;
    struct qn_put put = {.entry = &entry, .expected = QN_REVISION_NONE};
    assert_ok(qn_schedule_put(broker, &put, 1, &err), err);
    assert_int_equal(put.result, QN_PUT_ADDED);
    atomic_store(&test_alloc_until_failure, left);
}

static bool take_runs(const struct qn_schedule_entry *entry, void *user)
{
    *(uint64_t *)user += entry->runs;
    return true;
}

static uint64_t runs_of(const char *name)
{
    const struct qn_entry_filter filter = {.queue = "default", .name = name};
    uint64_t runs = 0;
    quern_error err = {0};
    assert_ok(qn_schedule_list(broker, &filter, take_runs, &runs, &err), err);
    return runs;
}

static bool count_task(const quern_task_info *info, void *user)
{
    (void)info;
    (*(size_t *)user)++;
    return true;
}

static size_t stored_tasks(void)
{
    const quern_task_filter filter = {.limit = 100000};
    size_t count = 0;
    quern_error err = {0};
    assert_ok(qn_broker_tasks(broker, &filter, count_task, &count, &err), err);
    return count;
}

static void remove_all(const char *name)
{
    const struct qn_entry_key key = {.queue = "default", .name = name, .revision = QN_REVISION_ANY};
    const quern_task_filter pending = {.queue = "default", .state = QUERN_TASK_PENDING};
    size_t removed = 0;
    quern_error err = {0};
    assert_ok(qn_schedule_remove(broker, &key, &err), err);
    assert_ok(qn_broker_operate_all(broker, &(struct qn_bulk){QUERN_ACTION_DELETE, &pending, 100},
                                    &removed, &err),
              err);
}

static bool give_payload(const quern_tick *tick, quern_task *task, void *user)
{
    (void)tick, (void)user;
    task->payload = "from the hook";
    task->payload_size = strlen(task->payload);
    return true;
}

static bool with_hook;

/* A leader that begins, and its first step. */
static quern_status lead_and_tick(quern_error *err)
{
    struct qn_leader leader;
    static struct qn_ticker ticker;
    const struct qn_ticker_hooks hooks = {.before = with_hook ? give_payload : NULL};
    int64_t sleep_ms = 0;
    quern_status status = qn_leader_init(&leader, broker, qn_clock_system(), &log_of_all, err);
    if (status != QUERN_OK) {
        return status;
    }
    qn_ticker_init(&ticker, &leader, &zones, &hooks);
    status = qn_ticker_step(&ticker, &sleep_ms, err);
    if (status != QUERN_OK) { /* the next step of the same scheduler has memory */
        quern_error again = {0};
        was_short = end_shortage();
        leader.looked_at_boot_ms = INT64_MIN / 2; /* as if a second had passed */
        assert_ok(qn_ticker_step(&ticker, &sleep_ms, &again), again);
    }
    qn_leader_give_back(&leader);
    qn_ticker_finish(&ticker);
    return status;
}

static quern_status tick_scene(long n)
{
    char name[32];
    quern_error err = {0};
    (void)snprintf(name, sizeof name, "n%ld-%d", n, (int)test_alloc_for_good);
    put_missed(name);
    was_short = false;
    long left = atomic_exchange(&test_alloc_until_failure, 0);
    assert_ok(qn_zones_init(&zones, TEST_DATA "/zoneinfo", &err), err);
    atomic_store(&test_alloc_until_failure, left);
    quern_status status = lead_and_tick(&err);
    was_short = end_shortage() || was_short;
    assert_int_equal(runs_of(name), MISSED);
    assert_int_equal(stored_tasks(), MISSED);
    qn_zones_finish(&zones);
    remove_all(name);
    return status;
}

static void no_tick_is_lost_or_sent_twice_when_memory_is_short(void **state)
{
    (void)state;
    with_hook = false;
    sweep_both(tick_scene);
}

static void no_tick_of_a_hook_is_lost_or_sent_twice_when_memory_is_short(void **state)
{
    (void)state;
    with_hook = true;
    sweep_both(tick_scene);
}

/* --- Operators ---------------------------------------------------------------------------- */

struct operating {
    quern_inspector *inspector;
    quern_entry_list *list;
    quern_entry_history *history;
    quern_task_info *info;
};

static quern_status operate_all(struct operating *op)
{
    static const quern_header header = {.name = "a", .value = "b"};
    const quern_entry entry = {.name = "e", .cron = "0 6 * * *", .zone = "Europe/Berlin"};
    const quern_task task = {.type = "t",
                             .payload = "x",
                             .payload_size = 1,
                             .unique_ms = 3600 * 1000,
                             .unique_key = "k",
                             .on_duplicate = QUERN_ON_DUPLICATE_REPLACE,
                             .headers = &header,
                             .header_count = 1};
    quern_status status = quern_inspector_open(store.url, NULL, &op->inspector, NULL);
    if (status == QUERN_OK) {
        status = quern_inspector_put_entry(op->inspector, &entry, &task, QUERN_ENTRY_REPLACE, NULL);
    }
    for (int i = 0; status == QUERN_OK && i < 2; i++) { /* the second one replaces the first */
        quern_task_info_free(op->info);
        op->info = NULL;
        status = quern_inspector_trigger_entry(op->inspector, NULL, "e", &op->info, NULL);
    }
    if (status == QUERN_OK) {
        status = quern_inspector_entries(op->inspector, NULL, "e", &op->list, NULL);
    }
    if (status == QUERN_OK) {
        assert_string_equal(quern_entry_list_at(op->list, 0)->task->unique_key, "k");
        status = quern_inspector_entry_history(op->inspector, NULL, "e", &op->history, NULL);
    }
    if (status == QUERN_OK) {
        assert_true(quern_entry_history_size(op->history) >= 2);
        status = quern_inspector_pause_entry(op->inspector, NULL, "e", QUERN_ENTRY_PAUSE, NULL);
    }
    return status == QUERN_OK ? quern_inspector_remove_entry(op->inspector, NULL, "e", false, NULL)
                              : status;
}

static quern_status operate_scene(long n)
{
    struct operating op = {.inspector = NULL};
    (void)n;
    quern_status status = operate_all(&op);
    was_short = end_shortage();
    quern_task_info_free(op.info);
    quern_entry_list_free(op.list);
    quern_entry_history_free(op.history);
    quern_inspector_free(op.inspector);
    assert_in_range(stored_tasks(), 0, 1); /* the lock holds for the triggers of all rounds */
    const struct qn_entry_key key = {.queue = "default", .name = "e", .revision = QN_REVISION_ANY};
    quern_status removed = qn_schedule_remove(broker, &key, NULL);
    assert_true(removed == QUERN_OK || removed == QUERN_E_NOT_FOUND);
    return status;
}

static void operators_without_memory_change_nothing_by_half(void **state)
{
    (void)state;
    sweep_both(operate_scene);
}

/* --- Sets --------------------------------------------------------------------------------- */

#define SET 5

static bool count_entry(const struct qn_schedule_entry *entry, void *user)
{
    (*(size_t *)user) += strcmp(entry->origin, "code:p") == 0 ? 1 : 0;
    return true;
}

static size_t stored_entries(void)
{
    const struct qn_entry_filter all = {.queue = NULL};
    size_t count = 0;
    quern_error err = {0};
    assert_ok(qn_schedule_list(broker, &all, count_entry, &count, &err), err);
    return count;
}

/* One round stores a set, the next one another. */
static quern_status sync_scene(long n)
{
    struct qn_schedule_entry entries[SET];
    char names[SET][32];
    bool done = false;
    quern_error err = {0};
    size_t count = n % 2 == 0 ? SET : SET - 2;
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(names[i], sizeof names[i], "e%zu", i + (size_t)(n % 2));
        entries[i] = make_entry(names[i], "code:p");
        entries[i].task.queue = i == 0 && n % 2 == 0 ? "other" : "default";
    }
    const struct qn_origin origin = {.name = "code:p", .entries = entries, .count = count};
    quern_status status = qn_origin_sync(broker, &log_of_all, &origin, &done, &err);
    was_short = end_shortage();
    for (int i = 0; !done && i < 3; i++) {
        assert_ok(qn_origin_sync(broker, &log_of_all, &origin, &done, &err), err);
    }
    assert_true(done);
    assert_int_equal(stored_entries(), count);
    return status;
}

static void set_of_a_program_is_stored_when_there_is_memory_again(void **state)
{
    (void)state;
    sweep_both(sync_scene);
}

/* --- The object --------------------------------------------------------------------------- */

static quern_status object_scene(long n)
{
    const quern_entry entry = {.name = "e", .cron = "0 6 * * *", .zone = "Europe/Berlin"};
    const quern_task task = {.type = "t", .unique_ms = 3600 * 1000, .unique_key = "k"};
    const char *const files[] = {"/nonexistent/schedule.conf"};
    const quern_scheduler_options options = {
        .program = "p", .files = files, .file_count = 1, .on_log = ignore_line};
    quern_scheduler *scheduler = NULL;
    (void)n;
    quern_status status = quern_scheduler_new(store.url, &options, &scheduler, NULL);
    if (status == QUERN_OK) {
        status = quern_scheduler_register(scheduler, &entry, &task, NULL);
    }
    if (status == QUERN_OK) {
        status = quern_scheduler_unregister(scheduler, NULL, "e", NULL);
    }
    was_short = end_shortage();
    quern_scheduler_free(scheduler);
    return status;
}

static void scheduler_is_made_or_not(void **state)
{
    (void)state;
    sweep_both(object_scene);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_tick_is_lost_or_sent_twice_when_memory_is_short),
    cmocka_unit_test(no_tick_of_a_hook_is_lost_or_sent_twice_when_memory_is_short),
    cmocka_unit_test(operators_without_memory_change_nothing_by_half),
    cmocka_unit_test(set_of_a_program_is_stored_when_there_is_memory_again),
    cmocka_unit_test(scheduler_is_made_or_not),
};
TEST_MAIN_OVER_BROKERS(tests)
