/* SPDX-License-Identifier: MIT */
/* test_odd.c - checkpoints and ends with values at the edges: delays, retries, names, errors, and
 * queues that are removed. The doctor finds nothing afterwards. */
#include "lib_contract.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/number.h"
#include "task/limits.h"

static void report_violation(const quern_finding *finding, void *user)
{
    if (finding->severity >= 1) {
        print_message("%s: %s\n", finding->invariant, finding->text);
        (*(size_t *)user)++;
    }
}

static void assert_healthy(struct contract *c)
{
    size_t violations = 0;
    quern_error err = {0};
    assert_ok(qn_broker_doctor(c->broker, false, report_violation, &violations, &err), err);
    assert_int_equal(violations, 0);
}

static enum qn_applied end_as(struct contract *c, const char *id, const struct qn_outcome *as)
{
    struct qn_outcome outcome = *as;
    struct qn_leased *run = contract_start(c, id);
    outcome.run = run;
    outcome.started = true;
    enum qn_applied applied = contract_end(c, &outcome);
    qn_leased_free(run);
    return applied;
}

static void longest_and_shortest_delays_are_kept(struct contract *c)
{
    static const int64_t delays_ms[] = {0, 1, 999, 1000, 1001, QN_DURATION_MS_MAX};
    static const enum qn_outcome_kind kinds[] = {QN_SNOOZE, QN_RETRY};
    static const struct qn_task_change moves = {.queue = "other"};
    for (size_t i = 0; i < TEST_COUNT(delays_ms); i++) {
        for (size_t k = 0; k < 4; k++) {
            quern_error err = {0};
            const char *queue = k < 2 ? "default" : "other";
            const struct qn_outcome outcome = {
                .kind = kinds[k % 2], .delay_ms = delays_ms[i], .change = k < 2 ? NULL : &moves};
            assert_int_equal(end_as(c, "a", &outcome), QN_APPLIED);
            struct contract_view view = contract_inspect(c, queue, "a");
            assert_int_equal(view.state, QUERN_TASK_RETRY);
            assert_int_equal(view.at_ms, CONTRACT_NOW_MS + delays_ms[i]);
            assert_healthy(c);
            assert_int_equal(contract_forward(c, queue, NULL), delays_ms[i] == 0 ? 1 : 0);
            assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_DELETE, queue, "a", &err), err);
        }
    }
}

static void odd_errors_of_a_snooze_are_kept(struct contract *c)
{
    char *longest = malloc(QN_ERROR_TEXT_SIZE_MAX + 1);
    assert_non_null(longest);
    memset(longest, 'e', QN_ERROR_TEXT_SIZE_MAX);
    longest[QN_ERROR_TEXT_SIZE_MAX] = '\0';
    const char *const errors[] = {
        "", "\n", "two\nlines", "tab\t\x01\x7f", "\xc3\xa4\xf0\x9f\x98\x80", longest};
    static const struct qn_task_change moves = {.queue = "other"};
    for (size_t i = 0; i < TEST_COUNT(errors); i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "a%zu", i);
        const struct qn_outcome outcome = {
            .kind = QN_SNOOZE, .delay_ms = 60000, .error = errors[i], .change = &moves};
        assert_int_equal(end_as(c, id, &outcome), QN_APPLIED);
        struct contract_view view = contract_inspect(c, "other", id);
        assert_string_equal(view.error, errors[i]);
        assert_int_equal(view.retry_count, 0);
        assert_int_equal(view.failed_at_ms, 0);
    }
    assert_healthy(c);
    free(longest);
}

