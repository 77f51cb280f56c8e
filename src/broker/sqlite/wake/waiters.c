/* SPDX-License-Identifier: MIT */
/* waiters.c - wakes the workers that wait on a file, and sends them cancellations.
 *
 * Each waiter has two datagram sockets and a lock file in the directory beside the file. A sender
 * lists the directory once and then only checks whether it has changed; it never creates anything
 * there. A socket that refuses belongs to a process that died, if its lock file can be locked: then
 * the three are removed. A full socket belongs to a process that has not read its wake-ups yet: it
 * will. A failed send is no error, since every waiter polls each second.
 *
 * In memory each waiter has two pairs of sockets instead, and is an element of a list. */
#include "broker/sqlite/wake/waiters.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "base/memory/vec.h"
#include "broker/sqlite/file/place.h"
#include "broker/sqlite/sqlite.h"

#define NS_PER_S INT64_C(1000000000)
/* A listing made this soon after a change may miss another one with the same time stamp. */
#define SETTLED_AFTER_NS 50000000

void qn_waiters_address(int dir_fd, const char *id, const char *kind,
                        struct sockaddr_un *ret_address)
{
    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void)snprintf(ret_address->sun_path, sizeof ret_address->sun_path, "/proc/self/fd/%d/%s.%s",
                   dir_fd, id, kind);
}

void qn_waiters_init(struct qn_waiters *waiters)
{
    pthread_mutex_init(&waiters->mutex, NULL);
    waiters->dir_fd = -1;
    waiters->send_fd = -1;
}

static int64_t ns_of(struct timespec at)
{
    return (int64_t)at.tv_sec * NS_PER_S + at.tv_nsec;
}

static void close_directory(struct qn_waiters *waiters)
{
    if (waiters->dir_fd >= 0) {
        (void)close(waiters->dir_fd);
        waiters->dir_fd = -1;
    }
    waiters->changed_at_ns = -1;
    waiters->count = 0;
}

static void add_id(struct qn_waiters *waiters, const char *name)
{
    size_t size = QN_WAITER_ID_SIZE - 1;
    if (strlen(name) != size + 2 || strcmp(name + size, ".w") != 0) {
        return; /* not a wake socket */
    }
    void *ids = qn_vec_grow(waiters->ids, waiters->count, &waiters->capacity, QN_WAITER_ID_SIZE);
    if (ids == NULL) {
        return; /* it will find its work a second later */
    }
    waiters->ids = ids;
    memcpy(waiters->ids[waiters->count], name, size);
    waiters->ids[waiters->count][size] = '\0';
    waiters->count++;
}

