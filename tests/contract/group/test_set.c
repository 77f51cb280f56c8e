/* SPDX-License-Identifier: MIT */
/* test_set.c - the lease of a set: who has it finishes the set or gives it back, once; without it
 * nothing is changed. Whatever ends between two steps, each member is in its group, in one set, or
 * in a task that was made of it. */
#include "lib_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1000

static void assert_counts(struct contract *c, uint64_t aggregating, uint64_t pending)
{
    assert_int_equal(contract_count(c, "default", QUERN_TASK_AGGREGATING), aggregating);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), pending);
}

static struct qn_group_set *take_two(struct contract *c)
{
    group_put(c, "g", "a");
    contract_advance(c, SECOND);
    group_put(c, "g", "b");
    struct qn_group_set *set = group_take_now(c);
    assert_string_equal(group_ids(set), "a b");
    return set;
}

static void assert_taken(struct contract *c, const char *ids)
{
    struct qn_group_set *set = group_take_now(c);
    assert_string_equal(group_ids(set), ids);
    qn_group_set_free(set);
}

static void assert_no_set(struct contract *c)
{
    struct group_worker worker = {.settings = group_now};
    assert_null(group_take(c, &worker));
}

/* --- The end of a set ---------------------------------------------------------------------- */

static void finished_set_becomes_one_task(struct contract *c)
{
    struct qn_group_set *set = take_two(c);
    assert_counts(c, 2, 0);
    assert_int_equal(group_finish(c, set, "made"), QUERN_OK);
    assert_counts(c, 0, 1);
    assert_int_equal(contract_state(c, "default", "a"), 0);
    assert_int_equal(contract_queue(c, "default").group_count, 0);
    assert_int_equal(group_reclaim(c, 100), 0);
    assert_no_set(c);
    contract_finish(c, contract_take_id(c, "default", "made"), QN_DONE);
    qn_group_set_free(set);
}

static void set_may_be_finished_without_a_task(struct contract *c)
{
    struct qn_group_set *set = take_two(c);
    assert_int_equal(group_finish(c, set, NULL), QUERN_OK);
    assert_counts(c, 0, 0);
    assert_no_set(c);
    qn_group_set_free(set);
}

static void tasks_that_come_later_are_not_of_the_set(struct contract *c)
{
    struct qn_group_set *set = take_two(c);
    group_put(c, "g", "c");
    assert_int_equal(group_finish(c, set, "made"), QUERN_OK);
    assert_counts(c, 1, 1);
    assert_taken(c, "c");
    qn_group_set_free(set);
}

static void returned_members_are_at_their_old_places(struct contract *c)
{
    struct qn_group_set *set = take_two(c);
    contract_advance(c, SECOND);
    group_put(c, "g", "c");
    assert_int_equal(group_return(c, set), QUERN_OK);
    assert_int_equal(contract_queue(c, "default").group_count, 1);
    assert_taken(c, "a b c");
    qn_group_set_free(set);
}

/* --- The fence ----------------------------------------------------------------------------- */

static void set_without_its_lease_changes_nothing(struct contract *c)
{
    struct qn_group_set *old = take_two(c);
    contract_advance(c, CONTRACT_LEASE_MS + SECOND);
    assert_int_equal(group_reclaim(c, 100), 2);
    assert_false(group_extend(c, old));
    assert_int_equal(group_finish(c, old, "made"), QUERN_E_STALE);
    assert_int_equal(group_return(c, old), QUERN_E_STALE);
    assert_counts(c, 2, 0);
    struct qn_group_set *new = group_take_now(c);
    assert_string_equal(group_ids(new), "a b");
    assert_int_equal(group_finish(c, old, "made"), QUERN_E_STALE);
    assert_int_equal(group_return(c, old), QUERN_E_STALE);
    assert_false(group_extend(c, old));
    assert_true(group_extend(c, new));
    assert_counts(c, 2, 0);
    assert_int_equal(group_finish(c, new, "made"), QUERN_OK);
    assert_counts(c, 0, 1);
    assert_int_equal(group_finish(c, old, "again"), QUERN_E_STALE);
    assert_counts(c, 0, 1);
    qn_group_set_free(old);
    qn_group_set_free(new);
}