static void most_retries_are_kept(struct contract *c)
{
    static const int64_t numbers[] = {0, 1, 127, 128, INT32_MAX};
    for (size_t i = 0; i < TEST_COUNT(numbers); i++) {
        quern_error err = {0};
        const struct qn_task_change change = {
            .has_retry_max = true, .retry_max = numbers[i], .queue = "other"};
        const struct qn_outcome outcome = {
            .kind = QN_GIVE_BACK, .cause = QUERN_CAUSE_GIVEN_BACK, .change = &change};
        assert_int_equal(end_as(c, "a", &outcome), QN_APPLIED);
        assert_int_equal(contract_forward(c, "other", NULL), 1);
        struct qn_leased *run = contract_take_id(c, "other", "a");
        assert_int_equal(run->task.retry_max, numbers[i]);
        assert_healthy(c);
        contract_finish(c, run, QN_GIVE_BACK);
        assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_DELETE, "other", "a", &err), err);
    }
}

static void longest_name_of_a_queue_is_kept(struct contract *c)
{
    char name[QN_NAME_SIZE_MAX + 1];
    memset(name, 'q', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    const struct qn_task_change change = {
        .queue = name, .payload = "\0\n", .payload_size = 2, .has_payload = true};
    quern_task task = {.type = "t", .id = "a", .unique_ms = 600000};
    contract_enqueue(c, &task);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    const struct qn_outcome outcome = {
        .run = run, .kind = QN_SNOOZE, .started = true, .change = &change};
    assert_int_equal(contract_end(c, &outcome), QN_APPLIED);
    qn_leased_free(run);
    assert_int_equal(contract_forward(c, name, NULL), 1);
    run = contract_take_id(c, name, "a");
    assert_int_equal(run->task.payload_size, 2);
    assert_memory_equal(run->task.payload, "\0\n", 2);
    task.queue = name;
    task.id = "b";
    assert_int_equal(contract_try(c, &task), QUERN_E_DUPLICATE);
    contract_finish(c, run, QN_DONE);
    assert_int_equal(contract_try(c, &task), QUERN_OK);
    assert_healthy(c);
}

static void queue_that_was_removed_is_made_again(struct contract *c)
{
    static const enum qn_outcome_kind kinds[] = {QN_SNOOZE, QN_GIVE_BACK};
    static const struct qn_task_change moves = {.queue = "other"};
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        quern_error err = {0};
        contract_put(c, "other", "b");
        contract_finish(c, contract_take_id(c, "other", "b"), QN_DONE);
        struct qn_leased *run = contract_start(c, "a");
        assert_ok(qn_broker_remove_queue(c->broker, "other", false, &err), err);
        const struct qn_outcome outcome = {.run = run,
                                           .kind = kinds[i],
                                           .started = true,
                                           .cause = QUERN_CAUSE_GIVEN_BACK,
                                           .change = &moves};
        assert_int_equal(contract_end(c, &outcome), QN_APPLIED);
        qn_leased_free(run);
        assert_int_equal(contract_forward(c, "other", NULL), 1);
        contract_finish(c, contract_take_id(c, "other", "a"), QN_DONE);
        assert_healthy(c);
    }
}

/* An operator has emptied and removed the queue of a run that still wants to go elsewhere. */
static void task_of_a_queue_that_was_removed_goes_nowhere(struct contract *c)
{
    quern_error err = {0};
    static const struct qn_task_change moves = {.queue = "other"};
    struct qn_leased *run = contract_start(c, "a");
    contract_expire(c, "default");
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_DELETE, "default", "a", &err), err);
    assert_ok(qn_broker_remove_queue(c->broker, "default", false, &err), err);
    const struct qn_outcome outcome = {
        .run = run, .kind = QN_GIVE_BACK, .started = true, .change = &moves};
    assert_int_equal(contract_end(c, &outcome), QN_STALE);
    qn_leased_free(run);
    assert_int_equal(contract_state(c, "other", "a"), 0);
    assert_healthy(c);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(longest_and_shortest_delays_are_kept),
    CONTRACT_TEST(odd_errors_of_a_snooze_are_kept),
    CONTRACT_TEST(most_retries_are_kept),
    CONTRACT_TEST(longest_name_of_a_queue_is_kept),
    CONTRACT_TEST(queue_that_was_removed_is_made_again),
    CONTRACT_TEST(task_of_a_queue_that_was_removed_goes_nowhere),
};
CONTRACT_MAIN(tests)
