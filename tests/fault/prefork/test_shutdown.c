/* SPDX-License-Identifier: MIT */
/* test_shutdown.c - the stages of a shutdown with handlers in children: what listens ends when it
 * is cancelled, what ignores everything is killed, all of it goes back uncharged, and no process
 * is left. */
#include "lib_worker.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void note(struct rig *rig)
{
    pthread_mutex_lock(&rig->mutex);
    rig->written_count++;
    pthread_cond_broadcast(&rig->change);
    pthread_mutex_unlock(&rig->mutex);
}

static void ignore_signals(void)
{
    sigset_t all;
    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    for (int number = 1; number < NSIG; number++) {
        (void)signal(number, SIG_IGN);
    }
}

/* "deaf", with a process of its own that is deaf, too; "stopped" */
static quern_outcome run_deaf(quern_run *run, const quern_task *task, void *user)
{
    if (strcmp(task->type, "deaf") == 0) {
        ignore_signals();
        (void)fork();
    }
    note(user);
    if (strcmp(task->type, "stopped") == 0) {
        (void)raise(SIGSTOP);
    }
    while (quern_run_task_id(run) != NULL) { /* whatever happens */
        test_pause_ms(1);
    }
    return QUERN_DONE;
}

static void prepare(struct rig *rig)
{
    quern_error error = {0};
    assert_ok(quern_mux_handle(rig->mux, "deaf", run_deaf, rig, NULL, &error), error);
    assert_ok(quern_mux_handle(rig->mux, "stopped", run_deaf, rig, NULL, &error), error);
}

/* --- Processes ---------------------------------------------------------------------------- */

/* The inode of the memory at this address; or, with a NULL address, whether the process has this
 * inode mapped. */
static bool find_inode(const char *pid, uintptr_t address, unsigned long *inode)
{
    char path[64];
    char line[512];
    bool found = false;
    (void)snprintf(path, sizeof path, "/proc/%.16s/maps", pid);
    FILE *maps = fopen(path, "re");
    while (maps != NULL && !found && fgets(line, sizeof line, maps) != NULL) {
        char *at = line;
        unsigned long begin = strtoul(at, &at, 16);
        unsigned long end = strtoul(at + 1, &at, 16);
        if (strstr(line, "/dev/zero") == NULL || (at = strchr(line, ':')) == NULL) {
            continue;
        }
        (void)strtoul(at + 1, &at, 16);
        unsigned long mapped = strtoul(at, NULL, 10);
        found = address != 0 ? address >= begin && address < end : mapped == *inode;
        *inode = found ? mapped : *inode;
    }
    if (maps != NULL) {
        (void)fclose(maps);
    }
    return found;
}

/* All forks of this program since it made the rig, its zygote and guards among them. */
static size_t count_processes(const struct rig *rig)
{
    unsigned long inode = 0;
    size_t count = 0;
    assert_true(find_inode("self", (uintptr_t)rig, &inode));
    DIR *dir = opendir("/proc");
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (isdigit((unsigned char)entry->d_name[0]) != 0) {
            count += find_inode(entry->d_name, 0, &inode) ? 1 : 0;
        }
    }
    assert_int_equal(closedir(dir), 0);
    return count;
}

static bool is_alone(void *rig)
{
    return count_processes(rig) == 1;
}

/* --- Shutdown ----------------------------------------------------------------------------- */

/* One run listens to its cancellation, two do not. */
static struct rig *begin(struct rig_worker *worker, int64_t shutdown_ms, int64_t soft_ms)
{
    struct rig *rig = rig_new_prefork(prepare);
    rig_put(rig, "listens", "wait");
    rig_put_task(rig, &(quern_task){.id = "deaf", .type = "deaf"});
    rig_put_task(rig, &(quern_task){.id = "stopped", .type = "stopped"});
    rig_start(rig, worker,
              &(quern_worker_options){.concurrency = 3,
                                      .shutdown_timeout_ms = shutdown_ms,
                                      .soft_shutdown_timeout_ms = soft_ms});
    rig_wait_starts(rig, 1);
    rig_wait_written(rig, 3); /* with the process that the deaf one has started */
    /* Three children with a guard each, the zygote, the other deaf one, and we. */
    assert_int_equal(count_processes(rig), 9);
    return rig;
}

static void expect_given_back(struct rig *rig, const char *id)
{
    rig_wait_state(rig, id, QUERN_TASK_PENDING);
    quern_task_info *info = rig_inspect(rig, id);
    assert_int_equal(quern_task_info_retry_count(info), 0);
    assert_int_equal(quern_task_info_crash_count(info), 0);
    assert_int_equal(quern_task_info_cause(info), QUERN_CAUSE_GIVEN_BACK);
    quern_task_info_free(info);
}

static void expect_the_end(struct rig *rig)
{
    expect_given_back(rig, "listens");
    expect_given_back(rig, "deaf");
    expect_given_back(rig, "stopped");
    assert_string_equal(rig_start_at(rig, 0).reason, "shutdown");
    assert_int_equal(rig->start_count, 1);
    assert_true(test_until(is_alone, rig));
    rig_free(rig);
}

static void each_stop_ends_one_stage(void **state)
{
    (void)state;
    struct rig_worker worker;
    struct rig *rig = begin(&worker, -1, -1);
    quern_worker_stop(worker.worker);
    assert_true(test_until(rig_is_draining, worker.worker));
    assert_int_equal(rig_state(rig, "listens"), QUERN_TASK_ACTIVE);
    quern_worker_stop(worker.worker);
    expect_given_back(rig, "listens");
    assert_int_equal(rig_state(rig, "deaf"), QUERN_TASK_ACTIVE);
    assert_int_equal(rig_state(rig, "stopped"), QUERN_TASK_ACTIVE);
    assert_int_equal(rig_stats(&worker).running, 2);
    quern_worker_stop(worker.worker);
    quern_status status = rig_join(&worker);
    assert_ok(status, worker.error);
    expect_the_end(rig);
}

static void each_stage_ends_with_its_time(void **state)
{
    (void)state;
    struct rig_worker worker;
    struct rig *rig = begin(&worker, 50, 50);
    rig_stop(&worker);
    expect_the_end(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_stop_ends_one_stage),
    cmocka_unit_test(each_stage_ends_with_its_time),
};
TEST_MAIN_OVER_BROKERS(tests)
