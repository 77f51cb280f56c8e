/* SPDX-License-Identifier: MIT */
/* test_ticker.c - the loop of the leading scheduler on a turned clock: which tasks it enqueues, and
 * what ends its leadership. */
#include <stdio.h>
#include <string.h>

#include "lib_schedule.h"
#include "lib_ticker.h"

#define FIRST_S SCHEDULE_NOW_S /* a whole minute */
#define HOUR_MS (3600 * INT64_C(1000))

/* Lets it run for this long, as if it slept as long as it wants to. */
static void run_for(struct contract *c, struct ticker_test *scheduler, int64_t ms)
{
    for (int64_t left_ms = ms; left_ms > 0;) {
        int64_t sleep_ms = ticker_step(scheduler);
        sleep_ms = sleep_ms < 1 ? 1 : sleep_ms;
        sleep_ms = sleep_ms < left_ms ? sleep_ms : left_ms;
        contract_advance(c, sleep_ms);
        left_ms -= sleep_ms;
    }
    (void)ticker_step(scheduler);
}

static uint64_t count_tasks(struct contract *c)
{
    return contract_queue(c, "default").size;
}

/* --- Ticks ---------------------------------------------------------------------------- */

static void each_second_is_enqueued_once(struct contract *c)
{
    struct ticker_test scheduler;
    ticker_open(c, &scheduler);
    ticker_put_seconds(c, "e", QN_MISFIRE_ONCE, FIRST_S);
    run_for(c, &scheduler, 20000);
    int64_t last_s = schedule_look(c, "e").last_s;
    assert_in_range(last_s, FIRST_S + 19, FIRST_S + 21);
    for (int64_t tick_s = FIRST_S + 1; tick_s <= last_s; tick_s++) {
        assert_true(ticker_has_task(c, "e", tick_s));
    }
    assert_int_equal(count_tasks(c), last_s - FIRST_S);
    ticker_close(&scheduler);
}

static void ticks_of_a_downtime_follow_the_policy(struct contract *c)
{
    struct ticker_test scheduler;
    ticker_open(c, &scheduler);
    ticker_put_seconds(c, "once", QN_MISFIRE_ONCE, FIRST_S - 500);
    ticker_put_seconds(c, "skip", QN_MISFIRE_SKIP, FIRST_S - 500);
    ticker_put_seconds(c, "all", QN_MISFIRE_ALL, FIRST_S - 500); /* more than one request */
    (void)ticker_step(&scheduler);
    assert_int_equal(schedule_look(c, "once").runs, 1);
    assert_in_range(schedule_look(c, "skip").runs, 0, 1);
    assert_in_range(schedule_look(c, "all").runs, 500, 501);
    assert_true(ticker_has_task(c, "all", FIRST_S - 499));
    assert_true(schedule_look(c, "skip").last_s >= FIRST_S - 1);
    assert_non_null(strstr(scheduler.lines, "missed ticks are skipped"));
    ticker_close(&scheduler);
}

/* That of the broker; where it has none of its own, that of the scheduler. */
static void set_clock(struct contract *c, int64_t by_ms)
{
    if (c->maker->has_clock) {
        test_store_advance(&c->store, by_ms);
    } else {
        contract_jump(c, by_ms);
    }
}

