/* SPDX-License-Identifier: MIT */
/* test_deaths.c - handlers that kill their worker, which is started again at once: see
 * lib_scenario.h. */
#include "lib_deaths.h"
#include "lib_scenario.h"

static void handlers_that_kill_their_worker_cost_no_good_task(void **state)
{
    (void)state;
    if (test_full()) {
        scenario_play_all("fatal");
        return;
    }
    scenario_play(
        &(struct scenario){.type = "fatal", .bad = 6, .good = 5, .workers = 1, .slots = 1});
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(handlers_that_kill_their_worker_cost_no_good_task),
};

DEATHS_MAIN("deaths", tests)
