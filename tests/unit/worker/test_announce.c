/* SPDX-License-Identifier: MIT */
/* test_announce.c - what a program that serves as zygote says of its mux: read as it was written,
 * and refused where it was cut or changed. */
#include "worker/prefork/announce.h"

#include <stdlib.h>
#include <string.h>

#include "lib_test.h"
#include "worker/run/mux.h"

static quern_outcome handle(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)task;
    (void)user;
    return QUERN_DONE;
}

static quern_outcome gather(quern_aggregation *aggregation, const quern_task *const *members,
                            size_t count, void *user)
{
    (void)aggregation;
    (void)members;
    (void)count;
    (void)user;
    return QUERN_DONE;
}

static quern_mux *new_mux(void)
{
    quern_mux *mux = NULL;
    quern_error error = {0};
    assert_ok(quern_mux_new(&mux, &error), error);
    return mux;
}

static void add(quern_mux *mux, const char *pattern, const quern_handler_options *options)
{
    quern_error error = {0};
    assert_ok(quern_mux_handle(mux, pattern, handle, NULL, options, &error), error);
}

static quern_mux *full_mux(void)
{
    static const char *const no_retry[] = {"http/404", "syntax", NULL};
    static const char *const only_retry[] = {"net", NULL};
    quern_error error = {0};
    quern_mux *mux = new_mux();
    add(mux, "image:",
        &(quern_handler_options){.ack = QUERN_ACK_EARLY,
                                 .prefetch_max = -1,
                                 .retry = QUERN_BACKOFF_FIXED(77),
                                 .on_crash = QUERN_ON_CRASH_ARCHIVE,
                                 .ack_on_failure = true,
                                 .retry_max = QUERN_RETRY_NEVER,
                                 .timeout_ms = 12000,
                                 .kill_after_ms = 300,
                                 .cpu_ms = 5000,
                                 .memory_max = (int64_t)1 << 40,
                                 .concurrency = 3,
                                 .no_retry = no_retry});
    add(mux, "*", &(quern_handler_options){.ack_on_timeout = true, .only_retry = only_retry});
    assert_ok(quern_mux_not_found(mux, QUERN_ARCHIVE, &error), error);
    return mux;
}

static void a_mux_is_read_as_it_was_written(void **state)
{
    (void)state;
    quern_error error = {0};
    quern_mux *mux = full_mux();
    quern_mux *copy = NULL;
    struct qn_buf hello;
    qn_buf_init(&hello, SIZE_MAX);
    assert_ok(qn_announce_write(mux, &hello, &error), error);
    assert_ok(qn_announce_read((struct qn_bytes){hello.data, hello.size}, &copy, &error), error);
    quern_mux_free(mux);
    qn_buf_finish(&hello);
    const struct qn_mux_entry *entry = qn_mux_find(copy, "image:resize");
    const quern_handler_options *options = &entry->options;
    assert_string_equal(entry->pattern, "image:");
    assert_int_equal(options->ack, QUERN_ACK_EARLY);
    assert_int_equal(options->prefetch_max, -1);
    assert_int_equal(options->retry.base_ms, 77);
    assert_int_equal(options->on_crash, QUERN_ON_CRASH_ARCHIVE);
    assert_true(options->ack_on_failure);
    assert_false(options->ack_on_timeout);
    assert_int_equal(options->retry_max, QUERN_RETRY_NEVER);
    assert_int_equal(options->timeout_ms, 12000);
    assert_int_equal(options->kill_after_ms, 300);
    assert_int_equal(options->cpu_ms, 5000);
    assert_int_equal(options->memory_max, (int64_t)1 << 40);
    assert_int_equal(options->concurrency, 3);
    assert_string_equal(options->no_retry[1], "syntax");
    assert_null(options->no_retry[2]);
    assert_null(options->only_retry);
    options = &qn_mux_find(copy, "other")->options;
    assert_true(options->ack_on_timeout);
    assert_string_equal(options->only_retry[0], "net");
    quern_outcome not_found = QUERN_DONE;
    assert_true(qn_mux_counts_unknown(copy, &not_found));
    assert_int_equal(not_found, QUERN_ARCHIVE);
    quern_mux_free(copy);
}