/* An hour ahead, and back. */
static void clock_that_is_set_repeats_no_tick(struct contract *c)
{
    struct ticker_test scheduler;
    struct qn_schedule_entry entry = schedule_entry("e");
    uint64_t revision = 0;
    ticker_open(c, &scheduler);
    entry.cron = "*/10 * * * * *";
    entry.with_seconds = true;
    entry.misfire = QN_MISFIRE_ALL;
    entry.misfire_max = 1000;
    entry.last_s = FIRST_S;
    assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_NONE, &revision), QN_PUT_ADDED);
    run_for(c, &scheduler, 30000);
    set_clock(c, HOUR_MS);
    run_for(c, &scheduler, 30000);
    int64_t last_s = schedule_look(c, "e").last_s;
    assert_int_equal(last_s, FIRST_S + 3600 + 60);
    assert_int_equal(count_tasks(c), (last_s - FIRST_S) / 10);
    set_clock(c, -HOUR_MS);
    run_for(c, &scheduler, 60000);
    assert_int_equal(schedule_look(c, "e").last_s, last_s);
    assert_int_equal(count_tasks(c), (last_s - FIRST_S) / 10);
    assert_non_null(strstr(scheduler.lines, "clock of the broker was set"));
    assert_non_null(strstr(scheduler.lines, "entries_ahead_of_it=1"));
    struct ticker_test next; /* has not seen that the clock was set */
    ticker_open(c, &next);
    contract_advance(c, QN_LEADER_LEASE_MS + 1000);
    run_for(c, &next, 3000);
    assert_true(next.leader.leads);
    assert_non_null(strstr(next.lines, "last ticks lie ahead of the broker's clock"));
    ticker_close(&next);
    set_clock(c, HOUR_MS); /* it goes on where it was */
    run_for(c, &scheduler, 30000);
    assert_true(schedule_look(c, "e").last_s > last_s);
    assert_int_equal(count_tasks(c), (schedule_look(c, "e").last_s - FIRST_S) / 10);
    ticker_close(&scheduler);
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
static void pass_night(struct contract *c, struct ticker_test *scheduler, const struct night *night)
{
    char name[64];
    uint64_t revision = 0;
    contract_advance(c, night->noon_s * 1000 - qn_leader_now_ms(&scheduler->leader));
    (void)ticker_step(scheduler);
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
        (void)ticker_step(scheduler);
        contract_advance(c, HOUR_MS);
    }
    (void)ticker_step(scheduler);
}

/* How many tasks there must be: those of a walk over the moments, each of which is there. */
static uint64_t walk_night(struct contract *c, struct ticker_test *scheduler,
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
        assert_true(ticker_has_task(c, name, at_ms / 1000));
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
    struct ticker_test scheduler;
    ticker_open(c, &scheduler);
    (void)ticker_step(&scheduler);
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
    ticker_close(&scheduler);
}

static void changed_and_paused_entries_are_noticed(struct contract *c)
{
    struct ticker_test scheduler;
    ticker_open(c, &scheduler);
    ticker_put_seconds(c, "e", QN_MISFIRE_ONCE, FIRST_S);
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
    ticker_close(&scheduler);
}

static void entry_that_cannot_be_planned_costs_no_other(struct contract *c)
{
    struct ticker_test scheduler;
    struct qn_schedule_entry bad = schedule_entry("bad");
    uint64_t revision = 0;
    ticker_open(c, &scheduler);
    bad.zone = "Nowhere/Else";
    assert_int_equal(schedule_put_one(c, &bad, QN_REVISION_NONE, &revision), QN_PUT_ADDED);
    ticker_put_seconds(c, "good", QN_MISFIRE_ONCE, FIRST_S);
    run_for(c, &scheduler, 40000); /* with a second loading */
    assert_true(schedule_look(c, "good").runs >= 39);
    const char *line = strstr(scheduler.lines, "entry cannot be enqueued");
    assert_non_null(line);
    assert_null(strstr(line + 1, "entry cannot be enqueued")); /* logged once */
    ticker_close(&scheduler);
}

static void full_queue_is_the_reason_of_a_tick_that_is_not_enqueued(struct contract *c)
{
    const quern_queue_settings one = {.max_pending = 1};
    const quern_queue_settings none = {.max_pending = QUERN_MAX_PENDING_NONE};
    struct ticker_test scheduler;
    quern_error err = {0};
    ticker_open(c, &scheduler);
    contract_put(c, "default", "waits");
    assert_ok(qn_broker_set_queue(c->broker, "default", &one, &err), err);
    ticker_put_seconds(c, "e", QN_MISFIRE_ONCE, FIRST_S);
    run_for(c, &scheduler, 5000);
    assert_int_equal(schedule_look(c, "e").runs, 0);
    const char *line = strstr(scheduler.lines, "tick cannot be enqueued");
    assert_non_null(line);
    assert_non_null(strstr(line, "max_pending"));
    assert_null(strstr(line + 1, "tick cannot be enqueued")); /* logged once */
    assert_ok(qn_broker_set_queue(c->broker, "default", &none, &err), err);
    run_for(c, &scheduler, 5000);
    assert_true(schedule_look(c, "e").runs >= 5);
    ticker_close(&scheduler);
}

