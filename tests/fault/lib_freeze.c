/* SPDX-License-Identifier: MIT */
/* lib_freeze.c - see lib_freeze.h. */
#include "lib_freeze.h"

#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

static bool is_frozen(void *user)
{
    char path[64];
    char line[256] = {0};
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)*(const pid_t *)user);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    char state = '?';
    if (fgets(line, sizeof line, file) != NULL) {
        (void)sscanf(line, "%*d (%*[^)]) %c", &state);
    }
    (void)fclose(file);
    return state == 'T';
}

/* A process of its own continues it when the test ends, however it does: a zygote that stays frozen
 * would keep what it has inherited, such as the pipe in which ctest reads. */
static void continue_at_our_end(pid_t pid)
{
    int ours = pidfd_open(getpid(), 0);
    int theirs = pidfd_open(pid, 0);
    assert_true(ours >= 0 && theirs >= 0);
    pid_t guard = fork();
    assert_true(guard >= 0);
    if (guard == 0) {
        struct pollfd ended = {.fd = dup2(ours, 0), .events = POLLIN};
        (void)dup2(theirs, 1);
        (void)close_range(2, ~0U, 0);
        (void)setsid();
        (void)poll(&ended, 1, -1);
        (void)pidfd_send_signal(1, SIGCONT, NULL, 0);
        _exit(0);
    }
    (void)close(ours);
    (void)close(theirs);
}

static void stop(pid_t pid)
{
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_true(test_until(is_frozen, &pid));
}

void freeze_process(pid_t pid)
{
    continue_at_our_end(pid);
    stop(pid);
}

static bool is_unlocked(const struct fault_site *site)
{
    if (!test_store_is(&site->store, "sqlite")) {
        return true;
    }
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(site->url + strlen("sqlite://"), &db), SQLITE_OK);
    bool unlocked = sqlite3_exec(db, "BEGIN IMMEDIATE; ROLLBACK", NULL, NULL, NULL) == SQLITE_OK;
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return unlocked;
}

void freeze_worker(const struct fault_site *site, pid_t pid)
{
    continue_at_our_end(pid);
    for (int i = 0; i < 1000; i++) {
        stop(pid);
        if (is_unlocked(site)) {
            return;
        }
        assert_int_equal(kill(pid, SIGCONT), 0);
        test_pause_ms(1);
    }
    fail_msg("the worker never leaves its transactions");
}
