/* SPDX-License-Identifier: MIT */
/* test_asynq_info.c - asynq's records of servers, runs and schedules byte by byte: golden bytes
 * (docs/protocol/asynq.md), both ways, wrong texts and wrong bytes. */
#include <string.h>

#include "base/random.h"
#include "lib_hex.h"
#include "lib_test.h"
#include "message/asynq/asynq.h"

#define GO_ZERO INT64_C(-62135596800)

static const char *const server_hex =
    "0a016810071a03736964200a2a0b0a0764656661756c74100130013a0661637469766542080880e2cfaa06100548"
    "02";
static const char *const schedule_hex =
    "0a016512094065766572792031731a01742a0c517565756528226c6f77222932060880e2cfaa063a0b088092b8c3"
    "98feffffff01";

static void server_has_its_golden_bytes(void **state)
{
    (void)state;
    const struct qn_asynq_queue queues[] = {{"default", 1}};
    const struct qn_asynq_server server = {.host = "h",
                                           .pid = 7,
                                           .id = "sid",
                                           .concurrency = 10,
                                           .queues = queues,
                                           .queue_count = 1,
                                           .strict = true,
                                           .status = "active",
                                           .started_at = {1700000000, 5},
                                           .run_count = 2};
    struct qn_bytes bytes = {0};
    assert_ok(qn_asynq_server_encode(&arena, &server, &bytes, &err), err);
    test_assert_hex(bytes, server_hex);
    struct qn_asynq_server read;
    bytes = test_from_hex(&arena, server_hex);
    assert_ok(qn_asynq_server_decode(&arena, bytes.data, bytes.size, &read, &err), err);
    assert_string_equal(read.host, "h");
    assert_int_equal(read.pid, 7);
    assert_string_equal(read.id, "sid");
    assert_int_equal(read.concurrency, 10);
    assert_int_equal(read.queue_count, 1);
    assert_string_equal(read.queues[0].name, "default");
    assert_int_equal(read.queues[0].weight, 1);
    assert_true(read.strict);
    assert_string_equal(read.status, "active");
    assert_int_equal(read.started_at.seconds, 1700000000);
    assert_int_equal(read.started_at.nanos, 5);
    assert_int_equal(read.run_count, 2);
}

static void queue_of_weight_zero_is_written_whole(void **state)
{
    (void)state;
    const struct qn_asynq_queue queues[] = {{"q", 0}, {"", -1}};
    const struct qn_asynq_server server = {
        .queues = queues, .queue_count = 2, .started_at = {0, 0}};
    struct qn_bytes bytes = {0};
    assert_ok(qn_asynq_server_encode(&arena, &server, &bytes, &err), err);
    test_assert_hex(bytes, "2a050a01711000"
                           "2a0d0a0010ffffffffffffffffff01"
                           "4200");
}

static void schedule_has_its_golden_bytes(void **state)
{
    (void)state;
    const char *const options[] = {"Queue(\"low\")"};
    const struct qn_asynq_schedule schedule = {.id = "e",
                                               .spec = "@every 1s",
                                               .task_type = "t",
                                               .options = options,
                                               .option_count = 1,
                                               .next_at = qn_asynq_time_of_ms(1700000000000),
                                               .previous_at = qn_asynq_time_of_ms(0)};
    struct qn_bytes bytes = {0};
    assert_ok(qn_asynq_schedule_encode(&arena, &schedule, &bytes, &err), err);
    test_assert_hex(bytes, schedule_hex);
    struct qn_asynq_schedule read;
    bytes = test_from_hex(&arena, schedule_hex);
    assert_ok(qn_asynq_schedule_decode(&arena, bytes.data, bytes.size, &read, &err), err);
    assert_string_equal(read.id, "e");
    assert_string_equal(read.spec, "@every 1s");
    assert_string_equal(read.task_type, "t");
    assert_null(read.payload);
    assert_int_equal(read.option_count, 1);
    assert_string_equal(read.options[0], "Queue(\"low\")");
    assert_int_equal(qn_asynq_time_ms(read.next_at), 1700000000000);
    assert_int_equal(qn_asynq_time_ms(read.previous_at), 0);
    assert_int_equal(read.previous_at.seconds, GO_ZERO);
}

static void run_and_event_come_back_as_they_were(void **state)
{
    (void)state;
    const struct qn_asynq_run run = {.host = "host",
                                     .pid = -1,
                                     .server_id = "server",
                                     .task_id = "id",
                                     .task_type = "type",
                                     .payload = "\0\xff",
                                     .payload_size = 2,
                                     .queue = "queue",
                                     .started_at = qn_asynq_time_of_ms(1700000000123),
                                     .deadline_at = qn_asynq_time_of_ms(0)};
    struct qn_bytes bytes = {0};
    struct qn_asynq_run read;
    assert_ok(qn_asynq_run_encode(&arena, &run, &bytes, &err), err);
    assert_ok(qn_asynq_run_decode(&arena, bytes.data, bytes.size, &read, &err), err);
    assert_string_equal(read.host, "host");
    assert_int_equal(read.pid, -1);
    assert_string_equal(read.server_id, "server");
    assert_string_equal(read.task_id, "id");
    assert_string_equal(read.task_type, "type");
    assert_int_equal(read.payload_size, 2);
    assert_memory_equal(read.payload, "\0\xff", 2);
    assert_string_equal(read.queue, "queue");
    assert_int_equal(qn_asynq_time_ms(read.started_at), 1700000000123);
    assert_int_equal(qn_asynq_time_ms(read.deadline_at), 0);

    const struct qn_asynq_event event = {"id", qn_asynq_time_of_ms(1700000000000)};
    struct qn_asynq_event read_event;
    assert_ok(qn_asynq_event_encode(&arena, &event, &bytes, &err), err);
    test_assert_hex(bytes, "0a02696412060880e2cfaa06");
    assert_ok(qn_asynq_event_decode(&arena, bytes.data, bytes.size, &read_event, &err), err);
    assert_string_equal(read_event.task_id, "id");
    assert_int_equal(qn_asynq_time_ms(read_event.enqueued_at), 1700000000000);
}