static void task_of_a_tick_has_its_name_and_moment(struct contract *c)
{
    struct ticker_test scheduler;
    ticker_open(c, &scheduler);
    ticker_put_seconds(c, "e", QN_MISFIRE_ONCE, FIRST_S);
    contract_advance(c, 1000);
    (void)ticker_step(&scheduler);
    struct qn_leased *run = contract_take(c, "default");
    assert_non_null(run);
    assert_string_equal(run->task.id, "e@2027-01-15T08:00:01Z");
    assert_int_equal(run->task.header_count, 2);
    assert_string_equal(run->task.headers[0].name, "quern-entry");
    assert_string_equal(run->task.headers[0].value, "e");
    assert_string_equal(run->task.headers[1].name, "quern-tick");
    assert_string_equal(run->task.headers[1].value, "2027-01-15T08:00:01Z");
    (void)contract_finish(c, run, QN_DONE);
    ticker_close(&scheduler);
}

/* By the same time under any scheduler; its lock and its time to start count from then. */
static void jitter_delays_the_task_of_a_tick(struct contract *c)
{
    struct ticker_test scheduler;
    struct qn_schedule_entry entry = schedule_entry("e");
    uint64_t revision = 0;
    int64_t due_at_ms = FIRST_S * 1000 + qn_plan_jitter_ms("e", FIRST_S, 5 * HOUR_MS);
    ticker_open(c, &scheduler);
    entry.jitter_ms = 5 * HOUR_MS;
    entry.last_s = FIRST_S - 60;
    entry.task.start_by_at_ms = HOUR_MS;
    assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_NONE, &revision), QN_PUT_ADDED);
    (void)ticker_step(&scheduler);
    assert_true(due_at_ms > (FIRST_S + 60) * 1000);
    struct contract_view info = contract_inspect(c, "default", "e@2027-01-15T08:00:00Z");
    assert_int_equal(info.state, QUERN_TASK_SCHEDULED);
    assert_int_equal(info.at_ms, due_at_ms);
    assert_int_equal(schedule_look(c, "e").last_s, FIRST_S);
    contract_advance(c, due_at_ms - FIRST_S * 1000);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    struct qn_leased *run = contract_take_id(c, "default", "e@2027-01-15T08:00:00Z");
    assert_int_equal(run->task.start_by_at_ms, due_at_ms + HOUR_MS);
    qn_leased_free(run);
    ticker_close(&scheduler);
}

/* --- Leaders -------------------------------------------------------------------------- */

static void stopped_leader_enqueues_nothing_again(struct contract *c)
{
    struct ticker_test first;
    struct ticker_test second;
    ticker_open(c, &first);
    ticker_open(c, &second);
    ticker_put_seconds(c, "e", QN_MISFIRE_ALL, FIRST_S);
    run_for(c, &first, 3000);
    assert_true(first.leader.leads);
    (void)ticker_step(&second);
    assert_false(second.leader.leads);
    assert_true(second.leader.has_seen_one);
    contract_advance(c, QN_LEADER_LEASE_MS + 1000); /* the first one stands still */
    run_for(c, &second, 3000);
    assert_true(second.leader.leads);
    uint64_t count = count_tasks(c);
    (void)ticker_step(&first);
    assert_false(first.leader.leads);
    assert_int_equal(count_tasks(c), count);
    int64_t last_s = schedule_look(c, "e").last_s;
    assert_int_equal(count, last_s - FIRST_S);
    ticker_close(&second);
    ticker_close(&first);
}

