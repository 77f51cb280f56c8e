/* SPDX-License-Identifier: MIT */
/* test_options.c - the options of a worker: the last values that are allowed, and those that are
 * refused, with the name of the option and before the broker is opened. */
#include "lib_test.h"

#include <string.h>

#include "quern/mux.h"
#include "quern/worker.h"
#include "task/limits.h"

/* Neither can be opened. */
static const char *const urls[] = {"sqlite:///no/such/folder/tasks.db", "redis://127.0.0.1:1"};

static const quern_queue fine[] = {{.name = "a", .weight = QN_WEIGHT_MAX}};
static const quern_queue twice[] = {{.name = "a"}, {.name = "a"}};
static const quern_queue empty[] = {{.name = ""}};
static const quern_queue broken[] = {{.name = "a\xff"}};
static const quern_queue blank[] = {{.name = " "}};
static const quern_queue heavy[] = {{.name = "a", .weight = QN_WEIGHT_MAX + 1}};
static const quern_queue grown[] = {{.name = "a", .reserved = 1}};
static const quern_queue nameless[] = {{.name = NULL}};
static const quern_queue list[] = {{.name = "a,b"}};

static const struct {
    quern_worker_options options;
    const char *words;
} bad[] = {
    {{.concurrency = QN_CONCURRENCY_MAX + 1}, "concurrency is 4097"},
    {{.queues = twice, .queue_count = 2}, "queue a is given twice"},
    {{.queues = empty, .queue_count = 1}, "queue"},
    {{.queues = broken, .queue_count = 1}, "queue"},
    {{.queues = blank, .queue_count = 1}, "queue"},
    {{.queues = heavy, .queue_count = 1}, "weight of queue a is 10001"},
    {{.queues = grown, .queue_count = 1}, "weight of queue a"},
    {{.queues = nameless, .queue_count = 1}, "queue 1 has no name"},
    {{.queues = twice, .queue_count = 0}, "queues"},
    {{.queue_count = 1}, "queues"},
    {{.lease_ms = QN_LEASE_MS_MIN - 1}, "lease_ms is 999"},
    {{.lease_ms = -1}, "lease_ms is -1"},
    {{.shutdown_timeout_ms = -2}, "shutdown_timeout_ms is -2"},
    {{.quarantine_after_ms = -1}, "quarantine_after_ms is -1"},
    {{.stuck_timeout_ms = -2}, "stuck_timeout_ms is -2"},
    {{.soft_shutdown_timeout_ms = -2}, "soft_shutdown_timeout_ms is -2"},
    {{.prefetch_max = -2}, "prefetch_max is -2, not -1 to 64"},
    {{.prefetch_max = 65}, "prefetch_max is 65, not -1 to 64"},
    {{.ack = QUERN_ACK_LATE + 1}, "ack is 3, not default, early or late"},
    {{.ack = -1}, "ack is -1"},
    {{.reserved = 1}, "reserved is not 0"},
    {{.reserved_too = {0, 1}}, "reserved is not 0"},
    {{.retry = {.kind = 9}}, "retry"},
    {{.host = ""}, "host is not"},
    {{.host = "a b"}, "host is not"},
    {{.drain = true, .until_idle = true}, "drain and until_idle exclude each other"},
    {{.interval_start_ms = -1}, "interval_start_ms is -1"},
    {{.interval_start_ms = 20, .interval_max_ms = 10}, "interval_max_ms is 10, less than"},
    {{.max_retries = UINT32_MAX}, "max_retries is 4294967295"},
    {{.reserved_last = 1}, "reserved is not 0"},
};

static const quern_worker_options good[] = {
    {.concurrency = QN_CONCURRENCY_MAX},
    {.queues = fine, .queue_count = 1},
    {.lease_ms = QN_LEASE_MS_MIN},
    {.shutdown_timeout_ms = -1},
    {.stuck_timeout_ms = -1},
    {.soft_shutdown_timeout_ms = -1},
    {.prefetch_max = -1},
    {.prefetch_max = 64},
    {.ack = QUERN_ACK_EARLY, .ack_on_failure = true, .ack_on_timeout = true},
    {.host = "host-a"},
    {.interval_start_ms = 1, .interval_step_ms = 86400000, .interval_max_ms = 86400000},
    {.max_retries = 1000000000},
};

static quern_status try_options(const char *url, const quern_worker_options *options,
                                quern_error *err)
{
    quern_mux *mux = NULL;
    quern_worker *worker = NULL;
    assert_ok(quern_mux_new(&mux, err), *err);
    quern_status status = quern_worker_new(url, mux, options, &worker, err);
    assert_true(status == QUERN_OK || worker == NULL);
    quern_worker_free(worker);
    quern_mux_free(mux);
    return status;
}

static void bad_option_is_refused_by_its_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        for (size_t u = 0; u < TEST_COUNT(urls); u++) {
            quern_error err = {0};
            quern_status status = try_options(urls[u], &bad[i].options, &err);
            if (status != QUERN_E_INVALID || strstr(err.text, bad[i].words) == NULL) {
                fail_msg("case %zu: %s %s", i, quern_status_name(status), err.text);
            }
        }
    }
}

static void last_allowed_values_are_taken(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(good); i++) {
        quern_error err = {0};
        assert_ok(try_options("memory:", &good[i], &err), err);
    }
}

/* Only the broker knows whether there is such a queue after all. */
static void name_that_reads_like_a_list_is_refused(void **state)
{
    (void)state;
    const quern_worker_options options = {.queues = list, .queue_count = 1};
    quern_error err = {0};
    assert_int_equal(try_options("memory:", &options, &err), QUERN_E_INVALID);
    assert_non_null(strstr(err.text, "there is no queue \"a,b\""));
}

/* No program of ours makes such names, but asynq does. */
static void only_redis_has_queues_of_names_that_go_alone_makes(void **state)
{
    (void)state;
    static const quern_queue odd[] = {{.name = "a{b}"}, {.name = "tab\t"}, {.name = "}"}};
    const quern_worker_options options = {.queues = odd, .queue_count = TEST_COUNT(odd)};
    quern_error err = {0};
    assert_int_equal(try_options(urls[0], &options, &err), QUERN_E_INVALID);
    assert_int_not_equal(try_options(urls[1], &options, &err), QUERN_E_INVALID);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(bad_option_is_refused_by_its_name),
    cmocka_unit_test(last_allowed_values_are_taken),
    cmocka_unit_test(name_that_reads_like_a_list_is_refused),
    cmocka_unit_test(only_redis_has_queues_of_names_that_go_alone_makes),
};
TEST_MAIN(tests)
