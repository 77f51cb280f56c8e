/* SPDX-License-Identifier: MIT */
/* test_kill_checkpoints.c - tasks walk through their steps by checkpoints of payload, queue and
 * retry_max, while workers and children are killed, and workers shut down under their runs: what a
 * run finds is always of one and the same step, no step is undone, none is left out, and what a
 * worker gives back uses no retry. Handlers in threads and in children. */
#include "lib_fault.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"

enum { LAST_STEP = 5, FIRST_RETRY_MAX = 50, TASKS = 48, WRONG = 3, RECORD_STEPS = 16 };
static const char *const queue_names[] = {"default", "other"};

/* The payload. */
struct walk {
    uint32_t number;
    uint32_t step;
    uint32_t retries; /* that its runs may have used */
};

static const char *queue_of(const struct walk *walk)
{
    return queue_names[walk->step % 2];
}

static bool is_whole(const quern_run *run, const quern_task *task, const struct walk *walk)
{
    return walk->step <= LAST_STEP && walk->number < TASKS &&
           strcmp(quern_run_queue(run), queue_of(walk)) == 0 &&
           strcmp(task->queue, queue_of(walk)) == 0 &&
           quern_run_retry_count(run) <= (int64_t)walk->retries &&
           task->retry_max == FIRST_RETRY_MAX + (int64_t)walk->step;
}

/* Even steps end with a retry, odd ones with a snooze; each step is in the other queue. One that is
 * cancelled, as its worker ends, stops there or goes on all the same. */
static quern_outcome leave(quern_run *run, const struct walk *walk)
{
    quern_error err = {0};
    struct walk next = *walk;
    bool stops = walk->number % 3 == 0 && quern_run_cancelled(run);
    if (stops) {
        TEST_REQUIRE(quern_run_change_payload(run, &next, sizeof next, &err) == QUERN_OK);
        return QUERN_RETRY; /* given back, so without a retry */
    }
    bool retries = walk->step % 2 == 0;
    next.step++;
    next.retries += retries ? 1 : 0;
    TEST_REQUIRE(quern_run_change_payload(run, &next, sizeof next, &err) == QUERN_OK);
    TEST_REQUIRE(quern_run_change_queue(run, queue_of(&next), &err) == QUERN_OK);
    TEST_REQUIRE(quern_run_change_retry_max(run, FIRST_RETRY_MAX + (int64_t)next.step, &err) ==
                 QUERN_OK);
    (void)quern_run_again_in(run, (int64_t)(walk->number % 3));
    return retries ? QUERN_RETRY : QUERN_SNOOZE;
}

struct journal {
    const char *path;
    int fd;
};

/* Records are of number * RECORD_STEPS + step. */
static quern_outcome run_walk(quern_run *run, const quern_task *task, void *user)
{
    const struct journal *journal = user;
    struct walk walk;
    TEST_REQUIRE(task->payload_size == sizeof walk);
    memcpy(&walk, task->payload, sizeof walk);
    uint64_t record = (uint64_t)walk.number * RECORD_STEPS + walk.step;
    int kind = is_whole(run, task, &walk) ? FAULT_START : WRONG;
    fault_write(journal->fd, (enum fault_kind)kind, run, record);
    struct pollfd cancelled = {.fd = quern_run_cancel_fd(run), .events = POLLIN};
    (void)poll(&cancelled, 1, (int)(walk.number % 4));
    fault_write(journal->fd, FAULT_END, run, record);
    return walk.step == LAST_STEP ? QUERN_DONE : leave(run, &walk);
}

/* --- The worker ------------------------------------------------------------------------- */

static void open_journal(void *user)
{
    struct journal *journal = user;
    journal->fd = fault_journal_open(journal->path);
}

/* argv: URL, journal, "threads" or "prefork". */
static int walker(int argc, char **argv)
{
    TEST_REQUIRE(argc == 3);
    struct journal journal = {.path = argv[1], .fd = fault_journal_open(argv[1])};
    quern_mux *mux = NULL;
    quern_zygote *zygote = NULL;
    quern_error err = {0};
    const quern_queue queues[] = {{.name = "default", .weight = 1}, {.name = "other", .weight = 1}};
    quern_worker_options options = {
        .queues = queues, .queue_count = 2, .concurrency = 4, .shutdown_timeout_ms = 1};
    TEST_REQUIRE(quern_mux_new(&mux, &err) == QUERN_OK);
    TEST_REQUIRE(quern_mux_handle(mux, "walk", run_walk, &journal, NULL, &err) == QUERN_OK);
    if (strcmp(argv[2], "prefork") == 0) {
        const quern_zygote_options zygotes = {.on_child_start = open_journal, .user = &journal};
        TEST_REQUIRE(quern_zygote_start(mux, &zygotes, &zygote, &err) == QUERN_OK);
        options.pool = QUERN_POOL_PREFORK;
        options.zygote = zygote;
    }
    int code = fault_serve(argv[0], mux, &options);
    quern_zygote_free(zygote);
    quern_mux_free(mux);
    (void)close(journal.fd);
    return code;
}

