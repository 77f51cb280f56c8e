/* SPDX-License-Identifier: MIT */
/* test_wire.c - the end of a run as a child sends it: each field at its limits, cut short, and
 * garbage: nothing is accepted that no handler may do. */
#include "worker/prefork/wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/number.h"
#include "lib_test.h"
#include "task/limits.h"
#include "task/task.h"
#include "worker/prefork/bytes.h"

static struct qn_leased leased = {
    .task = {.id = "a", .queue = "default", .type = "t"}, .fence = 1, .retry_count = 1};

static struct quern_run *new_run(void)
{
    struct qn_leased *copy = qn_leased_copy(NULL, &leased);
    assert_non_null(copy);
    struct quern_run *run = qn_run_new(NULL, copy, NULL, NULL);
    assert_non_null(run);
    return run;
}

/* An end as its bytes, and how they can differ from those that a child of ours sends. */
struct end {
    int64_t outcome;
    int64_t flags;
    int64_t again_in_ms;
    int64_t again_at_ms;
    int64_t dropped;
    const char *error;
    const char *error_class;
    const char *stderr_text;
    const char *queue;
    int64_t retry_max; /* -2: not changed */
    int64_t payload_size;
    size_t rest; /* bytes behind all */
};

static const struct end plain = {.outcome = QUERN_RETRY,
                                 .again_in_ms = -1,
                                 .again_at_ms = -1,
                                 .error = "broken",
                                 .retry_max = -2,
                                 .payload_size = -2};

static void put(struct qn_buf *out, const struct end *end)
{
    static const char rest[64];
    struct qn_writer writer = {.out = out, .ok = true};
    qn_bytes_put_number(&writer, end->outcome);
    qn_bytes_put_number(&writer, end->flags);
    qn_bytes_put_number(&writer, end->again_in_ms);
    qn_bytes_put_number(&writer, end->again_at_ms);
    qn_bytes_put_number(&writer, end->dropped);
    qn_bytes_put_text(&writer, end->error);
    qn_bytes_put_text(&writer, end->error_class);
    qn_bytes_put_text(&writer, end->stderr_text);
    qn_bytes_put_text(&writer, end->queue);
    qn_bytes_put_number(&writer, end->retry_max);
    qn_bytes_put_number(&writer, end->payload_size);
    qn_bytes_put(&writer, rest, end->rest);
    assert_true(writer.ok);
}

static bool accepts(const struct end *end)
{
    struct qn_buf body;
    qn_buf_init(&body, SIZE_MAX);
    put(&body, end);
    struct quern_run *run = new_run();
    bool accepted = qn_wire_get_end((struct qn_bytes){body.data, body.size}, run);
    assert_true(!accepted || run->outcome == end->outcome);
    qn_run_free(run);
    qn_buf_finish(&body);
    return accepted;
}

static void outcomes_are_those_of_handlers(void **state)
{
    (void)state;
    enum { CRASHED = 1, NOT_STARTED = 2, JUDGED = 16 };
    assert_true(accepts(&plain));
    for (int64_t outcome = -3; outcome < 200; outcome++) {
        bool may = outcome >= QUERN_DONE && outcome <= QUERN_SNOOZE;
        struct end end = plain;
        end.outcome = outcome;
        assert_int_equal(accepts(&end), may);
        end.flags = JUDGED;
        assert_int_equal(accepts(&end), outcome == QUERN_RETRY || outcome == QUERN_ARCHIVE);
        end.flags = JUDGED | CRASHED;
        assert_false(accepts(&end));
        end.flags = JUDGED | NOT_STARTED;
        assert_false(accepts(&end));
        end.flags = CRASHED;
        assert_int_equal(accepts(&end), may || outcome == QN_OUTCOME_CRASHED);
    }
    struct end end = plain;
    end.outcome = (INT64_C(1) << 32) + QUERN_DONE;
    assert_false(accepts(&end));
    end = plain;
    end.flags = 32;
    assert_false(accepts(&end));
    end.flags = -1;
    assert_false(accepts(&end));
}

static void numbers_have_limits(void **state)
{
    (void)state;
    struct end end = plain;
    end.again_in_ms = QN_DURATION_MS_MAX;
    end.again_at_ms = QN_MOMENT_MS_MAX;
    end.dropped = INT64_MAX;
    assert_true(accepts(&end));
    end.again_in_ms++;
    assert_false(accepts(&end));
    end.again_in_ms = -2;
    assert_false(accepts(&end));
    end.again_in_ms = 0;
    assert_true(accepts(&end));
    end.again_at_ms++;
    assert_false(accepts(&end));
    end.again_at_ms = -2;
    assert_false(accepts(&end));
    end.again_at_ms = 0;
    end.dropped = -1;
    assert_false(accepts(&end));
}

static char *repeat(char letter, size_t size)
{
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, letter, size);
    text[size] = '\0';
    return text;
}