static void list_directory(struct qn_waiters *waiters, int64_t mtime_ns)
{
    waiters->count = 0;
    waiters->changed_at_ns = -1;
    int fd = openat(waiters->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (directory == NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    int64_t now_ns = qn_clock_wall_ms(qn_clock_system()) * 1000000;
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        add_id(waiters, entry->d_name);
    }
    (void)closedir(directory);
    if (now_ns - mtime_ns > SETTLED_AFTER_NS) {
        waiters->changed_at_ns = mtime_ns;
    }
}

/* Brings the list up to date. False: no process waits. */
static bool refresh(struct qn_sqlite *self)
{
    struct qn_waiters *waiters = &self->waiters;
    struct stat info;
    if (waiters->dir_fd >= 0 && (fstat(waiters->dir_fd, &info) != 0 || info.st_nlink == 0)) {
        close_directory(waiters);
    }
    if (waiters->dir_fd < 0) {
        waiters->dir_fd = open(self->wake_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        waiters->changed_at_ns = -1;
        if (waiters->dir_fd < 0 || fstat(waiters->dir_fd, &info) != 0 ||
            !qn_sqlite_place_trusts(self, &info)) {
            close_directory(waiters);
            return false;
        }
    }
    if (waiters->changed_at_ns != ns_of(info.st_mtim)) {
        list_directory(waiters, ns_of(info.st_mtim));
    }
    if (waiters->count > 0 && waiters->send_fd < 0) {
        waiters->send_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    return waiters->count > 0 && waiters->send_fd >= 0;
}

/* Its process died without removing them, if its lock is free. */
static void remove_stale(struct qn_waiters *waiters, const char *id)
{
    static const char *const kinds[] = {"w", "c", "lock"};
    char name[QN_WAITER_ID_SIZE + 8];
    (void)snprintf(name, sizeof name, "%s.lock", id);
    int fd = openat(waiters->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    bool dead = fd < 0 ? errno == ENOENT : flock(fd, LOCK_EX | LOCK_NB) == 0;
    for (size_t i = 0; dead && i < sizeof kinds / sizeof kinds[0]; i++) {
        (void)snprintf(name, sizeof name, "%s.%s", id, kinds[i]);
        (void)unlinkat(waiters->dir_fd, name, 0);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    waiters->changed_at_ns = -1;
}

static bool make_pair(int *ret_fd, int *ret_send_fd)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) {
        return false;
    }
    *ret_fd = fds[0];
    *ret_send_fd = fds[1];
    return true;
}

bool qn_waiters_join(struct qn_sqlite *self)
{
    struct qn_memory *memory = self->memory;
    struct qn_waiter *waiter = &self->waiter;
    if (!make_pair(&waiter->control_fd, &waiter->control_send_fd) ||
        !make_pair(&waiter->wake_fd, &waiter->wake_send_fd)) {
        return false;
    }
    pthread_mutex_lock(&memory->waiters_mutex);
    waiter->next = memory->waiters;
    memory->waiters = waiter;
    pthread_mutex_unlock(&memory->waiters_mutex);
    return true;
}

void qn_waiters_leave(struct qn_sqlite *self)
{
    struct qn_memory *memory = self->memory;
    if (memory == NULL) {
        return;
    }
    pthread_mutex_lock(&memory->waiters_mutex);
    struct qn_waiter **link = &memory->waiters;
    while (*link != NULL && *link != &self->waiter) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = self->waiter.next;
    }
    pthread_mutex_unlock(&memory->waiters_mutex);
}

static void send_in_memory(struct qn_memory *memory, const char *kind, const void *data,
                           size_t size)
{
    pthread_mutex_lock(&memory->waiters_mutex);
    for (const struct qn_waiter *at = memory->waiters; at != NULL; at = at->next) {
        int fd = kind[0] == 'w' ? at->wake_send_fd : at->control_send_fd;
        (void)send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL); /* a full one will look */
    }
    pthread_mutex_unlock(&memory->waiters_mutex);
}

static void send_to_files(struct qn_sqlite *self, const char *kind, const void *data, size_t size)
{
    struct qn_waiters *waiters = &self->waiters;
    pthread_mutex_lock(&waiters->mutex);
    size_t count = refresh(self) ? waiters->count : 0;
    for (size_t i = 0; i < count; i++) {
        struct sockaddr_un address;
        qn_waiters_address(waiters->dir_fd, waiters->ids[i], kind, &address);
        ssize_t sent = sendto(waiters->send_fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL,
                              (const struct sockaddr *)(const void *)&address, sizeof address);
        if (sent < 0 && errno == ECONNREFUSED) {
            remove_stale(waiters, waiters->ids[i]);
        } else if (sent < 0 && errno == ENOENT) {
            waiters->changed_at_ns = -1;
        }
    }
    pthread_mutex_unlock(&waiters->mutex);
}

static void send_all(struct qn_sqlite *self, const char *kind, const void *data, size_t size)
{
    if (self->memory != NULL) {
        send_in_memory(self->memory, kind, data, size);
    } else {
        send_to_files(self, kind, data, size);
    }
}

void qn_waiters_wake(struct qn_sqlite *self)
{
    send_all(self, "w", "w", 1);
}

void qn_sqlite_wake(struct qn_broker *broker)
{
    qn_waiters_wake(qn_sqlite_of(broker));
}

void qn_waiters_cancel(struct qn_sqlite *self, const char *queue, const char *id,
                       enum qn_cancel cancel)
{
    char text[2 * (QN_NAME_SIZE_MAX + 1) + 1];
    size_t queue_size = strlen(queue) + 1;
    size_t id_size = strlen(id) + 1;
    if (queue_size + id_size + 1 > sizeof text) {
        return; /* no such names in our tables */
    }
    text[0] = (char)('0' + cancel);
    memcpy(text + 1, queue, queue_size);
    memcpy(text + 1 + queue_size, id, id_size);
    send_all(self, "c", text, 1 + queue_size + id_size);
}

void qn_waiters_finish(struct qn_waiters *waiters)
{
    close_directory(waiters);
    if (waiters->send_fd >= 0) {
        (void)close(waiters->send_fd);
        waiters->send_fd = -1;
    }
    qn_free(waiters->ids);
    waiters->ids = NULL;
    pthread_mutex_destroy(&waiters->mutex);
}
