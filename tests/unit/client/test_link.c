/* SPDX-License-Identifier: MIT */
/* test_link.c - what a client does while no server answers: its options, and its callbacks. */
#include "quern/client.h"

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
};
TEST_MAIN(tests)
