/* SPDX-License-Identifier: MIT */
/* test_strays.c - handlers that start processes and leave them behind, or take their own process
 * apart: no other run is hurt, the worker waits for none of them, and nothing is left at its
 * end. */
#include "lib_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { STRAYS_MAX = 16, STRAY_S = 100 };

/* Shared with all processes. */
struct strays {
    _Atomic size_t count;
    pid_t pids[STRAYS_MAX];
};

static struct strays *strays;

_Noreturn static void stray(void)
{
    size_t at = atomic_fetch_add(&strays->count, 1);
    if (at < STRAYS_MAX) {
        strays->pids[at] = getpid();
    }
    (void)alarm(STRAY_S); /* a test that failed must not wait for it */
    for (;;) {
        (void)pause();
    }
}

/* It has all descriptors of its parent. */
static quern_outcome leave_process(void)
{
    size_t before = atomic_load(&strays->count);
    if (fork() == 0) {
        stray();
    }
    while (atomic_load(&strays->count) == before) {
        test_pause_ms(1);
    }
    return QUERN_DONE;
}

/* The same in a session of its own, its parent gone. */
static quern_outcome leave_daemon(void)
{
    size_t before = atomic_load(&strays->count);
    pid_t first = fork();
    if (first == 0) {
        if (setsid() < 0 || fork() != 0) {
            _exit(0);
        }
        (void)signal(SIGTERM, SIG_IGN);
        (void)signal(SIGHUP, SIG_IGN);
        stray();
    }
    while (atomic_load(&strays->count) == before) {
        test_pause_ms(1);
    }
    return waitpid(first, NULL, 0) == first ? QUERN_DONE : QUERN_DROP;
}

static quern_outcome leave_process_and_die(void)
{
    (void)leave_process();
    _exit(3);
}

static quern_outcome leave_daemon_and_die(void)
{
    (void)leave_daemon();
    _exit(4);
}

static quern_outcome close_all(void)
{
    (void)close_range(0, ~0U, 0);
    return QUERN_DONE;
}

static quern_outcome cover_all(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int other = 0; other < 64; other++) {
        (void)dup2(fd, other);
    }
    return QUERN_DONE;
}

static quern_outcome exit_well(void)
{
    exit(0);
}

static void abort_at_exit(void)
{
    abort();
}

static quern_outcome exit_badly(void)
{
    (void)atexit(abort_at_exit);
    exit(0);
}

static quern_outcome kill_group(void)
{
    (void)kill(0, SIGTERM);
    return QUERN_DONE;
}

/* All that a process can do to itself, and the next run finds. */
static quern_outcome spoil(void)
{
    sigset_t all;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)signal(SIGCHLD, SIG_IGN);
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)umask(0777);
    return chdir("/proc") == 0 ? QUERN_DONE : QUERN_DROP;
}

static quern_outcome wait_for_any(void)
{
    return waitpid(-1, NULL, 0) == -1 && errno == ECHILD ? QUERN_DONE : QUERN_DROP;
}

static const struct deed {
    const char *type;
    quern_outcome (*act)(void);
    const char *words; /* in the error of its crash; NULL: it is done */
} deeds[] = {
    {"process", leave_process, NULL},
    {"daemon", leave_daemon, NULL},
    {"process-die", leave_process_and_die, "exit status 3"},
    {"daemon-die", leave_daemon_and_die, "exit status 4"},
    {"close", close_all, ""}, /* without its socket: how it ends is a race */
    {"cover", cover_all, ""},
    {"exit", exit_well, "exit status 0"},
    {"atexit", exit_badly, "signal 6"},
    {"group", kill_group, "signal 15"},
    {"spoil", spoil, NULL},
    {"wait", wait_for_any, NULL},
};

static quern_outcome act(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)user;
    for (size_t i = 0; i < TEST_COUNT(deeds); i++) {
        if (strcmp(deeds[i].type, task->type) == 0) {
            return deeds[i].act();
        }
    }
    return QUERN_DROP;
}

static void prepare(struct rig *rig)
{
    quern_error err = {0};
    const quern_handler_options options = {.on_crash = QUERN_ON_CRASH_ARCHIVE};
    strays = mmap(NULL, sizeof *strays, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(strays != MAP_FAILED);
    for (size_t i = 0; i < TEST_COUNT(deeds); i++) {
        assert_ok(quern_mux_handle(rig->mux, deeds[i].type, act, rig, &options, &err), err);
    }
}

static bool is_gone(void *user)
{
    char path[64];
    char text[256] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)*(const pid_t *)user);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return true;
    }
    ssize_t size = read(fd, text, sizeof text - 1);
    (void)close(fd);
    const char *behind_name = strrchr(text, ')');
    return size <= 0 || behind_name == NULL || behind_name[2] == 'Z';
}

