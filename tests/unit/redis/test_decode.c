/* SPDX-License-Identifier: MIT */
/* test_decode.c - bytes of a server become replies, however they are cut, or are refused
 * before they cost memory. */
#include "redis/decode.h"

#include <stdlib.h>
#include <string.h>

#include "lib_test.h"

struct bench {
    struct qn_decoder decoder;
    struct qn_arena arena;
    quern_error err;
};

static void begin(struct bench *bench, size_t reply_size_max)
{
    *bench = (struct bench){.arena = {0}};
    assert_ok(qn_decode_init(&bench->decoder, "redis://test", &bench->err), bench->err);
    bench->decoder.size_max = reply_size_max;
}

static void end(struct bench *bench)
{
    qn_decode_finish(&bench->decoder);
    qn_arena_finish(&bench->arena);
}

static quern_status feed(struct bench *bench, const char *data, size_t size,
                         struct qn_reply **ret_reply)
{
    quern_status status = qn_decode_feed(&bench->decoder, data, size, &bench->err);
    return status != QUERN_OK
               ? status
               : qn_decode_next(&bench->decoder, &bench->arena, ret_reply, &bench->err);
}

static void check_mixed(const struct qn_reply *reply)
{
    assert_int_equal(reply->type, QN_REPLY_ARRAY);
    assert_int_equal(reply->count, 6);
    assert_int_equal(qn_reply_at(reply, 0)->type, QN_REPLY_TEXT);
    assert_string_equal(qn_reply_text(qn_reply_at(reply, 0)), "OK");
    assert_int_equal(qn_reply_at(reply, 1)->size, 3);
    assert_memory_equal(qn_reply_text(qn_reply_at(reply, 1)), "a\0b", 4);
    assert_int_equal(qn_reply_int(qn_reply_at(reply, 2), 0), -7);
    assert_int_equal(qn_reply_at(reply, 3)->type, QN_REPLY_NIL);
    const struct qn_reply *inner = qn_reply_at(reply, 4);
    assert_int_equal(inner->count, 2);
    assert_int_equal(qn_reply_at(inner, 0)->type, QN_REPLY_ERROR);
    assert_string_equal(qn_reply_at(inner, 0)->data, "ERR no");
    assert_int_equal(qn_reply_at(inner, 1)->type, QN_REPLY_ARRAY);
    assert_int_equal(qn_reply_at(inner, 1)->count, 0);
    assert_int_equal(qn_reply_at(reply, 5)->type, QN_REPLY_TEXT);
    assert_int_equal(qn_reply_at(reply, 5)->size, 0);
    assert_int_equal(qn_reply_at(reply, 6)->type, QN_REPLY_NIL);
    assert_int_equal(qn_reply_at(qn_reply_at(reply, 0), 0)->type, QN_REPLY_NIL);
}

static void a_reply_is_the_same_however_it_is_cut(void **state)
{
    (void)state;
    static const char data[] =
        "*6\r\n+OK\r\n$3\r\na\0b\r\n:-7\r\n$-1\r\n*2\r\n-ERR no\r\n*0\r\n$0\r\n\r\n";
    size_t size = sizeof data - 1;
    for (size_t piece = 1; piece <= size; piece++) {
        struct bench bench;
        begin(&bench, 1000);
        struct qn_reply *reply = NULL;
        for (size_t at = 0; at < size; at += piece) {
            assert_null(reply);
            size_t count = size - at < piece ? size - at : piece;
            assert_ok(feed(&bench, data + at, count, &reply), bench.err);
        }
        assert_non_null(reply);
        check_mixed(reply);
        end(&bench);
    }
}

static void several_replies_come_one_by_one(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, 1000);
    struct qn_reply *reply = NULL;
    assert_ok(feed(&bench, ":1\r\n:2\r\n:", 9, &reply), bench.err);
    assert_int_equal(reply->integer, 1);
    assert_ok(qn_decode_next(&bench.decoder, &bench.arena, &reply, &bench.err), bench.err);
    assert_int_equal(reply->integer, 2);
    assert_ok(qn_decode_next(&bench.decoder, &bench.arena, &reply, &bench.err), bench.err);
    assert_null(reply);
    assert_ok(feed(&bench, "3\r\n", 3, &reply), bench.err);
    assert_int_equal(reply->integer, 3);
    end(&bench);
}

static void what_is_too_large_is_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "*2147483647\r\n", "*251\r\n", "*100\r\n*100\r\n*100\r\n", /* each alone would fit */
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct bench bench;
        begin(&bench, 1000);
        struct qn_reply *reply = NULL;
        assert_int_equal(feed(&bench, cases[i], strlen(cases[i]), &reply), QUERN_E_BROKER);
        assert_string_equal(bench.err.text,
                            "redis://test: a reply larger than 1000 bytes was refused");
        end(&bench);
    }
    struct bench bench;
    begin(&bench, 1000);
    struct qn_reply *reply = NULL;
    char text[500] = "$4000000000\r\n";
    assert_ok(feed(&bench, text, sizeof text, &reply), bench.err);
    assert_ok(feed(&bench, text, sizeof text, &reply), bench.err);
    assert_int_equal(feed(&bench, text, 1, &reply), QUERN_E_BROKER);
    assert_non_null(strstr(bench.err.text, "larger than 1000 bytes"));
    end(&bench);
}

