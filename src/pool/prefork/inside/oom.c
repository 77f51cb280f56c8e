/* SPDX-License-Identifier: MIT */
/* oom.c - reads the kernel's counters of kills for want of memory.
 *
 * The kernel does not say of a process why it was killed; the counters say that it killed one. So
 * this is a best effort: of two children that are killed at the same moment, one by hand, both seem
 * to have had too much memory. */
#include "pool/prefork/inside/oom.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_SIZE = 8192, PATH_SIZE = 4200 };

static bool read_text(int folder_fd, const char *path, char *out, size_t size)
{
    int fd = openat(folder_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t count = read(fd, out, size - 1);
    (void)close(fd);
    out[count > 0 ? count : 0] = '\0';
    return count > 0;
}

/* The number behind `oom_kill ` at the beginning of a line. */
static bool find_count(const char *text, uint64_t *ret_count)
{
    static const char name[] = "oom_kill ";
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n' ? 1 : 0;
        if (strncmp(line, name, sizeof name - 1) == 0) {
            *ret_count = strtoull(line + sizeof name - 1, NULL, 10);
            return true;
        }
    }
    return false;
}

static bool count_in(int folder_fd, const char *path, uint64_t *ret_count)
{
    char text[TEXT_SIZE];
    return read_text(folder_fd, path, text, sizeof text) && find_count(text, ret_count);
}

/* The path of our cgroup behind a mark such as ":memory:", with its size in bytes. */
static const char *find_group(const char *groups, const char *mark, int *ret_size)
{
    const char *found = strstr(groups, mark);
    if (found == NULL) {
        return NULL;
    }
    found += strlen(mark);
    *ret_size = (int)strcspn(found, "\n");
    return found;
}

static bool count_of_group(uint64_t *ret_count)
{
    static const struct {
        const char *mark;
        const char *folder;
        const char *file;
    } places[] = {{"0::", "/sys/fs/cgroup", "memory.events"},
                  {":memory:", "/sys/fs/cgroup/memory", "memory.oom_control"}};
    char groups[TEXT_SIZE];
    char path[PATH_SIZE];
    if (!read_text(AT_FDCWD, "/proc/self/cgroup", groups, sizeof groups)) {
        return false;
    }
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int size = 0;
        const char *group = find_group(groups, places[i].mark, &size);
        if (group != NULL &&
            snprintf(path, sizeof path, "%s%.*s/%s", places[i].folder, size, group,
                     places[i].file) < (int)sizeof path &&
            count_in(AT_FDCWD, path, ret_count)) {
            return true;
        }
    }
    return false;
}

uint64_t qn_oom_count(int cgroup_fd)
{
    uint64_t count = 0;
    if (cgroup_fd > 0 && count_in(cgroup_fd, "memory.events", &count)) {
        return count;
    }
    if (!count_of_group(&count)) {
        (void)count_in(AT_FDCWD, "/proc/vmstat", &count);
    }
    return count;
}
