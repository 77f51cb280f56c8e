/* SPDX-License-Identifier: MIT */
/* lib_doctor.c - a server with a worker's record, tasks in all states, and the findings of a
 * check. */
#include "lib_doctor.h"

#include <string.h>

#include "broker/owner.h"

struct doctor doctor;

/* --- A server with data -------------------------------------------------------------------- */

struct qn_broker *doctor_open(void)
{
    quern_error err = {0};
    struct qn_broker *opened = NULL;
    assert_ok(qn_broker_open(doctor.redis.url, NULL, &opened, &err), err);
    return opened;
}

int doctor_set_up(void **state)
{
    quern_error err = {0};
    (void)state;
    char owner[QN_OWNER_SIZE];
    if (doctor.redis.pid == 0) {
        test_redis_start(&doctor.redis,
                         &(struct test_redis_options){.turned = true, .append = true});
    }
    test_redis_empty(&doctor.redis);
    test_redis_turn(&doctor.redis, DOCTOR_NOW_MS * 1000);
    doctor.broker = doctor_open();
    struct qn_queue_share share = {.name = "default", .weight = 1};
    assert_ok(qn_owner_self(owner, &err), err);
    assert_ok(qn_broker_heartbeat(doctor.broker,
                                  &(struct qn_heartbeat){.worker_id = "w",
                                                         .owner = owner,
                                                         .host = "host",
                                                         .status = "active",
                                                         .queues = "default=1",
                                                         .queue_shares = &share,
                                                         .queue_count = 1},
                                  &err),
              err);
    return 0;
}

int doctor_tear_down(void **state)
{
    (void)state;
    qn_broker_close(doctor.broker);
    doctor.broker = NULL;
    return 0;
}

void doctor_turn_to(int64_t after_ms)
{
    test_redis_turn(&doctor.redis, (DOCTOR_NOW_MS + after_ms) * 1000);
}

void doctor_put_task(struct qn_broker *to, const struct qn_task *task)
{
    quern_error err = {0};
    quern_status result = QUERN_E_INVALID;
    assert_ok(
        qn_broker_enqueue(to, &(struct qn_enqueue){(struct qn_stamp){0}, task, 1, &result}, &err),
        err);
    assert_int_equal(result, QUERN_OK);
}

void doctor_put(const char *id)
{
    const struct qn_task task = test_task(id);
    doctor_put_task(doctor.broker, &task);
}

void doctor_put_later(const char *id, int64_t delay_ms)
{
    struct qn_task task = test_task(id);
    task.state = QUERN_TASK_SCHEDULED;
    task.process_at_ms = DOCTOR_NOW_MS + delay_ms;
    doctor_put_task(doctor.broker, &task);
}

void doctor_put_grouped(const char *id)
{
    struct qn_task task = test_task(id);
    task.state = QUERN_TASK_AGGREGATING;
    task.group = "g";
    doctor_put_task(doctor.broker, &task);
}

void doctor_put_unique(const char *id, int64_t retention_ms)
{
    struct qn_task task = test_task(id);
    task.unique_key = Q "unique:t:1";
    task.unique_ms = 3600000;
    task.retention_ms = retention_ms;
    doctor_put_task(doctor.broker, &task);
}

/* The next run; NULL: none. */
struct qn_leased *doctor_lease(struct qn_broker *from)
{
    quern_error err = {0};
    struct qn_leased *run = NULL;
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = 1};
    struct qn_exchange exchange = {.worker_id = "w",
                                   .lease_ms = DOCTOR_LEASE_MS,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = 1,
                                   .start_count_now = 1};
    struct qn_exchange_reply reply = {.runs = &run};
    assert_ok(qn_broker_exchange(from, &exchange, &reply, &err), err);
    return reply.run_count == 1 ? run : NULL;
}

enum qn_applied doctor_finish(struct qn_broker *at, struct qn_leased *run,
                              enum qn_outcome_kind kind)
{
    quern_error err = {0};
    enum qn_applied applied = QN_STALE;
    const struct qn_outcome outcome = {
        .run = run, .kind = kind, .started = true, .delay_ms = 60000, .error = "broken"};
    struct qn_exchange exchange = {.worker_id = "w", .outcomes = &outcome, .outcome_count = 1};
    struct qn_exchange_reply reply = {.applied = &applied};
    assert_ok(qn_broker_exchange(at, &exchange, &reply, &err), err);
    qn_leased_free(run);
    return applied;
}

void doctor_start(const char *id)
{
    doctor_put(id);
    struct qn_leased *run = doctor_lease(doctor.broker);
    assert_non_null(run);
    qn_leased_free(run);
}

void doctor_end(const char *id, enum qn_outcome_kind kind)
{
    doctor_put(id);
    struct qn_leased *run = doctor_lease(doctor.broker);
    assert_non_null(run);
    assert_int_equal(doctor_finish(doctor.broker, run, kind), QN_APPLIED);
}

/* Repaired tasks still run. */
void doctor_assert_runs(const char *id)
{
    struct qn_leased *run = doctor_lease(doctor.broker);
    assert_non_null(run);
    assert_string_equal(run->task.id, id);
    assert_int_equal(doctor_finish(doctor.broker, run, QN_DONE), QN_APPLIED);
    assert_int_equal(test_redis_count(&doctor.redis, "EXISTS " T "%s", id), 0);
}

/* --- Checking ------------------------------------------------------------------------------ */

static void keep(const quern_finding *finding, void *user)
{
    struct doctor_report *report = user;
    report->violated += finding->severity == 2 ? 1 : 0;
    report->warned += finding->severity == 1 ? 1 : 0;
    report->repaired += finding->repaired != 0 ? 1 : 0;
    size_t used = strlen(report->lines);
    (void)snprintf(report->lines + used, sizeof report->lines - used, "%s %s/%s: %s\n",
                   finding->invariant, finding->queue, finding->id, finding->text);
}

void doctor_check(bool repair)
{
    quern_error err = {0};
    doctor.report = (struct doctor_report){0};
    assert_ok(qn_broker_doctor(doctor.broker, repair, keep, &doctor.report, &err), err);
}

void doctor_assert_line(const char *line)
{
    if (strstr(doctor.report.lines, line) == NULL) {
        fail_msg("not found: \"%s\" in\n%s", line, doctor.report.lines);
    }
}

void doctor_assert_healthy(void)
{
    doctor_check(false);
    if (doctor.report.violated + doctor.report.warned > 0) {
        fail_msg("not healthy:\n%s", doctor.report.lines);
    }
}

/* Found without being changed, then repaired, then gone. */
void doctor_assert_mended(const char *line)
{
    doctor_check(false);
    doctor_assert_line(line);
    assert_int_equal(doctor.report.repaired, 0);
    doctor_check(true);
    doctor_assert_line(line);
    assert_true(doctor.report.repaired > 0);
    doctor_assert_healthy();
}

void doctor_assert_left_alone(const char *line)
{
    doctor_check(false);
    doctor_assert_line(line);
    doctor_check(true);
    doctor_assert_line(line);
    assert_int_equal(doctor.report.repaired, 0);
}

int doctor_main(int argc, char **argv, const struct test_group *group)
{
    int result = test_main(argc, argv, group);
    test_redis_stop(&doctor.redis);
    return result;
}
