/* SPDX-License-Identifier: MIT */
/* test_memory.c - databases in the memory of the process: which objects share one, and when it
 * ends. The broker's operations are tested by the contract suite. */
#include "lib_sqlite.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "broker/inspect.h"
#include "quern/quern.h"

static bool add_size(const quern_queue_info *queue, void *user)
{
    *(uint64_t *)user += queue->size;
    return true;
}

static uint64_t count_tasks(struct qn_broker *broker)
{
    uint64_t size = 0;
    quern_error err = {0};
    assert_ok(qn_broker_queues(broker, NULL, add_size, &size, &err), err);
    return size;
}

static void put(struct qn_broker *broker, const char *id)
{
    quern_error err = {0};
    assert_ok(lib_sqlite_enqueue(broker, id, &err), err);
}

static void who_opens_the_same_name_meets(void **state)
{
    (void)state;
    struct qn_broker *one = lib_sqlite_open("memory:");
    struct qn_broker *other = lib_sqlite_open("memory:");
    put(one, "a");
    assert_int_equal(count_tasks(other), 1);
    put(other, "b");
    assert_int_equal(count_tasks(one), 2);
    qn_broker_close(one);
    assert_int_equal(count_tasks(other), 2);
    qn_broker_close(other);
}

static void another_name_is_another_database(void **state)
{
    (void)state;
    struct qn_broker *one = lib_sqlite_open("memory:");
    struct qn_broker *other = lib_sqlite_open("memory:other-1._X");
    put(one, "a");
    assert_int_equal(count_tasks(other), 0);
    put(other, "a");
    qn_broker_close(other);
    qn_broker_close(one);
}

static void last_one_to_close_ends_it(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct qn_broker *broker = lib_sqlite_open("memory:");
        assert_int_equal(count_tasks(broker), 0);
        put(broker, "a");
        qn_broker_close(broker);
    }
}

static void strange_names_are_refused(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "memory:a/b",
        "memory:a b",
        "memory:?sync=full",
        "memory:a%20b",
        "memory://",
        "memory://a",
        "memory:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    quern_error err = {0};
    for (size_t i = 0; i < TEST_COUNT(urls); i++) {
        assert_int_equal(lib_sqlite_refused(urls[i], true, &err), QUERN_E_INVALID);
        assert_non_null(strstr(err.text, "memory"));
    }
}

static void nothing_is_left_open(void **state)
{
    (void)state;
    int before = lib_sqlite_names_in("/proc/self/fd");
    struct qn_broker *one = lib_sqlite_open("memory:");
    struct qn_broker *other = lib_sqlite_open("memory:");
    lib_sqlite_arm(one);
    lib_sqlite_arm(other);
    put(one, "a"); /* wakes both */
    struct qn_wakeup wakeup = {0};
    quern_error err = {0};
    assert_ok(qn_broker_wait(other, 10000, &wakeup, &err), err);
    assert_true(wakeup.work);
    qn_broker_close(one);
    put(other, "b"); /* wakes no waiter that is gone */
    qn_broker_close(other);
    assert_int_equal(lib_sqlite_names_in("/proc/self/fd"), before);
}

static void it_can_be_backed_up_to_a_file(void **state)
{
    (void)state;
    struct lib_sqlite place;
    quern_error err = {0};
    lib_sqlite_make(&place);
    struct qn_broker *broker = lib_sqlite_open("memory:");
    put(broker, "a");
    assert_ok(qn_broker_backup(broker, place.path, &err), err);
    qn_broker_close(broker);
    broker = lib_sqlite_open(place.path);
    assert_int_equal(count_tasks(broker), 1);
    qn_broker_close(broker);
    lib_sqlite_remove(&place);
}

static void note_fact(const char *name, const char *text, void *user)
{
    if (strcmp(name, "durability") == 0) {
        *(bool *)user = strncmp(text, "D0", 2) == 0;
    }
}

static void count_finding(const quern_finding *finding, void *user)
{
    *(int *)user += finding->severity != QUERN_SEVERITY_NOTE ? 1 : 0;
}