static void set_is_finished_once(struct contract *c)
{
    struct qn_group_set *set = take_two(c);
    assert_int_equal(group_finish(c, set, "made"), QUERN_OK);
    assert_int_equal(group_finish(c, set, "again"), QUERN_E_STALE);
    assert_counts(c, 0, 1);
    qn_group_set_free(set);
}

static void repeated_request_gets_the_same_answer(struct contract *c)
{
    struct qn_group_set *set = take_two(c);
    const struct qn_finish_set drop = {.stamp = {.session = c->session + 1, .sequence = 1},
                                       .set = set};
    assert_int_equal(group_finish_as(c, &drop), QUERN_OK);
    group_put(c, "g", "a");
    assert_int_equal(group_finish_as(c, &drop), QUERN_OK);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_AGGREGATING);
    qn_group_set_free(set);
}

static void extended_set_is_not_given_back(struct contract *c)
{
    struct qn_group_set *set = take_two(c);
    for (int i = 0; i < 3; i++) {
        contract_advance(c, CONTRACT_LEASE_MS - SECOND);
        assert_int_equal(group_reclaim(c, 100), 0);
        assert_true(group_extend(c, set));
    }
    assert_int_equal(group_finish(c, set, "made"), QUERN_OK);
    qn_group_set_free(set);
}

/* --- What was made of it cannot be stored ---------------------------------------------------- */

static void taken_id_leaves_the_set_as_it_is(struct contract *c)
{
    struct qn_group_set *set = take_two(c);
    contract_put(c, "default", "made");
    assert_int_equal(group_finish(c, set, "made"), QUERN_E_CONFLICT);
    assert_counts(c, 2, 1);
    assert_int_equal(group_finish(c, set, "other"), QUERN_OK);
    assert_counts(c, 0, 2);
    qn_group_set_free(set);
}

static void full_queue_leaves_the_set_as_it_is(struct contract *c)
{
    const quern_queue_settings one = {.max_pending = 1};
    quern_error err = {0};
    struct qn_group_set *set = take_two(c);
    contract_put(c, "default", "other");
    assert_ok(qn_broker_set_queue(c->broker, "default", &one, &err), err);
    assert_int_equal(group_finish(c, set, "made"), QUERN_E_FULL);
    assert_counts(c, 2, 1);
    assert_true(group_extend(c, set));
    contract_finish(c, contract_take_id(c, "default", "other"), QN_DONE);
    assert_int_equal(group_finish(c, set, "made"), QUERN_OK);
    assert_counts(c, 0, 1);
    qn_group_set_free(set);
}

static void task_may_have_the_id_of_a_member(struct contract *c)
{
    struct qn_group_set *set = take_two(c);
    assert_int_equal(group_finish(c, set, "a"), QUERN_OK);
    assert_counts(c, 0, 1);
    assert_string_equal(contract_inspect(c, "default", "a").type, "made");
    qn_group_set_free(set);
}

/* --- Unique members -------------------------------------------------------------------------- */

static quern_status try_unique(struct contract *c, const char *id, const char *group)
{
    return contract_try(c, &(quern_task){.type = "t",
                                         .id = id,
                                         .group = group,
                                         .payload = "p",
                                         .payload_size = 1,
                                         .unique_ms = 3600 * SECOND});
}

static void lock_of_a_member_ends_with_it(struct contract *c)
{
    assert_int_equal(try_unique(c, "a", "g"), QUERN_OK);
    assert_int_equal(try_unique(c, "b", "g"), QUERN_E_DUPLICATE);
    struct qn_group_set *set = group_take_now(c);
    assert_int_equal(try_unique(c, "b", "g"), QUERN_E_DUPLICATE);
    assert_int_equal(group_finish(c, set, "made"), QUERN_OK);
    assert_int_equal(try_unique(c, "b", "g"), QUERN_OK);
    qn_group_set_free(set);
}

static void returned_member_keeps_its_lock(struct contract *c)
{
    assert_int_equal(try_unique(c, "a", "g"), QUERN_OK);
    struct qn_group_set *set = group_take_now(c);
    assert_int_equal(group_return(c, set), QUERN_OK);
    assert_int_equal(try_unique(c, "b", "g"), QUERN_E_DUPLICATE);
    qn_group_set_free(set);
}

