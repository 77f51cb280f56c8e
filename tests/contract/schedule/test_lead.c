/* SPDX-License-Identifier: MIT */
/* test_lead.c - one scheduler leads at a time, and each later leader has a greater epoch. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "lib_schedule.h"

static void first_scheduler_leads_and_others_wait(struct contract *c)
{
    struct qn_broker *second = contract_open(c);
    struct qn_lead_reply look = schedule_lead(c->broker, "", QN_LEAD_LOOK);
    assert_string_equal(look.id, "");
    assert_int_equal(look.lease_left_ms, 0);
    struct qn_lead_reply first = schedule_lead(c->broker, "a", QN_LEAD_TAKE);
    assert_true(first.leads);
    assert_true(first.epoch > 0);
    struct qn_lead_reply other = schedule_lead(second, "b", QN_LEAD_TAKE);
    assert_false(other.leads);
    assert_int_equal(other.epoch, first.epoch);
    assert_string_equal(other.id, "host:1:a");
    assert_in_range(other.lease_left_ms, 1, SCHEDULE_LEASE_MS);
    assert_in_range(other.now_ms, CONTRACT_NOW_MS, CONTRACT_NOW_MS + 60000);
    assert_false(schedule_lead(second, "b", QN_LEAD_RENEW).leads);
    assert_false(schedule_lead(second, "b", QN_LEAD_GIVE_BACK).leads);
    assert_true(schedule_lead(c->broker, "a", QN_LEAD_RENEW).leads);
    qn_broker_close(second);
}

static void repeated_take_of_the_leader_keeps_its_epoch(struct contract *c)
{
    uint64_t epoch = schedule_take(c->broker, "a");
    contract_advance(c, 4000);
    assert_int_equal(schedule_take(c->broker, "a"), epoch);
}

static void renewed_lease_is_not_taken(struct contract *c)
{
    uint64_t epoch = schedule_take(c->broker, "a");
    for (int i = 0; i < 4; i++) {
        contract_advance(c, SCHEDULE_LEASE_MS - 3000);
        struct qn_lead_reply reply = schedule_lead(c->broker, "a", QN_LEAD_RENEW);
        assert_true(reply.leads);
        assert_int_equal(reply.epoch, epoch);
        assert_false(schedule_lead(c->broker, "b", QN_LEAD_TAKE).leads);
    }
}

static void lease_that_is_over_is_taken_with_a_greater_epoch(struct contract *c)
{
    uint64_t epoch = schedule_take(c->broker, "a");
    contract_advance(c, SCHEDULE_LEASE_MS + 1000);
    assert_string_equal(schedule_lead(c->broker, "", QN_LEAD_LOOK).id, "");
    assert_true(schedule_take(c->broker, "b") > epoch);
    struct qn_lead_reply late = schedule_lead(c->broker, "a", QN_LEAD_RENEW);
    assert_false(late.leads);
    assert_string_equal(late.id, "host:1:b");
}

static void lease_that_was_given_back_is_free_at_once(struct contract *c)
{
    uint64_t epoch = schedule_take(c->broker, "a");
    assert_false(schedule_lead(c->broker, "a", QN_LEAD_GIVE_BACK).leads);
    assert_true(schedule_take(c->broker, "b") > epoch);
    /* A late one of another scheduler takes nothing away. */
    (void)schedule_lead(c->broker, "a", QN_LEAD_GIVE_BACK);
    assert_true(schedule_lead(c->broker, "b", QN_LEAD_RENEW).leads);
}

static void leader_that_is_dead_is_replaced_at_once(struct contract *c)
{
    char owner[QN_OWNER_SIZE];
    quern_error err = {0};
    struct qn_lead_reply reply;
    assert_ok(qn_owner_self(owner, &err), err);
    (void)snprintf(strrchr(owner, ':'), 3, ":1");
    assert_int_equal(qn_owner_judge(owner), QN_OWNER_DEAD);
    const struct qn_lead lead = {
        .what = QN_LEAD_TAKE, .owner = owner, .id = "host:9:dead", .lease_ms = SCHEDULE_LEASE_MS};
    assert_ok(qn_schedule_lead(c->broker, &lead, &reply, &err), err);
    assert_true(schedule_take(c->broker, "b") > reply.epoch);
}

static void epoch_grows_with_the_clock_too(struct contract *c)
{
    assert_true(schedule_take(c->broker, "a") >= (uint64_t)CONTRACT_NOW_MS);
}

/* A scheduler sees by the new epoch that it has to claim the queues again. */
static void leader_with_a_damaged_epoch_takes_a_new_one(struct contract *c)
{
    sqlite3 *db = NULL;
    (void)schedule_take(c->broker, "a");
    assert_int_equal(sqlite3_open(c->store.url + strlen("sqlite://"), &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "UPDATE quern_leader SET epoch = 9223372036854775807", NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_true(schedule_take(c->broker, "a") >= (uint64_t)CONTRACT_NOW_MS);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(first_scheduler_leads_and_others_wait),
    CONTRACT_TEST(repeated_take_of_the_leader_keeps_its_epoch),
    CONTRACT_TEST(renewed_lease_is_not_taken),
    CONTRACT_TEST(lease_that_is_over_is_taken_with_a_greater_epoch),
    CONTRACT_TEST(lease_that_was_given_back_is_free_at_once),
    CONTRACT_TEST(leader_that_is_dead_is_replaced_at_once),
    CONTRACT_TEST(epoch_grows_with_the_clock_too),
    CONTRACT_TEST_ONLY("sqlite", leader_with_a_damaged_epoch_takes_a_new_one),
};
CONTRACT_MAIN(tests)
