/* SPDX-License-Identifier: MIT */
/* test_tls.c - TLS with good and bad peers: nothing is sent to a peer that is not the right one,
 * and each refusal says why. */
#include "net/tls.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/ssl.h>

#include "lib_tls_bench.h"
#include "net/tls_link.h"

/* --- Good peers --------------------------------------------------------------------- */

static void bytes_go_there_and_back(void **state)
{
    (void)state;
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (size_t i = 0; i < TEST_COUNT(versions); i++) {
        for (int dribbles = 0; dribbles < 2; dribbles++) {
            struct bench bench;
            tls_begin(&bench,
                      &(struct test_tls_server_options){.version_max = versions[i],
                                                        .dribbles = dribbles == 1},
                      &tls_usual);
            tls_connect_ok(&bench);
            tls_echo(&bench, "one");
            assert_false(qn_socket_is_stale(&bench.socket)); /* tickets are no answer */
            tls_echo(&bench, "two");
            assert_false(qn_socket_is_stale(&bench.socket));
            tls_end(&bench);
        }
    }
}

/* More than the sockets' buffers hold in each direction, so that both sides wait. */
static void a_large_answer_comes_whole(void **state)
{
    (void)state;
    enum { SIZE = 3 * 1024 * 1024, PIECE = 65536 };
    struct bench bench;
    tls_begin(&bench, &(struct test_tls_server_options){0}, &tls_usual);
    tls_connect_ok(&bench);
    char *sent = malloc(SIZE);
    char *received = malloc(SIZE);
    assert_non_null(sent);
    assert_non_null(received);
    for (size_t i = 0; i < SIZE; i++) {
        sent[i] = (char)(i * 31 + i / 1000);
    }
    for (size_t at = 0; at < SIZE; at += PIECE) {
        assert_ok(tls_send(&bench, sent + at, PIECE), bench.err);
        assert_ok(tls_receive(&bench, received + at, PIECE), bench.err);
    }
    assert_int_equal(bench.socket.sent_bytes, SIZE);
    assert_memory_equal(sent, received, SIZE);
    free(sent);
    free(received);
    tls_end(&bench);
}

static void keys_may_change(void **state)
{
    (void)state;
    struct bench bench;
    tls_begin(&bench, &(struct test_tls_server_options){.manner = TEST_TLS_KEY_UPDATE}, &tls_usual);
    tls_connect_ok(&bench);
    for (int i = 0; i < 50; i++) {
        tls_echo(&bench, "turn");
    }
    tls_end(&bench);
}

static void the_next_connection_resumes_the_session(void **state)
{
    (void)state;
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (size_t i = 0; i < TEST_COUNT(versions); i++) {
        struct bench bench;
        tls_begin(&bench, &(struct test_tls_server_options){.version_max = versions[i]},
                  &tls_usual);
        for (int turn = 0; turn < 3; turn++) {
            tls_connect_ok(&bench);
            assert_int_equal(qn_tls_link_is_resumed(bench.socket.tls), turn > 0);
            tls_echo(&bench, "hello");
            qn_socket_close(&bench.socket);
        }
        assert_int_equal(bench.server.resumed_count, 2);
        /* After a reload the list of CAs may be another one. */
        assert_ok(qn_tls_reload(bench.peer.tls, &bench.err), bench.err);
        tls_connect_ok(&bench);
        assert_false(qn_tls_link_is_resumed(bench.socket.tls));
        tls_end(&bench);
    }
}

static void a_name_or_an_address_is_checked(void **state)
{
    (void)state;
    static const struct client clients[] = {
        {.ca = "ca"}, /* 127.0.0.1 */
        {.ca = "ca", .server_name = "localhost"},
        {.ca = "ca", .server_name = "a.wild.example"},
        {.ca = "ca", .server_name = "::1"},
        {.ca = "self-signed", .server_name = "localhost"}, /* not needed, but no harm */
    };
    for (size_t i = 0; i + 1 < TEST_COUNT(clients); i++) {
        struct bench bench;
        tls_begin(&bench, &(struct test_tls_server_options){0}, &clients[i]);
        tls_connect_ok(&bench);
        tls_echo(&bench, "hello");
        tls_end(&bench);
    }
    struct bench bench;
    tls_begin(&bench, &(struct test_tls_server_options){.cert = "self-signed"},
              &clients[TEST_COUNT(clients) - 1]);
    tls_connect_ok(&bench);
    tls_end(&bench);
}

