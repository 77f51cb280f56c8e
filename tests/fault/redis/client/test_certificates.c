/* SPDX-License-Identifier: MIT */
/* test_certificates.c - a server whose certificate comes from another CA from now on: clients,
 * inspectors and workers go on when they are asked to read their files again. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "lib_redis.h"
#include "lib_tls.h"
#include "quern/quern.h"

static struct test_redis redis;
static char url[sizeof redis.tls_url + 16];
static atomic_int runs;

static int start(void **state)
{
    (void)state;
    test_redis_start(&redis, &(struct test_redis_options){.tls = true});
    (void)snprintf(url, sizeof url, "rediss://127.0.0.1:%d?ca=%s/mine.pem", redis.tls_port,
                   redis.dir);
    atomic_store(&runs, 0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    test_redis_stop(&redis);
    return 0;
}

/* The file that our URL names becomes a copy of this one. */
static void trust(const char *name)
{
    char from[sizeof redis.dir + 32];
    char to[sizeof redis.dir + 32];
    char data[8192];
    (void)snprintf(from, sizeof from, "%s/%s", redis.dir, name);
    (void)snprintf(to, sizeof to, "%s/mine.pem", redis.dir);
    FILE *in = fopen(from, "re");
    FILE *out = fopen(to, "we");
    assert_non_null(in);
    assert_non_null(out);
    size_t size = fread(data, 1, sizeof data, in);
    assert_int_equal(fwrite(data, 1, size, out), size);
    assert_int_equal(fclose(in), 0);
    assert_int_equal(fclose(out), 0);
}

/* From now on the server has a certificate of the CA "next", and no connection is left. */
static void change_server(void)
{
    test_tls_make_ca(redis.dir, "next");
    test_tls_make_cert(
        redis.dir, "other",
        &(struct test_tls_terms){.names = "IP:127.0.0.1", .from_days = 1, .ca = "next"});
    assert_string_equal(
        test_redis_do(&redis,
                      "CONFIG SET tls-cert-file %s/other.pem tls-key-file %s/other.key "
                      "tls-ca-cert-file %s/next.pem",
                      redis.dir, redis.dir, redis.dir),
        "OK");
    (void)test_redis_do(&redis, "CLIENT KILL TYPE normal SKIPME yes");
    (void)test_redis_do(&redis, "CLIENT KILL TYPE pubsub");
}

static quern_status enqueue(quern_client *client, quern_error *err)
{
    return quern_client_enqueue(client, &(quern_task){.type = "t"}, NULL, err);
}

static void client_and_inspector_read_their_files_again(void **state)
{
    (void)state;
    quern_error err = {0};
    quern_client *client = NULL;
    quern_inspector *inspector = NULL;
    quern_queue_list *queues = NULL;
    trust("ca.pem");
    const quern_client_options client_options = {.command_timeout_ms = 300};
    const quern_inspector_options options = {.command_timeout_ms = 300};
    assert_ok(quern_client_open(url, &client_options, &client, &err), err);
    assert_ok(quern_inspector_open(url, &options, &inspector, &err), err);
    assert_ok(enqueue(client, &err), err);
    change_server();
    assert_int_not_equal(enqueue(client, &err), QUERN_OK);
    assert_non_null(strstr(err.text, "unknown CA"));
    trust("ca.key"); /* no certificate */
    assert_int_equal(quern_client_reload_certificates(client, &err), QUERN_E_INVALID);
    assert_non_null(strstr(err.text, "mine.pem"));
    assert_int_equal(quern_inspector_reload_certificates(inspector, &err), QUERN_E_INVALID);
    trust("next.pem");
    assert_int_not_equal(enqueue(client, &err), QUERN_OK); /* not by itself */
    assert_ok(quern_client_reload_certificates(client, &err), err);
    assert_ok(enqueue(client, &err), err);
    assert_ok(quern_inspector_reload_certificates(inspector, &err), err);
    assert_ok(quern_inspector_queues(inspector, &queues, &err), err);
    quern_queue_list_free(queues);
    quern_inspector_free(inspector);
    quern_client_free(client);
}

static quern_outcome count(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    (void)run;
    (void)user;
    (void)atomic_fetch_add(&runs, 1);
    return QUERN_DONE;
}

static void *work(void *worker)
{
    quern_error err = {0};
    return quern_worker_run(worker, &err) == QUERN_OK ? NULL : worker;
}

static bool has_run(void *user)
{
    return atomic_load(&runs) >= *(int *)user;
}

static void worker_reads_its_files_again_once_it_runs(void **state)
{
    (void)state;
    quern_error err = {0};
    quern_mux *mux = NULL;
    quern_worker *worker = NULL;
    quern_client *client = NULL;
    pthread_t thread;
    void *failed = NULL;
    trust("ca.pem");
    assert_ok(quern_mux_new(&mux, &err), err);
    assert_ok(quern_mux_handle(mux, "t", count, NULL, NULL, &err), err);
    assert_ok(quern_worker_new(url, mux, NULL, &worker, &err), err);
    assert_int_equal(quern_worker_reload_certificates(worker, &err), QUERN_E_STATE);
    assert_int_equal(pthread_create(&thread, NULL, work, worker), 0);
    assert_ok(quern_client_open(redis.url, NULL, &client, &err), err);
    assert_ok(enqueue(client, &err), err);
    assert_true(test_until(has_run, &(int){1}));
    trust("ca.key");
    assert_int_equal(quern_worker_reload_certificates(worker, &err), QUERN_E_INVALID);
    change_server();
    trust("next.pem");
    assert_ok(quern_worker_reload_certificates(worker, &err), err);
    assert_ok(enqueue(client, &err), err);
    assert_true(test_until(has_run, &(int){2}));
    quern_worker_stop(worker);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    assert_int_equal(quern_worker_reload_certificates(worker, &err), QUERN_E_STATE);
    quern_worker_free(worker);
    quern_client_free(client);
    quern_mux_free(mux);
}

static void a_link_without_tls_has_nothing_to_read(void **state)
{
    (void)state;
    quern_error err = {0};
    quern_client *client = NULL;
    assert_ok(quern_client_open(redis.url, NULL, &client, &err), err);
    assert_int_equal(quern_client_reload_certificates(client, &err), QUERN_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "names no certificates"));
    quern_client_free(client);
    assert_ok(quern_client_open("memory:", NULL, &client, &err), err);
    assert_int_equal(quern_client_reload_certificates(client, &err), QUERN_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "without certificates"));
    quern_client_free(client);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(client_and_inspector_read_their_files_again, start, stop),
    cmocka_unit_test_setup_teardown(worker_reads_its_files_again_once_it_runs, start, stop),
    cmocka_unit_test_setup_teardown(a_link_without_tls_has_nothing_to_read, start, stop),
};

TEST_MAIN(tests)