static bool takes_error(const char *text)
{
    struct end end = plain;
    end.error = text;
    return accepts(&end);
}

static bool takes_class(const char *text)
{
    struct end end = plain;
    end.error_class = text;
    return accepts(&end);
}

static void texts_have_limits_and_are_utf_8(void **state)
{
    (void)state;
    char *text = repeat('e', QN_ERROR_TEXT_SIZE_MAX + 1);
    assert_false(takes_error(text));
    text[QN_ERROR_TEXT_SIZE_MAX] = '\0';
    assert_true(takes_error(text));
    text[QN_ERROR_CLASS_SIZE_MAX + 1] = '\0';
    assert_false(takes_class(text));
    text[QN_ERROR_CLASS_SIZE_MAX] = '\0';
    assert_true(takes_class(text));
    free(text);
    assert_false(takes_error("a\xff"));
    assert_false(takes_error("\xc3"));
    assert_false(takes_class("two words"));
    assert_false(takes_class("\xff"));
    struct end end = plain;
    end.stderr_text = "\xff";
    assert_false(accepts(&end));
}

static bool takes_change(const char *queue, int64_t retry_max, int64_t payload_size, size_t rest)
{
    struct end end = plain;
    end.queue = queue;
    end.retry_max = retry_max;
    end.payload_size = payload_size;
    end.rest = rest;
    return accepts(&end);
}

static void a_checkpoint_is_checked_as_the_call_of_a_handler(void **state)
{
    (void)state;
    assert_true(takes_change("other", 3, 8, 8));
    assert_true(takes_change(NULL, QUERN_RETRY_NEVER, 0, 0));
    assert_false(takes_change("", -2, -2, 0));
    assert_false(takes_change("\xff", -2, -2, 0));
    assert_false(takes_change(NULL, -3, -2, 0));
    assert_false(takes_change(NULL, INT64_MAX, -2, 0));
    assert_false(takes_change(NULL, -2, 9, 8));
    assert_false(takes_change(NULL, -2, -3, 0));
    assert_false(takes_change(NULL, -2, INT64_MAX, 8));
    assert_false(takes_change(NULL, -2, 8, 9)); /* one byte is left, and no result announced */
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct quern_run *run = new_run();
    struct quern_run *copy = new_run();
    struct qn_buf body;
    qn_buf_init(&body, SIZE_MAX);
    (void)quern_run_fail(run, QUERN_RETRY, "broken: %d", 7);
    quern_run_set_error_class(run, "http/503");
    (void)quern_run_again_in(run, 1234);
    assert_int_equal(quern_run_change_queue(run, "other", NULL), QUERN_OK);
    assert_int_equal(quern_run_change_retry_max(run, 9, NULL), QUERN_OK);
    assert_int_equal(quern_run_change_payload(run, "p\0q", 3, NULL), QUERN_OK);
    run->outcome = QUERN_RETRY;
    run->judged = true;
    assert_true(qn_wire_put_end(&body, run));
    assert_true(qn_wire_get_end((struct qn_bytes){body.data, body.size}, copy));
    assert_int_equal(copy->outcome, QUERN_RETRY);
    assert_true(copy->judged);
    assert_string_equal(copy->error, "broken: 7");
    assert_string_equal(copy->error_class, "http/503");
    assert_int_equal(copy->again_in_ms, 1234);
    assert_int_equal(copy->change.retry_max, 9);
    assert_string_equal(copy->change.queue, "other");
    assert_int_equal(copy->change.payload_size, 3);
    assert_memory_equal(copy->change.payload, "p\0q", 3);
    /* Cut anywhere, it is refused, and nothing is read beyond. */
    for (size_t size = 0; size < body.size; size++) {
        char *part = malloc(size + 1);
        assert_non_null(part);
        memcpy(part, body.data, size);
        struct quern_run *other = new_run();
        assert_false(qn_wire_get_end((struct qn_bytes){part, size}, other));
        qn_run_free(other);
        free(part);
    }
    qn_buf_finish(&body);
    qn_run_free(copy);
    qn_run_free(run);
}

/* Whatever it says, it must stay within the bytes, and within what a handler can return. */
static void garbage_is_survived(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252U;
    struct qn_buf body;
    qn_buf_init(&body, SIZE_MAX);
    put(&body, &plain);
    for (int round = 0; round < 20000; round++) {
        char *data = malloc(body.size);
        assert_non_null(data);
        memcpy(data, body.data, body.size);
        for (int i = 0; i < 3; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            data[random % body.size] = (char)(random >> 32);
        }
        struct quern_run *run = new_run();
        if (qn_wire_get_end((struct qn_bytes){data, body.size}, run)) {
            assert_true((run->outcome >= QUERN_DONE && run->outcome <= QUERN_SNOOZE) ||
                        (run->outcome == QN_OUTCOME_CRASHED && run->crashed));
        }
        qn_run_free(run);
        free(data);
    }
    qn_buf_finish(&body);
}

