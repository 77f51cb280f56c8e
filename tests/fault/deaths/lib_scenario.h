/* SPDX-License-Identifier: MIT */
/* lib_scenario.h - tasks that kill their process, among good ones: the good ones are done soon, the
 * bad ones are archived as poison once a run of their queue has ended well, and no other task is.
 *
 * It asserts the promise, not the rules that keep it. */
#ifndef TESTS_FAULT_LIB_SCENARIO_H
#define TESTS_FAULT_LIB_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>

struct scenario {
    const char *type; /* of the bad ones */
    size_t bad;
    size_t good;
    unsigned workers;
    unsigned slots;
    bool other;    /* another queue has a stream of good tasks meanwhile */
    unsigned pace; /* of the clock; 0: the real one. For what takes the brake long */
};

void scenario_play(const struct scenario *scenario);
/* All scenarios of QUERN_TEST_FULL, with bad tasks of this type. */
void scenario_play_all(const char *type);

#endif
