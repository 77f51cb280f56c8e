/* SPDX-License-Identifier: MIT */
/* test_past_runs.c - the text in which past runs are kept: written, cut, read, damaged. */
#include "lib_test.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "task/past_runs.h"

static struct qn_bytes bytes_of(const char *text)
{
    return (struct qn_bytes){text, strlen(text)};
}

/* Adds a run that took so long to those before; `runs` has room. */
static void add(qn_past_runs_text runs, int64_t took_ms, const char *error)
{
    qn_past_run_text entry;
    qn_past_runs_text before;
    (void)snprintf(before, sizeof before, "%s", runs);
    const struct qn_past_run run = {.end = QUERN_RUN_FAILED,
                                    .cause = QUERN_CAUSE_RETRY,
                                    .took_ms = took_ms,
                                    .worker = {"h:7:w", 5},
                                    .error = error};
    struct qn_bytes written = {entry, qn_past_run_write(&run, entry)};
    qn_past_runs_add(10000, written, bytes_of(before), runs);
}

static void written_run_is_read_as_it_was(void **state)
{
    (void)state;
    qn_past_runs_text runs = "";
    quern_past_run past;
    char texts[64];
    size_t size = 0;
    add(runs, 12, "no route");
    assert_int_equal(qn_past_runs_count(bytes_of(runs), &size), 1);
    assert_int_equal(size, strlen("h:7:w") + strlen("no route") + 2);
    qn_past_runs_read(bytes_of(runs), 1, &past, texts);
    assert_int_equal(past.end, QUERN_RUN_FAILED);
    assert_int_equal(past.cause, QUERN_CAUSE_RETRY);
    assert_int_equal(past.started_at_ms, 9988);
    assert_int_equal(past.ended_at_ms, 10000);
    assert_int_equal(past.cpu_ms, -1);
    assert_int_equal(past.memory_bytes, -1);
    assert_int_equal(past.exit_code, -1);
    assert_int_equal(past.signal, 0);
    assert_string_equal(past.worker, "h:7:w");
    assert_string_equal(past.error, "no route");
}

static void unknown_numbers_take_no_bytes(void **state)
{
    (void)state;
    qn_past_run_text entry;
    const struct qn_past_run bare = {.end = QUERN_RUN_FAILED, .took_ms = -1, .worker = {"w", 1}};
    const struct qn_past_run dead = {
        .end = QUERN_RUN_CHILD_DIED,
        .took_ms = 3,
        .facts = {.known = true, .cpu_ms = -1, .memory_kib = -1, .exit_code = -1, .signal = 9}};
    assert_int_equal(qn_past_run_write(&bare, entry), strlen("2\x1fw\x1f"));
    assert_string_equal(entry, "2\x1fw\x1f");
    assert_int_equal(qn_past_run_write(&dead, entry), strlen("7 - 3 - - - - 9\x1f\x1f"));
    assert_string_equal(entry, "7 - 3 - - - - 9\x1f\x1f");
}

static void worker_text_is_cut_and_clean(void **state)
{
    (void)state;
    char host[400];
    char out[QN_PAST_RUN_WORKER_SIZE_MAX];
    memset(host, 'h', sizeof host);
    host[sizeof host - 1] = '\0';
    host[1] = '\x1f';
    assert_true(qn_past_run_worker(host, INT64_MAX, host, out) < QN_PAST_RUN_WORKER_SIZE_MAX);
    assert_memory_equal(out, "h hh", 4);
    assert_int_equal(qn_past_run_worker(NULL, 1, "w", out), 1);
    assert_int_equal(qn_past_run_worker(NULL, 1, NULL, out), 0);
}

static void text_is_bounded_whatever_is_written(void **state)
{
    (void)state;
    qn_past_runs_text runs = "";
    size_t size = 0;
    char *error = qn_alloc_zero(1, 4097);
    assert_non_null(error);
    for (size_t i = 0; i + 2 <= 4096; i += 2) {
        memcpy(error + i, "\xc3\xa4", 2);
    }
    for (int i = 0; i < 3 * QN_PAST_RUNS_MAX; i++) {
        error[0] = i % 2 == 0 ? '\xc3' : 'x';
        error[1] = i % 2 == 0 ? '\xa4' : 'y';
        add(runs, INT64_MAX, error + (i % 2));
        assert_true(strlen(runs) <= QN_PAST_RUNS_SIZE_MAX);
    }
    qn_free(error);
    assert_int_equal(qn_past_runs_count(bytes_of(runs), &size), QN_PAST_RUNS_MAX);
}

