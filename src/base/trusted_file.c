/* SPDX-License-Identifier: MIT */
/* trusted_file.c - reads a file only if no other user could have written it.
 *
 * The rules are those of ssh for its own files. A file that root has made readable, such as a
 * mounted secret, is accepted. */
#include "base/trusted_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The reason not to trust this file; NULL: it is fine. */
static const char *what_is_wrong(const struct stat *info, bool is_secret)
{
    if (!S_ISREG(info->st_mode)) {
        return "it is not a regular file";
    }
    if (info->st_uid != geteuid() && info->st_uid != 0) {
        return "it belongs to another user";
    }
    if ((info->st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return is_secret ? "others may write to it; chmod 600 it"
                         : "others may write to it; chmod go-w it";
    }
    if (is_secret && info->st_uid != 0 && (info->st_mode & S_IROTH) != 0) {
        return "every user may read it; chmod 600 it";
    }
    return NULL;
}

/* Whether anybody may put another file in its place. */
static bool is_replaceable(const char *path)
{
    char directory[PATH_MAX];
    struct stat info;
    const char *slash = strrchr(path, '/');
    int size = slash == NULL || slash == path ? 1 : (int)(slash - path);
    (void)snprintf(directory, sizeof directory, "%.*s", size, slash == NULL ? "." : path);
    return stat(directory, &info) == 0 && (info.st_mode & S_IWOTH) != 0 &&
           (info.st_mode & S_ISVTX) == 0;
}

const char *qn_trusted_file_read(const char *path, bool is_secret, char *out, size_t size,
                                 size_t *ret_size)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* a FIFO would hold us up */
    if (fd < 0) {
        return strerror(errno);
    }
    const char *wrong = fstat(fd, &info) != 0 ? strerror(errno)
                        : is_replaceable(path)
                            ? "every user may replace it; chmod o-w its directory"
                            : what_is_wrong(&info, is_secret);
    if (wrong != NULL) {
        (void)close(fd);
        return wrong;
    }
    size_t used = 0;
    ssize_t count = 1;
    while (count > 0 && used < size - 1) {
        do {
            count = read(fd, out + used, size - 1 - used);
        } while (count < 0 && errno == EINTR);
        used += count > 0 ? (size_t)count : 0;
    }
    int code = errno;
    (void)close(fd);
    if (count < 0) {
        return strerror(code);
    }
    out[used] = '\0';
    *ret_size = used;
    return NULL;
}
