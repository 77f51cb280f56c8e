/* SPDX-License-Identifier: MIT */
/* test_zombie.c - processes that are frozen: a worker until its leases are over, while its children
 * go on or are frozen, too; a child alone. */
#include "lib_freeze.h"
#include "lib_worker.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define LEASE_TEXT "1000"                                      /* the shortest */
enum { SEEN_CANCELLED = 3, SEEN_STALE = 4, SEEN_REFUSED = 5 }; /* in the journal, after its END */

/* --- A worker ----------------------------------------------------------------------------- */

struct sleeper {
    const char *path; /* of the journal */
    int fd;
    char release[300]; /* once this file exists, late handlers end */
};

static bool is_repeated(const quern_run *run)
{
    quern_cause cause = quern_run_cause(run);
    return cause != QUERN_CAUSE_NONE && cause != QUERN_CAUSE_GIVEN_BACK;
}

/* The first run of a task waits for its cancellation; one of type "late" for the test, whatever
 * happens. The next one is done at once. */
static quern_outcome run_task(quern_run *run, const quern_task *task, void *user)
{
    const struct sleeper *sleeper = user;
    quern_error err = {0};
    uint64_t number = fault_number(task);
    bool is_late = strcmp(task->type, "late") == 0;
    fault_write(sleeper->fd, FAULT_START, run, number);
    if (is_repeated(run)) {
        TEST_REQUIRE(quern_run_write_result(run, "second", 6, &err) == QUERN_OK);
        fault_write(sleeper->fd, FAULT_END, run, number);
        return QUERN_DONE;
    }
    while (is_late ? access(sleeper->release, F_OK) != 0 : !quern_run_cancelled(run)) {
        test_pause_ms(1);
    }
    if (!is_late && strcmp(quern_run_cancel_reason(run), "lease lost") == 0) {
        fault_write(sleeper->fd, (enum fault_kind)SEEN_CANCELLED, run, number);
    }
    if (!is_late && quern_run_write_result(run, "first", 5, &err) == QUERN_E_STALE) {
        fault_write(sleeper->fd, (enum fault_kind)SEEN_STALE, run, number);
    }
    fault_write(sleeper->fd, FAULT_END, run, number);
    return QUERN_DONE;
}

static void open_journal(void *user)
{
    struct sleeper *sleeper = user;
    sleeper->fd = fault_journal_open(sleeper->path);
}

/* argv: URL, journal, "drain" or "stay", a file for its log. */
static int serve(int argc, char **argv)
{
    TEST_REQUIRE(argc == 4);
    struct sleeper sleeper = {.path = argv[1], .fd = -1};
    quern_worker_options worker = {.concurrency = 3,
                                   .lease_ms = strtol(LEASE_TEXT, NULL, 10),
                                   .drain = strcmp(argv[2], "drain") == 0,
                                   .pool = QUERN_POOL_PREFORK};
    quern_mux *mux = NULL;
    (void)snprintf(sleeper.release, sizeof sleeper.release, "%s.release", argv[1]);
    int log = open(argv[3], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    TEST_REQUIRE(log >= 0 && dup2(log, STDERR_FILENO) == STDERR_FILENO);
    TEST_REQUIRE(setenv("QUERN_TEST_LOG", "1", 1) == 0);
    TEST_REQUIRE(quern_mux_new(&mux, NULL) == QUERN_OK);
    TEST_REQUIRE(quern_mux_handle(mux, "held", run_task, &sleeper, NULL, NULL) == QUERN_OK);
    TEST_REQUIRE(quern_mux_handle(mux, "late", run_task, &sleeper, NULL, NULL) == QUERN_OK);
    const quern_zygote_options zygote = {.on_child_start = open_journal, .user = &sleeper};
    TEST_REQUIRE(quern_zygote_start(mux, &zygote, &worker.zygote, NULL) == QUERN_OK);
    int code = fault_serve(argv[0], mux, &worker);
    quern_zygote_free(worker.zygote);
    quern_mux_free(mux);
    return code;
}

struct scene {
    struct fault_site site;
    char log[300];
};

static struct test_child spawn(struct scene *scene, const char *mode, const char *log)
{
    (void)snprintf(scene->log, sizeof scene->log, "%s/%s", scene->site.store.dir, log);
    const char *args[] = {scene->site.url, scene->site.journal, mode, scene->log, NULL};
    return test_spawn("sleeper", args);
}

static pid_t child_of(const struct fault_site *site, uint64_t task)
{
    size_t count = 0;
    pid_t pid = 0;
    struct fault_record *records = fault_journal_read(site, &count);
    for (size_t i = 0; i < count && pid == 0; i++) {
        pid = records[i].task == task ? records[i].pid : 0;
    }
    free(records);
    assert_true(pid > 0);
    return pid;
}

static size_t records_of(const struct fault_site *site, uint64_t task, int kind)
{
    size_t count = 0;
    size_t found = 0;
    struct fault_record *records = fault_journal_read(site, &count);
    for (size_t i = 0; i < count; i++) {
        found += records[i].task == task && records[i].kind == kind ? 1 : 0;
    }
    free(records);
    return found;
}

static size_t lines_with(const char *path, const char *text)
{
    char line[1024];
    size_t count = 0;
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        count += strstr(line, text) != NULL ? 1 : 0;
    }
    (void)fclose(file);
    return count;
}