static void wrong_records_are_refused_and_corrupt_ones_seen(void **state)
{
    (void)state;
    struct qn_bytes bytes = {0};
    const struct qn_asynq_server server = {.host = "\xff"};
    const struct qn_asynq_run run = {.task_type = "\xff"};
    const char *const options[] = {"ok", "\xff"};
    const struct qn_asynq_schedule schedule = {.options = options, .option_count = 2};
    const struct qn_asynq_event event = {.task_id = "\xff"};
    assert_int_equal(qn_asynq_server_encode(&arena, &server, &bytes, &err), QUERN_E_INVALID);
    assert_int_equal(qn_asynq_run_encode(&arena, &run, &bytes, &err), QUERN_E_INVALID);
    assert_int_equal(qn_asynq_schedule_encode(&arena, &schedule, &bytes, &err), QUERN_E_INVALID);
    assert_int_equal(qn_asynq_event_encode(&arena, &event, &bytes, &err), QUERN_E_INVALID);
    struct qn_bytes bad = test_from_hex(&arena, "0a01ff");
    struct qn_asynq_server read_server;
    struct qn_asynq_run read_run;
    struct qn_asynq_schedule read_schedule;
    struct qn_asynq_event read_event;
    for (; bad.size > 1; bad.size--) { /* not UTF-8, then cut off */
        assert_int_equal(qn_asynq_server_decode(&arena, bad.data, bad.size, &read_server, &err),
                         QUERN_E_CORRUPT);
        assert_int_equal(qn_asynq_run_decode(&arena, bad.data, bad.size, &read_run, &err),
                         QUERN_E_CORRUPT);
        assert_int_equal(qn_asynq_schedule_decode(&arena, bad.data, bad.size, &read_schedule, &err),
                         QUERN_E_CORRUPT);
        assert_int_equal(qn_asynq_event_decode(&arena, bad.data, bad.size, &read_event, &err),
                         QUERN_E_CORRUPT);
    }
}

static void moments_keep_their_milliseconds(void **state)
{
    (void)state;
    static const int64_t moments[] = {1, 999, 1000, 1700000000123, -1, -1000, -1001};
    for (size_t i = 0; i < TEST_COUNT(moments); i++) {
        struct qn_asynq_time time = qn_asynq_time_of_ms(moments[i]);
        assert_true(time.nanos >= 0 && time.nanos < 1000000000);
        assert_int_equal(qn_asynq_time_ms(time), moments[i]);
    }
    struct qn_asynq_time far = {INT64_MAX, 999999999};
    assert_true(qn_asynq_time_ms(far) > 0);
    far.seconds = INT64_MIN;
    assert_int_equal(qn_asynq_time_ms(far), 0);
}

/* Golden messages with random damage: either an error, or a message that can be written again. */
static void damaged_records_never_do_harm(void **state)
{
    (void)state;
    struct qn_random random;
    qn_random_init_seed(&random, test_seed());
    const char *const golden[] = {server_hex, schedule_hex};
    for (int i = 0; i < 20000; i++) {
        struct qn_bytes bytes = test_from_hex(&arena, golden[i % 2]);
        unsigned char *data = qn_arena_copy(&arena, bytes.data, bytes.size);
        for (uint64_t changes = 1 + qn_random_below(&random, 4); changes > 0; changes--) {
            data[qn_random_below(&random, bytes.size)] = (unsigned char)qn_random_next(&random);
        }
        size_t size = bytes.size - qn_random_below(&random, 3);
        struct qn_asynq_server server;
        if (qn_asynq_server_decode(&arena, data, size, &server, &err) == QUERN_OK) {
            assert_ok(qn_asynq_server_encode(&arena, &server, &bytes, &err), err);
        }
        struct qn_asynq_schedule schedule;
        if (qn_asynq_schedule_decode(&arena, data, size, &schedule, &err) == QUERN_OK) {
            assert_ok(qn_asynq_schedule_encode(&arena, &schedule, &bytes, &err), err);
        }
        struct qn_asynq_run run;
        if (qn_asynq_run_decode(&arena, data, size, &run, &err) == QUERN_OK) {
            assert_ok(qn_asynq_run_encode(&arena, &run, &bytes, &err), err);
        }
        qn_arena_reset(&arena);
    }
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, hex_start, hex_finish)
static const struct CMUnitTest tests[] = {
    TEST(server_has_its_golden_bytes),
    TEST(queue_of_weight_zero_is_written_whole),
    TEST(schedule_has_its_golden_bytes),
    TEST(run_and_event_come_back_as_they_were),
    TEST(wrong_records_are_refused_and_corrupt_ones_seen),
    TEST(moments_keep_their_milliseconds),
    TEST(damaged_records_never_do_harm),
};

TEST_MAIN(tests)