static void task_may_take_over_the_lock_of_a_member(struct contract *c)
{
    assert_int_equal(try_unique(c, "a", "g"), QUERN_OK);
    struct qn_group_set *set = group_take_now(c);
    struct qn_task task = set->members[0]->task;
    task.id = "made";
    task.unique_ms = 3600 * SECOND;
    task.state = QUERN_TASK_PENDING;
    task.group = NULL;
    const struct qn_finish_set finish = {
        .stamp = {.session = c->session, .sequence = ++c->sequence}, .set = set, .task = &task};
    assert_int_equal(group_finish_as(c, &finish), QUERN_OK);
    assert_int_equal(try_unique(c, "b", NULL), QUERN_E_DUPLICATE);
    contract_finish(c, contract_take_id(c, "default", "made"), QN_DONE);
    assert_int_equal(try_unique(c, "b", NULL), QUERN_OK);
    qn_group_set_free(set);
}

static void held_lock_leaves_the_set_as_it_is(struct contract *c)
{
    struct qn_group_set *set = take_two(c);
    assert_int_equal(try_unique(c, "x", NULL), QUERN_OK);
    struct contract_view view = contract_inspect(c, "default", "x");
    assert_true(view.found);
    struct qn_leased *run = contract_take_id(c, "default", "x");
    struct qn_task task = run->task;
    task.id = "made";
    task.unique_ms = SECOND;
    task.state = QUERN_TASK_PENDING;
    const struct qn_finish_set finish = {
        .stamp = {.session = c->session, .sequence = ++c->sequence}, .set = set, .task = &task};
    assert_int_equal(group_finish_as(c, &finish), QUERN_E_DUPLICATE);
    assert_counts(c, 2, 0);
    assert_int_equal(group_return(c, set), QUERN_OK);
    contract_finish(c, run, QN_DONE);
    qn_group_set_free(set);
}

/* --- Giving back ----------------------------------------------------------------------------- */

static void expired_set_goes_back_with_its_group(struct contract *c)
{
    struct qn_group_set *set = take_two(c);
    assert_int_equal(contract_queue(c, "default").group_count, 0); /* nothing waits in it */
    contract_advance(c, CONTRACT_LEASE_MS + SECOND);
    assert_int_equal(group_reclaim(c, 100), 2);
    assert_int_equal(group_reclaim(c, 100), 0);
    assert_int_equal(contract_queue(c, "default").group_count, 1);
    assert_taken(c, "a b");
    qn_group_set_free(set);
}

static void set_of_a_dead_worker_goes_back_at_once(struct contract *c)
{
    const struct contract_worker dead = {.id = "worker-2", .is_dead = true};
    struct group_worker worker = {.settings = group_now, .id = "worker-2"};
    contract_heartbeat_as(c->broker, &dead);
    group_put(c, "g", "a");
    group_put(c, "h", "b");
    struct qn_group_set *lost = group_take(c, &worker);
    struct qn_group_set *held = group_take_now(c);
    assert_int_equal(group_reclaim(c, 100), 1);
    assert_true(group_extend(c, held));
    assert_false(group_extend(c, lost));
    qn_group_set_free(held);
    qn_group_set_free(lost);
}

static void set_of_a_worker_without_a_record_goes_back(struct contract *c)
{
    struct group_worker worker = {.settings = group_now, .id = "worker-2"};
    quern_error err = {0};
    contract_heartbeat(c->broker, "worker-2");
    group_put(c, "g", "a");
    struct qn_group_set *set = group_take(c, &worker);
    assert_int_equal(group_reclaim(c, 100), 0);
    assert_ok(qn_broker_deregister(c->broker, "worker-2", &err), err);
    assert_int_equal(group_reclaim(c, 100), 1);
    qn_group_set_free(set);
}

