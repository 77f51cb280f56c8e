/* SPDX-License-Identifier: MIT */
/* test_command.c - commands that end by a signal: see lib_scenario.h. */
#include "lib_deaths.h"
#include "lib_scenario.h"

static void commands_that_die_cost_no_good_task(void **state)
{
    (void)state;
    if (test_full()) {
        scenario_play_all("command");
        return;
    }
    scenario_play(&(struct scenario){
        .type = "command", .bad = 6, .good = 5, .workers = 1, .slots = 4, .other = true});
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(commands_that_die_cost_no_good_task),
};

DEATHS_MAIN("deaths_command", tests)