/* Its request is on its way when another one leads: it believes to lead, and has planned. */
static void leader_that_is_refused_ends_leading(struct contract *c)
{
    struct ticker_test first;
    ticker_open(c, &first);
    ticker_put_seconds(c, "e", QN_MISFIRE_ONCE, FIRST_S);
    run_for(c, &first, 2500);
    assert_true(first.leader.leads);
    int64_t known_s = schedule_look(c, "e").last_s;
    contract_advance(c, 500);
    if (known_s < FIRST_S + 3) { /* what it is about to send */
        assert_int_equal(schedule_tick(c, "e", FIRST_S + 3), QN_TICKED);
    }
    uint64_t count = count_tasks(c);
    (void)ticker_step(&first);
    assert_int_equal(count_tasks(c), count);
    assert_false(first.leader.leads);
    assert_non_null(strstr(first.lines, "scheduler leads no longer"));
    run_for(c, &first, 3000); /* in a later epoch it leads again */
    assert_true(first.leader.leads);
    assert_int_equal(count_tasks(c), schedule_look(c, "e").last_s - FIRST_S);
    ticker_close(&first);
}

static void leader_whose_lease_may_be_over_sends_nothing(struct contract *c)
{
    struct ticker_test first;
    ticker_open(c, &first);
    ticker_put_seconds(c, "e", QN_MISFIRE_ALL, FIRST_S);
    run_for(c, &first, 2000);
    assert_true(qn_leader_may_send(&first.leader));
    contract_advance(c, QN_LEADER_LEASE_MS * 2 / 3 + 1);
    assert_false(qn_leader_may_send(&first.leader));
    (void)ticker_step(&first); /* it takes the lease again first */
    assert_non_null(strstr(first.lines, "its lease was not renewed in time"));
    assert_true(first.leader.leads);
    ticker_close(&first);
}

static void lease_that_is_given_back_is_taken_at_once(struct contract *c)
{
    struct ticker_test first;
    struct ticker_test second;
    ticker_open(c, &first);
    ticker_open(c, &second);
    (void)ticker_step(&first);
    (void)ticker_step(&second);
    assert_false(second.leader.leads);
    qn_leader_give_back(&first.leader);
    contract_advance(c, QN_LEADER_LOOK_MS);
    (void)ticker_step(&second);
    assert_true(second.leader.leads);
    assert_true(second.leader.epoch > first.leader.epoch);
    ticker_close(&second);
    ticker_close(&first);
}

/* Go's programs list the entries of one scheduler only. */
static void new_leader_removes_the_record_of_the_one_before(struct contract *c)
{
    struct ticker_test first;
    struct ticker_test second;
    ticker_open(c, &first);
    ticker_open(c, &second);
    ticker_put_seconds(c, "e", QN_MISFIRE_ONCE, FIRST_S);
    (void)ticker_step(&first);
    (void)ticker_step(&second);
    assert_int_equal(test_redis_count(test_store_server(), "ZCARD asynq:schedulers"), 1);
    contract_advance(c, QN_LEADER_LEASE_MS + 1000);
    (void)ticker_step(&second);
    assert_true(second.leader.leads);
    assert_int_equal(test_redis_count(test_store_server(), "ZCARD asynq:schedulers"), 1);
    ticker_close(&second);
    ticker_close(&first);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(each_second_is_enqueued_once),
    CONTRACT_TEST(ticks_of_a_downtime_follow_the_policy),
    CONTRACT_TEST(clock_that_is_set_repeats_no_tick),
    CONTRACT_TEST(nights_of_a_change_have_the_ticks_of_their_zone),
    CONTRACT_TEST(changed_and_paused_entries_are_noticed),
    CONTRACT_TEST(entry_that_cannot_be_planned_costs_no_other),
    CONTRACT_TEST(full_queue_is_the_reason_of_a_tick_that_is_not_enqueued),
    CONTRACT_TEST(task_of_a_tick_has_its_name_and_moment),
    CONTRACT_TEST(jitter_delays_the_task_of_a_tick),
    CONTRACT_TEST(stopped_leader_enqueues_nothing_again),
    CONTRACT_TEST(leader_that_is_refused_ends_leading),
    CONTRACT_TEST(leader_whose_lease_may_be_over_sends_nothing),
    CONTRACT_TEST(lease_that_is_given_back_is_taken_at_once),
    CONTRACT_TEST_ONLY("redis", new_leader_removes_the_record_of_the_one_before),
};
CONTRACT_MAIN(tests)
