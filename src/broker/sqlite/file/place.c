/* SPDX-License-Identifier: MIT */
/* place.c - checks which other users could change the file.
 *
 * A user who can write to the file, or replace it, decides what this process runs. So, as ssh does
 * with its own files, a database is refused if it belongs to another user, if every user may write
 * to it, or if it lies below a directory in which every user may rename files (a sticky one such as
 * /tmp is fine). The same applies to the files that SQLite keeps beside it, and to the directory of
 * sockets. Root is no exception: files that root leaves beside a user's file would lock that user
 * out, and files that a user has put there would run as root. `?trust_owner=1` declares that the
 * other users are trusted; a group that may write is allowed, and reported, and so is a directory
 * of another user. */
#include "broker/sqlite/file/place.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bug.h"
#include "base/error.h"
#include "broker/sqlite/sqlite.h"

#define ADVICE "or write sqlite://%s?trust_owner=1 if you trust "
#define SHOWN_PATH_MAX 40 /* the text of an error has room for three of them */
#define WRITABLE_BY_ALL(info) (((info)->st_mode & S_IWOTH) != 0)
#define WRITABLE_BY_GROUP(info) (((info)->st_mode & S_IWGRP) != 0)

const char *qn_sqlite_place_shown(const char *path)
{
    bool is_long = strlen(path) > SHOWN_PATH_MAX;
    return is_long || path[strcspn(path, "%?#")] != '\0' ? "/PATH" : path;
}

/* Each directory above the path, whose owner may rename its entries. */
static quern_status check_directories(const char *path, quern_error *err)
{
    char directory[PATH_MAX];
    struct stat info;
    (void)snprintf(directory, sizeof directory, "%s", path);
    for (char *slash = strrchr(directory, '/'); slash != NULL; slash = strrchr(directory, '/')) {
        bool is_root = slash == directory;
        slash[is_root ? 1 : 0] = '\0';
        if (stat(directory, &info) == 0 && WRITABLE_BY_ALL(&info) &&
            (info.st_mode & S_ISVTX) == 0) {
            return qn_error_set(err, QUERN_E_CONNECT,
                                "sqlite %s: every user may write to the directory %s: remove that "
                                "permission (chmod o-w), " ADVICE "all of them",
                                path, directory, qn_sqlite_place_shown(path));
        }
        if (is_root) {
            break;
        }
    }
    return QUERN_OK;
}

/* The database, or a file beside it. */
static quern_status check_file(const char *name, const struct stat *info, const char *path,
                               quern_error *err)
{
    if (info->st_uid != geteuid()) {
        return qn_error_set(err, QUERN_E_CONNECT,
                            "sqlite %s: belongs to another user (uid %lu; this process runs as "
                            "%lu): run as that user, " ADVICE "that one",
                            name, (unsigned long)info->st_uid, (unsigned long)geteuid(),
                            qn_sqlite_place_shown(path));
    }
    if (WRITABLE_BY_ALL(info)) {
        return qn_error_set(err, QUERN_E_CONNECT,
                            "sqlite %s: every user may write to it: remove that permission (chmod "
                            "o-w), " ADVICE "all of them",
                            name, qn_sqlite_place_shown(path));
    }
    return QUERN_OK;
}

/* The files that SQLite keeps beside the database; another user may have created them before. */
static quern_status check_neighbours(const char *path, bool trust_owner, quern_error *err)
{
    static const char *const suffixes[] = {"-wal", "-shm", "-journal"};
    char name[PATH_MAX + 16];
    struct stat info;
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < sizeof suffixes / sizeof suffixes[0]; i++) {
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        if (lstat(name, &info) != 0) {
            continue; /* it does not exist, or SQLite will report the error */
        }
        if (!S_ISREG(info.st_mode)) {
            status = qn_error_set(err, QUERN_E_CONNECT, "sqlite %s: not a regular file", name);
        } else if (!trust_owner) {
            status = check_file(name, &info, path, err);
        }
    }
    return status;
}

quern_status qn_sqlite_place_check(const char *path, bool trust_owner, quern_error *err)
{
    struct stat info;
    quern_status status = QUERN_OK;
    if (QN_BUG(PLACE_TRUSTED)) {
        return QUERN_OK;
    }
    if (!trust_owner) {
        status = check_directories(path, err);
    }
    if (status == QUERN_OK && !trust_owner && stat(path, &info) == 0) {
        status = check_file(path, &info, path, err);
    }
    return status == QUERN_OK ? check_neighbours(path, trust_owner, err) : status;
}

bool qn_sqlite_place_warning(const struct qn_sqlite *self, char *out, size_t out_size)
{
    struct stat info;
    struct stat directory;
    char path[PATH_MAX];
    if (self->memory != NULL) {
        return false;
    }
    (void)snprintf(path, sizeof path, "%s", self->path);
    char *slash = strrchr(path, '/');
    slash[slash == path ? 1 : 0] = '\0';
    if (stat(self->path, &info) == 0 && WRITABLE_BY_GROUP(&info)) {
        (void)snprintf(out, out_size, "every user of the group %lu may write to the database",
                       (unsigned long)info.st_gid);
        return true;
    }
    if (stat(path, &directory) != 0 || (directory.st_mode & S_ISVTX) != 0) {
        return false; /* a sticky one, such as /tmp, is of the system */
    }
    if (WRITABLE_BY_GROUP(&directory)) {
        (void)snprintf(out, out_size,
                       "every user of the group %lu may write to the directory of the database, "
                       "and so replace it",
                       (unsigned long)directory.st_gid);
        return true;
    }
    if (directory.st_uid != 0 && directory.st_uid != geteuid()) {
        (void)snprintf(out, out_size,
                       "the directory of the database belongs to another user (uid %lu), who can "
                       "replace it",
                       (unsigned long)directory.st_uid);
        return true;
    }
    return false;
}

uid_t qn_sqlite_place_owner(const struct qn_sqlite *self)
{
    struct stat info;
    return stat(self->path, &info) == 0 ? info.st_uid : geteuid();
}

bool qn_sqlite_place_trusts(const struct qn_sqlite *self, const struct stat *directory)
{
    bool known = directory->st_uid == geteuid() ||
                 (self->trust_owner && directory->st_uid == qn_sqlite_place_owner(self));
    return known && (directory->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}
