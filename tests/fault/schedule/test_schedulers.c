/* SPDX-License-Identifier: MIT */
/* test_schedulers.c - three schedulers with an entry of each second, whose leader is killed again
 * and again, or stopped until another one leads and then continued: each second is enqueued once,
 * from the first to the last. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "broker/schedule/schedule.h"
#include "lib_store.h"
#include "quern/quern.h"
#include "schedule/tick/leader.h"
#include "schedule/tick/tick_task.h"

#define SCHEDULERS 3
/* The others ask each second, and see that the process is dead. Three times that, which is much
 * less than its lease would last. */
#define TAKEOVER_MS_MAX 3000

/* --- The program to be killed --------------------------------------------------------- */

static void *await_parent(void *user)
{
    (void)test_parent_receive();
    quern_scheduler_stop(user);
    return NULL;
}

static int run_scheduler(int argc, char **argv)
{
    const quern_scheduler_options options = {.program = "fault"};
    const quern_entry entry = {.name = "e", .cron = "* * * * * *", .misfire = "all 1000"};
    const quern_task task = {.type = "t"};
    quern_scheduler *scheduler = NULL;
    pthread_t thread;
    quern_error err = {0};
    TEST_REQUIRE(argc == 1);
    TEST_REQUIRE(quern_scheduler_new(argv[0], &options, &scheduler, &err) == QUERN_OK);
    TEST_REQUIRE(quern_scheduler_register(scheduler, &entry, &task, &err) == QUERN_OK);
    TEST_REQUIRE(pthread_create(&thread, NULL, await_parent, scheduler) == 0);
    TEST_REQUIRE(quern_scheduler_run(scheduler, &err) == QUERN_OK);
    TEST_REQUIRE(pthread_join(thread, NULL) == 0);
    quern_scheduler_free(scheduler);
    return 0;
}

/* --- The site ------------------------------------------------------------------------- */

struct site {
    struct test_store store;
    struct qn_broker *broker;
    struct test_child children[SCHEDULERS];
    uint64_t runs;       /* of the entry, when a step began */
    int64_t takeover_ms; /* the longest time until another one led */
    long not_pid;        /* leader_is_another: this one is not meant */
};

static struct test_child spawn(const struct site *site)
{
    const char *const args[] = {site->store.url, NULL};
    return test_spawn("scheduler", args);
}

static void open_site(struct site *site)
{
    const struct qn_broker_options options = {.create = true};
    quern_error err = {0};
    *site = (struct site){.runs = 0};
    test_store_open(&site->store, 0);
    assert_ok(qn_broker_open(site->store.url, &options, &site->broker, &err), err);
    for (size_t i = 0; i < SCHEDULERS; i++) {
        site->children[i] = spawn(site);
    }
}

static bool keep_entry(const struct qn_schedule_entry *entry, void *user)
{
    struct qn_schedule_entry *kept = user;
    kept->runs = entry->runs;
    kept->last_s = entry->last_s;
    kept->created_at_ms = entry->created_at_ms;
    return true;
}

static struct qn_schedule_entry look(const struct site *site)
{
    struct qn_schedule_entry entry = {.runs = 0};
    const struct qn_entry_filter filter = {.name = "e"};
    quern_error err = {0};
    assert_ok(qn_schedule_list(site->broker, &filter, keep_entry, &entry, &err), err);
    return entry;
}

/* The process that leads; 0: none. */
static long leader_pid(const struct site *site)
{
    const struct qn_lead lead = {.what = QN_LEAD_LOOK};
    struct qn_lead_reply reply;
    quern_error err = {0};
    assert_ok(qn_schedule_lead(site->broker, &lead, &reply, &err), err);
    const char *colon = strchr(reply.id, ':');
    return colon != NULL ? strtol(colon + 1, NULL, 10) : 0;
}

static struct test_child *find_child(struct site *site, long pid)
{
    for (size_t i = 0; i < SCHEDULERS; i++) {
        if ((long)site->children[i].pid == pid) {
            return &site->children[i];
        }
    }
    return NULL;
}

/* A live one leads, and has enqueued something in this step. */
static bool leader_is_another(void *user)
{
    struct site *site = user;
    long pid = leader_pid(site);
    return pid != site->not_pid && find_child(site, pid) != NULL && look(site).runs > site->runs;
}

static bool other_one_leads(void *user)
{
    struct site *site = user;
    long pid = leader_pid(site);
    return pid != site->not_pid && find_child(site, pid) != NULL;
}

/* After the leader died, or stood still, at that moment. */
static void note_takeover(struct site *site, long not_pid, int64_t at_ms)
{
    site->not_pid = not_pid;
    assert_true(test_until(other_one_leads, site));
    int64_t ms = test_now_ms() - at_ms;
    site->takeover_ms = ms > site->takeover_ms ? ms : site->takeover_ms;
}

