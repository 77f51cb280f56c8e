/* SPDX-License-Identifier: MIT */
/* lib_tls_bench.c - starts the server, connects, and sends an echo. */
#include "lib_tls_bench.h"

#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"

char tls_dir[TEST_DIR_SIZE];

/* --- Certificates ------------------------------------------------------------------- */

static void write_text(const char *name, const char *text, mode_t mode)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "%s/%s", tls_dir, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

void tls_make_files(void)
{
    static const struct {
        const char *name;
        struct test_tls_terms terms;
    } certs[] = {
        {"good", {"DNS:localhost,IP:127.0.0.1,IP:::1,DNS:*.wild.example", 1, 1, "ca", NULL}},
        {"other", {"DNS:other.example,IP:10.9.8.7", 1, 1, "ca", NULL}},
        {"many", {"DNS:a,DNS:b,DNS:c,DNS:d,DNS:e", 1, 1, "ca", NULL}},
        {"nameless", {NULL, 1, 1, "ca", NULL}},
        {"expired", {"IP:127.0.0.1", 3, -1, "ca", NULL}},
        {"early", {"IP:127.0.0.1", -1, 2, "ca", NULL}},
        {"self-signed", {"DNS:localhost,IP:127.0.0.1", 1, 1, NULL, NULL}},
        {"client", {NULL, 1, 1, "ca", NULL}},
        {"stranger", {NULL, 1, 1, "other-ca", NULL}},
        {"locked", {NULL, 1, 1, "ca", "secret"}},
    };
    if (tls_dir[0] != '\0') {
        return;
    }
    test_dir_make(tls_dir);
    test_tls_make_ca(tls_dir, "ca");
    test_tls_make_ca(tls_dir, "other-ca");
    for (size_t i = 0; i < TEST_COUNT(certs); i++) {
        test_tls_make_cert(tls_dir, certs[i].name, &certs[i].terms);
    }
    write_text("broken.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
               0600);
    write_text("open.pem", "", 0666);
}

int64_t tls_in_ms(int64_t ms)
{
    return qn_clock_mono_ns() + ms * 1000000;
}

const char *tls_path_of(char path[PATH_SIZE], const char *name, const char *end)
{
    (void)snprintf(path, PATH_SIZE, "%s/%s.%s", tls_dir, name == NULL ? "" : name, end);
    return name == NULL ? NULL : path;
}

static struct qn_tls *make_tls(const struct client *client)
{
    char ca[PATH_SIZE];
    char cert[PATH_SIZE];
    char key[PATH_SIZE];
    quern_error err = {0};
    struct qn_tls *tls = NULL;
    const struct qn_tls_options options = {.ca = tls_path_of(ca, client->ca, "pem"),
                                           .cert = tls_path_of(cert, client->cert, "pem"),
                                           .key = tls_path_of(key, client->cert, "key"),
                                           .server_name = client->server_name};
    assert_ok(qn_tls_new(&options, &tls, &err), err);
    return tls;
}

void tls_begin(struct bench *bench, const struct test_tls_server_options *options,
               const struct client *client)
{
    *bench = (struct bench){0};
    tls_make_files();
    struct test_tls_server_options all = *options;
    all.dir = tls_dir;
    all.cert = options->cert == NULL ? "good" : options->cert;
    test_tls_server_start(&bench->server, &all);
    (void)snprintf(bench->address, sizeof bench->address, "line://localhost:%s",
                   bench->server.port);
    bench->peer = (struct qn_peer){.host = "127.0.0.1",
                                   .port = bench->server.port,
                                   .path = "",
                                   .address = bench->address,
                                   .connect_timeout_ms = TEST_PATIENCE_MS,
                                   .timeout_ms = TEST_PATIENCE_MS,
                                   .tls = make_tls(client)};
    qn_socket_init(&bench->socket, &bench->peer);
}

void tls_end(struct bench *bench)
{
    qn_socket_close(&bench->socket);
    test_tls_server_stop(&bench->server);
    qn_tls_unref(bench->peer.tls);
}

const struct client tls_usual = {.ca = "ca"};

quern_status tls_connect(struct bench *bench)
{
    return qn_connect(&bench->socket, tls_in_ms(TEST_PATIENCE_MS), &bench->err);
}

void tls_connect_ok(struct bench *bench)
{
    assert_ok(tls_connect(bench), bench->err);
}

quern_status tls_send(struct bench *bench, const char *data, size_t size)
{
    return qn_socket_send(&bench->socket, data, size, tls_in_ms(TEST_PATIENCE_MS), &bench->err);
}

quern_status tls_receive(struct bench *bench, char *out, size_t size)
{
    struct qn_socket_wait wait = {.deadline_mono_ns = tls_in_ms(TEST_PATIENCE_MS)};
    quern_status status = QUERN_OK;
    size_t used = 0;
    while (status == QUERN_OK && used < size) {
        size_t count = 0;
        status = qn_socket_receive(&bench->socket, &wait, &count, &bench->err);
        if (status == QUERN_OK) {
            assert_true(used + count <= size);
            memcpy(out + used, bench->socket.inbox, count);
            used += count;
        }
    }
    return status;
}

void tls_echo(struct bench *bench, const char *text)
{
    char answer[64] = "";
    assert_ok(tls_send(bench, text, strlen(text)), bench->err);
    assert_ok(tls_receive(bench, answer, strlen(text)), bench->err);
    assert_string_equal(answer, text);
}

void tls_assert_says(const struct bench *bench, const char *words)
{
    if (strstr(bench->err.text, words) == NULL) {
        fail_msg("\"%s\" is not in: %s", words, bench->err.text);
    }
    assert_non_null(strstr(bench->err.text, bench->address));
}

int tls_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
    const struct test_group group = {.name = argv[0], .tests = tests, .test_count = count};
    int code = test_main(argc, argv, &group);
    if (tls_dir[0] != '\0') {
        test_dir_remove(tls_dir);
    }
    return code;
}