static void sets_go_back_in_bounded_steps(struct contract *c)
{
    char group[] = "g0";
    for (; group[1] < '5'; group[1]++) {
        char prefix[] = {group[1], '-', '\0'};
        group_put_many(c, group, prefix, 10);
    }
    struct group_worker worker = {.settings = group_now};
    for (int i = 0; i < 5; i++) {
        struct qn_group_set *set = group_take(c, &worker);
        assert_int_equal(set->count, 10);
        qn_group_set_free(set);
    }
    contract_advance(c, CONTRACT_LEASE_MS + SECOND);
    assert_int_equal(group_reclaim(c, 15), 20);
    assert_int_equal(group_reclaim(c, 30), 30);
    assert_int_equal(group_reclaim(c, 30), 0);
    assert_int_equal(contract_queue(c, "default").group_count, 5);
}

/* --- Operators ------------------------------------------------------------------------------- */

static quern_status operate(struct contract *c, quern_action action, const char *id)
{
    quern_error err = {0};
    quern_status status = qn_broker_operate(c->broker, action, "default", id, &err);
    if (status != QUERN_OK) {
        assert_non_null(strstr(err.text, "being aggregated"));
    }
    return status;
}

static void member_of_a_set_is_shown_and_left_alone(struct contract *c)
{
    struct qn_group_set *set = take_two(c);
    group_put(c, "g", "c");
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_AGGREGATING);
    assert_int_equal(operate(c, QUERN_ACTION_RUN, "a"), QUERN_E_STATE);
    assert_int_equal(operate(c, QUERN_ACTION_ARCHIVE, "a"), QUERN_E_STATE);
    assert_int_equal(operate(c, QUERN_ACTION_DELETE, "a"), QUERN_E_STATE);
    const quern_task_filter all = {.queue = "default", .state = QUERN_TASK_AGGREGATING};
    const struct qn_bulk bulk = {.action = QUERN_ACTION_DELETE, .filter = &all, .limit = 100};
    size_t count = 0;
    quern_error err = {0};
    assert_ok(qn_broker_operate_all(c->broker, &bulk, &count, &err), err);
    assert_int_equal(count, 1);
    assert_counts(c, 2, 0);
    assert_int_equal(group_return(c, set), QUERN_OK);
    assert_int_equal(operate(c, QUERN_ACTION_RUN, "a"), QUERN_OK);
    assert_counts(c, 1, 1);
    qn_group_set_free(set);
}

static void removed_queue_takes_its_sets_along(struct contract *c)
{
    struct qn_group_set *set = take_two(c);
    quern_error err = {0};
    assert_int_equal(qn_broker_remove_queue(c->broker, "default", false, &err), QUERN_E_STATE);
    assert_ok(qn_broker_remove_queue(c->broker, "default", true, &err), err);
    assert_int_equal(group_finish(c, set, "made"), QUERN_E_STALE);
    assert_int_equal(group_return(c, set), QUERN_E_STALE);
    group_put(c, "g", "c");
    assert_taken(c, "c");
    qn_group_set_free(set);
}

static bool is_drained(struct contract *c)
{
    const char *queue = "default";
    bool drained = false;
    quern_error err = {0};
    assert_ok(
        qn_broker_drained(c->broker, (struct qn_names){&queue, 1}, QN_UNTIL_EMPTY, &drained, &err),
        err);
    return drained;
}

static void queue_is_not_drained_while_a_set_is_out(struct contract *c)
{
    group_put(c, "g", "a");
    assert_true(is_drained(c));
    struct qn_group_set *set = group_take_now(c);
    assert_false(is_drained(c));
    assert_int_equal(group_finish(c, set, NULL), QUERN_OK);
    assert_true(is_drained(c));
    qn_group_set_free(set);
}

/* --- Members in = members out ------------------------------------------------------------------
 * */

enum step { TAKE, EXTEND, FINISH, RETURN, END, RECLAIM, STEPS };

/* One of two workers; what it knows is lost when it ends. */
static void do_step(struct contract *c, struct group_worker *worker, struct qn_group_set **set,
                    enum step step)
{
    if (step == TAKE && *set == NULL) {
        *set = group_take(c, worker);
    } else if (step == RECLAIM) {
        contract_advance(c, CONTRACT_LEASE_MS / 2);
        (void)group_reclaim(c, 1000);
    } else if (*set != NULL && step == EXTEND) {
        (void)group_extend(c, *set);
    } else if (*set != NULL && step != TAKE) {
        char id[CONTRACT_TEXT_SIZE];
        (void)snprintf(id, sizeof id, "%zu of %s", (*set)->count, (*set)->name);
        quern_status status = step == FINISH   ? group_finish(c, *set, id)
                              : step == RETURN ? group_return(c, *set)
                                               : QUERN_OK;
        assert_true(status == QUERN_OK || status == QUERN_E_STALE);
        qn_group_set_free(*set);
        *set = NULL;
    }
}