static void finish(struct rig *rig)
{
    size_t count = atomic_load(&strays->count);
    assert_in_range(count, 0, STRAYS_MAX);
    for (size_t i = 0; i < count; i++) {
        assert_true(test_until(is_gone, &strays->pids[i]));
    }
    (void)munmap(strays, sizeof *strays);
    rig_free(rig);
}

static void put_deed(struct rig *rig, const char *type)
{
    rig_put_task(rig, &(quern_task){.id = type, .type = type, .retention_ms = 60000});
}

static void assert_deed(struct rig *rig, const struct deed *deed)
{
    rig_wait_state(rig, deed->type,
                   deed->words != NULL ? QUERN_TASK_ARCHIVED : QUERN_TASK_COMPLETED);
    quern_task_info *info = rig_inspect(rig, deed->type);
    if (deed->words != NULL && strstr(quern_task_info_error(info), deed->words) == NULL) {
        fail_msg("%s: %s", deed->type, quern_task_info_error(info));
    }
    quern_task_info_free(info);
}

static void no_deed_of_a_handler_hurts_another(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(prepare);
    struct rig_worker worker;
    rig_put(rig, "beside", "hold");
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 3});
    rig_wait_starts(rig, 1);
    size_t crashes = 0;
    for (size_t i = 0; i < TEST_COUNT(deeds); i++) {
        put_deed(rig, deeds[i].type);
        crashes += deeds[i].words != NULL ? 1 : 0;
    }
    for (size_t i = 0; i < TEST_COUNT(deeds); i++) {
        assert_deed(rig, &deeds[i]);
    }
    rig_put_many(rig, "default", "m", 50);
    rig_wait_starts(rig, 1 + 50);
    rig_open_gate(rig);
    rig_wait_state(rig, "beside", 0);
    rig_wait_reports(rig, 1 + 50 + TEST_COUNT(deeds));
    assert_int_equal(rig_stats(&worker).archived, crashes);
    assert_int_equal(rig_stats(&worker).done, 1 + 50 + TEST_COUNT(deeds) - crashes);
    rig_stop(&worker);
    finish(rig);
}

/* The process and the daemon have copies of the socket and of the stderr. */
static void a_child_that_dies_takes_what_it_left_along(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(prepare);
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1});
    put_deed(rig, "process");
    put_deed(rig, "daemon");
    rig_wait_state(rig, "process", QUERN_TASK_COMPLETED);
    rig_wait_state(rig, "daemon", QUERN_TASK_COMPLETED);
    assert_int_equal(atomic_load(&strays->count), 2);
    assert_false(is_gone(&strays->pids[0]));
    assert_false(is_gone(&strays->pids[1]));
    put_deed(rig, "exit");
    rig_wait_state(rig, "exit", QUERN_TASK_ARCHIVED);
    assert_true(test_until(is_gone, &strays->pids[0]));
    assert_true(test_until(is_gone, &strays->pids[1]));
    rig_put(rig, "after", "done");
    rig_wait_state(rig, "after", 0);
    rig_stop(&worker);
    finish(rig);
}

static void a_child_that_blocks_all_signals_is_killed_in_time(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(prepare);
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1});
    put_deed(rig, "spoil");
    rig_wait_state(rig, "spoil", QUERN_TASK_COMPLETED);
    rig_put_task(rig, &(quern_task){.id = "x",
                                    .payload = "spin",
                                    .payload_size = 4,
                                    .timeout_ms = 300,
                                    .kill_after_ms = 50,
                                    .retry = QUERN_BACKOFF_FIXED(3600000)});
    rig_wait_state(rig, "x", QUERN_TASK_RETRY);
    rig_put(rig, "after", "result");
    rig_wait_state(rig, "after", 0);
    assert_true(rig_start_at(rig, 0).pid != rig_start_at(rig, 1).pid);
    assert_int_equal(rig_stats(&worker).crashed, 0);
    rig_stop(&worker);
    finish(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_deed_of_a_handler_hurts_another),
    cmocka_unit_test(a_child_that_dies_takes_what_it_left_along),
    cmocka_unit_test(a_child_that_blocks_all_signals_is_killed_in_time),
};
TEST_MAIN_OVER_BROKERS(tests)
