/* SPDX-License-Identifier: MIT */
/* owner.c - the owner of a lease, and whether its process still exists.
 *
 * "bootid:pidns:pid:starttime". A process of this kernel and pid namespace is alive if its pid
 * exists with the same start time and is not a zombie; that is read from /proc. When /proc cannot
 * be read, the state is unknown, and the lease decides. */
#include "broker/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

struct owner {
    char boot_id[QN_BOOT_ID_SIZE];
    uint64_t pid_ns;
    int64_t pid;
    uint64_t start_time;
};

/* Reads a small file of /proc as text; false with errno set when it cannot. */
static bool read_text(const char *path, char *out, size_t out_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t size = read(fd, out, out_size - 1);
    int reason = errno;
    (void)close(fd);
    errno = reason;
    if (size < 0) {
        return false;
    }
    out[size] = '\0';
    return true;
}

bool qn_owner_boot_id(char out[QN_BOOT_ID_SIZE])
{
    char text[64];
    if (!read_text("/proc/sys/kernel/random/boot_id", text, sizeof text) ||
        strlen(text) < QN_BOOT_ID_SIZE - 1) {
        return false;
    }
    memcpy(out, text, QN_BOOT_ID_SIZE - 1);
    out[QN_BOOT_ID_SIZE - 1] = '\0';
    return true;
}

/* The state letter and the start time: fields 3 and 22 of stat. The second field, the name in
 * parentheses, may hold anything, so the rest is read from the last parenthesis on. */
static bool read_stat(const char *path, char *ret_state, uint64_t *ret_start_time)
{
    char text[1024];
    if (!read_text(path, text, sizeof text)) {
        return false;
    }
    const char *at = strrchr(text, ')');
    if (at == NULL || at[1] != ' ') {
        errno = EIO;
        return false;
    }
    *ret_state = at[2];
    at++;
    for (int field = 3; field <= 22; field++) {
        at = strchr(at, ' ');
        if (at == NULL) {
            errno = EIO;
            return false;
        }
        at++;
    }
    *ret_start_time = strtoull(at, NULL, 10);
    return true;
}

static bool read_self(struct owner *owner)
{
    struct stat ns;
    char state = '\0';
    if (!qn_owner_boot_id(owner->boot_id) || stat("/proc/self/ns/pid", &ns) != 0 ||
        !read_stat("/proc/self/stat", &state, &owner->start_time)) {
        return false;
    }
    owner->pid_ns = (uint64_t)ns.st_ino;
    owner->pid = (int64_t)getpid();
    return true;
}

static bool parse(const char *text, struct owner *owner)
{
    int end = 0;
    int fields = sscanf(text, "%36[0-9a-f-]:%" SCNu64 ":%" SCNd64 ":%" SCNu64 "%n", owner->boot_id,
                        &owner->pid_ns, &owner->pid, &owner->start_time, &end);
    return fields == 4 && text[end] == '\0' && owner->pid > 0;
}

quern_status qn_owner_self(char out[QN_OWNER_SIZE], quern_error *err)
{
    struct owner self;
    if (!read_self(&self)) {
        return qn_error_set(err, QUERN_E_BROKER, "cannot read /proc/self: %s", strerror(errno));
    }
    (void)snprintf(out, QN_OWNER_SIZE, "%s:%" PRIu64 ":%" PRId64 ":%" PRIu64, self.boot_id,
                   self.pid_ns, self.pid, self.start_time);
    return QUERN_OK;
}

/* A process whose main thread has ended looks like a zombie while its other threads work. Each
 * thread is a directory, and so a link, in its task directory. */
static bool has_other_threads(int64_t pid)
{
    char path[64];
    struct stat info;
    (void)snprintf(path, sizeof path, "/proc/%" PRId64 "/task", pid);
    return stat(path, &info) == 0 && info.st_nlink > 3;
}

/* Where /proc hides the processes of other users (hidepid), they are there all the same. */
static bool is_hidden(int64_t pid)
{
    return kill((pid_t)pid, 0) == 0 || errno == EPERM;
}

int64_t qn_owner_pid(const char *text)
{
    struct owner owner;
    return parse(text, &owner) ? owner.pid : 0;
}

enum qn_owner_state qn_owner_judge(const char *text)
{
    struct owner owner;
    struct owner self;
    if (!parse(text, &owner) || !read_self(&self) || strcmp(owner.boot_id, self.boot_id) != 0 ||
        owner.pid_ns != self.pid_ns) {
        return QN_OWNER_UNKNOWN;
    }
    char path[64];
    char state = '\0';
    uint64_t start_time = 0;
    (void)snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", owner.pid);
    if (!read_stat(path, &state, &start_time)) {
        bool absent = errno == ENOENT || errno == ESRCH;
        return absent && !is_hidden(owner.pid) ? QN_OWNER_DEAD : QN_OWNER_UNKNOWN;
    }
    bool gone = start_time != owner.start_time || state == 'X' ||
                (state == 'Z' && !has_other_threads(owner.pid));
    return gone ? QN_OWNER_DEAD : QN_OWNER_ALIVE;
}

bool qn_owner_lives(const char *owner, int64_t heartbeat_at_ms, int64_t now_ms)
{
    switch (qn_owner_judge(owner)) {
    case QN_OWNER_ALIVE:
        return true;
    case QN_OWNER_DEAD:
        return false;
    case QN_OWNER_UNKNOWN:
        break;
    }
    return now_ms - heartbeat_at_ms <= QN_HEARTBEAT_MS_MAX;
}

bool qn_owner_same_boot(const char *text)
{
    struct owner owner;
    char boot_id[QN_BOOT_ID_SIZE];
    return parse(text, &owner) && qn_owner_boot_id(boot_id) && strcmp(owner.boot_id, boot_id) == 0;
}
