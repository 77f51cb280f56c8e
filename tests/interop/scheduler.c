/* SPDX-License-Identifier: MIT */
/* scheduler.c - a scheduler of quern with one entry, every second, for the tests beside Go's.
 *
 *     interop_scheduler URL QUEUE NAME
 *
 * It has no cron and no plan, only the broker's operations: it leads, enqueues the tick of each
 * second, writes the record that Go's Inspector lists, and at SIGTERM takes both back. The entry
 * stays. It prints "ready" when it leads. */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/schedule/schedule.h"

#define LEASE_MS 10000
#define LOOK_MS 100
#define ID_SIZE 200

struct scheduler {
    struct qn_broker *broker;
    struct qn_schedule_entry entry;
    struct qn_lead lead;
    struct qn_stamp stamp;
    uint64_t epoch;
    quern_error err;
};

static volatile sig_atomic_t ends;

static void on_signal(int number)
{
    (void)number;
    ends = 1;
}

static quern_status start(struct scheduler *self)
{
    struct qn_lead_reply reply;
    struct qn_put put = {.entry = &self->entry, .expected = QN_REVISION_ANY};
    quern_status status = qn_schedule_put(self->broker, &put, 1, &self->err);
    if (status == QUERN_OK) {
        self->entry.revision = put.revision;
        status = qn_schedule_lead(self->broker, &self->lead, &reply, &self->err);
    }
    if (status == QUERN_OK) {
        self->epoch = reply.epoch;
        self->entry.last_s = reply.now_ms / 1000;
        status = qn_schedule_claim(self->broker, self->epoch, &self->err);
    }
    return status;
}

/* The tick after the last one, if it is due. */
static quern_status tick(struct scheduler *self)
{
    char id[ID_SIZE];
    struct qn_task task = self->entry.task;
    struct qn_tick one = {.queue = task.queue,
                          .name = self->entry.name,
                          .revision = self->entry.revision,
                          .known_s = self->entry.last_s,
                          .tick_s = self->entry.last_s + 1,
                          .what = QN_TICK_ENQUEUE,
                          .task = &task};
    (void)snprintf(id, sizeof id, "%s@%" PRId64, self->entry.name, one.tick_s);
    task.id = id;
    self->stamp.sequence++;
    struct qn_ticks all = {.stamp = self->stamp, .epoch = self->epoch, .ticks = &one, .count = 1};
    quern_status status = qn_schedule_tick(self->broker, &all, &self->err);
    if (status == QUERN_OK && (one.result == QN_TICKED || one.result == QN_TICK_PAST)) {
        self->entry.last_s = one.stored_s;
    }
    return status;
}

static quern_status record(struct scheduler *self, bool is_over)
{
    const struct qn_record_row row = {
        .entry = &self->entry, .next_s = self->entry.last_s + 1, .prev_s = self->entry.last_s};
    const struct qn_record all = {
        .id = self->lead.id, .rows = &row, .count = is_over ? 0 : 1, .ttl_s = 20};
    return qn_schedule_record(self->broker, &all, &self->err);
}

static quern_status run(struct scheduler *self)
{
    struct qn_lead_reply reply;
    quern_status status = start(self);
    if (status == QUERN_OK) {
        (void)puts("ready");
        (void)fflush(stdout);
    }
    while (status == QUERN_OK && !ends) {
        status = tick(self);
        if (status == QUERN_OK) {
            status = record(self, false);
        }
        if (status == QUERN_OK) {
            self->lead.what = QN_LEAD_RENEW;
            status = qn_schedule_lead(self->broker, &self->lead, &reply, &self->err);
        }
        (void)poll(NULL, 0, LOOK_MS);
    }
    if (status == QUERN_OK) {
        status = record(self, true);
    }
    if (status == QUERN_OK) {
        self->lead.what = QN_LEAD_GIVE_BACK;
        status = qn_schedule_lead(self->broker, &self->lead, &reply, &self->err);
    }
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        (void)fputs("usage: interop_scheduler URL QUEUE NAME\n", stderr);
        return 2;
    }
    char owner[QN_OWNER_SIZE];
    struct scheduler self = {
        .entry = {.name = argv[3],
                  .task = {.queue = argv[2],
                           .type = "ok",
                           .payload = "body",
                           .payload_size = 4,
                           .retry_max = 3,
                           .timeout_ms = 90000,
                           .retention_ms = 3600000,
                           .state = QUERN_TASK_PENDING},
                  .origin = "cli",
                  .cron = "* * * * *",
                  .zone = "Europe/Berlin",
                  .misfire = QN_MISFIRE_ONCE,
                  .misfire_max = 1,
                  .late_ms = 60000},
        .lead = {.what = QN_LEAD_TAKE, .owner = owner, .id = "host:1:quern", .lease_ms = LEASE_MS},
        .stamp = {.session = 4711}};
    const struct sigaction action = {.sa_handler = on_signal};
    (void)sigaction(SIGTERM, &action, NULL);
    quern_status status = qn_owner_self(owner, &self.err);
    if (status == QUERN_OK) {
        const struct qn_broker_options options = {0};
        status = qn_broker_open(argv[1], &options, &self.broker, &self.err);
    }
    if (status == QUERN_OK) {
        status = run(&self);
    }
    if (status != QUERN_OK) {
        (void)fprintf(stderr, "interop_scheduler: %s\n", self.err.text);
    }
    qn_broker_close(self.broker);
    return status == QUERN_OK ? 0 : 1;
}
