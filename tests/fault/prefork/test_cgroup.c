/* SPDX-License-Identifier: MIT */
/* test_cgroup.c - children and commands in a cgroup of their own; what is refused, and what is
 * named because this machine cannot limit it. */
#include "lib_worker.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pool/prefork/inside/oom.h"

static char cgroup[160]; /* of the running test; its last part is its name */

static const char *name_of(const char *path)
{
    return strrchr(path, '/') + 1;
}

/* In version 2, wherever that is mounted. False: this process may make none. */
static bool make_group(void)
{
    static const char *const roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    for (size_t i = 0; i < TEST_COUNT(roots); i++) {
        (void)snprintf(cgroup, sizeof cgroup, "%s/cgroup.procs", roots[i]);
        if (access(cgroup, W_OK) == 0) {
            (void)snprintf(cgroup, sizeof cgroup, "%s/quern-test-%d", roots[i], (int)getpid());
            return mkdir(cgroup, 0700) == 0;
        }
    }
    return false;
}

static bool remove_group(void *user)
{
    (void)user;
    return rmdir(cgroup) == 0; /* its last processes may be on their way out */
}

static bool limits(const char *file)
{
    char path[200];
    (void)snprintf(path, sizeof path, "%s/%s", cgroup, file);
    return access(path, F_OK) == 0;
}

/* Says in which cgroup of version 2 it runs. */
static quern_outcome tell(quern_run *run, const quern_task *task, void *user)
{
    char text[2048] = "";
    int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
    (void)task;
    (void)user;
    (void)!read(fd, text, sizeof text - 1);
    (void)close(fd);
    return quern_run_fail(run, QUERN_ARCHIVE, "%s", text);
}

static void prepare(struct rig *rig)
{
    quern_error error = {0};
    assert_ok(quern_mux_handle(rig->mux, "tell", tell, rig, NULL, &error), error);
    assert_ok(
        quern_mux_exec(rig->mux, "command", "cat /proc/self/cgroup >&2; exit 65", NULL, &error),
        error);
}

static void assert_tells(struct rig *rig, const char *id, const char *words)
{
    rig_wait_state(rig, id, QUERN_TASK_ARCHIVED);
    quern_task_info *info = rig_inspect(rig, id);
    if (strstr(quern_task_info_error(info), words) == NULL) {
        fail_msg("no %s in %s", words, quern_task_info_error(info));
    }
    quern_task_info_free(info);
}

static void children_and_commands_join_it_and_the_worker_does_not(void **state)
{
    (void)state;
    if (!make_group()) {
        TEST_SKIP("no cgroup of version 2 that this process may write to");
    }
    struct rig *rig = rig_new_prefork(prepare);
    struct rig_worker worker;
    char own[2048] = "";
    rig_put_task(rig, &(quern_task){.id = "child", .type = "tell"});
    rig_put_task(rig, &(quern_task){.id = "command", .type = "command"});
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 2, .child_cgroup = cgroup});
    assert_tells(rig, "child", name_of(cgroup));
    assert_tells(rig, "command", name_of(cgroup));
    int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
    assert_true(read(fd, own, sizeof own - 1) > 0);
    (void)close(fd);
    assert_null(strstr(own, name_of(cgroup)));
    bool has_all = limits("memory.max") && limits("cpu.max") && limits("pids.max");
    assert_int_equal(rig_logged(rig, "the cgroup of children limits no such resource"), !has_all);
    assert_int_equal(rig_logged(rig, "missing=memory"), !limits("memory.max"));
    rig_stop(&worker);
    rig_free(rig);
    assert_true(test_until(remove_group, NULL));
}

static void what_is_no_cgroup_is_refused_by_name(void **state)
{
    (void)state;
    char dir[TEST_DIR_SIZE];
    quern_mux *mux = NULL;
    quern_zygote *zygote = NULL;
    quern_worker *worker = NULL;
    quern_error error = {0};
    static const char *const paths[][2] = {
        {NULL, "it is no directory of cgroup version 2"},
        {"/nowhere/at/all", "cgroup /nowhere/at/all: No such file or directory"},
        {"/sys/fs/cgroup/memory", "it is of cgroup version 1; version 2 is needed"}};
    test_dir_make(dir);
    assert_ok(quern_mux_new(&mux, &error), error);
    const quern_worker_options bare = {.child_cgroup = dir};
    assert_int_equal(quern_worker_new("memory:", mux, &bare, &worker, &error), QUERN_E_INVALID);
    assert_non_null(strstr(error.text, "a cgroup of children needs a zygote"));
    assert_ok(quern_zygote_start(mux, NULL, &zygote, &error), error);
    for (size_t i = 0; i < TEST_COUNT(paths); i++) {
        const char *path = paths[i][0] != NULL ? paths[i][0] : dir;
        const quern_worker_options options = {.child_cgroup = path, .zygote = zygote};
        if (i == 2 && access("/sys/fs/cgroup/memory/cgroup.procs", F_OK) != 0) {
            continue; /* this machine has no version 1 */
        }
        assert_int_equal(quern_worker_new("memory:", mux, &options, &worker, &error),
                         QUERN_E_INVALID);
        assert_non_null(strstr(error.text, paths[i][1]));
    }
    quern_zygote_free(zygote);
    quern_mux_free(mux);
    test_dir_remove(dir);
}

static void its_kills_for_want_of_memory_are_counted(void **state)
{
    (void)state;
    static const char events[] = "low 0\nhigh 7\nmax 9\noom 4\noom_kill 3\noom_group_kill 1\n";
    char dir[TEST_DIR_SIZE];
    test_dir_make(dir);
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = openat(dir_fd, "memory.events", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, events, sizeof events - 1), sizeof events - 1);
    (void)close(fd);
    assert_int_equal(qn_oom_count(dir_fd), 3);
    (void)close(dir_fd);
    test_dir_remove(dir);
}

static const struct CMUnitTest tests[] = {
    /* First, since it forks a zygote; TSan has a thread of its own later. */
    cmocka_unit_test_prestate(what_is_no_cgroup_is_refused_by_name, (void *)(uintptr_t) "sqlite"),
    cmocka_unit_test(children_and_commands_join_it_and_the_worker_does_not),
    cmocka_unit_test_prestate(its_kills_for_want_of_memory_are_counted,
                              (void *)(uintptr_t) "sqlite"),
};
TEST_MAIN_OVER_BROKERS(tests)
