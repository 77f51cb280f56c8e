/* SPDX-License-Identifier: MIT */
/* lib_schedule.c - entries, schedulers and ticks for the contract tests of schedules. */
#include "lib_schedule.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib_task.h"

struct qn_schedule_entry schedule_entry(const char *name)
{
    struct qn_schedule_entry entry = {.name = name,
                                      .task = test_task(NULL),
                                      .origin = "cli",
                                      .cron = "* * * * *",
                                      .zone = "",
                                      .misfire = QN_MISFIRE_ONCE,
                                      .misfire_max = 1,
                                      .late_ms = 60000};
    return entry;
}

enum qn_put_result schedule_put_one(struct contract *c, const struct qn_schedule_entry *entry,
                                    uint64_t expected, uint64_t *ret_revision)
{
    struct qn_put put = {.entry = entry, .expected = expected};
    quern_error err = {0};
    assert_ok(qn_schedule_put(c->broker, &put, 1, &err), err);
    *ret_revision = put.revision;
    return put.result;
}

uint64_t schedule_put(struct contract *c, const char *name)
{
    struct qn_schedule_entry entry = schedule_entry(name);
    uint64_t revision = 0;
    entry.last_s = SCHEDULE_LAST_S;
    assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_NONE, &revision), QN_PUT_ADDED);
    assert_int_not_equal(revision, 0);
    return revision;
}

quern_status schedule_remove(struct contract *c, const char *name)
{
    const struct qn_entry_key key = {.queue = "default", .name = name, .revision = QN_REVISION_ANY};
    return qn_schedule_remove(c->broker, &key, NULL);
}

quern_status schedule_pause(struct contract *c, const char *name, enum qn_entry_pause what)
{
    const struct qn_entry_key key = {.queue = "default", .name = name, .revision = QN_REVISION_ANY};
    return qn_schedule_pause(c->broker, &key, what, NULL);
}

static bool view_entry(const struct qn_schedule_entry *entry, void *user)
{
    struct schedule_view *view = user;
    assert_false(view->found);
    assert_null(entry->fault);
    assert_string_equal(entry->task.queue, "default");
    *view = (struct schedule_view){.found = true,
                                   .revision = entry->revision,
                                   .created_at_ms = entry->created_at_ms,
                                   .paused_at_ms = entry->paused_at_ms,
                                   .last_s = entry->last_s,
                                   .runs = entry->runs};
    (void)snprintf(view->cron, sizeof view->cron, "%s", entry->cron);
    return true;
}

struct schedule_view schedule_look(struct contract *c, const char *name)
{
    struct schedule_view view = {0};
    quern_error err = {0};
    const struct qn_entry_filter filter = {.queue = "default", .name = name};
    assert_ok(qn_schedule_list(c->broker, &filter, view_entry, &view, &err), err);
    return view;
}

struct qn_lead_reply schedule_lead(struct qn_broker *broker, const char *name,
                                   enum qn_lead_what what)
{
    char owner[QN_OWNER_SIZE];
    char id[64];
    quern_error err = {0};
    struct qn_lead_reply reply;
    assert_ok(qn_owner_self(owner, &err), err);
    (void)snprintf(id, sizeof id, "host:1:%s", name);
    const struct qn_lead lead = {
        .what = what, .owner = owner, .id = id, .lease_ms = SCHEDULE_LEASE_MS};
    assert_ok(qn_schedule_lead(broker, &lead, &reply, &err), err);
    return reply;
}

uint64_t schedule_take(struct qn_broker *broker, const char *name)
{
    quern_error err = {0};
    struct qn_lead_reply reply = schedule_lead(broker, name, QN_LEAD_TAKE);
    assert_true(reply.leads);
    assert_ok(qn_schedule_claim(broker, reply.epoch, &err), err);
    return reply.epoch;
}

enum qn_tick_result schedule_send(struct qn_broker *broker, uint64_t epoch, struct qn_tick *tick)
{
    char id[QN_ENTRY_NAME_SIZE_MAX + 32];
    quern_error err = {0};
    (void)snprintf(id, sizeof id, "%s@%" PRId64, tick->name, tick->tick_s);
    struct qn_task task = test_task(id);
    struct qn_ticks ticks = {.epoch = epoch, .ticks = tick, .count = 1};
    tick->queue = "default";
    tick->task = tick->what == QN_TICK_ENQUEUE || tick->what == QN_TICK_LATE ? &task : NULL;
    tick->result = 0;
    assert_ok(qn_schedule_tick(broker, &ticks, &err), err);
    tick->task = NULL;
    return tick->result;
}

enum qn_tick_result schedule_tick(struct contract *c, const char *name, int64_t tick_s)
{
    struct schedule_view view = schedule_look(c, name);
    struct qn_tick tick = {.name = name,
                           .revision = view.revision,
                           .known_s = view.last_s,
                           .tick_s = tick_s,
                           .what = QN_TICK_ENQUEUE};
    uint64_t epoch = schedule_lead(c->broker, "", QN_LEAD_LOOK).epoch;
    return schedule_send(c->broker, epoch, &tick);
}

static bool keep_event(const struct qn_tick_event *event, void *user)
{
    struct schedule_events *events = user;
    assert_true(events->count < SCHEDULE_EVENTS_MAX);
    events->events[events->count] = *event;
    (void)snprintf(events->ids[events->count], sizeof events->ids[0], "%s", event->id);
    events->events[events->count].id = events->ids[events->count];
    events->count++;
    return true;
}

void schedule_history(struct contract *c, const char *name, struct schedule_events *ret_events)
{
    quern_error err = {0};
    const struct qn_entry_key key = {.queue = "default", .name = name, .revision = QN_REVISION_ANY};
    ret_events->count = 0;
    assert_ok(qn_schedule_history(c->broker, &key, keep_event, ret_events, &err), err);
}
