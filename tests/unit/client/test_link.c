/* SPDX-License-Identifier: MIT */
/* test_link.c - what a client does while no server answers: its options, and its callbacks. */
#include "quern/client.h"

#include <stdio.h>
#include <string.h>

#include "lib_peer.h"

#define DEAD "redis-socket:///nonexistent/quern.sock"

struct calls {
    size_t failures;
    size_t choices;
};

static void note_failure(const quern_link_failure *failure, void *user)
{
    struct calls *calls = user;
    calls->failures++;
    assert_int_equal(failure->attempts, calls->failures);
    assert_int_equal(failure->status, QUERN_E_CONNECT);
    assert_true(failure->address[0] != '\0');
    assert_true(failure->error[0] != '\0');
    assert_true(failure->failing_ms >= 0);
}

static size_t choose_next(size_t count, size_t current, void *user)
{
    struct calls *calls = user;
    calls->choices++;
    return (current + 1) % count;
}

static void each_failure_is_reported_and_the_next_server_is_chosen(void **state)
{
    (void)state;
    struct calls calls = {0};
    const quern_client_options options = {
        .on_link_failure = note_failure, .choose_server = choose_next, .link_user = &calls};
    quern_client *client = NULL;
    quern_error err = {0};
    assert_int_equal(quern_client_open(DEAD ";" DEAD "2;" DEAD "3", &options, &client, &err),
                     QUERN_E_CONNECT);
    assert_int_equal(calls.failures, 3);
    assert_int_equal(calls.choices, 3);
}

static void opening_waits_as_long_as_it_is_told_to(void **state)
{
    (void)state;
    struct peer *peer = peer_start(NULL, "");
    static const struct peer_rule loading = {.to = "EXISTS", .reply = "-LOADING soon\r\n"};
    const quern_client_options options = {.connect_wait_ms = 400};
    quern_client *client = NULL;
    quern_error err = {0};
    peer_rules(peer, &loading, 1);
    assert_int_equal(quern_client_open(peer_url(peer), NULL, &client, &err), QUERN_E_BUSY);
    assert_int_equal(peer_answered(peer), 1);
    assert_int_equal(quern_client_open(peer_url(peer), &options, &client, &err), QUERN_E_BUSY);
    assert_true(peer_answered(peer) >= 3);
    peer_stop(peer);
    const quern_client_options wrong = {.connect_wait_ms = -1};
    assert_int_equal(quern_client_open(DEAD, &wrong, &client, &err), QUERN_E_INVALID);
}

/* A server that is absent: each attempt, and the time since the one before. */
struct attempts {
    size_t count;
    int64_t at_ms;
    int64_t gaps_ms[16];
};

static void note_attempt(const quern_link_failure *failure, void *user)
{
    (void)failure;
    struct attempts *attempts = user;
    int64_t now_ms = test_now_ms();
    assert_true(attempts->count < TEST_COUNT(attempts->gaps_ms));
    attempts->gaps_ms[attempts->count++] = now_ms - attempts->at_ms;
    attempts->at_ms = now_ms;
}

static size_t count_attempts(const char *url, quern_client_options options,
                             struct attempts *ret_attempts)
{
    quern_client *client = NULL;
    quern_error err = {0};
    *ret_attempts = (struct attempts){.at_ms = test_now_ms()};
    options.on_link_failure = note_attempt;
    options.link_user = ret_attempts;
    assert_int_equal(quern_client_open(url, &options, &client, &err), QUERN_E_CONNECT);
    return ret_attempts->count;
}

/* Pauses are random up to their limit; what the machine adds is not counted closely. */
static void assert_gaps(const struct attempts *attempts, const int64_t *limits_ms)
{
    int64_t sum_ms = 0;
    int64_t limit_ms = 0;
    for (size_t i = 1; i < attempts->count; i++) {
        assert_in_range(attempts->gaps_ms[i], 0, 3 * limits_ms[i - 1] + 100);
        sum_ms += attempts->gaps_ms[i];
        limit_ms += limits_ms[i - 1];
    }
    assert_true(sum_ms >= limit_ms / 20); /* else it did not pause at all */
}

static void opening_is_retried_as_often_as_the_options_say(void **state)
{
    (void)state;
    static const int64_t doubled[] = {40, 80, 160, 200};
    static const int64_t stepped[] = {50, 150, 250, 300};
    struct attempts attempts;
    assert_int_equal(count_attempts(DEAD, (quern_client_options){0}, &attempts), 1);
    assert_int_equal(count_attempts(DEAD,
                                    (quern_client_options){.interval_start_ms = 40,
                                                           .interval_max_ms = 200,
                                                           .max_retries = 4},
                                    &attempts),
                     5);
    assert_gaps(&attempts, doubled);
    assert_int_equal(count_attempts(DEAD,
                                    (quern_client_options){.interval_start_ms = 50,
                                                           .interval_step_ms = 100,
                                                           .interval_max_ms = 300,
                                                           .max_retries = 4},
                                    &attempts),
                     5);
    assert_gaps(&attempts, stepped);
    assert_int_equal(
        count_attempts(DEAD, (quern_client_options){.max_retries = 2, .no_wait = true}, &attempts),
        1);
    /* The time that was given ends it before the number does. */
    assert_in_range(count_attempts(DEAD,
                                   (quern_client_options){.connect_wait_ms = 300,
                                                          .interval_start_ms = 150,
                                                          .max_retries = 1000},
                                   &attempts),
                    2, 16);
}