/* Of the address space, so that untouched memory counts, too. */
static size_t taken_pages(void)
{
    char text[32] = "";
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    (void)fclose(file);
    return (size_t)strtoul(text, NULL, 10);
}

static void memory_is_taken_for_what_has_come_not_for_what_is_announced(void **state)
{
    (void)state;
    struct bench bench;
    struct qn_reply *reply = NULL;
    begin(&bench, QN_REPLY_TASKS_MAX);
    size_t before = taken_pages();
    static const char announced[] = "*2\r\n*3000000\r\n:1\r\n:2\r\n$500000000\r\nabc";
    assert_ok(feed(&bench, announced, sizeof announced - 1, &reply), bench.err);
    assert_null(reply);
    assert_true(taken_pages() - before < 2048); /* 8 MiB of the 24 that it would be */
    end(&bench);
}

static void many_items_are_read_as_they_come(void **state)
{
    (void)state;
    struct bench bench;
    struct qn_reply *reply = NULL;
    begin(&bench, QN_REPLY_ROWS_MAX);
    assert_ok(feed(&bench, "*10000\r\n", 8, &reply), bench.err);
    for (int i = 0; i < 10000; i++) {
        assert_null(reply);
        char item[24];
        int size = snprintf(item, sizeof item, ":%d\r\n", i);
        assert_ok(feed(&bench, item, (size_t)size, &reply), bench.err);
    }
    assert_non_null(reply);
    assert_int_equal(reply->count, 10000);
    for (size_t i = 0; i < 10000; i++) {
        assert_int_equal(qn_reply_int(qn_reply_at(reply, i), -1), i);
    }
    end(&bench);
}

static void long_lines_are_refused(void **state)
{
    (void)state;
    static const char *const starts[] = {"+", "-", ":1", "$1", "*1", "*2\r\n+"};
    char piece[1000];
    memset(piece, '1', sizeof piece);
    for (size_t i = 0; i < TEST_COUNT(starts); i++) {
        struct bench bench;
        struct qn_reply *reply = NULL;
        begin(&bench, QN_REPLY_BRIEF_MAX);
        quern_status status = feed(&bench, starts[i], strlen(starts[i]), &reply);
        for (int pieces = 0; status == QUERN_OK && pieces < 70; pieces++) {
            status = feed(&bench, piece, sizeof piece, &reply);
        }
        assert_int_equal(status, QUERN_E_BROKER);
        assert_string_equal(bench.err.text,
                            "redis://test: a line larger than 65536 bytes was refused");
        end(&bench);
    }
}

static void the_limit_is_for_one_reply(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, 64);
    struct qn_reply *reply = NULL;
    for (int i = 0; i < 1000; i++) {
        assert_ok(feed(&bench, "$5\r\nhello\r\n", 11, &reply), bench.err);
        assert_non_null(reply);
    }
    end(&bench);
}

#define EIGHT_DEEP "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"
#define NINE_DEEP "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"

static void eight_levels_are_read(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, 1000);
    struct qn_reply *reply = NULL;
    assert_ok(feed(&bench, EIGHT_DEEP, strlen(EIGHT_DEEP), &reply), bench.err);
    assert_non_null(reply);
    end(&bench);
}

static void what_is_no_reply_is_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "HTTP/1.1 400 Bad Request\r\n", "$abc\r\n", "*x\r\n", ":12x\r\n", "$-5\r\n", NINE_DEEP,
        "%1\r\n+a\r\n+b\r\n",           ",1.5\r\n", "#t\r\n",
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct bench bench;
        begin(&bench, 1000);
        struct qn_reply *reply = NULL;
        assert_int_equal(feed(&bench, cases[i], strlen(cases[i]), &reply), QUERN_E_BROKER);
        assert_non_null(strstr(bench.err.text, "redis://test: this is not the Redis protocol"));
        end(&bench);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_reply_is_the_same_however_it_is_cut),
    cmocka_unit_test(several_replies_come_one_by_one),
    cmocka_unit_test(what_is_too_large_is_refused),
    cmocka_unit_test(memory_is_taken_for_what_has_come_not_for_what_is_announced),
    cmocka_unit_test(many_items_are_read_as_they_come),
    cmocka_unit_test(long_lines_are_refused),
    cmocka_unit_test(the_limit_is_for_one_reply),
    cmocka_unit_test(eight_levels_are_read),
    cmocka_unit_test(what_is_no_reply_is_refused),
};
TEST_MAIN(tests)
