/* SPDX-License-Identifier: MIT */
/* test_memory.c - handlers without memory: by their own limit of address space, or because the
 * kernel kills them for want of it. And core dumps. The zygote is a program without sanitizers. */
#include "lib_crash.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define MIB (INT64_C(1) << 20)
#define GROUP_MAX (400 * MIB)

static void wait_ended(struct crash *crash, size_t count)
{
    int64_t end_ms = test_now_ms() + TEST_PATIENCE_MS;
    quern_queue_info all;
    do {
        assert_true(test_now_ms() < end_ms);
        test_pause_ms(5);
        all = crash_queues(crash);
    } while (all.counts[QUERN_TASK_ARCHIVED] + all.counts[QUERN_TASK_COMPLETED] < count);
}

/* Whether the error of this task has these words. */
static bool tells(struct crash *crash, size_t number, const char *words)
{
    quern_task_info *info = NULL;
    quern_error err = {0};
    char id[16];
    (void)snprintf(id, sizeof id, "%zu", number);
    assert_ok(quern_inspector_task(crash->inspector, "0", id, &info, &err), err);
    bool found = strstr(quern_task_info_error(info), words) != NULL;
    if (!found) {
        print_message("no \"%s\" in: %s\n", words, quern_task_info_error(info));
    }
    quern_task_info_free(info);
    return found;
}

static struct crash *open_bare(const char *cgroup)
{
    return crash_open(
        &(struct crash_setup){.concurrency = 1, .queues = 1, .is_bare = true, .cgroup = cgroup});
}

static void a_run_without_memory_says_so_itself_or_is_a_crash(void **state)
{
    (void)state;
    const quern_task limited = {.memory_max = 256 * MIB, .retry_max = QUERN_RETRY_NEVER};
    struct crash *crash = open_bare(NULL);
    size_t refused = crash_put_limited(crash, "take", "512", &limited);
    size_t free_one = crash_put_limited(crash, "take", "512", &(quern_task){0});
    size_t small = crash_put_limited(crash, "take", "16", &limited);
    size_t dead = crash_put_limited(crash, "archive", "memory", &limited);
    wait_ended(crash, 4);
    assert_true(tells(crash, refused, "no 512 MiB of memory"));
    assert_true(tells(crash, free_one, ""));
    assert_true(tells(crash, dead, "killed by signal 11 (SIGSEGV); CPU "));
    assert_true(tells(crash, dead, "crash_by_memory"));
    assert_int_equal(crash_queues(crash).counts[QUERN_TASK_COMPLETED], 2); /* only its own limit */
    (void)small;
    crash_end(crash);
    crash_close(crash);
}

/* The group of this process in the memory controller of version 1; false: it has none. */
static bool find_group(char out[PATH_MAX])
{
    char text[4096] = "";
    int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    (void)close(fd);
    const char *found = size <= 0 ? NULL : strstr(text, ":memory:");
    if (found == NULL) {
        return false;
    }
    found += strlen(":memory:");
    (void)snprintf(out, PATH_MAX, "/sys/fs/cgroup/memory%.*s", (int)strcspn(found, "\n"), found);
    return access(out, W_OK) == 0;
}

static bool make_group(const char *parent, char out[PATH_MAX + 32])
{
    char path[PATH_MAX + 64];
    char limit[32];
    (void)snprintf(out, PATH_MAX + 32, "%s/quern-test-%d", parent, (int)getpid());
    if (mkdir(out, 0700) != 0) {
        return false;
    }
    (void)snprintf(path, sizeof path, "%s/memory.limit_in_bytes", out);
    int size = snprintf(limit, sizeof limit, "%lld", (long long)GROUP_MAX);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool set = fd >= 0 && write(fd, limit, (size_t)size) == size;
    (void)close(fd);
    return set;
}

/* Its last processes are on their way out. */
static bool remove_group(void *user)
{
    return rmdir(user) == 0 || errno == ENOENT;
}

static void a_kill_for_want_of_memory_is_told(void **state)
{
    (void)state;
    char parent[PATH_MAX];
    char group[PATH_MAX + 32];
    if (!find_group(parent) || !make_group(parent, group)) {
        TEST_SKIP("no memory cgroup (version 1) that this process may write to");
    }
    struct crash *crash = open_bare(group);
    size_t killed = crash_put_limited(crash, "archive", "touch", &(quern_task){0});
    size_t other = crash_put_limited(crash, "take", "16", &(quern_task){0});
    wait_ended(crash, 2);
    bool is_told =
        tells(crash, killed, "killed by signal 9 (SIGKILL), the system was out of memory");
    bool is_alive = tells(crash, other, "");
    crash_end(crash);
    crash_join(parent);
    assert_true(test_until(remove_group, group));
    crash_close(crash);
    assert_true(is_told && is_alive);
}

static void a_core_dump_is_told(void **state)
{
    (void)state;
    struct rlimit limit;
    char pattern[128] = "";
    int fd = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
    bool is_read = fd >= 0 && read(fd, pattern, sizeof pattern - 1) > 0;
    (void)close(fd);
    assert_int_equal(getrlimit(RLIMIT_CORE, &limit), 0);
    if (!is_read || pattern[0] == '|' || pattern[0] == '/' || limit.rlim_max < 64 * MIB) {
        TEST_SKIP("core_pattern is not a file beside the process, or RLIMIT_CORE forbids one");
    }
    struct crash *crash = open_bare(NULL);
    size_t dumped = crash_put_limited(crash, "archive", "core", &(quern_task){0});
    size_t silent = crash_put_limited(crash, "archive", "no-core", &(quern_task){0});
    wait_ended(crash, 2);
    assert_true(tells(crash, dumped, "killed by signal 6 (SIGABRT), core dumped; CPU "));
    assert_true(tells(crash, silent, "killed by signal 6 (SIGABRT); CPU "));
    crash_end(crash);
    crash_close(crash);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_run_without_memory_says_so_itself_or_is_a_crash),
    cmocka_unit_test_prestate(a_kill_for_want_of_memory_is_told, (void *)(uintptr_t) "sqlite"),
    cmocka_unit_test_prestate(a_core_dump_is_told, (void *)(uintptr_t) "sqlite"),
};

CRASH_MAIN("prefork_memory", tests)
