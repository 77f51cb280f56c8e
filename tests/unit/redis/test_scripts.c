/* SPDX-License-Identifier: MIT */
/* test_scripts.c - numbers that stand in a script and in limits.h are the same. */
#include <stdio.h>
#include <string.h>

#include "broker/redis/doctor/doctor_queue_lua.h"
#include "broker/redis/run/lease_lua.h"
#include "broker/redis/run/outcome_lua.h"
#include "broker/redis/upkeep/recover_lua.h"
#include "lib_test.h"
#include "task/limits.h"

static void numbers_of_scripts_are_those_of_limits(void **state)
{
    (void)state;
    const struct {
        const struct qn_script *script;
        const char *name;
        long long value;
    } rows[] = {
        {&qn_lua_outcome, "POISON_CHARGES", QN_POISON_CHARGES},
        {&qn_lua_outcome, "POISON_LONE", QN_POISON_LONE},
        {&qn_lua_outcome, "CHARGE_WINDOW_MS", QN_CHARGE_WINDOW_MS},
        {&qn_lua_outcome, "CHARGED_WAIT_MS", QN_CHARGED_WAIT_MS},
        {&qn_lua_outcome, "ALONE_CHARGES", QN_ALONE_CHARGES},
        {&qn_lua_outcome, "HEARTBEAT_MS", QN_HEARTBEAT_MS},
        {&qn_lua_outcome, "SOLO_MS", QN_SOLO_MS},
        {&qn_lua_outcome, "SOLO_DEATH_MS", QN_SOLO_DEATH_MS},
        {&qn_lua_outcome, "BRAKE_DEATHS", QN_BRAKE_DEATHS},
        {&qn_lua_outcome, "BRAKE_MS_MIN", QN_BRAKE_MS_MIN},
        {&qn_lua_outcome, "BRAKE_MS_MAX", QN_BRAKE_MS_MAX},
        {&qn_lua_outcome, "BRAKE_EVEN_PROBES", QN_BRAKE_EVEN_PROBES},
        {&qn_lua_outcome, "OK_NOTE_MS", QN_OK_NOTE_MS},
        {&qn_lua_outcome, "ARCHIVE_SIZE_MAX", QN_ARCHIVE_SIZE_MAX},
        {&qn_lua_outcome, "DAY_KEPT_S", QN_HISTORY_DAYS * INT64_C(86400)},
        {&qn_lua_recover, "POISON_CHARGES", QN_POISON_CHARGES},
        {&qn_lua_lease, "BRAKE_DEATHS", QN_BRAKE_DEATHS},
        {&qn_lua_doctor_queue, "DAY_KEPT_S", QN_HISTORY_DAYS * INT64_C(86400)},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        char line[80];
        snprintf(line, sizeof line, "\nlocal %s = %lld\n", rows[i].name, rows[i].value);
        if (strstr(rows[i].script->text, line) == NULL) {
            fail_msg("%s.lua has no line%s", rows[i].script->name, line);
        }
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(numbers_of_scripts_are_those_of_limits),
};
TEST_MAIN(tests)
