/* SPDX-License-Identifier: MIT */
/* test_promises.c - the seven promises, checked in one simulated world for each seed.
 *
 *   sim_promises                  400 seeds, 10000 with QUERN_TEST_FULL=1
 *   sim_promises --seed N         one seed, with its trace
 *   sim_promises --seeds N M      these, without
 *
 * A seed that fails ends the program, because what its fibers hold cannot be freed. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib_test.h"
#include "sqlite_memory.h"
#include "world.h"

enum { SEEDS = 400, SEEDS_FULL = 10000, TRACE_LINES = 40 };

static char seed_line[64];
static size_t seed_line_size;

/* An assertion of the library failed: which seed was it? */
static void report_signal(int number)
{
    ssize_t written = write(STDERR_FILENO, seed_line, seed_line_size);
    (void)written;
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static void watch_signals(void)
{
    static const int numbers[] = {SIGILL, SIGTRAP, SIGABRT};
    for (size_t i = 0; i < TEST_COUNT(numbers); i++) {
        (void)signal(numbers[i], report_signal);
    }
}

static void run_seed(uint64_t seed, const char *test)
{
    int size = snprintf(seed_line, sizeof seed_line, "in seed %" PRIu64 "\n", seed);
    seed_line_size = (size_t)size;
    if (sim_world_run(seed)) {
        return;
    }
    if (!sim_tracing) {
        sim_print_trace(TRACE_LINES);
    }
    (void)printf("seed %" PRIu64 ": %s\nreplay it: sim_promises --seed %" PRIu64 "\n", seed,
                 sim_failure(), seed);
    (void)fflush(stdout);
    (void)fprintf(stderr, "[  FAILED  ] %s\n", test);
    _exit(1);
}

static void a_seed_replays(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        run_seed(seed, "a_seed_replays");
        uint64_t hash = sim_trace_hash();
        run_seed(seed, "a_seed_replays");
        assert_int_equal(hash, sim_trace_hash());
    }
}

static uint64_t seed_count(void)
{
    return test_full() ? SEEDS_FULL : SEEDS;
}

static void every_promise_holds_in_every_seed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= seed_count(); seed++) {
        run_seed(seed, "every_promise_holds_in_every_seed");
    }
}

static const char *something_missing(void)
{
    return sim_world_missing() != NULL ? sim_world_missing() : sim_faults_missing();
}

/* Counted over all worlds so far. Some events are rare, and a change of the library makes other
 * worlds of the same seeds: so there are more seeds until nothing is missing. A test of its own:
 * a planted fault is caught by a promise that it breaks, not by an event that it prevents. */
static void every_event_has_happened(void **state)
{
    (void)state;
    for (uint64_t seed = seed_count() + 1; something_missing() != NULL && seed <= 3 * seed_count();
         seed++) {
        run_seed(seed, "every_promise_holds_in_every_seed");
    }
    sim_world_print_summary();
    if (something_missing() != NULL) {
        fail_msg("never: %s", something_missing());
    }
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_promise_holds_in_every_seed),
        cmocka_unit_test(every_event_has_happened),
        cmocka_unit_test(a_seed_replays),
    };
    const struct test_group group = {
        .name = argv[0], .tests = tests, .test_count = TEST_COUNT(tests)};
    watch_signals();
    sim_sqlite_memory_use();
    if (argc >= 3 && strncmp(argv[1], "--seed", strlen("--seed")) == 0) {
        uint64_t first = strtoull(argv[2], NULL, 10);
        uint64_t last = argc > 3 ? strtoull(argv[3], NULL, 10) : first;
        sim_tracing = argc == 3;
        for (uint64_t seed = first; seed <= last; seed++) {
            run_seed(seed, "by hand");
        }
        sim_world_print_summary();
        return 0;
    }
    return test_main(argc, argv, &group);
}