/* How many members the tasks that were made say that they hold. */
static size_t count_made(struct contract *c)
{
    size_t count = 0;
    for (struct qn_leased *run = contract_take(c, "default"); run != NULL;
         run = contract_take(c, "default")) {
        assert_string_equal(run->task.type, "made");
        count += strtoul(run->task.id, NULL, 10);
        contract_finish(c, run, QN_DONE);
    }
    return count;
}

static void members_in_are_members_out_whatever_ends_when(struct contract *c)
{
    struct qn_broker *second = contract_open(c);
    size_t in = 0;
    size_t out = 0;
    char id[64];
    contract_heartbeat(second, "worker-2");
    for (unsigned seed = 0; seed < 200; seed++) {
        struct group_worker workers[] = {
            {.settings = {.max_size = 3}},
            {.settings = {.max_size = 2}, .id = "worker-2", .via = second}};
        struct qn_group_set *sets[2] = {NULL, NULL};
        unsigned random = seed * 2654435761u + 1;
        for (size_t i = 0; i < 5; i++, in++) {
            (void)snprintf(id, sizeof id, "m%zu", in);
            group_put(c, i % 2 == 0 ? "g" : "h", id);
        }
        for (int i = 0; i < 12; i++) {
            random = random * 1103515245u + 12345u;
            size_t who = random >> 30 & 1;
            do_step(c, &workers[who], &sets[who], (enum step)((random >> 16) % STEPS));
        }
        qn_group_set_free(sets[0]); /* both are killed */
        qn_group_set_free(sets[1]);
        contract_advance(c, CONTRACT_LEASE_MS + SECOND);
        (void)group_reclaim(c, 100000);
        contract_heartbeat(second, "worker-2");
        out += count_made(c);
        assert_int_equal(out + contract_count(c, "default", QUERN_TASK_AGGREGATING), in);
    }
    struct group_worker worker = {.settings = group_now};
    for (struct qn_group_set *set = NULL; out < in; qn_group_set_free(set)) {
        set = group_take(c, &worker);
        out += set == NULL ? 0 : set->count;
    }
    assert_int_equal(out, in);
    qn_broker_close(second);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(finished_set_becomes_one_task),
    CONTRACT_TEST(set_may_be_finished_without_a_task),
    CONTRACT_TEST(tasks_that_come_later_are_not_of_the_set),
    CONTRACT_TEST(returned_members_are_at_their_old_places),
    CONTRACT_TEST(set_without_its_lease_changes_nothing),
    CONTRACT_TEST(set_is_finished_once),
    CONTRACT_TEST(repeated_request_gets_the_same_answer),
    CONTRACT_TEST(extended_set_is_not_given_back),
    CONTRACT_TEST(taken_id_leaves_the_set_as_it_is),
    CONTRACT_TEST(full_queue_leaves_the_set_as_it_is),
    CONTRACT_TEST(task_may_have_the_id_of_a_member),
    CONTRACT_TEST(lock_of_a_member_ends_with_it),
    CONTRACT_TEST(returned_member_keeps_its_lock),
    CONTRACT_TEST(task_may_take_over_the_lock_of_a_member),
    CONTRACT_TEST(held_lock_leaves_the_set_as_it_is),
    CONTRACT_TEST(expired_set_goes_back_with_its_group),
    CONTRACT_TEST(set_of_a_dead_worker_goes_back_at_once),
    CONTRACT_TEST(set_of_a_worker_without_a_record_goes_back),
    CONTRACT_TEST(sets_go_back_in_bounded_steps),
    CONTRACT_TEST(member_of_a_set_is_shown_and_left_alone),
    CONTRACT_TEST(removed_queue_takes_its_sets_along),
    CONTRACT_TEST(queue_is_not_drained_while_a_set_is_out),
    CONTRACT_TEST(members_in_are_members_out_whatever_ends_when),
};

CONTRACT_MAIN(tests)
