/* SPDX-License-Identifier: MIT */
/* test_kill.c - a worker with children is killed by SIGKILL: nothing that it started is left,
 * whatever its handlers do, and a worker that is started at once soon runs its tasks again. */
#include "lib_fault.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"

#define TYPES 3
#define PROCESSES 9 /* worker, zygote, three children with a guard each, and a child's child */
#define AGAIN_MAX_MS 3000
#define GONE_MAX_MS 3000

/* --- The worker --------------------------------------------------------------------------- */

struct role {
    const char *journal_path;
    int journal;
    _Atomic int *waiting; /* shared by all processes of this worker: those that hold on */
};

static void ignore_signals(void)
{
    sigset_t all;
    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    for (int number = 1; number < NSIG; number++) {
        (void)signal(number, SIG_IGN);
    }
}

/* The first run of each task lasts until it is killed; the next ends at once. */
static quern_outcome run_until_killed(quern_run *run, const quern_task *task, void *user)
{
    struct role *role = user;
    uint64_t number = fault_number(task);
    quern_cause cause = quern_run_cause(run);
    if (cause != QUERN_CAUSE_NONE && cause != QUERN_CAUSE_GIVEN_BACK) {
        fault_write(role->journal, FAULT_START, run, number);
        fault_write(role->journal, FAULT_END, run, number);
        return QUERN_DONE;
    }
    fault_write(role->journal, FAULT_START, run, number);
    if (strcmp(task->type, "deaf") == 0) {
        ignore_signals();
        (void)fork();
    }
    *role->waiting += 1;
    if (strcmp(task->type, "stopped") == 0) {
        (void)raise(SIGSTOP);
    }
    while (*role->waiting >= 0) {
    }
    return QUERN_DONE;
}

static void open_in_child(void *user)
{
    struct role *role = user;
    role->journal = fault_journal_open(role->journal_path);
}

static void mark_path(const char *journal, int pid, char out[300])
{
    (void)snprintf(out, 300, "%s.%d.", journal, pid);
}

/* All processes of this worker have its file mapped; that is how the test knows them. */
static _Atomic int *map_mark(const char *path, int flags)
{
    int fd = open(path, flags | O_RDWR | O_CLOEXEC, 0600);
    TEST_REQUIRE(fd >= 0 && ftruncate(fd, sizeof(int)) == 0);
    void *map = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    TEST_REQUIRE(map != MAP_FAILED);
    (void)close(fd);
    return map;
}

static int serve(int argc, char **argv)
{
    static const char *const types[TYPES] = {"deaf", "stopped", "loop"};
    TEST_REQUIRE(argc == 2);
    char path[300];
    mark_path(argv[1], getpid(), path);
    struct role role = {.journal_path = argv[1], .waiting = map_mark(path, O_CREAT)};
    const quern_zygote_options own = {.on_child_start = open_in_child, .user = &role};
    quern_mux *mux = NULL;
    quern_zygote *zygote = NULL;
    fault_write_for(getpid());
    TEST_REQUIRE(quern_mux_new(&mux, NULL) == QUERN_OK);
    for (size_t i = 0; i < TYPES; i++) {
        TEST_REQUIRE(quern_mux_handle(mux, types[i], run_until_killed, &role, NULL, NULL) ==
                     QUERN_OK);
    }
    TEST_REQUIRE(quern_zygote_start(mux, &own, &zygote, NULL) == QUERN_OK);
    const quern_worker_options options = {
        .concurrency = TYPES, .pool = QUERN_POOL_PREFORK, .zygote = zygote};
    int code = fault_serve(argv[0], mux, &options);
    quern_zygote_free(zygote);
    quern_mux_free(mux);
    return code;
}

/* --- Its processes ------------------------------------------------------------------------ */

static bool has_mapped(const char *pid, const char *mark)
{
    char path[64];
    char line[1024];
    bool found = false;
    (void)snprintf(path, sizeof path, "/proc/%.16s/maps", pid);
    FILE *maps = fopen(path, "re");
    while (maps != NULL && !found && fgets(line, sizeof line, maps) != NULL) {
        found = strstr(line, mark) != NULL;
    }
    if (maps != NULL) {
        (void)fclose(maps);
    }
    return found;
}

