/* SPDX-License-Identifier: MIT */
/* test_ticker.c - the loop of the leading scheduler on a turned clock: which tasks it enqueues, and
 * what ends its leadership. */
#include "schedule/tick/ticker.h"

#include <stdio.h>
#include <string.h>

#include "lib_contract.h"
#include "lib_schedule.h"
#include "schedule/tick/tick_task.h"

#define FIRST_S SCHEDULE_NOW_S /* a whole minute */
#define HOUR_MS (3600 * INT64_C(1000))

/* A scheduler without its thread. */
struct scheduler {
    struct qn_broker *broker;
    struct qn_log log;
    struct qn_zones zones;
    struct qn_leader leader;
    struct qn_ticker ticker;
    char lines[4096]; /* what it has logged */
};

static void keep_line(quern_log_level level, const char *line, void *user)
{
    struct scheduler *scheduler = user;
    size_t used = strlen(scheduler->lines);
    (void)level;
    (void)snprintf(scheduler->lines + used, sizeof scheduler->lines - used, "%s\n", line);
}

static void open_with(struct contract *c, const struct qn_ticker_hooks *hooks,
                      struct scheduler *scheduler)
{
    quern_error err = {0};
    *scheduler = (struct scheduler){.broker = contract_open(c)};
    qn_log_init(&scheduler->log, keep_line, scheduler);
    assert_ok(qn_zones_init(&scheduler->zones, TEST_DATA "/zoneinfo", &err), err);
    assert_ok(
        qn_leader_init(&scheduler->leader, scheduler->broker, &c->clock, &scheduler->log, &err),
        err);
    qn_ticker_init(&scheduler->ticker, &scheduler->leader, &scheduler->zones, hooks);
}

static void open_scheduler(struct contract *c, struct scheduler *scheduler)
{
    const struct qn_ticker_hooks none = {.before = NULL};
    open_with(c, &none, scheduler);
}

static void close_scheduler(struct scheduler *scheduler)
{
    qn_ticker_finish(&scheduler->ticker);
    qn_zones_finish(&scheduler->zones);
    qn_log_finish(&scheduler->log);
    qn_broker_close(scheduler->broker);
}

static int64_t step(struct scheduler *scheduler)
{
    int64_t sleep_ms = 0;
    quern_error err = {0};
    assert_ok(qn_ticker_step(&scheduler->ticker, &sleep_ms, &err), err);
    return sleep_ms;
}

/* Lets it run for this long, as if it slept as long as it wants to. */
static void run_for(struct contract *c, struct scheduler *scheduler, int64_t ms)
{
    for (int64_t left_ms = ms; left_ms > 0;) {
        int64_t sleep_ms = step(scheduler);
        sleep_ms = sleep_ms < 1 ? 1 : sleep_ms;
        sleep_ms = sleep_ms < left_ms ? sleep_ms : left_ms;
        contract_advance(c, sleep_ms);
        left_ms -= sleep_ms;
    }
    (void)step(scheduler);
}

/* An entry of each second whose last tick is `last_s`. */
static void put_seconds(struct contract *c, const char *name, enum qn_misfire misfire,
                        int64_t last_s)
{
    struct qn_schedule_entry entry = schedule_entry(name);
    uint64_t revision = 0;
    entry.cron = "* * * * * *";
    entry.with_seconds = true;
    entry.misfire = misfire;
    entry.misfire_max = misfire == QN_MISFIRE_ALL ? 1000 : 1;
    entry.last_s = last_s;
    entry.late_ms = 0;
    assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_NONE, &revision), QN_PUT_ADDED);
}

static bool has_task(struct contract *c, const char *name, int64_t tick_s)
{
    struct qn_schedule_entry entry = schedule_entry(name);
    struct qn_arena arena = {0};
    struct qn_task task;
    const struct qn_tick_terms terms = {.entry = &entry, .tick_s = tick_s};
    assert_int_equal(qn_tick_task_make(&terms, &arena, &task, NULL), QUERN_OK);
    bool found = contract_state(c, "default", task.id) != 0;
    qn_arena_finish(&arena);
    return found;
}

static uint64_t count_tasks(struct contract *c)
{
    return contract_queue(c, "default").size;
}

/* --- Ticks ---------------------------------------------------------------------------- */

