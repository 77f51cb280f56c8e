/* SPDX-License-Identifier: MIT */
/* lib_schedule.h - entries, schedulers and ticks for the contract tests of schedules. */
#ifndef TEST_CONTRACT_LIB_SCHEDULE_H
#define TEST_CONTRACT_LIB_SCHEDULE_H

#include "broker/schedule/schedule.h"
#include "lib_contract.h"

#define SCHEDULE_NOW_S (CONTRACT_NOW_MS / 1000)
#define SCHEDULE_LAST_S (SCHEDULE_NOW_S - 600) /* the last tick of schedule_put's entries */
#define SCHEDULE_LEASE_MS INT64_C(10000)

/* A definition: each minute a task "t" in "default". */
struct qn_schedule_entry schedule_entry(const char *name);
/* Adds it with the last tick SCHEDULE_LAST_S, and returns its revision. */
uint64_t schedule_put(struct contract *c, const char *name);
enum qn_put_result schedule_put_one(struct contract *c, const struct qn_schedule_entry *entry,
                                    uint64_t expected, uint64_t *ret_revision);
quern_status schedule_remove(struct contract *c, const char *name);
quern_status schedule_pause(struct contract *c, const char *name, enum qn_entry_pause what);

struct schedule_view {
    bool found;
    uint64_t revision;
    int64_t created_at_ms;
    int64_t paused_at_ms;
    int64_t last_s;
    uint64_t runs;
    char cron[64];
};
struct schedule_view schedule_look(struct contract *c, const char *name);

/* The lease of a scheduler "host:1:NAME" in this process. */
struct qn_lead_reply schedule_lead(struct qn_broker *broker, const char *name,
                                   enum qn_lead_what what);
/* Takes the lease, claims, and returns the epoch; fails if another one leads. */
uint64_t schedule_take(struct qn_broker *broker, const char *name);

/* Sends one tick; with what ENQUEUE or LATE the task "NAME@TICK_S" of "default" is made. */
enum qn_tick_result schedule_send(struct qn_broker *broker, uint64_t epoch, struct qn_tick *tick);
/* The tick `tick_s` of an entry, after the stored last one, in the latest epoch. */
enum qn_tick_result schedule_tick(struct contract *c, const char *name, int64_t tick_s);

#define SCHEDULE_EVENTS_MAX 1100
struct schedule_events {
    size_t count;
    struct qn_tick_event events[SCHEDULE_EVENTS_MAX]; /* ids: in the next */
    char ids[SCHEDULE_EVENTS_MAX][64];
};
void schedule_history(struct contract *c, const char *name, struct schedule_events *ret_events);

#endif