static bool takes_progress(int32_t percent, const char *note, size_t cut)
{
    struct qn_progress progress;
    struct qn_buf body;
    qn_buf_init(&body, SIZE_MAX);
    assert_true(qn_wire_put_progress(&body, percent, note));
    bool taken = qn_wire_get_progress((struct qn_bytes){body.data, body.size - cut}, &progress);
    assert_true(!taken || strcmp(progress.note, note != NULL ? note : "") == 0);
    qn_buf_finish(&body);
    return taken;
}

static void progress_has_limits(void **state)
{
    (void)state;
    char *note = repeat('n', QN_NOTE_SIZE_MAX + 1);
    assert_true(takes_progress(0, NULL, 0));
    assert_true(takes_progress(100, "half", 0));
    assert_false(takes_progress(101, NULL, 0));
    assert_false(takes_progress(-1, NULL, 0));
    assert_false(takes_progress(1, "half", 1));
    assert_false(takes_progress(1, NULL, 8));
    assert_false(takes_progress(1, note, 0));
    note[QN_NOTE_SIZE_MAX] = '\0';
    assert_true(takes_progress(1, note, 0));
    assert_false(takes_progress(1, "\xff", 0));
    free(note);
}

static void an_answer_that_cannot_be_read_is_an_error(void **state)
{
    (void)state;
    quern_error answer = {.code = QUERN_E_STALE, .text = "too late"};
    quern_error read;
    struct qn_buf body;
    qn_buf_init(&body, SIZE_MAX);
    assert_true(qn_wire_put_answer(&body, &answer));
    qn_wire_get_answer((struct qn_bytes){body.data, body.size}, &read);
    assert_int_equal(read.code, QUERN_E_STALE);
    assert_string_equal(read.text, "too late");
    qn_wire_get_answer((struct qn_bytes){body.data, body.size - 1}, &read);
    assert_int_equal(read.code, QUERN_E_CORRUPT);
    qn_wire_get_answer((struct qn_bytes){"", 0}, &read);
    assert_int_equal(read.code, QUERN_E_CORRUPT);
    qn_buf_finish(&body);
}

static void a_task_is_read_as_it_was_written(void **state)
{
    (void)state;
    static const quern_header headers[] = {{"a", "1"}, {"b", ""}};
    const struct qn_failure_defaults defaults = {.retry = QUERN_BACKOFF_FIXED(77),
                                                 .ack_on_timeout = true};
    struct qn_leased full = leased;
    full.task.headers = headers;
    full.task.header_count = 2;
    full.task.cpu_ms = 5000;
    full.task.kill_after_ms = 300;
    full.task.memory_max = 1 << 20;
    struct quern_run run = {.leased = &full, .acks_first = true, .view = qn_task_show(&full.task)};
    struct qn_leased read;
    struct qn_wire_run read_run;
    quern_header room[QN_HEADER_COUNT_MAX];
    struct qn_bytes more;
    struct qn_buf body;
    qn_buf_init(&body, SIZE_MAX);
    atomic_init(&run.cancel_reason, QN_REASON_TIMEOUT);
    assert_true(qn_wire_put_task(&body, &run, &defaults, &more));
    assert_int_equal(more.size, 0);
    struct qn_bytes bytes = {body.data, body.size};
    assert_true(qn_wire_get_task(bytes, &read, room, &read_run));
    assert_string_equal(read.task.id, "a");
    assert_int_equal(read.task.header_count, 2);
    assert_string_equal(read.task.headers[1].name, "b");
    assert_int_equal(read.task.cpu_ms, 5000);
    assert_int_equal(read.task.kill_after_ms, 300);
    assert_int_equal(read.task.memory_max, 1 << 20);
    assert_int_equal(read.retry_count, 1);
    assert_int_equal(read_run.defaults.retry.base_ms, 77);
    assert_false(read_run.defaults.ack_on_failure);
    assert_true(read_run.defaults.ack_on_timeout);
    assert_int_equal(read_run.reason, QN_REASON_TIMEOUT);
    assert_int_equal(read_run.deadline_at_ms, QN_WIRE_UNKNOWN);
    assert_true(read_run.acked);
    for (size_t size = 0; size < body.size; size++) {
        bytes.size = size;
        assert_false(qn_wire_get_task(bytes, &read, room, &read_run));
    }
    qn_buf_finish(&body);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(outcomes_are_those_of_handlers),
    cmocka_unit_test(numbers_have_limits),
    cmocka_unit_test(texts_have_limits_and_are_utf_8),
    cmocka_unit_test(a_checkpoint_is_checked_as_the_call_of_a_handler),
    cmocka_unit_test(what_is_written_is_read),
    cmocka_unit_test(garbage_is_survived),
    cmocka_unit_test(progress_has_limits),
    cmocka_unit_test(an_answer_that_cannot_be_read_is_an_error),
    cmocka_unit_test(a_task_is_read_as_it_was_written),
};
TEST_MAIN(tests)
