/* SPDX-License-Identifier: MIT */
/* test_hostile.c - children that break the rules of their connection, in a real worker: it loses
 * the run that did it, and nothing else. */
#include "lib_evil.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { BESIDE = 6, TRAINING = 40, BEHIND_MAX = 3 }; /* in a window */

static void prepare(struct rig *rig)
{
    static const struct {
        const char *type;
        int32_t on_crash;
    } types[] = {{"evil", QUERN_ON_CRASH_ARCHIVE},
                 {"evil-slow", QUERN_ON_CRASH_ARCHIVE},
                 {EVIL_LATER, QUERN_ON_CRASH_REQUEUE}};
    quern_error error = {0};
    for (size_t i = 0; i < TEST_COUNT(types); i++) {
        const quern_handler_options options = {.on_crash = types[i].on_crash, .kill_after_ms = 50};
        assert_ok(quern_mux_handle(rig->mux, types[i].type, evil_handler, rig, &options, &error),
                  error);
    }
}

/* Without those of the broker's files: SQLite keeps some of what it had opened. */
static size_t count_descriptors(void)
{
    size_t count = 0;
    char target[256];
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        ssize_t size = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
        target[size > 0 ? size : 0] = '\0';
        count += strstr(target, "tasks.db") == NULL ? 1 : 0;
    }
    assert_int_equal(closedir(dir), 0);
    return count;
}

/* A child more or less: it may be replaced just now. */
static bool has_few_descriptors(void *user)
{
    return count_descriptors() <= *(const size_t *)user + 4;
}

/* In KiB. */
static long resident_memory(void)
{
    char line[256];
    long size = 0;
    FILE *file = fopen("/proc/self/status", "re");
    assert_non_null(file);
    while (size == 0 && fgets(line, sizeof line, file) != NULL) {
        size = strncmp(line, "VmRSS:", 6) == 0 ? strtol(line + 6, NULL, 10) : 0;
    }
    assert_int_equal(fclose(file), 0);
    assert_true(size > 0);
    return size;
}

static void put_way(struct rig *rig, const struct evil_way *way, const char *type)
{
    rig_put_task(rig, &(quern_task){.id = way->name,
                                    .type = type,
                                    .payload = way->name,
                                    .payload_size = strlen(way->name),
                                    .retry_max = way->end == EVIL_TIMEOUT ? QUERN_RETRY_NEVER : 0,
                                    .timeout_ms = way->end == EVIL_TIMEOUT ? EVIL_TIMEOUT_MS : 0});
}

static void expect_end(struct rig *rig, const struct evil_way *way)
{
    rig_wait_state(rig, way->name, way->end == EVIL_DONE ? 0 : QUERN_TASK_ARCHIVED);
    if (way->end != EVIL_DONE) {
        quern_task_info *info = rig_inspect(rig, way->name);
        const char *text = quern_task_info_error(info);
        if (text == NULL || strstr(text, way->error) == NULL) {
            fail_msg("%s: \"%s\" is not in: %s", way->name, way->error, text);
        }
        quern_task_info_free(info);
    }
}

struct siege {
    struct rig *rig;
    struct rig_worker worker;
    size_t descriptors;
    long memory;
    size_t good; /* tasks of handlers that do what they should */
    size_t evil;
};

/* A worker whose children take several runs at a time; one runs a task that ends last. */
static void begin_siege(struct siege *siege, uint32_t concurrency)
{
    *siege = (struct siege){.rig = rig_new_prefork(prepare), .good = TRAINING + 1};
    struct rig *rig = siege->rig;
    rig_start(rig, &siege->worker, &(quern_worker_options){.concurrency = concurrency});
    rig_put_many_of(rig, "evil", NULL, "train", TRAINING);
    rig_put_many(rig, NULL, "first", TRAINING);
    rig_wait_reports(rig, (size_t)2 * TRAINING);
    rig_put(rig, "beside", "hold");
    rig_wait_starts(rig, siege->good);
    siege->descriptors = count_descriptors();
    siege->memory = resident_memory();
}