static void each_second_is_enqueued_once(struct contract *c)
{
    struct scheduler scheduler;
    open_scheduler(c, &scheduler);
    put_seconds(c, "e", QN_MISFIRE_ONCE, FIRST_S);
    run_for(c, &scheduler, 20000);
    int64_t last_s = schedule_look(c, "e").last_s;
    assert_in_range(last_s, FIRST_S + 19, FIRST_S + 21);
    for (int64_t tick_s = FIRST_S + 1; tick_s <= last_s; tick_s++) {
        assert_true(has_task(c, "e", tick_s));
    }
    assert_int_equal(count_tasks(c), last_s - FIRST_S);
    close_scheduler(&scheduler);
}

static void ticks_of_a_downtime_follow_the_policy(struct contract *c)
{
    struct scheduler scheduler;
    open_scheduler(c, &scheduler);
    put_seconds(c, "once", QN_MISFIRE_ONCE, FIRST_S - 500);
    put_seconds(c, "skip", QN_MISFIRE_SKIP, FIRST_S - 500);
    put_seconds(c, "all", QN_MISFIRE_ALL, FIRST_S - 500); /* more than one request */
    (void)step(&scheduler);
    assert_int_equal(schedule_look(c, "once").runs, 1);
    assert_in_range(schedule_look(c, "skip").runs, 0, 1);
    assert_in_range(schedule_look(c, "all").runs, 500, 501);
    assert_true(has_task(c, "all", FIRST_S - 499));
    assert_true(schedule_look(c, "skip").last_s >= FIRST_S - 1);
    assert_non_null(strstr(scheduler.lines, "missed ticks are skipped"));
    close_scheduler(&scheduler);
}

/* An hour ahead, and back. */
static void clock_that_is_set_repeats_no_tick(struct contract *c)
{
    struct scheduler scheduler;
    struct qn_schedule_entry entry = schedule_entry("e");
    uint64_t revision = 0;
    if (c->maker->has_clock) {
        skip(); /* that one stays as it is */
    }
    open_scheduler(c, &scheduler);
    entry.cron = "*/10 * * * * *";
    entry.with_seconds = true;
    entry.misfire = QN_MISFIRE_ALL;
    entry.misfire_max = 1000;
    entry.last_s = FIRST_S;
    assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_NONE, &revision), QN_PUT_ADDED);
    run_for(c, &scheduler, 30000);
    contract_jump(c, HOUR_MS);
    run_for(c, &scheduler, 30000);
    int64_t last_s = schedule_look(c, "e").last_s;
    assert_int_equal(last_s, FIRST_S + 3600 + 60);
    assert_int_equal(count_tasks(c), (last_s - FIRST_S) / 10);
    contract_jump(c, -HOUR_MS);
    run_for(c, &scheduler, 60000);
    assert_int_equal(schedule_look(c, "e").last_s, last_s);
    assert_int_equal(count_tasks(c), (last_s - FIRST_S) / 10);
    assert_non_null(strstr(scheduler.lines, "clock of the broker was set"));
    assert_non_null(strstr(scheduler.lines, "entries_ahead_of_it=1"));
    contract_jump(c, HOUR_MS); /* it goes on where it was */
    run_for(c, &scheduler, 10000);
    assert_true(schedule_look(c, "e").last_s > last_s);
    assert_int_equal(count_tasks(c), (schedule_look(c, "e").last_s - FIRST_S) / 10);
    close_scheduler(&scheduler);
}

/* --- Nights in which clocks change ---------------------------------------------------- */

static const char *const night_crons[] = {"*/15 * * * *", "30 2 * * *", "30 1 * * *", "45 1 * * *"};
#define NIGHT_ENTRIES TEST_COUNT(night_crons)

struct night {
    const char *name;
    const char *zone;
    int64_t noon_s;         /* UTC, before the night */
    uint64_t half_past_two; /* so many in two days, as Go's library has them; 0: not known */
    uint64_t half_past_one;
};

static void name_entry(char out[64], const struct night *night, size_t index)
{
    (void)snprintf(out, 64, "%s-%zu", night->name, index);
}

