/* SPDX-License-Identifier: MIT */
/* file.c - is this path a place where a database may live?
 *
 * All refusals happen before anything is written: a missing or unwritable directory, a network
 * file system (whose locks and shared memory SQLite's WAL cannot trust). A new file is made by
 * link(2) from a private one, so that it appears with mode 0600, and so that this process never
 * closes a descriptor of a file in use: POSIX drops all locks of a process with any of its
 * descriptors. */
#include "broker/sqlite/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/str.h"
#include "broker/sqlite/file/place.h"

/* linux/magic.h and the kernel's own headers of these file systems. */
static const struct {
    uint32_t magic;
    const char *name;
} network_fs[] = {
    {0x6969, "NFS"},          {0x517b, "SMB"},        {0xff534d42, "CIFS"}, {0xfe534d42, "SMB2"},
    {0x01021997, "9p"},       {0x65735546, "FUSE"},   {0x5346414f, "AFS"},  {0x6b414653, "AFS"},
    {0x00c36400, "Ceph"},     {0x73757245, "Coda"},   {0x564c, "NCP"},      {0x01161970, "GFS2"},
    {0x7461636f, "OCFS2"},    {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"}, {0x786f4256, "vboxsf"},
    {0x20030528, "OrangeFS"},
};

/* The name of the network file system that `path` is on; NULL: a local one. */
static const char *network_name(const char *path)
{
    struct statfs info;
    if (statfs(path, &info) != 0) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof network_fs / sizeof network_fs[0]; i++) {
        if ((uint32_t)info.f_type == network_fs[i].magic) {
            return network_fs[i].name;
        }
    }
    return NULL;
}

/* The absolute path of a file that does not exist yet; its directory must. */
static quern_status resolve_new(const char *path, char **ret_path, quern_error *err)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    char directory[PATH_MAX];
    size_t size = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    if (size >= sizeof directory || name[0] == '\0') {
        return qn_error_set(err, QUERN_E_CONNECT, "sqlite %s: this is not the path of a file",
                            path);
    }
    memcpy(directory, slash == NULL ? "." : path, size);
    directory[size] = '\0';
    char *resolved = realpath(directory, NULL);
    if (resolved == NULL) {
        return qn_error_set(err, QUERN_E_CONNECT, "sqlite %s: directory %s: %s", path, directory,
                            strerror(errno));
    }
    size = strlen(resolved) + strlen(name) + 2;
    char *joined = qn_alloc(size);
    if (joined != NULL) {
        (void)snprintf(joined, size, "%s/%s", strcmp(resolved, "/") == 0 ? "" : resolved, name);
    }
    qn_free(resolved);
    if (joined == NULL) {
        return qn_error_nomem(err);
    }
    *ret_path = joined;
    return QUERN_OK;
}

static quern_status resolve(const char *path, char **ret_path, bool *ret_exists, quern_error *err)
{
    char *resolved = realpath(path, NULL);
    if (resolved == NULL && errno == ENOENT) {
        *ret_exists = false;
        return resolve_new(path, ret_path, err);
    }
    if (resolved == NULL) {
        return qn_error_set(err, QUERN_E_CONNECT, "sqlite %s: %s", path, strerror(errno));
    }
    char *copy = qn_str_dup(resolved);
    qn_free(resolved);
    if (copy == NULL) {
        return qn_error_nomem(err);
    }
    *ret_path = copy;
    *ret_exists = true;
    return QUERN_OK;
}

/* SQLite needs to write the file, and to make -wal and -shm beside it. */
static quern_status check_access(const char *path, bool exists, quern_error *err)
{
    struct stat info;
    if (exists && stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        return qn_error_set(err, QUERN_E_CONNECT, "sqlite %s: not a regular file", path);
    }
    if (exists && access(path, R_OK | W_OK) != 0) {
        return qn_error_set(err, QUERN_E_CONNECT, "sqlite %s: %s", path, strerror(errno));
    }
    char directory[PATH_MAX];
    (void)snprintf(directory, sizeof directory, "%s", path);
    char *slash = strrchr(directory, '/');
    slash[slash == directory ? 1 : 0] = '\0';
    if (access(directory, W_OK | X_OK) != 0) {
        return qn_error_set(err, QUERN_E_CONNECT, "sqlite %s: directory %s: %s", path, directory,
                            strerror(errno));
    }
    return QUERN_OK;
}

static quern_status check_network(const char *path, bool exists, bool unsafe_fs, quern_error *err)
{
    char place[PATH_MAX];
    (void)snprintf(place, sizeof place, "%s", path);
    if (!exists) {
        char *slash = strrchr(place, '/');
        slash[slash == place ? 1 : 0] = '\0';
    }
    const char *name = unsafe_fs ? NULL : network_name(place);
    if (name != NULL) {
        return qn_error_set(
            err, QUERN_E_CONNECT,
            "sqlite %s: on a network file system (%s), whose locks cannot be "
            "trusted; use a local disk, or write sqlite://%s?unsafe_fs=1 if only one "
            "host uses it",
            path, name, qn_sqlite_place_shown(path));
    }
    return QUERN_OK;
}

static quern_status make_file(const char *path, quern_error *err)
{
    char private_path[PATH_MAX];
    int size = snprintf(private_path, sizeof private_path, "%s.XXXXXX", path);
    int fd = -1;
    if (size > 0 && (size_t)size < sizeof private_path) {
        fd = mkostemp(private_path, O_CLOEXEC); /* mode 0600 */
    } else {
        errno = ENAMETOOLONG;
    }
    if (fd < 0) {
        return qn_error_set(err, errno == ENOSPC ? QUERN_E_FULL : QUERN_E_CONNECT, "sqlite %s: %s",
                            path, strerror(errno));
    }
    (void)close(fd);
    int code = link(private_path, path);
    int reason = code == 0 ? 0 : errno;
    if (reason != 0 && reason != EEXIST) { /* a file system without hard links */
        reason =
            renameat2(AT_FDCWD, private_path, AT_FDCWD, path, RENAME_NOREPLACE) == 0 ? 0 : errno;
    }
    (void)unlink(private_path);
    if (reason != 0 && reason != EEXIST) {
        return qn_error_set(err, QUERN_E_CONNECT, "sqlite %s: %s", path, strerror(reason));
    }
    return QUERN_OK;
}

quern_status qn_sqlite_file_prepare(struct qn_sqlite *self, const char *path, bool create,
                                    quern_error *err)
{
    char *resolved = NULL;
    bool exists = false;
    quern_status status = resolve(path, &resolved, &exists, err);
    if (status == QUERN_OK && !exists && !create) {
        status = qn_error_set(err, QUERN_E_NOT_FOUND, "sqlite %s: no such file", resolved);
    }
    if (status == QUERN_OK) {
        status = check_access(resolved, exists, err);
    }
    if (status == QUERN_OK) {
        status = qn_sqlite_place_check(resolved, self->trust_owner, err);
    }
    if (status == QUERN_OK) {
        status = check_network(resolved, exists, self->unsafe_fs, err);
    }
    if (status == QUERN_OK && !exists) {
        status = make_file(resolved, err);
    }
    if (status != QUERN_OK) {
        qn_free(resolved);
        return status;
    }
    self->path = resolved;
    return QUERN_OK;
}