static void attack(struct siege *siege, const struct evil_way *way)
{
    char prefix[32];
    (void)snprintf(prefix, sizeof prefix, "%s-", way->name);
    put_way(siege->rig, way, way->is_slow ? "evil-slow" : "evil");
    rig_put_many(siege->rig, NULL, prefix, BESIDE);
    siege->good += BESIDE;
    siege->evil++;
}

/* None of the others was harmed; what was used up for them is given back. A child may have begun
 * the next of its window before we read what it did wrong: those alone run again. */
static void end_siege(struct siege *siege)
{
    struct rig *rig = siege->rig;
    rig_wait_starts(rig, siege->good);
    assert_int_equal(rig_state(rig, "beside"), QUERN_TASK_ACTIVE);
    rig_open_gate(rig);
    rig_wait_reports(rig, siege->good + TRAINING + siege->evil);
    assert_in_range(rig->start_count, siege->good, siege->good + siege->evil * BEHIND_MAX);
    assert_int_equal(rig->stale_count, 0);
    assert_true(test_until(has_few_descriptors, &siege->descriptors));
    /* ASan keeps 256 MiB that were freed. */
    assert_true(resident_memory() < siege->memory + (400 << 10));
    rig_stop(&siege->worker);
    rig_free(rig);
}

static void each_way_costs_the_run_that_did_it(void **state)
{
    (void)state;
    struct siege siege;
    begin_siege(&siege, 2);
    for (size_t i = 0; i < evil_way_count; i++) {
        if (!evil_ways[i].is_slow) {
            attack(&siege, &evil_ways[i]);
            expect_end(siege.rig, &evil_ways[i]);
        }
    }
    end_siege(&siege);
}

/* All at once. */
static void what_is_slow_or_silent_is_ended_by_its_limits(void **state)
{
    (void)state;
    struct siege siege;
    begin_siege(&siege, 5);
    for (size_t i = 0; i < evil_way_count; i++) {
        if (evil_ways[i].is_slow) {
            attack(&siege, &evil_ways[i]);
        }
    }
    for (size_t i = 0; i < evil_way_count; i++) {
        if (evil_ways[i].is_slow) {
            expect_end(siege.rig, &evil_ways[i]);
        }
    }
    end_siege(&siege);
}

static void pause_queue(struct rig *rig, bool paused)
{
    quern_error error = {0};
    assert_ok(qn_broker_pause(rig->broker, "default", paused, &error), error);
}

/* By the policy that holds where none is set. */
static void its_task_is_pending_again_with_one_crash(void **state)
{
    (void)state;
    static const char *const names[] = {"garbage", "leave-in-frame", "all", "scribble", "window"};
    enum { COUNT = TEST_COUNT(names) };
    struct rig *rig = rig_new_prefork(prepare);
    struct rig_worker worker;
    for (size_t i = 0; i < COUNT; i++) {
        put_way(rig, &(struct evil_way){.name = names[i]}, EVIL_LATER);
    }
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = COUNT});
    for (size_t i = 0; i < COUNT; i++) {
        rig_wait_state(rig, names[i], QUERN_TASK_ACTIVE);
    }
    pause_queue(rig, true);
    rig_open_gate(rig);
    rig_wait_reports(rig, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        quern_task_info *info = rig_inspect(rig, names[i]);
        assert_int_equal(quern_task_info_state(info), QUERN_TASK_PENDING);
        assert_int_equal(quern_task_info_crash_count(info), 1);
        assert_int_equal(quern_task_info_retry_count(info), 0);
        assert_int_equal(quern_task_info_cause(info), QUERN_CAUSE_CHILD_DIED);
        assert_non_null(quern_task_info_error(info));
        quern_task_info_free(info);
    }
    pause_queue(rig, false);
    rig_wait_reports(rig, (size_t)2 * COUNT);
    assert_int_equal(rig_queue(rig, "default").size, 0);
    assert_int_equal(rig_stats(&worker).done, COUNT);
    rig_stop(&worker);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_way_costs_the_run_that_did_it),
    cmocka_unit_test(what_is_slow_or_silent_is_ended_by_its_limits),
    cmocka_unit_test(its_task_is_pending_again_with_one_crash),
};
TEST_MAIN_OVER_BROKERS(tests)