/* Two days, an hour at a time, from noon before the night. */
static void pass_night(struct contract *c, struct scheduler *scheduler, const struct night *night)
{
    char name[64];
    uint64_t revision = 0;
    contract_advance(c, night->noon_s * 1000 - qn_leader_now_ms(&scheduler->leader));
    (void)step(scheduler);
    for (size_t i = 0; i < NIGHT_ENTRIES; i++) {
        name_entry(name, night, i);
        struct qn_schedule_entry entry = schedule_entry(name);
        entry.cron = night_crons[i];
        entry.zone = night->zone;
        entry.misfire = QN_MISFIRE_ALL;
        entry.misfire_max = 1000;
        entry.last_s = night->noon_s;
        assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_NONE, &revision), QN_PUT_ADDED);
    }
    for (int i = 0; i < 2 * 24; i++) {
        (void)step(scheduler);
        contract_advance(c, HOUR_MS);
    }
    (void)step(scheduler);
}

/* How many tasks there must be: those of a walk over the moments, each of which is there. */
static uint64_t walk_night(struct contract *c, struct scheduler *scheduler,
                           const struct night *night, size_t index)
{
    struct qn_cron cron;
    const struct qn_zone *zone;
    char name[64];
    uint64_t count = 0;
    int64_t at_ms = night->noon_s * 1000;
    name_entry(name, night, index);
    assert_int_equal(qn_cron_parse(night_crons[index], 0, &cron, NULL), QUERN_OK);
    assert_int_equal(qn_zones_get(&scheduler->zones, night->zone, &zone, NULL), QUERN_OK);
    while (qn_cron_next(&cron, zone, at_ms, &at_ms) &&
           at_ms <= night->noon_s * 1000 + 48 * HOUR_MS) {
        assert_true(has_task(c, name, at_ms / 1000));
        count++;
    }
    return count;
}

static void nights_of_a_change_have_the_ticks_of_their_zone(struct contract *c)
{
    static const struct night nights[] = {
        {"york-spring", "America/New_York", 1804939200, 1, 2},
        {"berlin-spring", "Europe/Berlin", 1806148800, 1, 2},
        {"howe-autumn", "Australia/Lord_Howe", 1806667200, 0, 0},
        {"howe-spring", "Australia/Lord_Howe", 1822392000, 0, 0},
        {"berlin-autumn", "Europe/Berlin", 1824897600, 3, 2},
        {"york-autumn", "America/New_York", 1825502400, 2, 3},
    };
    char name[64];
    struct scheduler scheduler;
    open_scheduler(c, &scheduler);
    (void)step(&scheduler);
    for (size_t i = 0; i < TEST_COUNT(nights); i++) {
        const struct night *night = &nights[i];
        pass_night(c, &scheduler, night);
        for (size_t k = 0; k < NIGHT_ENTRIES; k++) {
            name_entry(name, night, k);
            uint64_t count = walk_night(c, &scheduler, night, k);
            assert_int_equal(schedule_look(c, name).runs, count);
            assert_true(k != 1 || night->half_past_two == 0 || count == night->half_past_two);
            assert_true(k != 2 || night->half_past_one == 0 || count == night->half_past_one);
            assert_int_equal(schedule_remove(c, name), QUERN_OK);
        }
    }
    close_scheduler(&scheduler);
}

static void changed_and_paused_entries_are_noticed(struct contract *c)
{
    struct scheduler scheduler;
    open_scheduler(c, &scheduler);
    put_seconds(c, "e", QN_MISFIRE_ONCE, FIRST_S);
    run_for(c, &scheduler, 3000);
    assert_int_equal(schedule_pause(c, "e", QN_ENTRY_PAUSE), QUERN_OK);
    uint64_t runs = schedule_look(c, "e").runs;
    assert_true(runs > 0);
    run_for(c, &scheduler, 5000);
    assert_int_equal(schedule_look(c, "e").runs, runs);
    assert_int_equal(schedule_pause(c, "e", QN_ENTRY_RESUME), QUERN_OK);
    run_for(c, &scheduler, 5000);
    assert_true(schedule_look(c, "e").runs > runs);
    assert_int_equal(schedule_remove(c, "e"), QUERN_OK);
    uint64_t count = count_tasks(c);
    run_for(c, &scheduler, 5000);
    assert_int_equal(count_tasks(c), count);
    close_scheduler(&scheduler);
}