static void an_empty_mux_is_announced(void **state)
{
    (void)state;
    quern_error error = {0};
    quern_mux *mux = new_mux();
    quern_mux *copy = NULL;
    struct qn_buf hello;
    qn_buf_init(&hello, SIZE_MAX);
    assert_ok(qn_announce_write(mux, &hello, &error), error);
    assert_ok(qn_announce_read((struct qn_bytes){hello.data, hello.size}, &copy, &error), error);
    quern_outcome not_found;
    assert_int_equal(qn_mux_count(copy), 0);
    assert_false(qn_mux_counts_unknown(copy, &not_found));
    quern_mux_free(copy);
    quern_mux_free(mux);
    qn_buf_finish(&hello);
}

static void aggregators_are_refused(void **state)
{
    (void)state;
    quern_error error = {0};
    quern_mux *mux = new_mux();
    struct qn_buf hello;
    qn_buf_init(&hello, SIZE_MAX);
    assert_ok(quern_mux_aggregate(mux, "mail", gather, NULL, NULL, &error), error);
    assert_int_equal(qn_announce_write(mux, &hello, &error), QUERN_E_UNSUPPORTED);
    assert_non_null(strstr(error.text, "aggregators"));
    quern_mux_free(mux);
    qn_buf_finish(&hello);
}

static quern_status read_copy(const char *data, size_t size, quern_error *err)
{
    quern_mux *mux = NULL;
    char *copy = malloc(size + 1); /* of its own size, for ASan */
    assert_non_null(copy);
    memcpy(copy, data, size);
    quern_status status = qn_announce_read((struct qn_bytes){copy, size}, &mux, err);
    free(copy);
    if (status == QUERN_OK) {
        quern_mux_free(mux);
    }
    return status;
}

static void what_was_cut_or_is_too_long_is_refused(void **state)
{
    (void)state;
    quern_error error = {0};
    quern_mux *mux = full_mux();
    struct qn_buf hello;
    qn_buf_init(&hello, SIZE_MAX);
    assert_ok(qn_announce_write(mux, &hello, &error), error);
    for (size_t size = 0; size < hello.size; size++) {
        assert_true(read_copy(hello.data, size, &error) != QUERN_OK);
        assert_true(error.text[0] != '\0');
    }
    assert_int_equal(qn_buf_append(&hello, "x", 1), QUERN_OK);
    assert_int_equal(read_copy(hello.data, hello.size, &error), QUERN_E_CORRUPT);
    hello.data[8]++; /* the version */
    assert_int_equal(read_copy(hello.data, hello.size - 1, &error), QUERN_E_UNSUPPORTED);
    assert_non_null(strstr(error.text, "another version"));
    quern_mux_free(mux);
    qn_buf_finish(&hello);
}

static void garbage_is_survived(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252U;
    quern_error error = {0};
    quern_mux *mux = full_mux();
    struct qn_buf hello;
    qn_buf_init(&hello, SIZE_MAX);
    assert_ok(qn_announce_write(mux, &hello, &error), error);
    for (int round = 0; round < 5000; round++) {
        char *data = malloc(hello.size);
        assert_non_null(data);
        memcpy(data, hello.data, hello.size);
        for (int i = 0; i < 2; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            data[16 + random % (hello.size - 16)] = (char)(random >> 32);
        }
        (void)read_copy(data, hello.size, &error);
        free(data);
    }
    quern_mux_free(mux);
    qn_buf_finish(&hello);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_mux_is_read_as_it_was_written),
    cmocka_unit_test(an_empty_mux_is_announced),
    cmocka_unit_test(aggregators_are_refused),
    cmocka_unit_test(what_was_cut_or_is_too_long_is_refused),
    cmocka_unit_test(garbage_is_survived),
};
TEST_MAIN(tests)
