/* SPDX-License-Identifier: MIT */
/* test_command.c - the texts of commands to workers and of their answers. */
#include "broker/command/command.h"

#include <string.h>

#include "lib_test.h"

#define ID "01a2204b-4512-7001-8ae5-071af661cbeb"

static void a_command_is_read_as_it_was_written(void **state)
{
    (void)state;
    const struct qn_command commands[] = {
        {.worker_id = ID, .request = 1, .order = QUERN_ORDER_QUIET},
        {.worker_id = "w", .request = UINT64_MAX, .order = QUERN_ORDER_RESIZE, .number = 4096},
        {.worker_id = ID, .request = 7, .order = QUERN_ORDER_LOG_LEVEL, .number = 3},
    };
    for (size_t i = 0; i < TEST_COUNT(commands); i++) {
        char text[QN_COMMAND_SIZE_MAX];
        struct qn_command read = {.number = 99};
        qn_command_write(&commands[i], text);
        assert_true(qn_command_read(text, &read));
        assert_string_equal(read.worker_id, commands[i].worker_id);
        assert_true(read.request == commands[i].request && read.order == commands[i].order &&
                    read.number == commands[i].number);
    }
}

static void other_texts_are_no_commands(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "1",
        "2 w 0000000000000001 quiet 0",
        "1 w 0000000000000000 quiet 0",
        "1 w 000000000000001 quiet 0",
        "1 w 000000000000000G quiet 0",
        "1 w 0000000000000001 quiet",
        "1 w 0000000000000001 quiet 0 0",
        "1 w 0000000000000001 kill 0",
        "1 w 0000000000000001  0",
        "1 w 0000000000000001 resize -1",
        "1 w 0000000000000001 resize 10000000000",
        "1  0000000000000001 quiet 0",
        "1 " ID "x 0000000000000001 quiet 0",
        "1 w 0000000000000001 quiet "
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "0000000",
    };
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        struct qn_command read;
        assert_false(qn_command_read(texts[i], &read));
    }
}

static void an_answer_is_found_in_the_state_of_a_worker(void **state)
{
    (void)state;
    static const struct {
        const char *served;
        bool is_known;
        uint64_t request;
        const char *text;
    } cases[] = {
        {"default=1", false, 0, ""}, /* of a Go server */
        {"default=1\x1f"
         "0\x1fmail",
         false, 0, ""},
        {"default=1\x1f"
         "0 17\x1fmail a\x1f*",
         false, 0, ""}, /* of an older version */
        {"a b=1\x1f"
         "0 -1 -",
         true, 0, ""},
        {"default=1\x1f"
         "0 17 -\x1fmail",
         true, 0, ""},
        {"default=1\x1f"
         "0 17 00000000000000ff ok\x1fmail",
         true, 255, "ok"},
        {"default=1\x1f"
         "0 17 00000000000000ff it cannot",
         true, 255, "it cannot"},
        {"default=1\x1f"
         "0 17 00000000000000ff",
         true, 0, ""},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_command_answer answer;
        qn_command_read_answer(cases[i].served, &answer);
        assert_int_equal(answer.is_known, cases[i].is_known);
        assert_true(answer.request == cases[i].request);
        assert_string_equal(answer.text, cases[i].text);
    }
    char text[64];
    const struct qn_command_answer none = {.request = 0};
    const struct qn_command_answer one = {.request = 255, .text = "ok"};
    qn_command_write_answer(&none, text, sizeof text);
    assert_string_equal(text, "-");
    qn_command_write_answer(&one, text, sizeof text);
    assert_string_equal(text, "00000000000000ff ok");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_command_is_read_as_it_was_written),
    cmocka_unit_test(other_texts_are_no_commands),
    cmocka_unit_test(an_answer_is_found_in_the_state_of_a_worker),
};
TEST_MAIN(tests)