static void entry_that_cannot_be_planned_costs_no_other(struct contract *c)
{
    struct scheduler scheduler;
    struct qn_schedule_entry bad = schedule_entry("bad");
    uint64_t revision = 0;
    open_scheduler(c, &scheduler);
    bad.zone = "Nowhere/Else";
    assert_int_equal(schedule_put_one(c, &bad, QN_REVISION_NONE, &revision), QN_PUT_ADDED);
    put_seconds(c, "good", QN_MISFIRE_ONCE, FIRST_S);
    run_for(c, &scheduler, 40000); /* with a second loading */
    assert_true(schedule_look(c, "good").runs >= 39);
    const char *line = strstr(scheduler.lines, "entry cannot be enqueued");
    assert_non_null(line);
    assert_null(strstr(line + 1, "entry cannot be enqueued")); /* logged once */
    close_scheduler(&scheduler);
}

static void task_of_a_tick_has_its_name_and_moment(struct contract *c)
{
    struct scheduler scheduler;
    open_scheduler(c, &scheduler);
    put_seconds(c, "e", QN_MISFIRE_ONCE, FIRST_S);
    contract_advance(c, 1000);
    (void)step(&scheduler);
    struct qn_leased *run = contract_take(c, "default");
    assert_non_null(run);
    assert_string_equal(run->task.id, "e@2027-01-15T08:00:01Z");
    assert_int_equal(run->task.header_count, 2);
    assert_string_equal(run->task.headers[0].name, "quern-entry");
    assert_string_equal(run->task.headers[0].value, "e");
    assert_string_equal(run->task.headers[1].name, "quern-tick");
    assert_string_equal(run->task.headers[1].value, "2027-01-15T08:00:01Z");
    (void)contract_finish(c, run, QN_DONE);
    close_scheduler(&scheduler);
}

/* --- Leaders -------------------------------------------------------------------------- */

static void stopped_leader_enqueues_nothing_again(struct contract *c)
{
    struct scheduler first;
    struct scheduler second;
    open_scheduler(c, &first);
    open_scheduler(c, &second);
    put_seconds(c, "e", QN_MISFIRE_ALL, FIRST_S);
    run_for(c, &first, 3000);
    assert_true(first.leader.leads);
    (void)step(&second);
    assert_false(second.leader.leads);
    assert_true(second.leader.has_seen_one);
    contract_advance(c, QN_LEADER_LEASE_MS + 1000); /* the first one stands still */
    run_for(c, &second, 3000);
    assert_true(second.leader.leads);
    uint64_t count = count_tasks(c);
    (void)step(&first);
    assert_false(first.leader.leads);
    assert_int_equal(count_tasks(c), count);
    int64_t last_s = schedule_look(c, "e").last_s;
    assert_int_equal(count, last_s - FIRST_S);
    close_scheduler(&second);
    close_scheduler(&first);
}

/* Its request is on its way when another one leads: it believes to lead, and has planned. */
static void leader_that_is_refused_ends_leading(struct contract *c)
{
    struct scheduler first;
    open_scheduler(c, &first);
    put_seconds(c, "e", QN_MISFIRE_ONCE, FIRST_S);
    run_for(c, &first, 2500);
    assert_true(first.leader.leads);
    int64_t known_s = schedule_look(c, "e").last_s;
    contract_advance(c, 500);
    if (known_s < FIRST_S + 3) { /* what it is about to send */
        assert_int_equal(schedule_tick(c, "e", FIRST_S + 3), QN_TICKED);
    }
    uint64_t count = count_tasks(c);
    (void)step(&first);
    assert_int_equal(count_tasks(c), count);
    assert_false(first.leader.leads);
    assert_non_null(strstr(first.lines, "scheduler leads no longer"));
    run_for(c, &first, 3000); /* in a later epoch it leads again */
    assert_true(first.leader.leads);
    assert_int_equal(count_tasks(c), schedule_look(c, "e").last_s - FIRST_S);
    close_scheduler(&first);
}

static void leader_whose_lease_may_be_over_sends_nothing(struct contract *c)
{
    struct scheduler first;
    open_scheduler(c, &first);
    put_seconds(c, "e", QN_MISFIRE_ALL, FIRST_S);
    run_for(c, &first, 2000);
    assert_true(qn_leader_may_send(&first.leader));
    contract_advance(c, QN_LEADER_LEASE_MS * 2 / 3 + 1);
    assert_false(qn_leader_may_send(&first.leader));
    (void)step(&first); /* it takes the lease again first */
    assert_non_null(strstr(first.lines, "its lease was not renewed in time"));
    assert_true(first.leader.leads);
    close_scheduler(&first);
}