static void a_client_shows_its_certificate(void **state)
{
    (void)state;
    struct bench bench;
    tls_begin(&bench, &(struct test_tls_server_options){.client_ca = "ca"},
              &(struct client){.ca = "ca", .cert = "client"});
    tls_connect_ok(&bench);
    tls_echo(&bench, "hello");
    tls_end(&bench);
}

/* One thread of several, each with a server of its own. */
static void *connect_often(void *argument)
{
    struct bench *bench = argument;
    for (int i = 0; i < 20; i++) {
        char answer[8];
        quern_status status = tls_connect(bench);
        status = status == QUERN_OK ? tls_send(bench, "hello", 5) : status;
        status = status == QUERN_OK ? tls_receive(bench, answer, 5) : status;
        qn_socket_close(&bench->socket);
        if (status != QUERN_OK) {
            return bench; /* asserts are for the main thread */
        }
    }
    return NULL;
}

static void threads_share_the_settings_while_they_are_read_again(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    struct bench benches[THREADS];
    pthread_t threads[THREADS];
    quern_error err = {0};
    for (int i = 0; i < THREADS; i++) {
        tls_begin(&benches[i], &(struct test_tls_server_options){0}, &tls_usual);
        if (i > 0) {
            qn_tls_unref(benches[i].peer.tls);
            benches[i].peer.tls = qn_tls_ref(benches[0].peer.tls);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, connect_often, &benches[i]), 0);
    }
    for (int i = 0; i < 20; i++) {
        assert_ok(qn_tls_reload(benches[0].peer.tls, &err), err);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        if (failed != NULL) {
            fail_msg("%s", benches[i].err.text);
        }
    }
    for (int i = THREADS - 1; i >= 0; i--) {
        tls_end(&benches[i]);
    }
}

/* --- Bad peers ---------------------------------------------------------------------- */

