/* SPDX-License-Identifier: MIT */
/* cgroup.c - opens the cgroup of children, and says what it is good for.
 *
 * Only version 2: in version 1 each controller has a hierarchy of its own. The operator makes the
 * group, sets its limits and removes it. Controllers that are missing are no error: on a machine
 * that has none the limits by rlimits still work. */
#include "worker/prefork/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "worker/internal.h"

enum { NAMES_SIZE = 64 };

static const char *why_not(int fd)
{
    struct statfs info;
    if (fstatfs(fd, &info) != 0) {
        return strerrordesc_np(errno);
    }
    if (info.f_type == CGROUP_SUPER_MAGIC) {
        return "it is of cgroup version 1; version 2 is needed";
    }
    if (info.f_type != CGROUP2_SUPER_MAGIC) {
        return "it is no directory of cgroup version 2";
    }
    if (faccessat(fd, "cgroup.procs", W_OK, AT_EACCESS) != 0) {
        return "no process may be moved there (cgroup.procs cannot be written)";
    }
    return NULL;
}

quern_status qn_cgroup_open(struct quern_worker *worker, quern_error *err)
{
    const char *path = worker->options.child_cgroup;
    worker->options.child_cgroup = NULL; /* the caller's memory */
    if (path == NULL) {
        return QUERN_OK;
    }
    if (worker->options.zygote == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "a cgroup of children needs a zygote");
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *why = fd < 0 ? strerrordesc_np(errno) : why_not(fd);
    if (why != NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return qn_error_set(err, QUERN_E_INVALID, "cgroup %s: %s", path, why);
    }
    worker->cgroup_fd = fd;
    return QUERN_OK;
}

void qn_cgroup_close(struct quern_worker *worker)
{
    if (worker->cgroup_fd > 0) {
        (void)close(worker->cgroup_fd);
        worker->cgroup_fd = 0;
    }
}

void qn_cgroup_log(struct quern_worker *worker)
{
    static const struct {
        const char *name;
        const char *file;
    } controllers[] = {{"memory", "memory.max"}, {"cpu", "cpu.max"}, {"pids", "pids.max"}};
    char missing[NAMES_SIZE] = "";
    if (worker->cgroup_fd <= 0) {
        return;
    }
    for (size_t i = 0; i < sizeof controllers / sizeof controllers[0]; i++) {
        if (faccessat(worker->cgroup_fd, controllers[i].file, F_OK, 0) != 0) {
            size_t size = strlen(missing);
            (void)snprintf(missing + size, sizeof missing - size, "%s%s", size > 0 ? "," : "",
                           controllers[i].name);
        }
    }
    if (missing[0] != '\0') {
        QN_LOG(&worker->log, QUERN_LOG_WARN, "the cgroup of children limits no such resource",
               QN_LOG_TEXT("missing", missing));
    }
}
