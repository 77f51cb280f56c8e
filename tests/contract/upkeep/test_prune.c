/* SPDX-License-Identifier: MIT */
/* test_prune.c - expired data are removed, in steps no larger than requested: completed tasks past
 * their retention, archived tasks beyond the size or the age of the archive, old locks. */
#include "lib_contract.h"

static size_t prune(struct contract *c, size_t limit)
{
    const char *queue = "default";
    size_t removed = 0;
    quern_error err = {0};
    assert_ok(qn_broker_prune(c->broker, (struct qn_upkeep){{&queue, 1}, limit}, &removed, &err),
              err);
    assert_true(removed <= limit);
    return removed;
}

/* Prunes until nothing is left to remove. */
static void prune_all(struct contract *c, size_t limit)
{
    for (int step = 0; prune(c, limit) == limit; step++) {
        assert_true(step < 10000);
    }
}

static void completed_task_goes_after_its_retention(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .retention_ms = 5000});
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
    contract_advance(c, 4999);
    prune_all(c, 100);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_COMPLETED);
    contract_advance(c, 2);
    prune_all(c, 100);
    assert_int_equal(contract_state(c, "default", "a"), 0);
    contract_assert_counted(c, "default", 1, 0);
    assert_int_equal(contract_queue(c, "default").trimmed_total, 0);
}

static void completed_tasks_go_in_bounded_steps(struct contract *c)
{
    char id[16];
    for (int i = 0; i < 25; i++) {
        (void)snprintf(id, sizeof id, "a%d", i);
        contract_enqueue(c, &(quern_task){.type = "t", .id = id, .retention_ms = 1000});
        contract_finish(c, contract_take_id(c, "default", id), QN_DONE);
    }
    contract_advance(c, 1001);
    assert_int_equal(prune(c, 10), 10);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_COMPLETED), 15);
    assert_int_equal(prune(c, 10), 10);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_COMPLETED), 5);
    prune_all(c, 10);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_COMPLETED), 0);
}

static void live_tasks_are_never_pruned(struct contract *c)
{
    const int64_t years_ms = INT64_C(400) * 24 * 3600 * 1000;
    contract_put(c, "default", "pending");
    contract_enqueue(c, &(quern_task){.type = "t", .id = "later", .delay_ms = 2 * years_ms});
    contract_enqueue(c, &(quern_task){.type = "t", .id = "group", .group = "g"});
    contract_advance(c, years_ms);
    prune_all(c, 100);
    assert_int_equal(contract_state(c, "default", "pending"), QUERN_TASK_PENDING);
    assert_int_equal(contract_state(c, "default", "later"), QUERN_TASK_SCHEDULED);
    assert_int_equal(contract_state(c, "default", "group"), QUERN_TASK_AGGREGATING);
}

static void archived_task_goes_when_it_is_too_old(struct contract *c)
{
    contract_finish(c, contract_start(c, "a"), QN_ARCHIVE);
    contract_advance(c, QN_ARCHIVE_AGE_MS - 1000);
    contract_finish(c, contract_start(c, "b"), QN_ARCHIVE);
    prune_all(c, 100);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_ARCHIVED);
    contract_advance(c, 1001);
    prune_all(c, 100);
    assert_int_equal(contract_state(c, "default", "a"), 0);
    assert_int_equal(contract_state(c, "default", "b"), QUERN_TASK_ARCHIVED);
    assert_int_equal(contract_queue(c, "default").trimmed_total, 1);
}

static void old_archive_is_trimmed_in_bounded_steps(struct contract *c)
{
    for (int i = 0; i < 40; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "a%d", i);
        contract_finish(c, contract_start(c, id), QN_ARCHIVE);
    }
    contract_advance(c, QN_ARCHIVE_AGE_MS + 1);
    for (int left = 30; left >= 0; left -= 10) {
        assert_int_equal(prune(c, 10), 10);
        assert_int_equal(contract_count(c, "default", QUERN_TASK_ARCHIVED), left);
    }
    assert_int_equal(contract_queue(c, "default").trimmed_total, 40);
}