struct hike {
    struct fault_site site;
    const char *pool;
    struct test_child workers[2];
    size_t seen; /* records, before the latest trouble */
    struct qn_random random;
};

static void spawn(struct hike *hike, size_t i)
{
    const char *args[] = {hike->site.url, hike->site.journal, hike->pool, NULL};
    hike->workers[i] = test_spawn("walker", args);
}

static void stop(struct hike *hike, size_t i)
{
    test_child_send(&hike->workers[i], 'q');
    assert_int_equal(test_child_join(&hike->workers[i]), 0);
}

/* --- Trouble ---------------------------------------------------------------------------- */

/* The process of the latest run that has begun since the trouble before and has not ended, if no
 * such run was charged before: else so many kills would make a task poison. 0: none. */
static int find_victim(const struct hike *hike)
{
    size_t count = 0;
    int victim = 0;
    struct fault_record *records = fault_journal_read(&hike->site, &count);
    for (size_t i = hike->seen; i < count; i++) {
        bool open = records[i].kind == FAULT_START;
        for (size_t k = i + 1; open && k < count; k++) {
            open = records[k].fence != records[i].fence || records[k].task != records[i].task;
        }
        victim = open && victim >= 0 ? records[i].pid : victim;
        victim = open && records[i].crash_count > 0 ? -1 : victim;
    }
    free(records);
    return victim > 0 ? victim : 0;
}

static void kill_worker(struct hike *hike)
{
    size_t i = qn_random_below(&hike->random, 2);
    if (find_victim(hike) != 0) {
        fault_kill(&hike->site, &hike->workers[i]);
        spawn(hike, i);
    }
}

static void shut_worker_down(struct hike *hike)
{
    size_t i = qn_random_below(&hike->random, 2);
    stop(hike, i);
    spawn(hike, i);
}

static void kill_child(struct hike *hike)
{
    int victim = find_victim(hike);
    if (victim != 0) {
        assert_true(kill(victim, SIGKILL) == 0 || errno == ESRCH);
    }
}

static void do_any(struct hike *hike)
{
    static void (*const troubles[])(struct hike *) = {kill_worker, shut_worker_down, kill_child};
    troubles[qn_random_below(&hike->random, 3)](hike);
}

/* --- The judgement ---------------------------------------------------------------------- */

static void enqueue_walks(const struct fault_site *site)
{
    quern_client *client = NULL;
    quern_error err = {0};
    assert_ok(quern_client_open(site->url, NULL, &client, &err), err);
    for (uint32_t i = 0; i < TASKS; i++) {
        const struct walk walk = {.number = i};
        quern_task task = {.type = "walk",
                           .payload = &walk,
                           .payload_size = sizeof walk,
                           .retry_max = FIRST_RETRY_MAX,
                           .retention_ms = 3600000};
        task.unique_ms = i % 2 == 0 ? 3600000 : 0;
        task.limit_key = i % 3 == 0 ? "key" : NULL;
        assert_ok(quern_client_enqueue(client, &task, NULL, &err), err);
    }
    quern_client_free(client);
}

/* No record is wrong, no step comes after a later one or before the one before it, fences grow, and
 * each task is through. */
static void judge(const struct fault_site *site)
{
    size_t count = 0;
    uint64_t steps[TASKS] = {0};
    uint64_t fences[TASKS] = {0};
    struct fault_record *records = fault_journal_read(site, &count);
    for (size_t i = 0; i < count; i++) {
        uint64_t number = records[i].task / RECORD_STEPS;
        uint64_t step = records[i].task % RECORD_STEPS;
        assert_true(number < TASKS);
        if (records[i].kind == FAULT_END) {
            continue;
        }
        if (records[i].kind == WRONG || records[i].fence <= fences[number] ||
            (step != steps[number] && step != steps[number] + 1)) {
            fail_msg("task %d: step %d after %d, fence %llu after %llu, cause %d, %s", (int)number,
                     (int)step, (int)steps[number], (unsigned long long)records[i].fence,
                     (unsigned long long)fences[number], records[i].cause,
                     records[i].kind == WRONG ? "torn" : "whole");
        }
        steps[number] = step;
        fences[number] = records[i].fence;
    }
    for (size_t i = 0; i < TASKS; i++) {
        assert_int_equal(steps[i], LAST_STEP);
    }
    free(records);
}