static void a_url_has_the_same_options_and_those_of_the_program_come_first(void **state)
{
    (void)state;
    static const char url[] = DEAD "?max_retries=2&interval_start_ms=5";
    struct attempts attempts;
    assert_int_equal(count_attempts(url, (quern_client_options){0}, &attempts), 3);
    assert_int_equal(count_attempts(url, (quern_client_options){.max_retries = 1}, &attempts), 2);
    assert_int_equal(count_attempts(url, (quern_client_options){.no_wait = true}, &attempts), 1);
    /* Of a list it is cycles that are counted: each tries both servers. */
    assert_int_equal(
        count_attempts(DEAD "?max_retries=2;" DEAD "2", (quern_client_options){0}, &attempts), 6);
}

static void wrong_parameters_of_a_url_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"?max_retries=0", "max_retries is a number from 1"},
        {"?max_retries=-1", "max_retries is a number from 1"},
        {"?max_retries=1000000001", "max_retries is a number from 1"},
        {"?max_retries=", "max_retries is a number from 1"},
        {"?interval_start_ms=x", "interval_start_ms is a number from 1"},
        {"?interval_step_ms=1.5", "interval_step_ms is a number from 1"},
        {"?interval_max_ms=86400001", "interval_max_ms is a number from 1 to 86400000"},
        {"?interval_start_ms=20&interval_max_ms=10", "interval_max_ms is 10, less than"},
        {";" DEAD "?max_retries=1", "max_retries belongs into the first URL"},
    };
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        char url[256];
        quern_client *client = NULL;
        quern_error err = {0};
        (void)snprintf(url, sizeof url, DEAD "%s", bad[i][0]);
        assert_int_equal(quern_client_open(url, NULL, &client, &err), QUERN_E_INVALID);
        if (strstr(err.text, bad[i][1]) == NULL) {
            fail_msg("%s: %s", url, err.text);
        }
    }
}

static void an_enqueue_is_retried_as_often_as_the_options_say(void **state)
{
    (void)state;
    static const struct peer_rule busy = {.to = "EVALSHA", .reply = "-LOADING soon\r\n"};
    struct peer *peer = peer_start(NULL, "");
    const quern_task task = {.type = "t"};
    const quern_client_options options = {.max_retries = 3, .interval_start_ms = 10};
    quern_client *client = NULL;
    quern_error err = {0};
    assert_ok(quern_client_open(peer_url(peer), &options, &client, &err), err);
    peer_rules(peer, &busy, 1);
    assert_int_equal(quern_client_enqueue(client, &task, NULL, &err), QUERN_E_BUSY);
    assert_int_equal(peer_answered(peer), 4);
    quern_client_free(client);
    peer_stop(peer);
}

static void an_enqueue_that_must_not_wait_is_tried_once(void **state)
{
    (void)state;
    static const struct peer_rule busy = {.to = "EVALSHA", .reply = "-LOADING soon\r\n"};
    const quern_task task = {.type = "t"};
    for (int no_wait = 0; no_wait < 2; no_wait++) {
        struct peer *peer = peer_start(NULL, "");
        const quern_client_options options = {.command_timeout_ms = 400, .no_wait = no_wait == 1};
        quern_client *client = NULL;
        quern_error err = {0};
        assert_ok(quern_client_open(peer_url(peer), &options, &client, &err), err);
        peer_rules(peer, &busy, 1);
        assert_int_equal(quern_client_enqueue(client, &task, NULL, &err), QUERN_E_BUSY);
        assert_int_equal(peer_answered(peer) == 1, no_wait == 1);
        quern_client_free(client);
        peer_stop(peer);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_failure_is_reported_and_the_next_server_is_chosen),
    cmocka_unit_test(opening_waits_as_long_as_it_is_told_to),
    cmocka_unit_test(an_enqueue_that_must_not_wait_is_tried_once),
    cmocka_unit_test(opening_is_retried_as_often_as_the_options_say),
    cmocka_unit_test(a_url_has_the_same_options_and_those_of_the_program_come_first),
    cmocka_unit_test(wrong_parameters_of_a_url_are_refused_by_name),
    cmocka_unit_test(an_enqueue_is_retried_as_often_as_the_options_say),
};
TEST_MAIN(tests)