static void lease_that_is_given_back_is_taken_at_once(struct contract *c)
{
    struct scheduler first;
    struct scheduler second;
    open_scheduler(c, &first);
    open_scheduler(c, &second);
    (void)step(&first);
    (void)step(&second);
    assert_false(second.leader.leads);
    qn_leader_give_back(&first.leader);
    contract_advance(c, QN_LEADER_LOOK_MS);
    (void)step(&second);
    assert_true(second.leader.leads);
    assert_true(second.leader.epoch > first.leader.epoch);
    close_scheduler(&second);
    close_scheduler(&first);
}

/* Go's programs list the entries of one scheduler only. */
static void new_leader_removes_the_record_of_the_one_before(struct contract *c)
{
    struct scheduler first;
    struct scheduler second;
    open_scheduler(c, &first);
    open_scheduler(c, &second);
    put_seconds(c, "e", QN_MISFIRE_ONCE, FIRST_S);
    (void)step(&first);
    (void)step(&second);
    assert_int_equal(test_redis_count(test_store_server(), "ZCARD asynq:schedulers"), 1);
    contract_advance(c, QN_LEADER_LEASE_MS + 1000);
    (void)step(&second);
    assert_true(second.leader.leads);
    assert_int_equal(test_redis_count(test_store_server(), "ZCARD asynq:schedulers"), 1);
    close_scheduler(&second);
    close_scheduler(&first);
}

/* --- Hooks ---------------------------------------------------------------------------- */

struct hooks {
    size_t before_count;
    size_t after_count;
    size_t veto_count;
};

/* Refuses each second tick, and changes the others. */
static bool before(const quern_tick *tick, quern_task *task, void *user)
{
    struct hooks *hooks = user;
    hooks->before_count++;
    task->payload = "changed";
    task->payload_size = strlen("changed");
    return tick->at_ms / 1000 % 2 == 0;
}

static void after(const quern_tick *tick, void *user)
{
    struct hooks *hooks = user;
    hooks->after_count++;
    hooks->veto_count += tick->vetoed ? 1 : 0;
    assert_false(tick->is_duplicate);
}

static void hooks_change_and_veto_tasks(struct contract *c)
{
    struct scheduler scheduler;
    struct hooks calls = {0};
    const struct qn_ticker_hooks hooks = {.before = before, .after = after, .user = &calls};
    open_with(c, &hooks, &scheduler);
    put_seconds(c, "e", QN_MISFIRE_ALL, FIRST_S - 4);
    (void)step(&scheduler);
    int64_t last_s = schedule_look(c, "e").last_s;
    assert_in_range(last_s, FIRST_S, FIRST_S + 1);
    assert_true(has_task(c, "e", FIRST_S));
    assert_true(has_task(c, "e", FIRST_S - 2));
    assert_false(has_task(c, "e", FIRST_S - 1));
    assert_false(has_task(c, "e", FIRST_S - 3));
    assert_int_equal(calls.before_count, last_s - FIRST_S + 4);
    assert_int_equal(calls.after_count, calls.before_count);
    assert_int_equal(calls.veto_count, 2 + (last_s - FIRST_S));
    struct qn_leased *run = contract_take(c, "default");
    assert_int_equal(run->task.payload_size, strlen("changed"));
    assert_memory_equal(run->task.payload, "changed", strlen("changed"));
    (void)contract_finish(c, run, QN_DONE);
    close_scheduler(&scheduler);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(each_second_is_enqueued_once),
    CONTRACT_TEST(ticks_of_a_downtime_follow_the_policy),
    CONTRACT_TEST(clock_that_is_set_repeats_no_tick),
    CONTRACT_TEST(nights_of_a_change_have_the_ticks_of_their_zone),
    CONTRACT_TEST(changed_and_paused_entries_are_noticed),
    CONTRACT_TEST(entry_that_cannot_be_planned_costs_no_other),
    CONTRACT_TEST(task_of_a_tick_has_its_name_and_moment),
    CONTRACT_TEST(stopped_leader_enqueues_nothing_again),
    CONTRACT_TEST(leader_that_is_refused_ends_leading),
    CONTRACT_TEST(leader_whose_lease_may_be_over_sends_nothing),
    CONTRACT_TEST(lease_that_is_given_back_is_taken_at_once),
    CONTRACT_TEST_ONLY("redis", new_leader_removes_the_record_of_the_one_before),
    CONTRACT_TEST(hooks_change_and_veto_tasks),
};
CONTRACT_MAIN(tests)
