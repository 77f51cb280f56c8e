/* SPDX-License-Identifier: MIT */
/* lib_doctor.h - helpers for the tests of checks on Redis: create tasks, damage them by plain
 * commands, check, repair, check again.
 *
 * One server per program, with a turned clock and an AOF; each test finds it empty but for the
 * record of a worker of this process that serves "default". All tasks are in that queue. */
#ifndef TESTS_FAULT_LIB_REDIS_DOCTOR_H
#define TESTS_FAULT_LIB_REDIS_DOCTOR_H

#include "lib_redis.h"
#include "lib_task.h"
#include "lib_test.h"

#include <string.h>

#include "broker/inspect.h"

#define Q "asynq:{default}:"
#define T Q "t:"
#define DOCTOR_NOW_MS INT64_C(1800000000000)
#define DOCTOR_LEASE_MS INT64_C(30000)

struct doctor_report {
    size_t violated;
    size_t warned;
    size_t repaired;
    char lines[40000]; /* "INVARIANT QUEUE/ID: TEXT" each */
};

struct doctor {
    struct test_redis redis;
    struct qn_broker *broker;
    struct doctor_report report; /* of the last check */
};
extern struct doctor doctor;

int doctor_set_up(void **state);
int doctor_tear_down(void **state);
#define DOCTOR_TEST(function)                                                                      \
    cmocka_unit_test_setup_teardown(function, doctor_set_up, doctor_tear_down)
/* As test_main; the server ends with it. */
int doctor_main(int argc, char **argv, const struct test_group *group);

/* Another one on the same server. */
struct qn_broker *doctor_open(void);
/* Sets the server's clock to this long after the beginning. */
void doctor_turn_to(int64_t after_ms);

/* --- Tasks ---------------------------------------------------------------------------- */

void doctor_put_task(struct qn_broker *to, const struct qn_task *task);
void doctor_put(const char *id);
void doctor_put_later(const char *id, int64_t delay_ms);
void doctor_put_grouped(const char *id); /* in the group "g" */
/* With the lock "unique:t:1". */
void doctor_put_unique(const char *id, int64_t retention_ms);
/* The next run; NULL: none. */
struct qn_leased *doctor_lease(struct qn_broker *from);
/* Ends it, and frees it. */
enum qn_applied doctor_finish(struct qn_broker *at, struct qn_leased *run,
                              enum qn_outcome_kind kind);
/* Enqueues and leases. */
void doctor_start(const char *id);
/* Enqueues, leases, ends. */
void doctor_end(const char *id, enum qn_outcome_kind kind);
/* The next run is of this task, and it ends. */
void doctor_assert_runs(const char *id);

/* --- Damage and checks ---------------------------------------------------------------- */

/* A plain command that has to work. */
#define doctor_plant(...) assert_null(strstr(test_redis_do(&doctor.redis, __VA_ARGS__), "-ERR"))
void doctor_check(bool repair);
/* The report has this, or a line that begins so. */
void doctor_assert_line(const char *line);
/* Nothing but notes. */
void doctor_assert_healthy(void);
/* Found without being changed, then repaired, then gone. */
void doctor_assert_mended(const char *line);
/* Found each time, and left alone. */
void doctor_assert_left_alone(const char *line);

#endif