static quern_queue_info info_of(const struct fault_site *site, const char *queue)
{
    quern_error err = {0};
    quern_inspector *inspector = NULL;
    quern_queue_list *list = NULL;
    quern_queue_info found = {0};
    assert_ok(quern_inspector_open(site->url, NULL, &inspector, &err), err);
    assert_ok(quern_inspector_queues(inspector, &list, &err), err);
    for (size_t i = 0; i < quern_queue_list_size(list); i++) {
        const quern_queue_info *info = quern_queue_list_at(list, i);
        found = strcmp(info->name, queue) == 0 ? *info : found;
    }
    quern_queue_list_free(list);
    quern_inspector_free(inspector);
    return found;
}

static bool are_all_through(void *user)
{
    return info_of(user, queue_names[LAST_STEP % 2]).counts[QUERN_TASK_COMPLETED] == TASKS;
}

static void show_finding(const quern_finding *finding, void *user)
{
    if (finding->severity >= QUERN_SEVERITY_WARNING) {
        print_message("%s: %s\n", finding->invariant, finding->text);
        (*(size_t *)user)++;
    }
}

static void await_the_end(struct fault_site *site)
{
    size_t violations = 0;
    quern_error err = {0};
    quern_inspector *inspector = NULL;
    if (!test_until(are_all_through, site)) {
        for (size_t i = 0; i < 2; i++) {
            quern_queue_info info = info_of(site, queue_names[i]);
            for (int state = 1; state < QUERN_TASK_STATE_COUNT; state++) {
                print_message("%s: %d in state %d\n", queue_names[i], (int)info.counts[state],
                              state);
            }
        }
        fail_msg("not all tasks are through");
    }
    assert_int_equal(info_of(site, queue_names[1 - LAST_STEP % 2]).size, 0);
    assert_int_equal(info_of(site, queue_names[LAST_STEP % 2]).size, TASKS);
    assert_ok(quern_inspector_open(site->url, NULL, &inspector, &err), err);
    assert_ok(quern_inspector_check(inspector, false, show_finding, &violations, &err), err);
    assert_int_equal(violations, 0);
    quern_inspector_free(inspector);
}

static void walk_through(const char *pool, void (*trouble)(struct hike *hike))
{
    struct hike hike = {.pool = pool};
    struct fault_site *site = &hike.site;
    qn_random_init_seed(&hike.random, test_seed());
    fault_site_open(site);
    enqueue_walks(site);
    spawn(&hike, 0);
    spawn(&hike, 1);
    size_t records_least = (size_t)2 * TASKS * (LAST_STEP + 1);
    for (size_t i = test_full() ? 30 : 6; i > 0; i--) {
        size_t wanted = fault_journal_size(site) + 1 + qn_random_below(&hike.random, 80);
        if (wanted > records_least) {
            break;
        }
        fault_wait_records(site, wanted);
        trouble(&hike);
        hike.seen = fault_journal_size(site);
    }
    await_the_end(site);
    stop(&hike, 0);
    stop(&hike, 1);
    judge(site);
    fault_site_close(site);
}

static void killed_workers_tear_no_checkpoint(void **state)
{
    (void)state;
    walk_through("threads", kill_worker);
}

static void workers_that_end_keep_what_their_runs_have_done(void **state)
{
    (void)state;
    walk_through("threads", shut_worker_down);
}

static void killed_children_tear_no_checkpoint(void **state)
{
    (void)state;
    walk_through("prefork", kill_child);
}

static void workers_of_children_keep_what_these_have_done(void **state)
{
    (void)state;
    walk_through("prefork", shut_worker_down);
}

static void whatever_happens_to_them_tears_no_checkpoint(void **state)
{
    (void)state;
    walk_through("prefork", do_any);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(killed_workers_tear_no_checkpoint),
    cmocka_unit_test(workers_that_end_keep_what_their_runs_have_done),
    cmocka_unit_test(killed_children_tear_no_checkpoint),
    cmocka_unit_test(workers_of_children_keep_what_these_have_done),
    cmocka_unit_test(whatever_happens_to_them_tears_no_checkpoint),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = {{.name = "walker", .main = walker}};
    const struct test_group group = {argv[0], tests, TEST_COUNT(tests), roles, TEST_COUNT(roles)};
    return test_main_over_brokers(argc, argv, &group);
}
