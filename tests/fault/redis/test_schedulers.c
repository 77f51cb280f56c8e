/* SPDX-License-Identifier: MIT */
/* test_schedulers.c - three schedulers, of which one leads, are killed, and stopped for longer than
 * the lease of the leader: each tick is enqueued exactly once, although its task is done and
 * deleted at once. */
#include "lib_redis.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/schedule/schedule.h"
#include "lib_task.h"

#define Q "asynq:{default}:"
#define LEASE_MS 100
#define SCHEDULERS 3
#define TICKS_BEHIND 1000000 /* more than all of them enqueue, so that a tick is never early */
#define BATCH 3

/* --- A scheduler ------------------------------------------------------------------------ */

struct scheduler {
    struct qn_broker *broker;
    struct qn_lead lead;
    struct qn_lead_reply leader;
    struct qn_schedule_entry entry; /* revision and last tick, as loaded */
    uint64_t sequence;
};

static bool load(const struct qn_schedule_entry *entry, void *user)
{
    struct scheduler *self = user;
    self->entry.revision = entry->revision;
    self->entry.last_s = entry->last_s;
    return true;
}

/* Sends a few ticks; false: it leads no longer, or another has been there. */
static bool send_ticks(struct scheduler *self)
{
    char ids[BATCH][64];
    struct qn_task tasks[BATCH];
    struct qn_tick all[BATCH];
    for (int i = 0; i < BATCH; i++) {
        int64_t known_s = self->entry.last_s + i;
        (void)snprintf(ids[i], sizeof ids[i], "e@%" PRId64, known_s + 1);
        tasks[i] = test_task(ids[i]);
        all[i] = (struct qn_tick){.queue = "default",
                                  .name = "e",
                                  .revision = self->entry.revision,
                                  .known_s = known_s,
                                  .tick_s = known_s + 1,
                                  .what = QN_TICK_ENQUEUE,
                                  .task = &tasks[i]};
    }
    struct qn_ticks ticks = {.stamp = {(uint64_t)getpid(), ++self->sequence},
                             .epoch = self->leader.epoch,
                             .ticks = all,
                             .count = BATCH};
    TEST_REQUIRE(qn_schedule_tick(self->broker, &ticks, NULL) == QUERN_OK);
    self->entry.last_s = all[BATCH - 1].stored_s;
    return all[BATCH - 1].result == QN_TICKED;
}

/* argv: the URL, its number. Ends when it is killed. */
static int schedule(int argc, char **argv)
{
    char owner[QN_OWNER_SIZE];
    char id[64];
    TEST_REQUIRE(argc == 2);
    (void)snprintf(id, sizeof id, "host:%d:%s", (int)getpid(), argv[1]);
    struct scheduler self = {
        .lead = {.what = QN_LEAD_TAKE, .owner = owner, .id = id, .lease_ms = LEASE_MS}};
    const struct qn_broker_options options = {0};
    const struct qn_entry_filter filter = {"default", "e"};
    TEST_REQUIRE(qn_owner_self(owner, NULL) == QUERN_OK);
    TEST_REQUIRE(qn_broker_open(argv[0], &options, &self.broker, NULL) == QUERN_OK);
    while (qn_schedule_lead(self.broker, &self.lead, &self.leader, NULL) == QUERN_OK) {
        bool goes_on = self.leader.leads &&
                       qn_schedule_claim(self.broker, self.leader.epoch, NULL) == QUERN_OK &&
                       qn_schedule_list(self.broker, &filter, load, &self, NULL) == QUERN_OK;
        /* It does not look at its lease: the epoch alone has to stop it. */
        while (goes_on && send_ticks(&self)) {
            struct qn_lead renewal = self.lead;
            renewal.what = QN_LEAD_RENEW;
            struct qn_lead_reply ignored;
            (void)(qn_schedule_lead(self.broker, &renewal, &ignored, NULL) == QUERN_OK);
        }
        test_pause_ms(1);
    }
    return 1;
}

/* --- The test --------------------------------------------------------------------------- */

static struct test_redis redis;
static bool seen[TICKS_BEHIND];
static int64_t first_s;
static int64_t seen_count;

