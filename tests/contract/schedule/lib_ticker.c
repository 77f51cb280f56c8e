/* SPDX-License-Identifier: MIT */
/* lib_ticker.c - the loop of a scheduler without its thread. */
#include "lib_ticker.h"

#include <stdio.h>
#include <string.h>

#include "lib_schedule.h"
#include "schedule/tick/tick_task.h"

static void keep_line(quern_log_level level, const char *line, void *user)
{
    struct ticker_test *scheduler = user;
    size_t used = strlen(scheduler->lines);
    (void)level;
    (void)snprintf(scheduler->lines + used, sizeof scheduler->lines - used, "%s\n", line);
}

void ticker_open_with(struct contract *c, const struct qn_ticker_hooks *hooks,
                      struct ticker_test *scheduler)
{
    quern_error err = {0};
    *scheduler = (struct ticker_test){.broker = contract_open(c)};
    qn_log_init(&scheduler->log, keep_line, scheduler);
    assert_ok(qn_zones_init(&scheduler->zones, TEST_DATA "/zoneinfo", &err), err);
    assert_ok(
        qn_leader_init(&scheduler->leader, scheduler->broker, &c->clock, &scheduler->log, &err),
        err);
    qn_ticker_init(&scheduler->ticker, &scheduler->leader, &scheduler->zones, hooks);
}

void ticker_open(struct contract *c, struct ticker_test *scheduler)
{
    const struct qn_ticker_hooks none = {.before = NULL};
    ticker_open_with(c, &none, scheduler);
}

void ticker_close(struct ticker_test *scheduler)
{
    qn_ticker_finish(&scheduler->ticker);
    qn_zones_finish(&scheduler->zones);
    qn_log_finish(&scheduler->log);
    qn_broker_close(scheduler->broker);
}

int64_t ticker_step(struct ticker_test *scheduler)
{
    int64_t sleep_ms = 0;
    quern_error err = {0};
    assert_ok(qn_ticker_step(&scheduler->ticker, &sleep_ms, &err), err);
    return sleep_ms;
}

void ticker_put_seconds(struct contract *c, const char *name, enum qn_misfire misfire,
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

bool ticker_has_task(struct contract *c, const char *name, int64_t tick_s)
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