static void a_bad_peer_is_refused_with_the_reason(void **state)
{
    (void)state;
    static const struct {
        struct test_tls_server_options server;
        struct client client;
        const char *words;
    } cases[] = {
        {{.cert = "other"}, {.ca = "ca"}, "is for other.example, 10.9.8.7, not for 127.0.0.1"},
        {{.cert = "many"}, {.ca = "ca", .server_name = "x"}, "is for a, b, c, ..., not for x"},
        {{.cert = "nameless"}, {.ca = "ca"}, "no subjectAltName"},
        {{.cert = "good"}, {.ca = "ca", .server_name = "b.a.wild.example"}, "not for b.a.wild"},
        {{.cert = "expired"}, {.ca = "ca"}, "the certificate expired at 20"},
        {{.cert = "early"}, {.ca = "ca"}, "not valid before 20"},
        {{.cert = "good"}, {.ca = "other-ca"}, "signed by an unknown CA, \"ca\""},
        {{.cert = "good"}, {.ca = NULL}, "signed by an unknown CA, \"ca\""},
        {{.cert = "self-signed"}, {.ca = "ca"}, "self-signed"},
        {{.version_max = TLS1_1_VERSION}, {.ca = "ca"}, "TLS 1.2"},
        {{.version_max = TLS1_VERSION}, {.ca = "ca"}, "TLS 1.2"},
        {{.manner = TEST_TLS_PLAIN}, {.ca = "ca"}, "speaks no TLS"},
        {{.client_ca = "ca", .version_max = TLS1_2_VERSION},
         {.ca = "ca"},
         "requires a certificate of ours"},
        {{.client_ca = "ca", .version_max = TLS1_2_VERSION},
         {.ca = "ca", .cert = "stranger"},
         "does not know the CA of our certificate"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct bench bench;
        tls_begin(&bench, &cases[i].server, &cases[i].client);
        assert_int_equal(tls_connect(&bench), QUERN_E_CONNECT);
        tls_assert_says(&bench, cases[i].words);
        assert_int_equal(bench.socket.fd, -1);
        assert_int_equal(bench.socket.sent_bytes, 0);
        tls_end(&bench);
    }
}

/* In TLS 1.3 the client is done before the server has judged its certificate. */
static void a_missing_certificate_is_reported_by_the_first_answer(void **state)
{
    (void)state;
    static const struct {
        struct client client;
        const char *words;
    } cases[] = {
        {{.ca = "ca"}, "requires a certificate of ours"},
        {{.ca = "ca", .cert = "stranger"}, "does not know the CA of our certificate"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char answer[8];
        struct bench bench;
        tls_begin(&bench, &(struct test_tls_server_options){.client_ca = "ca"}, &cases[i].client);
        tls_connect_ok(&bench);
        quern_status status = tls_send(&bench, "hello", 5);
        status = status == QUERN_OK ? tls_receive(&bench, answer, 5) : status;
        assert_int_equal(status, QUERN_E_CONNECT);
        tls_assert_says(&bench, cases[i].words);
        tls_end(&bench);
    }
}

static void an_answer_that_is_cut_or_damaged_is_an_error(void **state)
{
    (void)state;
    static const struct {
        struct test_tls_server_options server;
        const char *words;
    } cases[] = {
        {{.manner = TEST_TLS_TRUNCATE}, "truncated"},
        {{.manner = TEST_TLS_TRUNCATE, .version_max = TLS1_2_VERSION}, "truncated"},
        {{.manner = TEST_TLS_GOODBYE}, "closed by the server"},
        {{.manner = TEST_TLS_GARBAGE}, "damaged on the way"},
        {{.manner = TEST_TLS_GARBAGE, .version_max = TLS1_2_VERSION}, "damaged on the way"},
        {{.manner = TEST_TLS_RENEGOTIATE, .version_max = TLS1_2_VERSION}, "renegotiate"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char answer[8];
        struct bench bench;
        tls_begin(&bench, &cases[i].server, &tls_usual);
        tls_connect_ok(&bench);
        assert_ok(tls_send(&bench, "hello", 5), bench.err);
        assert_int_equal(tls_receive(&bench, answer, 5), QUERN_E_CONNECT);
        tls_assert_says(&bench, cases[i].words);
        tls_end(&bench);
    }
}

/* At many bytes of what the server sends up to its first answer; at each with QUERN_TEST_FULL. */
static void a_cut_at_any_byte_is_an_error(void **state)
{
    (void)state;
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (size_t i = 0; i < TEST_COUNT(versions); i++) {
        bool is_whole = false;
        size_t step = getenv("QUERN_TEST_FULL") != NULL ? 1 : 31;
        for (size_t cut = 1; !is_whole; cut += step) {
            char answer[8];
            struct bench bench;
            tls_begin(
                &bench,
                &(struct test_tls_server_options){.version_max = versions[i], .cut_after = cut},
                &tls_usual);
            quern_status status = tls_connect(&bench);
            if (status == QUERN_OK) {
                status = tls_send(&bench, "hello", 5);
            }
            if (status == QUERN_OK) {
                status = tls_receive(&bench, answer, 5);
            }
            is_whole = status == QUERN_OK;
            assert_true(is_whole || status == QUERN_E_CONNECT);
            tls_end(&bench);
            assert_true(cut < 20000);
        }
    }
}

static void a_silent_or_endless_peer_ends_at_the_deadline(void **state)
{
    (void)state;
    struct bench bench;
    tls_begin(&bench, &(struct test_tls_server_options){.manner = TEST_TLS_MUTE}, &tls_usual);
    assert_int_equal(qn_connect(&bench.socket, tls_in_ms(50), &bench.err), QUERN_E_TIMEOUT);
    tls_assert_says(&bench, "no answer to TLS (is this its plain port?) within ");
    tls_end(&bench);

    tls_begin(&bench, &(struct test_tls_server_options){.manner = TEST_TLS_TICKETS}, &tls_usual);
    tls_connect_ok(&bench);
    assert_ok(tls_send(&bench, "hello", 5), bench.err);
    struct qn_socket_wait wait = {.deadline_mono_ns = tls_in_ms(200)};
    quern_status status = QUERN_OK;
    while (status == QUERN_OK) {
        size_t size = 0;
        status = qn_socket_receive(&bench.socket, &wait, &size, &bench.err);
        assert_int_equal(size, 0);
    }
    assert_int_equal(status, QUERN_E_TIMEOUT);
    tls_end(&bench);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(bytes_go_there_and_back),
    cmocka_unit_test(a_large_answer_comes_whole),
    cmocka_unit_test(keys_may_change),
    cmocka_unit_test(the_next_connection_resumes_the_session),
    cmocka_unit_test(a_name_or_an_address_is_checked),
    cmocka_unit_test(a_client_shows_its_certificate),
    cmocka_unit_test(threads_share_the_settings_while_they_are_read_again),
    cmocka_unit_test(a_bad_peer_is_refused_with_the_reason),
    cmocka_unit_test(a_missing_certificate_is_reported_by_the_first_answer),
    cmocka_unit_test(an_answer_that_is_cut_or_damaged_is_an_error),
    cmocka_unit_test(a_cut_at_any_byte_is_an_error),
    cmocka_unit_test(a_silent_or_endless_peer_ends_at_the_deadline),
};

int main(int argc, char **argv)
{
    return tls_main(argc, argv, tests, TEST_COUNT(tests));
}
