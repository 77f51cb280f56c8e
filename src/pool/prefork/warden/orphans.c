/* SPDX-License-Identifier: MIT */
/* orphans.c - reads the children of this process, which has one thread, from /proc. */
#include "pool/prefork/warden/orphans.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { CHILDREN_READ = 4096 };

size_t qn_orphans_visit(bool (*visit)(pid_t pid, void *user), void *user)
{
    char text[CHILDREN_READ + 1];
    int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    ssize_t size = read(fd, text, CHILDREN_READ);
    (void)close(fd);
    text[size > 0 ? size : 0] = '\0';
    size_t count = 0;
    char *next = text;
    for (char *at = text; *at != '\0'; at = next) {
        pid_t pid = (pid_t)strtol(at, &next, 10);
        if (next == at || *next != ' ') {
            break; /* the end, or a number that was cut: the next look shows it whole */
        }
        next++;
        count += pid > 1 && visit(pid, user) ? 1 : 0;
    }
    return count;
}
