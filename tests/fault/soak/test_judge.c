/* SPDX-License-Identifier: MIT */
/* test_judge.c - the soak test's judge: which extra starts it must accept as explained, and which
 * not. */
#include "soak.h"

#include <stdlib.h>

#define ALIVE 10
#define DEAD 11
#define OTHER 12

struct trial {
    struct fault_record records[6];
    size_t count;
    struct soak_event events[2];
    size_t event_count;
};

static struct fault_record begin(int pid, int64_t at_ms, uint64_t fence, quern_cause cause)
{
    return (struct fault_record){
        .kind = FAULT_START, .pid = pid, .at_ms = at_ms, .fence = fence, .cause = (int32_t)cause};
}

static struct fault_record failure(int pid, int64_t at_ms, uint64_t fence)
{
    return (struct fault_record){.kind = SOAK_FAILED, .pid = pid, .at_ms = at_ms, .fence = fence};
}

static struct soak_event death(int pid, int64_t at_ms)
{
    return (struct soak_event){.kind = SOAK_LOST, .pid = pid, .from_ms = at_ms, .until_ms = at_ms};
}

static size_t unexplained(const struct trial *trial)
{
    bool ends[1] = {false};
    struct soak_verdict verdict = {0};
    const struct soak_journal journal = {.records = trial->records,
                                         .count = trial->count,
                                         .events = trial->events,
                                         .event_count = trial->event_count,
                                         .task_count = 1};
    soak_judge(&journal, ends, &verdict);
    for (size_t i = 0; i < SOAK_CHARGES; i++) {
        free(verdict.worker[i].ms);
    }
    return verdict.unexplained;
}

static void start_after_the_death_of_its_worker_is_explained(void **state)
{
    (void)state;
    const struct trial trial = {.records = {begin(DEAD, 1000, 1, QUERN_CAUSE_NONE),
                                            begin(ALIVE, 3000, 2, QUERN_CAUSE_WORKER_DIED)},
                                .count = 2,
                                .events = {death(DEAD, 2000)},
                                .event_count = 1};
    assert_int_equal(unexplained(&trial), 0);
}

static void start_while_the_run_before_it_lives_is_not(void **state)
{
    (void)state;
    const struct trial trial = {.records = {begin(ALIVE, 1000, 1, QUERN_CAUSE_NONE),
                                            begin(OTHER, 3000, 2, QUERN_CAUSE_WORKER_DIED)},
                                .count = 2,
                                .events = {death(DEAD, 2000)},
                                .event_count = 1};
    assert_int_equal(unexplained(&trial), 1);
}

static void death_of_an_earlier_process_with_its_pid_explains_nothing(void **state)
{
    (void)state;
    const struct trial trial = {.records = {begin(DEAD, 1000, 1, QUERN_CAUSE_NONE),
                                            begin(ALIVE, 3000, 2, QUERN_CAUSE_WORKER_DIED)},
                                .count = 2,
                                .events = {death(DEAD, 900)},
                                .event_count = 1};
    assert_int_equal(unexplained(&trial), 1);
}

static void start_needs_a_cause_and_a_greater_fence(void **state)
{
    (void)state;
    struct trial trial = {.records = {begin(DEAD, 1000, 1, QUERN_CAUSE_NONE),
                                      begin(ALIVE, 3000, 2, QUERN_CAUSE_NONE)},
                          .count = 2,
                          .events = {death(DEAD, 2000)},
                          .event_count = 1};
    assert_int_equal(unexplained(&trial), 1);
    trial.records[1] = begin(ALIVE, 3000, 1, QUERN_CAUSE_WORKER_DIED);
    assert_int_equal(unexplained(&trial), 1);
}

static void retry_of_a_run_that_failed_is_explained(void **state)
{
    (void)state;
    const struct trial trial = {.records = {begin(ALIVE, 1000, 1, QUERN_CAUSE_NONE),
                                            failure(ALIVE, 1001, 1),
                                            begin(ALIVE, 3000, 2, QUERN_CAUSE_RETRY)},
                                .count = 3};
    assert_int_equal(unexplained(&trial), 0);
}

