/* SPDX-License-Identifier: MIT */
/* presence.c - checks that the file of this process is still the one under its name.
 *
 * SQLite continues with a file that was removed or replaced, and everything written then is lost.
 * The same applies to the log and its index beside it: other processes would create new ones, and
 * neither side would see the writes of the other. All three keep their inode numbers as long as a
 * process has the database open. A file that was truncated to nothing only appears as locked to
 * processes that reopen it, so its size is checked, too. All checks are by name: closing another
 * descriptor of the file would drop the locks that SQLite has on it. */
#include "broker/sqlite/file/presence.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "broker/sqlite/sqlite.h"

#define HEADER_SIZE 100 /* no database is smaller */

quern_status qn_sqlite_presence_note(struct qn_sqlite *self, quern_error *err)
{
    struct stat now;
    if (stat(self->path, &now) != 0) {
        return qn_error_set(err, QUERN_E_CONNECT, "sqlite %s: %s", self->path, strerror(errno));
    }
    self->presence.device = now.st_dev;
    self->presence.file = now.st_ino;
    return QUERN_OK;
}

/* Whether the name refers to no file or to another one than before; known may be 0 for neither.
 */
static bool has_moved(const struct qn_sqlite *self, const char *suffix, ino_t known,
                      struct stat *ret_now, quern_error *err)
{
    char name[PATH_MAX + 8];
    (void)snprintf(name, sizeof name, "%s%s", self->path, suffix);
    *ret_now = (struct stat){0};
    bool exists = stat(name, ret_now) == 0;
    bool same = exists && ret_now->st_ino == known && ret_now->st_dev == self->presence.device;
    if (known == 0 || same || (!exists && errno != ENOENT && errno != ENOTDIR)) {
        return false;
    }
    (void)qn_error_set(err, QUERN_E_CONNECT, "sqlite %s: the file%s%s was %s while in use",
                       self->path, suffix[0] != '\0' ? " beside it, " : "", suffix,
                       exists ? "replaced" : "removed");
    return true;
}

#define SUFFIX_COUNT 2
static const char *const suffixes[SUFFIX_COUNT] = {"-wal", "-shm"};

void qn_sqlite_presence_forget_beside(struct qn_sqlite *self)
{
    self->presence.beside_known = false;
    for (size_t i = 0; i < SUFFIX_COUNT; i++) {
        atomic_store(&self->presence.beside[i], 0);
    }
}

void qn_sqlite_presence_note_beside(struct qn_sqlite *self)
{
    if (self->presence.beside_known || self->memory != NULL) {
        return;
    }
    self->presence.beside_known = true;
    for (size_t i = 0; i < SUFFIX_COUNT; i++) {
        char name[PATH_MAX + 8];
        struct stat now = {0};
        (void)snprintf(name, sizeof name, "%s%s", self->path, suffixes[i]);
        atomic_store(&self->presence.beside[i], stat(name, &now) == 0 ? now.st_ino : 0);
    }
}

bool qn_sqlite_is_gone(struct qn_broker *broker, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_presence *presence = &self->presence;
    struct stat now;
    if (self->memory != NULL) {
        return false;
    }
    if (has_moved(self, "", presence->file, &now, err)) {
        return true;
    }
    if (now.st_ino != 0 && now.st_size < HEADER_SIZE) {
        (void)qn_error_set(
            err, QUERN_E_CORRUPT,
            "sqlite %s: the file was truncated to %lld bytes while in use; restore a copy",
            self->path, (long long)now.st_size);
        return true;
    }
    for (size_t i = 0; i < SUFFIX_COUNT; i++) {
        if (has_moved(self, suffixes[i], atomic_load(&presence->beside[i]), &now, err)) {
            return true;
        }
    }
    return false;
}
