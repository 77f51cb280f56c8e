/* SPDX-License-Identifier: MIT */
/* test_scripts.c - the numbers of constants that scripts name are put there, all of them those of
 * the compiler; and those of tags are the ones of asynq.proto. */
#include <stdio.h>
#include <string.h>

#include "broker/redis/run/lease_lua.h"
#include "broker/redis/run/outcome_lua.h"
#include "broker/redis/upkeep/prune_lua.h"
#include "broker/redis/upkeep/recover_lua.h"
#include "lib_test.h"
#include "message/asynq/asynq.h"
#include "message/asynq/asynq.pb-c.h"
#include "quern/task.h"
#include "task/limit.h"
#include "task/limits.h"
#include "task/past_runs.h"

static void constants_stand_in_scripts_as_numbers(void **state)
{
    (void)state;
    const struct {
        const struct qn_script *script;
        const char *before;
        long long value;
        const char *after;
    } rows[] = {
        {&qn_lua_outcome, "past.crashed_ms > ", QN_CHARGE_WINDOW_MS, " then"},
        {&qn_lua_prune, "tonumber(touched) > ", QN_CHARGE_WINDOW_MS, " then"},
        {&qn_lua_outcome, "DAY_KEPT_S = ", QN_HISTORY_DAYS, " * 86400"},
        {&qn_lua_outcome, "cause ~= ", QUERN_CAUSE_LEASE_EXPIRED, " and"},
        {&qn_lua_recover, "worker.died and ", QUERN_CAUSE_WORKER_DIED, " or"},
        {&qn_lua_lease, "streak >= ", QN_BRAKE_DEATHS, ""},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        char text[80];
        snprintf(text, sizeof text, "%s%lld%s", rows[i].before, rows[i].value, rows[i].after);
        assert_null(strstr(rows[i].script->text, "@Q"));
        if (strstr(rows[i].script->text, text) == NULL) {
            fail_msg("%s.lua does not have: %s", rows[i].script->name, text);
        }
    }
}

static void every_constant_of_a_script_is_that_of_the_compiler(void **state)
{
    (void)state;
#define LUA_CONSTANT(name, value) {#name, (value), (long long)(name)},
    static const struct {
        const char *name;
        long long value;
        long long compiled;
    } rows[] = {
#include "lua_constants.h"
    };
#undef LUA_CONSTANT
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        if (rows[i].value != rows[i].compiled) {
            fail_msg("%s is %lld, and in scripts %lld", rows[i].name, rows[i].compiled,
                     rows[i].value);
        }
    }
}

static void tags_are_those_of_the_protocol(void **state)
{
    (void)state;
    static const struct {
        const char *field;
        enum qn_asynq_tag tag;
    } rows[] = {
        {"type", QN_ASYNQ_TAG_TYPE},
        {"payload", QN_ASYNQ_TAG_PAYLOAD},
        {"retry", QN_ASYNQ_TAG_RETRY},
        {"retried", QN_ASYNQ_TAG_RETRIED},
        {"error_msg", QN_ASYNQ_TAG_ERROR},
        {"last_failed_at", QN_ASYNQ_TAG_FAILED_AT},
        {"completed_at", QN_ASYNQ_TAG_COMPLETED_AT},
        {"headers", QN_ASYNQ_TAG_HEADER},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(
            &asynq__task_message__descriptor, rows[i].field);
        assert_non_null(field);
        bool is_sized =
            field->type == PROTOBUF_C_TYPE_BYTES || field->type == PROTOBUF_C_TYPE_MESSAGE;
        unsigned kind = is_sized ? 2 : 0;
        assert_int_equal(rows[i].tag, field->id << 3 | kind);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(constants_stand_in_scripts_as_numbers),
    cmocka_unit_test(every_constant_of_a_script_is_that_of_the_compiler),
    cmocka_unit_test(tags_are_those_of_the_protocol),
};
TEST_MAIN(tests)