/* The retry was leased by a worker that died before its handler wrote a record. */
static void retry_whose_worker_died_before_it_wrote_is_explained(void **state)
{
    (void)state;
    struct trial trial = {.records = {begin(ALIVE, 1000, 1, QUERN_CAUSE_NONE),
                                      failure(ALIVE, 1001, 1),
                                      begin(OTHER, 3000, 3, QUERN_CAUSE_WORKER_DIED)},
                          .count = 3,
                          .events = {death(DEAD, 2500)},
                          .event_count = 1};
    assert_int_equal(unexplained(&trial), 0);
    trial.events[0] = death(DEAD, 900); /* before the run had failed */
    assert_int_equal(unexplained(&trial), 1);
    trial.event_count = 0;
    assert_int_equal(unexplained(&trial), 1);
}

static struct soak_event hindrance(int pid, int64_t from_ms, int64_t until_ms)
{
    return (struct soak_event){
        .kind = SOAK_HINDERED, .pid = pid, .from_ms = from_ms, .until_ms = until_ms};
}

/* Neither the stop of the worker nor the outage after it was long enough alone. */
static void lease_that_nobody_could_prolong_for_too_long_is_explained(void **state)
{
    (void)state;
    struct trial trial = {.records = {begin(ALIVE, 10000, 1, QUERN_CAUSE_NONE),
                                      begin(OTHER, 16000, 2, QUERN_CAUSE_LEASE_EXPIRED)},
                          .count = 2,
                          .events = {hindrance(ALIVE, 11000, 13000), hindrance(0, 13100, 14000)},
                          .event_count = 2};
    assert_int_equal(unexplained(&trial), 0);
    trial.records[1] = begin(OTHER, 16000, 2, QUERN_CAUSE_WORKER_DIED);
    assert_int_equal(unexplained(&trial), 1);
    trial.records[1] = begin(OTHER, 16000, 2, QUERN_CAUSE_LEASE_EXPIRED);
    trial.events[0] = hindrance(DEAD, 11000, 13000);
    assert_int_equal(unexplained(&trial), 1);
    trial.events[0] = hindrance(ALIVE, 8000, 10500); /* most of it before the lease */
    assert_int_equal(unexplained(&trial), 1);
}

static void death_of_a_child_explains_the_start_that_names_it_alone(void **state)
{
    (void)state;
    struct trial trial = {
        .records = {begin(ALIVE, 1000, 1, QUERN_CAUSE_NONE),
                    begin(ALIVE, 3000, 2, QUERN_CAUSE_CHILD_DIED)},
        .count = 2,
        .events = {{.kind = SOAK_CHILD, .pid = ALIVE, .from_ms = 2000, .until_ms = 2000}},
        .event_count = 1};
    assert_int_equal(unexplained(&trial), 0);
    trial.records[1] = begin(ALIVE, 3000, 2, QUERN_CAUSE_WORKER_DIED);
    assert_int_equal(unexplained(&trial), 1);
    trial.records[1] = begin(ALIVE, 3000, 2, QUERN_CAUSE_CHILD_DIED);
    trial.events[0].pid = OTHER;
    assert_int_equal(unexplained(&trial), 1);
}

static void late_start_of_a_worker_that_stood_still_while_the_clock_was_turned_is_explained(
    void **state)
{
    (void)state;
    struct trial trial = {.records = {begin(OTHER, 3000, 2, QUERN_CAUSE_LEASE_EXPIRED),
                                      begin(ALIVE, 4001, 1, QUERN_CAUSE_NONE)},
                          .count = 2,
                          .events = {hindrance(ALIVE, 1000, 4000),
                                     {.kind = SOAK_TURNED, .from_ms = 2000, .until_ms = 7000}},
                          .event_count = 2};
    assert_int_equal(unexplained(&trial), 0);
    trial.events[0] = hindrance(OTHER, 1000, 4000);
    assert_int_equal(unexplained(&trial), 1);
    trial.events[0] = hindrance(ALIVE, 1000, 4000);
    trial.event_count = 1;
    assert_int_equal(unexplained(&trial), 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(start_after_the_death_of_its_worker_is_explained),
    cmocka_unit_test(start_while_the_run_before_it_lives_is_not),
    cmocka_unit_test(death_of_an_earlier_process_with_its_pid_explains_nothing),
    cmocka_unit_test(start_needs_a_cause_and_a_greater_fence),
    cmocka_unit_test(retry_of_a_run_that_failed_is_explained),
    cmocka_unit_test(lease_that_nobody_could_prolong_for_too_long_is_explained),
    cmocka_unit_test(retry_whose_worker_died_before_it_wrote_is_explained),
    cmocka_unit_test(death_of_a_child_explains_the_start_that_names_it_alone),
    cmocka_unit_test(
        late_start_of_a_worker_that_stood_still_while_the_clock_was_turned_is_explained),
};

TEST_MAIN(tests)
