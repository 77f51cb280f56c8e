/* SPDX-License-Identifier: MIT */
/* test_message.c - ids and unique keys. */
#include <ctype.h>
#include <string.h>

#include "lib_test.h"
#include "message/asynq/unique_key.h"
#include "message/id.h"

static void ids_are_uuids_of_version_7(void **state)
{
    (void)state;
    struct qn_id_source source;
    qn_id_source_init(&source);
    for (int i = 0; i < 1000; i++) {
        char id[QN_ID_TEXT_SIZE];
        qn_id_next(&source, INT64_C(0x0123456789ab) + i * 7, id);
        assert_int_equal(strlen(id), 36);
        for (size_t j = 0; j < 36; j++) {
            if (j == 8 || j == 13 || j == 18 || j == 23) {
                assert_int_equal(id[j], '-');
            } else {
                assert_true(isdigit((unsigned char)id[j]) || (id[j] >= 'a' && id[j] <= 'f'));
            }
        }
        assert_int_equal(id[14], '7');
        assert_non_null(strchr("89ab", id[19]));
        if (i == 0) {
            assert_memory_equal(id, "01234567-89ab", 13);
        }
    }
}

static void ids_grow_within_a_millisecond_and_when_the_clock_steps_back(void **state)
{
    (void)state;
    struct qn_id_source source;
    qn_id_source_init(&source);
    char last[QN_ID_TEXT_SIZE] = "";
    int64_t now_ms = 1700000000000;
    for (int i = 0; i < 20000; i++) {
        char id[QN_ID_TEXT_SIZE];
        /* Mostly the same millisecond, more often than the counter can count; then steps. */
        if (i % 6000 == 5999) {
            now_ms -= 3600000;
        } else if (i % 1000 == 999) {
            now_ms += 1;
        }
        qn_id_next(&source, now_ms, id);
        assert_true(strcmp(last, id) < 0);
        memcpy(last, id, sizeof last);
    }
}

static void ids_survive_clocks_out_of_range(void **state)
{
    (void)state;
    static const int64_t moments[] = {-5, 0, INT64_MIN, 5, INT64_MAX, (INT64_C(1) << 48) - 1, 7};
    struct qn_id_source source;
    qn_id_source_init(&source);
    char last[QN_ID_TEXT_SIZE] = "";
    for (size_t i = 0; i < TEST_COUNT(moments); i++) {
        char id[QN_ID_TEXT_SIZE];
        qn_id_next(&source, moments[i], id);
        assert_true(strcmp(last, id) < 0);
        memcpy(last, id, sizeof last);
    }
}

static void ids_of_two_sources_differ(void **state)
{
    (void)state;
    struct qn_id_source a;
    struct qn_id_source b;
    char of_a[QN_ID_TEXT_SIZE];
    char of_b[QN_ID_TEXT_SIZE];
    qn_id_source_init(&a);
    qn_id_source_init(&b);
    qn_id_next(&a, 1700000000000, of_a);
    qn_id_next(&b, 1700000000000, of_b);
    assert_memory_equal(of_a, of_b, 14);
    assert_string_not_equal(of_a, of_b);
}

static void unique_keys_are_asynqs(void **state)
{
    (void)state;
    static const struct {
        const char *payload;
        const char *key;
    } cases[] = {
        {NULL, "asynq:{default}:unique:email:send:"},
        {"", "asynq:{default}:unique:email:send:d41d8cd98f00b204e9800998ecf8427e"},
        {"{\"to\":1}", "asynq:{default}:unique:email:send:f184cb776799d7f8bfcc2796810e627d"},
    };
    struct qn_arena arena = {0};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_error err = {0};
        const char *key = NULL;
        size_t size = cases[i].payload == NULL ? 0 : strlen(cases[i].payload);
        const struct qn_uniqueness same = {
            .queue = "default", .type = "email:send", .payload = {cases[i].payload, size}};
        assert_ok(qn_unique_key(&arena, &same, &key, &err), err);
        assert_string_equal(key, cases[i].key);
    }
    qn_arena_finish(&arena);
}

static void uuids_and_their_beginnings_are_known(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
    } cases[] = {
        {"0123abcd-4567-7890-abcd-ef0123456789", 36},
        {"0123abcd-", 9},
        {"0123abcd", 8},
        {"0", 1},
        {"", 0},
        {"0123abcd4", 0},
        {"0123abc-", 0},
        {"0123abcg", 0},
        {"0123ABCD", 0},
        {"0123abcd-4567-7890-abcd-ef01234567890", 0},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_int_equal(qn_id_uuid_size(cases[i].text), cases[i].size);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(ids_are_uuids_of_version_7),
    cmocka_unit_test(ids_grow_within_a_millisecond_and_when_the_clock_steps_back),
    cmocka_unit_test(ids_survive_clocks_out_of_range),
    cmocka_unit_test(ids_of_two_sources_differ),
    cmocka_unit_test(unique_keys_are_asynqs),
    cmocka_unit_test(uuids_and_their_beginnings_are_known),
};

TEST_MAIN(tests)