/* Fills the archive with `count` tasks, oldest first. */
static void fill_archive(struct contract *c, size_t count)
{
    struct qn_leased *runs[QN_BATCH_MAX];
    struct qn_outcome outcomes[QN_BATCH_MAX];
    enum qn_applied applied[QN_BATCH_MAX];
    contract_put_many(c, "default", "a", count);
    for (size_t done = 0; done < count;) {
        size_t room = count - done < QN_BATCH_MAX ? count - done : QN_BATCH_MAX;
        assert_int_equal(contract_lease(c, "default", (uint32_t)room, runs), room);
        for (size_t i = 0; i < room; i++) {
            outcomes[i] = (struct qn_outcome){.run = runs[i], .kind = QN_ARCHIVE, .error = "no"};
        }
        contract_advance(c, 1);
        struct qn_queue_share share = {.name = "default", .weight = 1};
        struct qn_exchange exchange = {
            .outcomes = outcomes, .outcome_count = room, .queues = &share, .queue_count = 1};
        assert_int_equal(contract_exchange(c, &exchange, applied, NULL), 0);
        for (size_t i = 0; i < room; i++) {
            assert_int_equal(applied[i], QN_APPLIED);
            qn_leased_free(runs[i]);
        }
        done += room;
    }
}

static void overfull_archive_is_trimmed_in_bounded_steps(struct contract *c)
{
    const size_t extra = 140;
    fill_archive(c, QN_ARCHIVE_SIZE_MAX + extra);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ARCHIVED),
                     QN_ARCHIVE_SIZE_MAX + extra);
    assert_int_equal(prune(c, 50), 50);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ARCHIVED),
                     QN_ARCHIVE_SIZE_MAX + extra - 50);
    prune_all(c, 50);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ARCHIVED), QN_ARCHIVE_SIZE_MAX);
    assert_int_equal(contract_queue(c, "default").trimmed_total, extra);
    /* The oldest 128 were archived one ms before the others, so it is they that went first. */
    assert_int_equal(contract_state(c, "default", "a0000"), 0);
    assert_int_equal(contract_state(c, "default", "a0127"), 0);
    assert_int_equal(contract_state(c, "default", "a0300"), QUERN_TASK_ARCHIVED);
}

static void pruning_touches_only_the_queues_it_is_given(struct contract *c)
{
    contract_enqueue(c,
                     &(quern_task){.type = "t", .id = "a", .queue = "other", .retention_ms = 1000});
    contract_finish(c, contract_take_id(c, "other", "a"), QN_DONE);
    contract_advance(c, 1001);
    prune_all(c, 100);
    assert_int_equal(contract_state(c, "other", "a"), QUERN_TASK_COMPLETED);
}

static void pruning_expired_locks_frees_no_living_one(struct contract *c)
{
    const quern_task brief = {.type = "t", .payload = "1", .payload_size = 1, .unique_ms = 1000};
    const quern_task long_lived = {
        .type = "t", .payload = "2", .payload_size = 1, .unique_ms = 60000};
    contract_enqueue(c, &brief);
    contract_enqueue(c, &long_lived);
    contract_advance(c, 1001);
    prune_all(c, 100);
    assert_int_equal(contract_try(c, &brief), QUERN_OK);
    assert_int_equal(contract_try(c, &long_lived), QUERN_E_DUPLICATE);
}

static void clock_that_jumps_ahead_for_a_moment_empties_no_archive(struct contract *c)
{
    const int64_t year_ms = 366 * 24 * 3600 * INT64_C(1000);
    contract_finish(c, contract_start(c, "a"), QN_ARCHIVE);
    assert_int_equal(prune(c, 10), 0);
    contract_jump(c, year_ms);
    (void)prune(c, 10);
    (void)prune(c, 10);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_ARCHIVED);
    contract_jump(c, -year_ms);
    (void)prune(c, 10);
    contract_jump(c, year_ms);
    (void)prune(c, 10);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_ARCHIVED);
    if (c->maker->has_clock) {
        contract_advance(c, year_ms); /* the broker's own clock did not jump */
    }
    contract_advance(c, 3600 * 1000 + 1); /* it stays so: then it is the time */
    (void)prune(c, 10);
    assert_int_equal(contract_state(c, "default", "a"), 0);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(completed_task_goes_after_its_retention),
    CONTRACT_TEST(completed_tasks_go_in_bounded_steps),
    CONTRACT_TEST(live_tasks_are_never_pruned),
    CONTRACT_TEST(archived_task_goes_when_it_is_too_old),
    CONTRACT_TEST(old_archive_is_trimmed_in_bounded_steps),
    CONTRACT_TEST(overfull_archive_is_trimmed_in_bounded_steps),
    CONTRACT_TEST(pruning_touches_only_the_queues_it_is_given),
    CONTRACT_TEST(pruning_expired_locks_frees_no_living_one),
    CONTRACT_TEST(clock_that_jumps_ahead_for_a_moment_empties_no_archive),
};
CONTRACT_MAIN(tests)