static void assert_result(const struct fault_site *site, const char *id, const char *text)
{
    quern_inspector *inspector = NULL;
    quern_task_info *info = NULL;
    quern_error err = {0};
    size_t size = 0;
    assert_ok(quern_inspector_open(site->url, NULL, &inspector, &err), err);
    assert_ok(quern_inspector_task(inspector, NULL, id, &info, &err), err);
    const char *result = quern_task_info_result(info, &size);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(result, text, size);
    quern_task_info_free(info);
    quern_inspector_free(inspector);
}

/* Task 0 is held in a child, 1 ends in its child while the worker sleeps, 2 sleeps with it. */
static void a_frozen_worker_and_its_children_change_nothing(void **state)
{
    (void)state;
    struct scene scene;
    struct scene other_scene;
    struct fault_site *site = &scene.site;
    fault_site_open(site);
    fault_enqueue(site, "held", 1);
    fault_enqueue(site, "late", 1);
    fault_enqueue(site, "held", 1);
    struct test_child zombie = spawn(&scene, "stay", "zombie.log");
    fault_wait_records(site, 3);
    pid_t sleeping = child_of(site, 2);
    freeze_worker(site, zombie.pid);
    freeze_process(sleeping);
    other_scene = scene;
    struct test_child other = spawn(&other_scene, "drain", "other.log");
    fault_release(site, true);
    fault_wait_records(site, 4); /* the end of the late one, or a start of the other worker */
    assert_int_equal(test_child_join(&other), 0);
    fault_assert_end(site, 3, 0);
    fault_wait_records(site, 3 + 1 + 6);
    assert_int_equal(kill(zombie.pid, SIGCONT), 0);
    assert_int_equal(kill(sleeping, SIGCONT), 0);
    fault_wait_records(site, 3 + 1 + 6 + 2 * 3); /* both held ones: cancelled, stale, end */
    test_child_send(&zombie, 'q');
    assert_int_equal(test_child_join(&zombie), 0);
    fault_assert_end(site, 3, 0);
    for (uint64_t task = 0; task < 3; task++) {
        size_t is_held = task == 1 ? 0 : 1;
        assert_int_equal(records_of(site, task, FAULT_START), 2);
        assert_int_equal(records_of(site, task, FAULT_END), 2);
        assert_int_equal(records_of(site, task, SEEN_CANCELLED), is_held);
        assert_int_equal(records_of(site, task, SEEN_STALE), is_held);
        assert_result(site, (const char[]){(char)('0' + task), '\0'}, "second");
    }
    /* A result that has waited for it may be read before it asks for its leases. */
    assert_true(lines_with(scene.log, "msg=\"lease lost\"") >= 2);
    assert_int_equal(lines_with(scene.log, "msg=\"outcome refused, the lease was lost\""), 3);
    assert_int_equal(lines_with(other_scene.log, "lease"), 3); /* why it has recovered them */
    fault_site_close(site);
}

/* --- A child ------------------------------------------------------------------------------ */

/* Has x run in a child and something else done by another one; freezes both. */
static void freeze_both(struct rig *rig)
{
    rig_wait_starts(rig, 1);
    rig_put(rig, "before", "done");
    rig_wait_reports(rig, 1);
    freeze_process(rig_start_at(rig, 0).pid);
    freeze_process(rig_start_at(rig, 1).pid);
}

static void assert_charged(struct rig *rig, const char *id, const char *error, int64_t retry_count)
{
    quern_task_info *info = rig_inspect(rig, id);
    assert_string_equal(quern_task_info_error(info), error);
    assert_int_equal(quern_task_info_retry_count(info), retry_count);
    assert_int_equal(quern_task_info_crash_count(info), 0);
    quern_task_info_free(info);
}

/* x has begun in its child, y comes to one that is frozen already. */
static void a_frozen_child_is_killed_at_the_end_of_its_time(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(NULL);
    struct rig_worker worker;
    rig_put_task(rig, &(quern_task){.id = "x",
                                    .payload = "hold",
                                    .payload_size = 4,
                                    .timeout_ms = 1500, /* longer than its lease */
                                    .kill_after_ms = 50,
                                    .retry = QUERN_BACKOFF_FIXED(3600000)});
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 2, .lease_ms = 1000});
    freeze_both(rig);
    rig_put_task(rig, &(quern_task){.id = "y",
                                    .payload = "archive",
                                    .payload_size = 7,
                                    .timeout_ms = 300,
                                    .kill_after_ms = 50,
                                    .retry = QUERN_BACKOFF_FIXED(10)});
    rig_put(rig, "behind", "done");
    rig_wait_state(rig, "x", QUERN_TASK_RETRY);
    rig_wait_state(rig, "y", QUERN_TASK_ARCHIVED);
    rig_wait_state(rig, "behind", 0);
    assert_charged(rig, "x", "timeout of 1.5s", 1);
    assert_charged(rig, "y", "no use", 0);
    assert_int_equal(rig_stats(&worker).lost_leases, 0); /* they were extended all the time */
    rig_stop(&worker);
    assert_int_equal(rig->start_count, 4);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_frozen_worker_and_its_children_change_nothing),
    cmocka_unit_test(a_frozen_child_is_killed_at_the_end_of_its_time),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = {{.name = "sleeper", .main = serve}};
    const struct test_group group = {"zombie", tests, TEST_COUNT(tests), roles, TEST_COUNT(roles)};
    return test_main_over_brokers(argc, argv, &group);
}