static size_t count_processes(const char *mark)
{
    size_t count = 0;
    DIR *dir = opendir("/proc");
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (isdigit((unsigned char)entry->d_name[0]) != 0) {
            count += has_mapped(entry->d_name, mark) ? 1 : 0;
        }
    }
    assert_int_equal(closedir(dir), 0);
    return count;
}

struct victim {
    struct fault_site *site;
    struct test_child child;
    char mark[300];
};

static bool is_all_there(void *user)
{
    const struct victim *victim = user;
    if (access(victim->mark, F_OK) != 0) {
        return false;
    }
    _Atomic int *waiting = map_mark(victim->mark, 0);
    bool all = *waiting == TYPES + 1; /* with the child's child */
    (void)munmap((void *)(uintptr_t)waiting, sizeof(int));
    return all && count_processes(victim->mark) == PROCESSES;
}

static bool is_gone(void *user)
{
    const struct victim *victim = user;
    return count_processes(victim->mark) == 0;
}

/* --- Tests -------------------------------------------------------------------------------- */

static struct test_child spawn(const struct fault_site *site)
{
    const char *args[] = {site->url, site->journal, NULL};
    return test_spawn("serve", args);
}

/* When the last of the records `first` and later was written. */
static int64_t last_record_ns(const struct fault_site *site, size_t first)
{
    size_t count = 0;
    int64_t last_ns = 0;
    struct fault_record *records = fault_journal_read(site, &count);
    for (size_t i = first; i < count; i++) {
        bool starts = records[i].kind == FAULT_START;
        last_ns = starts && records[i].at_ns > last_ns ? records[i].at_ns : last_ns;
    }
    free(records);
    return last_ns;
}

struct times {
    int64_t gone_ms;
    int64_t again_ms;
};

static struct times kill_one(struct fault_site *site)
{
    struct victim victim = {.site = site, .child = spawn(site)};
    mark_path(site->journal, victim.child.pid, victim.mark);
    fault_enqueue(site, "deaf", 1);
    fault_enqueue(site, "stopped", 1);
    fault_enqueue(site, "loop", 1);
    assert_true(test_until(is_all_there, &victim));
    size_t first = fault_journal_size(site);
    int64_t begin_ns = qn_clock_mono_ns();
    fault_kill(site, &victim.child);
    struct test_child next = spawn(site);
    assert_true(test_until(is_gone, &victim));
    int64_t gone_ns = qn_clock_mono_ns();
    fault_wait_records(site, first + TYPES + TYPES);
    struct times times = {.gone_ms = (gone_ns - begin_ns) / 1000000,
                          .again_ms = (last_record_ns(site, first) - begin_ns) / 1000000};
    test_child_send(&next, 'q');
    assert_int_equal(test_child_join(&next), 0);
    mark_path(site->journal, next.pid, victim.mark);
    assert_true(test_until(is_gone, &victim));
    return times;
}

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

static void what_a_killed_worker_ran_is_gone_and_runs_again(void **state)
{
    (void)state;
    int64_t gone_ms[30];
    int64_t again_ms[30];
    size_t rounds = test_full() ? TEST_COUNT(again_ms) : 3;
    struct fault_site site;
    fault_site_open(&site);
    for (size_t i = 0; i < rounds; i++) {
        struct times times = kill_one(&site);
        gone_ms[i] = times.gone_ms;
        again_ms[i] = times.again_ms;
    }
    assert_int_equal(fault_journal_judge(&site, SIZE_MAX), rounds * TYPES);
    fault_assert_end(&site, site.task_count, 0);
    fault_site_close(&site);
    qsort(gone_ms, rounds, sizeof *gone_ms, compare);
    qsort(again_ms, rounds, sizeof *again_ms, compare);
    print_message("gone: p50 %lld ms, max %lld; again: p50 %lld ms, max %lld\n",
                  (long long)gone_ms[rounds / 2], (long long)gone_ms[rounds - 1],
                  (long long)again_ms[rounds / 2], (long long)again_ms[rounds - 1]);
    assert_in_range(gone_ms[rounds - 1], 0, GONE_MAX_MS);
    assert_in_range(again_ms[rounds - 1], 0, AGAIN_MAX_MS);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_a_killed_worker_ran_is_gone_and_runs_again),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = {{.name = "serve", .main = serve}};
    const struct test_group group = {"prefork_kill", tests, TEST_COUNT(tests), roles,
                                     TEST_COUNT(roles)};
    return test_main_over_brokers(argc, argv, &group);
}
