/* SPDX-License-Identifier: MIT */
/* test_alloc_parts.c - memory runs out at the n-th allocation of each part that needs no broker: it
 * says so, leaks nothing, and its outputs are as they were. */
#include <string.h>

#include "base/memory/arena.h"
#include "base/text/buf.h"
#include "base/text/url.h"
#include "base/time/zones.h"
#include "lib_alloc.h"
#include "lib_test.h"
#include "message/asynq/asynq.h"
#include "quern/testing.h"
#include "schedule/conf.h"
#include "task/task.h"

#define SWEEP_MAX 1000
#define LARGE ((size_t)100 << 10) /* more than a chunk of an arena, so that each needs its own */

/* A part: does its work, and returns its status; asserts that a failure changed nothing. */
typedef quern_status (*part)(quern_error *err);

/* Every n until the part needs fewer than n allocations. Returns how many n failed. */
static long sweep(part run)
{
    for (long n = 1; n < SWEEP_MAX; n++) {
        quern_error err = {0};
        atomic_store(&test_alloc_until_failure, n);
        quern_status status = run(&err);
        long left = atomic_exchange(&test_alloc_until_failure, 0);
        if (left > 0) {
            assert_ok(status, err);
            return n - 1;
        }
        assert_int_equal(status, QUERN_E_NOMEM);
        assert_int_equal(err.code, QUERN_E_NOMEM);
        assert_string_equal(err.text, "out of memory");
    }
    fail_msg("the part never came to an end");
    return 0;
}

static char large_text[LARGE];

/* A text of the size of a chunk, so that what is made of it needs an allocation of its own. */
static const char *large(void)
{
    memset(large_text, 'x', sizeof large_text - 1);
    return large_text;
}

static quern_status parse_url(quern_error *err)
{
    struct qn_url url = {.port = "untouched"};
    quern_status status = qn_url_parse("redis://me:secret@host:1/0?a=b", &url, err);
    if (status == QUERN_OK) {
        qn_url_finish(&url);
    } else {
        assert_string_equal(url.port, "untouched");
    }
    return status;
}

static quern_status make_clock(quern_error *err)
{
    quern_clock *clock = NULL;
    quern_status status = quern_clock_new(5, &clock, err);
    assert_int_equal(clock != NULL, status == QUERN_OK);
    quern_clock_free(clock);
    return status;
}

static quern_status prepare_task(quern_error *err)
{
    const quern_header headers[] = {{"a", NULL}, {"b", "c"}};
    const quern_task in = {.type = "t", .unique_ms = 1000, .headers = headers, .header_count = 2};
    struct qn_arena arena = {0};
    struct qn_id_source ids;
    qn_id_source_init(&ids);
    struct qn_task task = {.type = "untouched"};
    const struct qn_task_terms terms = {.now_wall_ms = 1, .payload_size_max = 10, .ids = &ids};
    quern_status status = qn_task_prepare(&in, &terms, &arena, &task, err);
    assert_string_equal(task.type, status == QUERN_OK ? "t" : "untouched");
    qn_arena_finish(&arena);
    return status;
}

static quern_status convert_task(quern_error *err)
{
    char bad_error[] = "x\xff";
    const quern_header headers[] = {{"a", large()}, {"b", large()}};
    const struct qn_asynq_task task = {.type = large(),
                                       .payload = large(),
                                       .payload_size = LARGE,
                                       .error = bad_error,
                                       .headers = headers,
                                       .header_count = 2};
    struct qn_arena arena = {0};
    struct qn_bytes bytes = {0};
    quern_status status = qn_asynq_task_encode(&arena, &task, &bytes, err);
    if (status == QUERN_OK) {
        struct qn_asynq_task again = {.type = "untouched"};
        status = qn_asynq_task_decode(&arena, bytes.data, bytes.size, &again, err);
        assert_int_equal(strcmp(again.type, "untouched") == 0, status != QUERN_OK);
    }
    qn_arena_finish(&arena);
    return status;
}

static quern_status convert_server(quern_error *err)
{
    const struct qn_asynq_queue queues[] = {{large(), 1}, {"b", 2}};
    const struct qn_asynq_server server = {
        .host = large(), .status = large(), .queues = queues, .queue_count = 2};
    struct qn_arena arena = {0};
    struct qn_bytes bytes = {0};
    struct qn_asynq_server again;
    quern_status status = qn_asynq_server_encode(&arena, &server, &bytes, err);
    if (status == QUERN_OK) {
        status = qn_asynq_server_decode(&arena, bytes.data, bytes.size, &again, err);
    }
    qn_arena_finish(&arena);
    return status;
}

