/* SPDX-License-Identifier: MIT */
/* test_tls_files.c - the files of TLS: what is wrong with one is said, and a reload. */
#include <string.h>
#include <unistd.h>

#include "lib_tls_bench.h"

static void bad_files_are_named(void **state)
{
    (void)state;
    tls_make_files();
    static const struct {
        const char *ca;
        const char *cert;
        const char *key;
        const char *words;
    } cases[] = {
        {"none.pem", NULL, NULL, "none.pem: No such file"},
        {"ca.key", NULL, NULL, "no certificate in it"},
        {"broken.pem", NULL, NULL, "damaged"},
        {"open.pem", NULL, NULL, "others may write to it"},
        {"ca.pem", "client.pem", NULL, "no private key in it"},
        {"ca.pem", "client.pem", "good.key", "not the key of the certificate"},
        {"ca.pem", "client.pem", "locked.key", "passphrase"},
        {"ca.pem", NULL, "client.key", "key= without cert="},
        {".", NULL, NULL, "not a regular file"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char paths[3][PATH_SIZE] = {"", "", ""};
        const char *names[] = {cases[i].ca, cases[i].cert, cases[i].key};
        for (size_t k = 0; k < 3; k++) {
            if (names[k] != NULL) {
                (void)snprintf(paths[k], sizeof paths[k], "%s/%s", tls_dir, names[k]);
            }
        }
        struct qn_tls *tls = NULL;
        quern_error err = {0};
        const struct qn_tls_options options = {.ca = paths[0], .cert = paths[1], .key = paths[2]};
        assert_int_equal(qn_tls_new(&options, &tls, &err), QUERN_E_INVALID);
        if (strstr(err.text, cases[i].words) == NULL) {
            fail_msg("%s: %s", cases[i].words, err.text);
        }
    }
}

static void a_reload_takes_new_files_and_keeps_the_old_when_they_are_broken(void **state)
{
    (void)state;
    char trusted[PATH_SIZE];
    struct bench bench;
    tls_make_files();
    test_tls_make_ca(tls_dir, "turning");
    tls_begin(&bench, &(struct test_tls_server_options){0}, &(struct client){.ca = "turning"});
    assert_int_equal(tls_connect(&bench), QUERN_E_CONNECT);
    FILE *file = fopen(tls_path_of(trusted, "turning", "pem"), "we");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(qn_tls_reload(bench.peer.tls, &bench.err), QUERN_E_INVALID);
    assert_int_equal(tls_connect(&bench), QUERN_E_CONNECT);
    tls_assert_says(&bench, "unknown CA");
    char good[PATH_SIZE];
    assert_int_equal(unlink(trusted), 0);
    assert_int_equal(link(tls_path_of(good, "ca", "pem"), trusted), 0);
    assert_ok(qn_tls_reload(bench.peer.tls, &bench.err), bench.err);
    tls_connect_ok(&bench);
    tls_echo(&bench, "hello");
    tls_end(&bench);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(bad_files_are_named),
    cmocka_unit_test(a_reload_takes_new_files_and_keeps_the_old_when_they_are_broken),
};

int main(int argc, char **argv)
{
    return tls_main(argc, argv, tests, TEST_COUNT(tests));
}