/* Runs all tasks, in its way: they are gone then. */
static void run_tasks(void)
{
    char *rest = strdup(test_redis_do(
        &redis, "EVAL %s 0",
        "local ids = redis.call('LRANGE', 'asynq:{default}:pending', 0, -1) "
        "redis.call('DEL', 'asynq:{default}:pending') "
        "for _, id in ipairs(ids) do redis.call('DEL', 'asynq:{default}:t:' .. id) end "
        "return ids"));
    assert_non_null(rest);
    for (char *at = rest, *line; (line = strsep(&at, "\n")) != NULL;) {
        int64_t tick_s = 0;
        if (sscanf(line, "e@%" SCNd64, &tick_s) == 1) {
            assert_in_range(tick_s - first_s, 1, TICKS_BEHIND - 1);
            if (seen[tick_s - first_s]) {
                fail_msg("%s was enqueued twice", line);
            }
            seen[tick_s - first_s] = true;
            seen_count++;
        }
    }
    free(rest);
}

struct progress {
    int64_t until;
};

static bool has_come_to(void *user)
{
    const struct progress *progress = user;
    run_tasks();
    return seen_count >= progress->until;
}

static void go_on(int64_t ticks)
{
    struct progress progress = {seen_count + ticks};
    assert_true(test_until(has_come_to, &progress));
}

static struct test_child spawn(int number)
{
    char text[16];
    const char *args[] = {redis.url, text, NULL};
    (void)snprintf(text, sizeof text, "%d", number);
    return test_spawn("scheduler", args);
}

/* The scheduler that leads; waits until one does. */
static size_t leader_of(const struct test_child *children)
{
    for (int i = 0; i < TEST_PATIENCE_MS; i++) {
        int pid = 0;
        (void)sscanf(test_redis_do(&redis, "HGET asynq:quern:schedule id"), "host:%d:", &pid);
        for (size_t c = 0; c < SCHEDULERS; c++) {
            if (children[c].pid == pid) {
                return c;
            }
        }
        test_pause_ms(1);
    }
    fail_msg("none leads");
    return 0;
}

static int64_t put_entry(void)
{
    struct qn_broker *broker = NULL;
    const struct qn_broker_options options = {0};
    struct qn_schedule_entry entry = {.name = "e",
                                      .task = test_task(NULL),
                                      .origin = "cli",
                                      .cron = "* * * * * *",
                                      .zone = "",
                                      .with_seconds = true,
                                      .misfire = QN_MISFIRE_ALL,
                                      .misfire_max = QN_MISFIRE_MAX};
    struct qn_put put = {.entry = &entry, .expected = QN_REVISION_NONE};
    entry.last_s =
        test_redis_count(&redis, "EVAL %s 0", "return redis.call('TIME')[1] * 1") - TICKS_BEHIND;
    assert_int_equal(qn_broker_open(redis.url, &options, &broker, NULL), QUERN_OK);
    assert_int_equal(qn_schedule_put(broker, &put, 1, NULL), QUERN_OK);
    qn_broker_close(broker);
    return entry.last_s;
}

static void each_tick_is_enqueued_once_whoever_is_killed_or_stopped(void **state)
{
    (void)state;
    struct test_child children[SCHEDULERS];
    int rounds = test_full() ? 100 : 8;
    test_redis_start(&redis, NULL);
    first_s = put_entry();
    for (int i = 0; i < SCHEDULERS; i++) {
        children[i] = spawn(i);
    }
    for (int round = 0; round < rounds; round++) {
        go_on(20);
        size_t leader = leader_of(children);
        if (round % 2 == 0) {
            test_child_kill(&children[leader]);
            children[leader] = spawn((int)leader);
            go_on(20);
        } else {
            /* Stopped anywhere, also in the middle of sending; another one leads meanwhile. */
            assert_int_equal(kill(children[leader].pid, SIGSTOP), 0);
            go_on(200);
            assert_int_equal(kill(children[leader].pid, SIGCONT), 0);
        }
    }
    for (int i = 0; i < SCHEDULERS; i++) {
        test_child_kill(&children[i]);
    }
    run_tasks();
    long long last_s = 0;
    long long runs = 0;
    assert_int_equal(
        sscanf(test_redis_do(&redis, "HGET " Q "quern:ticks e"), "%*d %lld %lld", &last_s, &runs),
        2);
    print_message("%lld ticks, epoch %s\n", runs,
                  test_redis_do(&redis, "HGET asynq:quern:schedule epoch"));
    assert_int_equal(last_s - first_s, seen_count);
    assert_int_equal(runs, seen_count);
    for (int64_t i = 1; i <= seen_count; i++) {
        assert_true(seen[i]);
    }
    test_redis_stop(&redis);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_tick_is_enqueued_once_whoever_is_killed_or_stopped),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = {{.name = "scheduler", .main = schedule}};
    const struct test_group group = {"redis_schedulers", tests, TEST_COUNT(tests), roles,
                                     TEST_COUNT(roles)};
    return test_main(argc, argv, &group);
}
