/* SPDX-License-Identifier: MIT */
/* tree_limits.c - soft limits by prlimit, for a process and all below it.
 *
 * Only soft limits are changed: a hard one could not be raised again for the next task. A shell may
 * have forked the program that does the work, so the limits are set for all descendants; those that
 * come later inherit them. */
#include "pool/exec/tree_limits.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"

enum { PROCESSES_MAX = 64, TEXT_SIZE = 4096, MS_PER_S = 1000 };

struct tree {
    pid_t pids[PROCESSES_MAX];
    size_t count;
};

static void add_children(struct tree *tree, pid_t pid)
{
    char path[64];
    char text[TEXT_SIZE];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    ssize_t size = read(fd, text, sizeof text - 1);
    (void)close(fd);
    text[size > 0 ? size : 0] = '\0';
    char *next = text;
    for (char *at = text; *at != '\0' && tree->count < PROCESSES_MAX; at = next) {
        long child = strtol(at, &next, 10);
        if (next == at || *next != ' ') {
            return;
        }
        next++;
        tree->pids[tree->count++] = (pid_t)child;
    }
}

static void set_soft(pid_t pid, __rlimit_resource_t which, uint64_t wanted)
{
    struct rlimit limit;
    if (prlimit(pid, which, NULL, &limit) == 0) {
        limit.rlim_cur = wanted == 0 || wanted > limit.rlim_max ? limit.rlim_max : wanted;
        (void)prlimit(pid, which, &limit, NULL);
    }
}

/* Whole seconds, rounded up: the kernel counts no less. */
static uint64_t cpu_limit_s(pid_t pid, int64_t cpu_ms)
{
    int64_t used_ms = qn_clock_cpu_ms(pid);
    return used_ms < 0 ? 0 : (uint64_t)((used_ms + cpu_ms + MS_PER_S - 1) / MS_PER_S);
}

void qn_tree_limits_set(pid_t root, int64_t cpu_ms, uint64_t memory_max)
{
    struct tree tree = {.pids = {root}, .count = root > 0 ? 1 : 0};
    for (size_t i = 0; i < tree.count; i++) {
        pid_t pid = tree.pids[i];
        set_soft(pid, RLIMIT_CPU, cpu_ms > 0 ? cpu_limit_s(pid, cpu_ms) : 0);
        set_soft(pid, RLIMIT_AS, memory_max);
        add_children(&tree, pid);
    }
}
