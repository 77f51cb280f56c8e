/* SPDX-License-Identifier: MIT */
/* zones.c - finds the file of a zone, reads it and keeps the zone.
 *
 * A name comes from an expression that anyone may have written, so it is checked before it becomes
 * a part of a path, and what it names is only read if it is a regular file of a sane size. The file
 * is read under the mutex: a zone is read once, and a program has few of them. */
#include "base/time/zones.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/memory/alloc.h"

struct qn_zones_entry {
    struct qn_zones_entry *next;
    struct qn_zone *zone;
    char name[QN_ZONE_NAME_SIZE_MAX + 1];
};

/* Where systems have them: nearly all, and NixOS. */
static const char *const system_folders[] = {"/usr/share/zoneinfo", "/etc/zoneinfo"};

quern_status qn_zones_init(struct qn_zones *zones, const char *folder, quern_error *err)
{
    *zones = (struct qn_zones){.folder = folder};
    if (pthread_mutex_init(&zones->mutex, NULL) != 0) {
        return qn_error_nomem(err);
    }
    return QUERN_OK;
}

void qn_zones_finish(struct qn_zones *zones)
{
    while (zones->first != NULL) {
        struct qn_zones_entry *next = zones->first->next;
        qn_zone_free(zones->first->zone);
        qn_free(zones->first);
        zones->first = next;
    }
    (void)pthread_mutex_destroy(&zones->mutex); /* no caller is in it any more */
}

/* "." and ".." are no parts of a name, and no part is empty. */
static bool parts_are_names(const char *name)
{
    for (const char *part = name;; part++) {
        size_t size = strcspn(part, "/");
        if (size == 0 || strspn(part, ".") >= size) {
            return false;
        }
        part += size;
        if (*part == '\0') {
            return true;
        }
    }
}

quern_status qn_zones_check_name(const char *name, quern_error *err)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789_+-./";
    size_t size = strlen(name);
    if (size > QN_ZONE_NAME_SIZE_MAX) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "the name of a time zone has %zu bytes, at most %d are allowed", size,
                            QN_ZONE_NAME_SIZE_MAX);
    }
    size_t valid = strspn(name, allowed);
    if (valid < size) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "the name of a time zone has a character that is not allowed behind "
                            "\"%.*s\": write for example Europe/Berlin",
                            (int)valid, name);
    }
    if (!parts_are_names(name) && !QN_BUG(ZONE_PATH_TRUSTED)) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "\"%s\" is not a name of a time zone: write for example Europe/Berlin",
                            name);
    }
    return QUERN_OK;
}

/* A file that is there and cannot be read: for good, or for now. */
static quern_status fail_file(quern_error *err, const char *path, int error)
{
    bool for_good = error == EACCES || error == EPERM || error == ELOOP;
    return qn_error_set(err, for_good ? QUERN_E_NOT_FOUND : QUERN_E_BUSY, "%s: %s", path,
                        strerror(error));
}

/* Reads all of it into `out`. */
static quern_status read_all(int fd, const char *path, struct qn_room out, size_t *ret_size,
                             quern_error *err)
{
    size_t used = 0;
    while (used < out.size) {
        ssize_t got = read(fd, (char *)out.data + used, out.size - used);
        if (got < 0 && errno != EINTR) {
            return fail_file(err, path, errno);
        }
        if (got == 0) {
            *ret_size = used;
            return QUERN_OK;
        }
        used += got > 0 ? (size_t)got : 0;
    }
    return qn_error_set(err, QUERN_E_CORRUPT, "%s is larger than %zu bytes", path,
                        QN_ZONE_FILE_SIZE_MAX);
}

static quern_status parse_file(int fd, const char *path, struct qn_zone **ret_zone,
                               quern_error *err)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0) {
        return fail_file(err, path, errno);
    }
    if (!S_ISREG(facts.st_mode)) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "%s is not a file", path);
    }
    struct qn_room room = {.size = QN_ZONE_FILE_SIZE_MAX + 1};
    room.data = qn_alloc(room.size);
    if (room.data == NULL) {
        return qn_error_nomem(err);
    }
    size_t size = 0;
    quern_status status = read_all(fd, path, room, &size, err);
    if (status == QUERN_OK) {
        status = qn_zone_parse((struct qn_bytes){.data = room.data, .size = size}, ret_zone, err);
        if (status == QUERN_E_CORRUPT) {
            qn_error_prefix(err, "%s", path);
        }
    }
    qn_free(room.data);
    return status;
}

static quern_status load_from(const char *folder, const char *name, struct qn_zone **ret_zone,
                              quern_error *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) {
        return qn_error_set(err, QUERN_E_INVALID, "the path of the time zones is too long");
    }
    /* O_NONBLOCK: a FIFO that stands there must not block. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "there is no time zone \"%s\" in %s", name,
                            folder);
    }
    if (fd < 0) {
        return fail_file(err, path, errno);
    }
    quern_status status = parse_file(fd, path, ret_zone, err);
    (void)close(fd); /* it was only read */
    return status;
}

static bool is_folder(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

static quern_status load(const struct qn_zones *zones, const char *name, struct qn_zone **ret_zone,
                         quern_error *err)
{
    const char *const *folders = zones->folder == NULL ? system_folders : &zones->folder;
    size_t count = zones->folder == NULL ? sizeof system_folders / sizeof *system_folders : 1;
    for (size_t i = 0; i < count; i++) {
        if (is_folder(folders[i])) {
            return load_from(folders[i], name, ret_zone, err);
        }
    }
    return qn_error_set(err, QUERN_E_NOT_FOUND,
                        "there are no time zones in %s: install the package tzdata, or use UTC",
                        folders[0]);
}

/* With mutex held. */
static struct qn_zones_entry *find(const struct qn_zones *zones, const char *name)
{
    struct qn_zones_entry *entry = zones->first;
    while (entry != NULL && strcmp(entry->name, name) != 0) {
        entry = entry->next;
    }
    return entry;
}

/* With mutex held. */
static quern_status add(struct qn_zones *zones, const char *name, struct qn_zones_entry **ret_entry,
                        quern_error *err)
{
    if (zones->count == QN_ZONES_MAX) {
        return qn_error_set(err, QUERN_E_FULL, "more than %d time zones are in use", QN_ZONES_MAX);
    }
    struct qn_zones_entry *entry = qn_alloc_zero(1, sizeof *entry);
    if (entry == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = load(zones, name, &entry->zone, err);
    if (status != QUERN_OK) {
        qn_free(entry);
        return status;
    }
    memcpy(entry->name, name, strlen(name) + 1);
    entry->next = zones->first;
    zones->first = entry;
    zones->count++;
    *ret_entry = entry;
    return QUERN_OK;
}

quern_status qn_zones_get(struct qn_zones *zones, const char *name, const struct qn_zone **ret_zone,
                          quern_error *err)
{
    quern_status status = qn_zones_check_name(name, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (strcmp(name, "UTC") == 0) {
        *ret_zone = NULL;
        return QUERN_OK;
    }
    (void)pthread_mutex_lock(&zones->mutex); /* cannot fail: it is ours and not held */
    struct qn_zones_entry *entry = find(zones, name);
    if (entry == NULL) {
        status = add(zones, name, &entry, err);
    }
    (void)pthread_mutex_unlock(&zones->mutex); /* cannot fail: it is held */
    if (status == QUERN_OK) {
        *ret_zone = entry->zone;
    }
    return status;
}