static struct test_child *await_leader(struct site *site, long not_pid)
{
    site->not_pid = not_pid;
    site->runs = look(site).runs;
    assert_true(test_until(leader_is_another, site));
    struct test_child *child = find_child(site, leader_pid(site));
    assert_non_null(child);
    return child;
}

/* Ends all, and asserts that there is one task for each second. */
static void close_site(struct site *site)
{
    for (size_t i = 0; i < SCHEDULERS; i++) {
        test_child_send(&site->children[i], 'q');
        assert_int_equal(test_child_join(&site->children[i]), 0);
    }
    struct qn_schedule_entry entry = look(site);
    quern_inspector *inspector = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_open(site->store.url, NULL, &inspector, &err), err);
    int64_t first_s = entry.created_at_ms / 1000 + 1;
    struct qn_schedule_entry named = {.name = "e"};
    for (int64_t tick_s = first_s; tick_s <= entry.last_s; tick_s++) {
        struct qn_arena arena = {0};
        struct qn_task task;
        quern_task_info *info = NULL;
        const struct qn_tick_terms terms = {.entry = &named, .tick_s = tick_s};
        assert_int_equal(qn_tick_task_make(&terms, &arena, &task, NULL), QUERN_OK);
        assert_ok(quern_inspector_task(inspector, "default", task.id, &info, &err), err);
        quern_task_info_free(info);
        qn_arena_finish(&arena);
    }
    assert_int_equal(entry.runs, entry.last_s - first_s + 1);
    quern_queue_list *queues = NULL;
    assert_ok(quern_inspector_queues(inspector, &queues, &err), err);
    assert_int_equal(quern_queue_list_at(queues, 0)->size, entry.runs);
    print_message("%" PRIu64 " ticks\n", entry.runs);
    quern_queue_list_free(queues);
    quern_inspector_free(inspector);
    qn_broker_close(site->broker);
    test_store_close(&site->store);
}

/* --- Tests ---------------------------------------------------------------------------- */

static void killed_leaders_lose_no_second_and_repeat_none(void **state)
{
    (void)state;
    int kills = test_full() ? 50 : 4;
    struct site site;
    struct qn_random random;
    qn_random_init_seed(&random, test_seed());
    open_site(&site);
    for (int i = 0; i < kills; i++) {
        struct test_child *leader = await_leader(&site, 0);
        test_pause_ms((int)qn_random_below(&random, 1000)); /* at any moment of a second */
        int64_t died_at_ms = test_now_ms();
        test_child_kill(leader);
        *leader = spawn(&site);
        note_takeover(&site, 0, died_at_ms);
    }
    (void)await_leader(&site, 0);
    print_message("another one led after %" PRId64 " ms at most\n", site.takeover_ms);
    assert_true(site.takeover_ms < TAKEOVER_MS_MAX);
    close_site(&site);
}

static void stopped_leader_that_continues_repeats_no_second(void **state)
{
    (void)state;
    int stops = test_full() ? 20 : 1;
    struct site site;
    open_site(&site);
    for (int i = 0; i < stops; i++) {
        const struct test_child *leader = await_leader(&site, 0);
        long pid = (long)leader->pid;
        int64_t stopped_at_ms = test_now_ms();
        assert_int_equal(kill(leader->pid, SIGSTOP), 0);
        note_takeover(&site, pid, stopped_at_ms); /* its lease is over */
        (void)await_leader(&site, pid);
        assert_int_equal(kill((pid_t)pid, SIGCONT), 0);
        (void)await_leader(&site, pid);
    }
    print_message("another one led after %" PRId64 " ms at most\n", site.takeover_ms);
    assert_true(site.takeover_ms < QN_LEADER_LEASE_MS + TAKEOVER_MS_MAX);
    close_site(&site);
}

static void leader_that_is_ended_hands_over(void **state)
{
    (void)state;
    struct site site;
    open_site(&site);
    struct test_child *leader = await_leader(&site, 0);
    long pid = (long)leader->pid;
    test_child_send(leader, 'q');
    assert_int_equal(test_child_join(leader), 0);
    *leader = spawn(&site);
    (void)await_leader(&site, pid);
    close_site(&site);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(killed_leaders_lose_no_second_and_repeat_none),
    cmocka_unit_test(stopped_leader_that_continues_repeats_no_second),
    cmocka_unit_test(leader_that_is_ended_hands_over),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = {{.name = "scheduler", .main = run_scheduler}};
    const struct test_group group = {"schedulers", tests, TEST_COUNT(tests), roles,
                                     TEST_COUNT(roles)};
    return test_main_over_brokers(argc, argv, &group);
}