static void doctor_and_facts_know_no_file(void **state)
{
    (void)state;
    bool is_said = false;
    int findings = 0;
    quern_error err = {0};
    struct qn_broker *broker = lib_sqlite_open("memory:");
    put(broker, "a");
    assert_ok(qn_broker_server_info(broker, note_fact, &is_said, &err), err);
    assert_true(is_said);
    assert_ok(qn_broker_doctor(broker, true, count_finding, &findings, &err), err);
    assert_int_equal(findings, 0);
    assert_false(qn_broker_is_gone(broker, &err));
    qn_broker_close(broker);
}

/* --- Threads ------------------------------------------------------------------------ */

#define THREADS 6
#define TASKS_EACH 40

struct crew_member {
    pthread_t thread;
    int number;
};

/* Opens, writes, reads and closes, all with an object of its own. */
static void *use_it(void *user)
{
    const struct crew_member *member = user;
    for (int i = 0; i < TASKS_EACH; i++) {
        char id[32];
        struct qn_broker *broker = lib_sqlite_open("memory:crew");
        (void)snprintf(id, sizeof id, "%d-%d", member->number, i);
        put(broker, id);
        assert_true(count_tasks(broker) > 0);
        qn_broker_close(broker);
    }
    return NULL;
}

static void threads_with_an_object_each_are_never_in_each_others_way(void **state)
{
    (void)state;
    struct crew_member members[THREADS];
    struct qn_broker *broker = lib_sqlite_open("memory:crew");
    for (int i = 0; i < THREADS; i++) {
        members[i].number = i;
        assert_int_equal(pthread_create(&members[i].thread, NULL, use_it, &members[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(members[i].thread, NULL), 0);
    }
    assert_int_equal(count_tasks(broker), THREADS * TASKS_EACH);
    qn_broker_close(broker);
}

struct counter {
    _Atomic int runs;
};

static quern_outcome count_run(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)task;
    ((struct counter *)user)->runs++;
    return QUERN_DONE;
}

/* Through the public functions, as the test of a program would. */
static void client_worker_and_inspector_meet(void **state)
{
    (void)state;
    static const quern_task tasks[] = {{.type = "t", .id = "a"}, {.type = "t", .id = "b"}};
    const quern_worker_options options = {.drain = 1, .concurrency = 2};
    struct counter counter = {.runs = 0};
    quern_client *client = NULL;
    quern_inspector *inspector = NULL;
    quern_mux *mux = NULL;
    quern_worker *worker = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_open("memory:", NULL, &inspector, &err), err);
    assert_ok(quern_client_open("memory:", NULL, &client, &err), err);
    for (size_t i = 0; i < TEST_COUNT(tasks); i++) {
        assert_ok(quern_client_enqueue(client, &tasks[i], NULL, &err), err);
    }
    quern_client_free(client);
    assert_ok(quern_mux_new(&mux, &err), err);
    assert_ok(quern_mux_handle(mux, "t", count_run, &counter, NULL, &err), err);
    assert_ok(quern_worker_new("memory:", mux, &options, &worker, &err), err);
    assert_ok(quern_worker_run(worker, &err), err);
    quern_worker_free(worker);
    quern_mux_free(mux);
    assert_int_equal(counter.runs, TEST_COUNT(tasks));
    quern_inspector_free(inspector);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(who_opens_the_same_name_meets),
    cmocka_unit_test(another_name_is_another_database),
    cmocka_unit_test(last_one_to_close_ends_it),
    cmocka_unit_test(strange_names_are_refused),
    cmocka_unit_test(nothing_is_left_open),
    cmocka_unit_test(it_can_be_backed_up_to_a_file),
    cmocka_unit_test(doctor_and_facts_know_no_file),
    cmocka_unit_test(threads_with_an_object_each_are_never_in_each_others_way),
    cmocka_unit_test(client_worker_and_inspector_meet),
};
TEST_MAIN(tests)
