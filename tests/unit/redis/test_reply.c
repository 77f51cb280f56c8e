/* SPDX-License-Identifier: MIT */
/* test_reply.c - replies read as numbers, and errors of the server as ours. */
#include <string.h>

#include "lib_test.h"
#include "redis/server_error.h"

static struct qn_reply text_of(const char *text)
{
    return (struct qn_reply){.type = QN_REPLY_TEXT, .data = text, .size = strlen(text)};
}

static void texts_are_read_as_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t integer;  /* -99: none */
        uint64_t natural; /* 0: none */
    } cases[] = {
        {"0", 0, 0},
        {"12", 12, 12},
        {"-12", -12, 0},
        {"12.0", 12, 12},
        {"1700000000.75", 1700000000, 1700000000},
        {"9223372036854775807", INT64_MAX, INT64_MAX},
        {"9223372036854775808", -99, UINT64_C(9223372036854775808)},
        {"18446744073709551615", -99, UINT64_MAX},
        {"18446744073709551616", -99, 0},
        {"99999999999999999999999", -99, 0},
        {"", -99, 0},
        {"-", -99, 0},
        {"1x", -99, 0},
        {" 1", -99, 0},
        {"1.2.3", -99, 0},
        {"inf", -99, 0},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_reply reply = text_of(cases[i].text);
        assert_int_equal(qn_reply_int(&reply, -99), cases[i].integer);
        assert_true(qn_reply_uint(&reply) == cases[i].natural);
    }
    struct qn_reply nil = {.type = QN_REPLY_NIL, .data = ""};
    struct qn_reply negative = {.type = QN_REPLY_INT, .data = "", .integer = -1};
    assert_int_equal(qn_reply_int(&nil, 5), 5);
    assert_int_equal(qn_reply_int(&negative, 5), -1);
    assert_true(qn_reply_uint(&negative) == 0);
}

static const struct qn_script script = {
    .name = "lease",
    .text =
        "local call = redis.call\nlocal a = 1\nlocal b = call('HGET', KEYS[1], 'a')\nreturn b\n",
};

static const struct {
    const char *words;
    quern_status status;
    const char *text; /* in a script */
} cases[] = {
    {"ERR some thing", QUERN_E_BROKER, "redis://test: lease: ERR some thing"},
    {"OOM command not allowed", QUERN_E_FULL, "redis://test: the server's memory is full (OOM)"},
    {"OOMPH", QUERN_E_BROKER, "redis://test: lease: OOMPH"},
    {"LOADING Redis is loading", QUERN_E_BUSY, NULL},
    {"NOREPLICAS Not enough good replicas to write.", QUERN_E_BUSY, NULL},
    {"ERR max number of clients reached", QUERN_E_BUSY, NULL},
    {"BUSY Redis is busy", QUERN_E_BUSY, NULL},
    {"READONLY You can't write", QUERN_E_BUSY, NULL},
    {"MISCONF Errors writing", QUERN_E_FULL, NULL},
    {"WRONGPASS invalid", QUERN_E_DENIED, NULL},
    {"WRONGTYPE Operation against a key script: 0123456789012345678901234567890123456789, on "
     "@user_script:3.",
     QUERN_E_CORRUPT,
     "redis://test: lease: a key is not of the type that it should have (WRONGTYPE)"},
    {"ERR Error running script (call to f_01): @user_script:3: @user_script: 3: -OOM command "
     "not allowed",
     QUERN_E_FULL, "redis://test: the server's memory is full (OOM)"},
    {"ERR Error running script (call to f_01): @user_script:3: WRONGTYPE Operation against a "
     "key",
     QUERN_E_CORRUPT,
     "redis://test: lease: a key is not of the type that it should have (WRONGTYPE)"},
    {"@user_script: 3: -OOM command not allowed", QUERN_E_FULL,
     "redis://test: the server's memory is full (OOM)"},
    {"ERR Error running script (call to f_01): @user_script:3: @user_script: 3: The user "
     "executing the script can't run this command or subcommand",
     QUERN_E_BROKER,
     "redis://test: lease: HGET: NOPERM The user executing the script can't run this "
     "command or subcommand; docs/protocol/redis.md has an ACL that works"},
    {"ERR The user executing the script can't run this command or subcommand script: 01, on "
     "@user_script:3.",
     QUERN_E_BROKER,
     "redis://test: lease: HGET: NOPERM The user executing the script can't run this "
     "command or subcommand; docs/protocol/redis.md has an ACL that works"},
    {"ERR ACL failure in script: No permissions to access a key script: 01, on @user_script:3.",
     QUERN_E_BROKER,
     "redis://test: lease: HGET: NOPERM ACL failure in script: No permissions to access "
     "a key; docs/protocol/redis.md has an ACL that works"},
    {"NOPERM this user has no permissions to run the 'evalsha' command", QUERN_E_BROKER,
     "redis://test: lease: NOPERM this user has no permissions to run the 'evalsha' command; "
     "docs/protocol/redis.md has an ACL that works"},
    {"NOPERM The user executing the script can't run this command or subcommand script: 01, on "
     "@user_script:3.",
     QUERN_E_BROKER,
     "redis://test: lease: HGET: NOPERM The user executing the script can't run this "
     "command or subcommand; docs/protocol/redis.md has an ACL that works"},
    {"ERR user_script:3: attempt to index a nil value script: 01, on @user_script:3.",
     QUERN_E_BROKER,
     "redis://test: lease: ERR user_script:3: attempt to index a nil value (its line 3)"},
    {"NOPERM nothing there script: 01, on @user_script:99.", QUERN_E_BROKER,
     "redis://test: lease: NOPERM nothing there; docs/protocol/redis.md has an ACL that "
     "works"},
};

static void errors_of_the_server_become_ours(void **state)
{
    (void)state;
    const struct qn_server_call in_script = {.command = "EVALSHA", .script = &script};
    const struct qn_server_call plain = {.command = "HGET"};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_error err = {0};
        struct qn_reply reply = text_of(cases[i].words);
        reply.type = QN_REPLY_ERROR;
        assert_int_equal(qn_server_error("redis://test", &reply, &in_script, &err),
                         cases[i].status);
        assert_int_equal(err.code, cases[i].status);
        if (cases[i].text != NULL) {
            assert_string_equal(err.text, cases[i].text);
        }
        (void)qn_server_error("redis://test", &reply, &plain, &err);
        assert_null(strstr(err.text, "lease"));
        assert_non_null(strstr(err.text, "redis://test: "));
    }
}

static void key_of_the_wrong_type_is_named(void **state)
{
    (void)state;
    quern_error err = {0};
    struct qn_reply reply = text_of("WRONGTYPE Operation against a key");
    reply.type = QN_REPLY_ERROR;
    const struct qn_server_call call = {.command = "SMEMBERS",
                                        .key = {"asynq:queues and more", strlen("asynq:queues")}};
    assert_int_equal(qn_server_error("redis://test", &reply, &call, &err), QUERN_E_CORRUPT);
    assert_string_equal(err.text, "redis://test: SMEMBERS: asynq:queues is not of the type that it "
                                  "should have (WRONGTYPE)");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(texts_are_read_as_numbers),
    cmocka_unit_test(errors_of_the_server_become_ours),
    cmocka_unit_test(key_of_the_wrong_type_is_named),
};
TEST_MAIN(tests)
