/* SPDX-License-Identifier: MIT */
/* test_recycle.c - children that are replaced after so many runs, or when they have grown: each
 * task runs once, no child runs more than it may, and nothing is charged. */
#include "lib_worker.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { TASKS = 40, LEAK_BYTES = 8 << 20, PIDS_MAX = 128 };

struct lives {
    pid_t pids[PIDS_MAX];
    size_t runs[PIDS_MAX];
    size_t count;
};

static void count_lives(struct rig *rig, struct lives *lives)
{
    *lives = (struct lives){.count = 0};
    for (size_t i = 0; i < rig->start_count; i++) {
        pid_t pid = rig_start_at(rig, i).pid;
        size_t at = 0;
        while (at < lives->count && lives->pids[at] != pid) {
            at++;
        }
        assert_true(at < PIDS_MAX);
        lives->count += at == lives->count ? 1 : 0;
        lives->pids[at] = pid;
        lives->runs[at]++;
    }
}

static void put_tasks(struct rig *rig, const char *type)
{
    for (size_t i = 0; i < TASKS; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "%zu", i);
        rig_put_task(rig,
                     &(quern_task){.id = id, .type = type, .payload = "done", .payload_size = 4});
    }
}

static bool has_run(const struct rig *rig, const char *id)
{
    size_t count = 0;
    for (size_t i = 0; i < rig->start_count; i++) {
        count += strcmp(rig->starts[i].id, id) == 0 ? 1 : 0;
    }
    return count == 1;
}

/* Runs all tasks with these options, and sees that each has run once and was charged nothing. With
 * the pause that follows a child which has run nothing it would take minutes. */
static void run_all(struct rig *rig, const quern_worker_options *options, struct lives *lives)
{
    struct rig_worker worker;
    rig_start(rig, &worker, options);
    rig_wait_reports(rig, TASKS);
    quern_worker_stats stats = rig_stats(&worker);
    assert_int_equal(stats.done, TASKS);
    assert_int_equal(stats.crashed, 0);
    rig_stop(&worker);
    assert_int_equal(rig->start_count, TASKS);
    for (size_t i = 0; i < TASKS; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "%zu", i);
        assert_true(has_run(rig, id));
    }
    assert_int_equal(rig_queue(rig, "default").processed_total, TASKS);
    assert_int_equal(rig_queue(rig, "default").failed_total, 0);
    count_lives(rig, lives);
}

static void a_child_ends_after_its_runs(void **state)
{
    (void)state;
    static const uint32_t limits[] = {1, 3};
    for (size_t i = 0; i < TEST_COUNT(limits); i++) {
        struct lives lives;
        struct rig *rig = rig_new_prefork(NULL);
        put_tasks(rig, "t");
        run_all(rig, &(quern_worker_options){.concurrency = 2, .child_runs_max = limits[i]},
                &lives);
        assert_true(lives.count >= TASKS / limits[i]);
        for (size_t child = 0; child < lives.count; child++) {
            assert_in_range(lives.runs[child], 1, limits[i]);
        }
        rig_free(rig);
    }
}

static void a_child_without_a_limit_stays(void **state)
{
    (void)state;
    struct lives lives;
    struct rig *rig = rig_new_prefork(NULL);
    put_tasks(rig, "t");
    run_all(rig, &(quern_worker_options){.concurrency = 2}, &lives);
    assert_in_range(lives.count, 1, 2);
    rig_free(rig);
}

/* --- Memory ------------------------------------------------------------------------------- */

static int64_t resident_bytes(void)
{
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL || fscanf(file, "%*d %lld", &pages) != 1) {
        abort();
    }
    (void)fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static char *volatile leaked;
static _Atomic int64_t *largest; /* of all processes at the start of a run; shared */

/* Keeps 8 MiB. */
static quern_outcome leak(quern_run *run, const quern_task *task, void *user)
{
    int64_t bytes = resident_bytes();
    int64_t before = atomic_load(largest);
    while (bytes > before && !atomic_compare_exchange_weak(largest, &before, bytes)) {
    }
    leaked = malloc(LEAK_BYTES);
    if (leaked == NULL) {
        return QUERN_RETRY;
    }
    memset(leaked, 1, LEAK_BYTES);
    return rig_handler()(run, task, user);
}

static void prepare_leak(struct rig *rig)
{
    quern_error error = {0};
    largest =
        mmap(NULL, sizeof *largest, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(largest != MAP_FAILED);
    assert_ok(quern_mux_handle(rig->mux, "leak", leak, rig, NULL, &error), error);
}

static void a_child_that_leaks_ends_between_two_runs(void **state)
{
    (void)state;
    struct lives lives;
    struct rig *rig = rig_new_prefork(prepare_leak);
    put_tasks(rig, "leak");
    int64_t limit = resident_bytes() + 4 * LEAK_BYTES;
    run_all(rig, &(quern_worker_options){.concurrency = 2, .child_rss_max = (uint64_t)limit},
            &lives);
    assert_in_range(atomic_load(largest), 1, limit); /* none began when it was larger */
    assert_in_range(lives.count, TASKS / 12, TASKS);
    (void)munmap(largest, sizeof *largest);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_child_ends_after_its_runs),
    cmocka_unit_test(a_child_without_a_limit_stays),
    cmocka_unit_test(a_child_that_leaks_ends_between_two_runs),
};
TEST_MAIN_OVER_BROKERS(tests)