static quern_status convert_schedule(quern_error *err)
{
    const char *const options[] = {large(), "b"};
    const struct qn_asynq_schedule schedule = {
        .id = large(), .spec = large(), .options = options, .option_count = 2};
    struct qn_arena arena = {0};
    struct qn_bytes bytes = {0};
    struct qn_asynq_schedule again;
    quern_status status = qn_asynq_schedule_encode(&arena, &schedule, &bytes, err);
    if (status == QUERN_OK) {
        status = qn_asynq_schedule_decode(&arena, bytes.data, bytes.size, &again, err);
    }
    qn_arena_finish(&arena);
    return status;
}

static quern_status read_zone(quern_error *err)
{
    struct qn_zones zones;
    const struct qn_zone *zone = NULL;
    assert_int_equal(qn_zones_init(&zones, TEST_DATA "/zoneinfo", NULL), QUERN_OK);
    quern_status status = qn_zones_get(&zones, "Europe/Berlin", &zone, err);
    assert_int_equal(zones.count, status == QUERN_OK ? 1 : 0);
    assert_true((zone != NULL) == (status == QUERN_OK));
    qn_zones_finish(&zones);
    return status;
}

static quern_status read_conf(quern_error *err)
{
    static const char text[] = "[a]\ncron = @daily\ntype = t\npayload = 1\n 2\nheader = x=y\n"
                               "[b]\ncron = @never\n[c\n[d]\ncron = @daily\ntype = t\n";
    struct qn_zones zones;
    struct qn_conf conf = {.entry_count = 7};
    assert_int_equal(qn_zones_init(&zones, TEST_DATA "/zoneinfo", NULL), QUERN_OK);
    const struct qn_conf_terms terms = {.origin = "file:x", .zones = &zones, .now_ms = 1};
    quern_status status =
        qn_conf_parse((struct qn_bytes){text, sizeof text - 1}, &terms, &conf, err);
    assert_int_equal(conf.entry_count, status == QUERN_OK ? 2 : 7);
    if (status == QUERN_OK) {
        assert_int_equal(conf.fault_count, 2);
        qn_conf_finish(&conf);
    }
    qn_zones_finish(&zones);
    return status;
}

/* The least number of allocations that each must have had a chance to fail at. */
static void parts_report_that_memory_is_out_and_change_nothing(void **state)
{
    (void)state;
    static const struct {
        part run;
        long allocations_min;
    } parts[] = {
        {parse_url, 1},      {make_clock, 1},       {prepare_task, 1}, {convert_task, 6},
        {convert_server, 5}, {convert_schedule, 5}, {read_zone, 3},    {read_conf, 3},
    };
    test_alloc_for_good = false;
    for (size_t i = 0; i < TEST_COUNT(parts); i++) {
        long allocations = sweep(parts[i].run);
        if (allocations < parts[i].allocations_min) {
            fail_msg("part %zu had %ld allocations only", i, allocations);
        }
    }
}

static void failed_append_leaves_the_buffer_and_the_arena_usable(void **state)
{
    (void)state;
    struct qn_buf buf;
    struct qn_arena arena = {0};
    qn_buf_init(&buf, 10 * LARGE);
    assert_int_equal(qn_buf_append_text(&buf, "abc"), QUERN_OK);
    assert_non_null(qn_arena_alloc(&arena, 10));
    test_alloc_for_good = true;
    atomic_store(&test_alloc_until_failure, 1);
    quern_status appended = qn_buf_append(&buf, large(), LARGE);
    quern_status printed = qn_buf_printf(&buf, "%s", large());
    const void *block = qn_arena_alloc(&arena, LARGE);
    const char *text = qn_arena_printf(&arena, "%s", large());
    atomic_store(&test_alloc_until_failure, 0);
    assert_int_equal(appended, QUERN_E_NOMEM);
    assert_int_equal(printed, QUERN_E_NOMEM);
    assert_null(block);
    assert_null(text);
    assert_string_equal(qn_buf_text(&buf), "abc");
    assert_int_equal(qn_buf_append(&buf, large(), LARGE), QUERN_OK);
    assert_non_null(qn_arena_alloc(&arena, LARGE));
    qn_buf_finish(&buf);
    qn_arena_finish(&arena);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(parts_report_that_memory_is_out_and_change_nothing),
    cmocka_unit_test(failed_append_leaves_the_buffer_and_the_arena_usable),
};

TEST_MAIN(tests)