static void cut_error_is_valid_text(void **state)
{
    (void)state;
    qn_past_runs_text runs = "";
    quern_past_run past;
    char texts[512];
    char error[QN_PAST_RUN_ERROR_SIZE_MAX + 3];
    memset(error, 'x', sizeof error - 1);
    error[sizeof error - 1] = '\0';
    memcpy(error + QN_PAST_RUN_ERROR_SIZE_MAX - 1, "\xc3\xa4", 2);
    add(runs, 1, error);
    qn_past_runs_read(bytes_of(runs), 1, &past, texts);
    assert_int_equal(strlen(past.error), QN_PAST_RUN_ERROR_SIZE_MAX - 1);
}

static void damaged_text_ends_the_list(void **state)
{
    (void)state;
    static const char *const damaged[] = {"",
                                          "x",
                                          "1",
                                          "1 2 0 3",
                                          "1 2 0 3 4 - - - -",
                                          "1 2 0 3 4 - - - -\x1fw",
                                          "1 2 0 3 4 - - - -\x1fw\x1f",
                                          "- 2 0 3 4 - - - -\x1fw\x1f\x1e",
                                          "1\x1fw\x1f\x1e",
                                          "1 2 0 3 4 - - - - -\x1fw\x1f\x1e",
                                          "1 2 0 3 4 \x1fw\x1f\x1e",
                                          "-1 2 0 3 4 - - - -\x1fw\x1f\x1e"};
    size_t size = 0;
    for (size_t i = 0; i < TEST_COUNT(damaged); i++) {
        qn_past_runs_text runs = "";
        assert_int_equal(qn_past_runs_count(bytes_of(damaged[i]), &size), 0);
        qn_past_runs_add(1, bytes_of("2\x1fw\x1f"), bytes_of(damaged[i]), runs);
        assert_int_equal(qn_past_runs_count(bytes_of(runs), &size), 1);
    }
}

static void numbers_of_others_are_clamped(void **state)
{
    (void)state;
    static const char text[] = "99999999999999999999 4000000000 99 99999999999999999999 "
                               "99999999999999999999 99999999999999999999 99999999999999999999 "
                               "99999999999999999999 99999999999999999999\x1fw\x1f"
                               "e\x1e";
    quern_past_run past;
    char texts[16];
    size_t size = 0;
    assert_int_equal(qn_past_runs_count(bytes_of(text), &size), 1);
    qn_past_runs_read(bytes_of(text), 1, &past, texts);
    assert_true(past.started_at_ms >= 0 && past.ended_at_ms >= 0);
    assert_int_equal(past.cause, QUERN_CAUSE_NONE);
    assert_null(quern_run_end_name((quern_run_end)past.end));
}

static void newest_is_taken_off(void **state)
{
    (void)state;
    qn_past_runs_text runs = "";
    size_t size = 0;
    add(runs, 1, "a");
    add(runs, 2, "b");
    struct qn_bytes older = qn_past_runs_older(bytes_of(runs));
    assert_int_equal(qn_past_runs_count(older, &size), 1);
    assert_int_equal(qn_past_runs_count(qn_past_runs_older(older), &size), 0);
}

static void each_end_has_a_name(void **state)
{
    (void)state;
    for (int end = QUERN_RUN_DONE; end <= QUERN_RUN_LEASE_EXPIRED; end++) {
        assert_non_null(quern_run_end_name((quern_run_end)end));
    }
    assert_null(quern_run_end_name((quern_run_end)0));
    assert_null(quern_run_end_name((quern_run_end)-1));
    assert_null(quern_run_end_name((quern_run_end)10));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(written_run_is_read_as_it_was),
    cmocka_unit_test(unknown_numbers_take_no_bytes),
    cmocka_unit_test(worker_text_is_cut_and_clean),
    cmocka_unit_test(text_is_bounded_whatever_is_written),
    cmocka_unit_test(cut_error_is_valid_text),
    cmocka_unit_test(damaged_text_ends_the_list),
    cmocka_unit_test(numbers_of_others_are_clamped),
    cmocka_unit_test(newest_is_taken_off),
    cmocka_unit_test(each_end_has_a_name),
};
TEST_MAIN(tests)
