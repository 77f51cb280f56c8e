/* SPDX-License-Identifier: MIT */
/* waiters.c - wakes the workers that wait on a file, and sends them cancellations.
 *
 * Each waiter has two datagram sockets and a lock file in the directory beside the file. A sender
 * lists the directory once and then only checks whether it has changed; it never creates anything
 * there. A socket that refuses belongs to a process that died, if its lock file can be locked: then
 * they are removed. A full socket belongs to a process that has not read its wake-ups yet: it
 * will. A failed send is no error, since every waiter polls each second.
 *
 * The ends of tasks are messages that differ, so one that finds a full socket leaves a note: the
 * receiver checks for it each time that its socket is empty. As it may have done so just before,
 * the sender then tries once more, now with a message that means any task. It does so on a new
 * socket of its own, since what other receivers have not read yet fills the old one, too. Wake-ups
 * and cancellations go through another one.
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

#include "base/bug.h"
#include "base/memory/alloc.h"
#include "base/memory/vec.h"
#include "broker/sqlite/file/place.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/wake/end_message.h"
#include "broker/sqlite/wake/sockets.h"

#define NS_PER_S INT64_C(1000000000)
/* A listing made this soon after a change may miss another one with the same time stamp. */
#define SETTLED_AFTER_NS 50000000

void qn_waiters_init(struct qn_waiters *waiters)
{
    pthread_mutex_init(&waiters->mutex, NULL);
    waiters->dir_fd = -1;
    waiters->send_fd = -1;
    waiters->ends_fd = -1;
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
    waiters->workers.count = 0;
    waiters->watchers.count = 0;
}

/* The list for sockets of this kind. */
static struct qn_waiter_ids *ids_of(struct qn_waiters *waiters, char kind)
{
    return kind == 'e' ? &waiters->watchers : &waiters->workers;
}

static void add_id(struct qn_waiters *waiters, const char *name)
{
    size_t size = QN_WAITER_ID_SIZE - 1;
    if (strlen(name) != size + 2 ||
        (strcmp(name + size, ".w") != 0 && strcmp(name + size, ".e") != 0)) {
        return;
    }
    struct qn_waiter_ids *ids = ids_of(waiters, name[size + 1]);
    void *items = qn_vec_grow(ids->items, ids->count, &ids->capacity, QN_WAITER_ID_SIZE);
    if (items == NULL) {
        return; /* it will check by itself, a second later */
    }
    ids->items = items;
    memcpy(ids->items[ids->count], name, size);
    ids->items[ids->count][size] = '\0';
    ids->count++;
}

static void list_directory(struct qn_waiters *waiters, int64_t mtime_ns)
{
    waiters->workers.count = 0;
    waiters->watchers.count = 0;
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

static int *fd_for(struct qn_waiters *waiters, char kind)
{
    return kind == 'e' ? &waiters->ends_fd : &waiters->send_fd;
}

static int new_socket(void)
{
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Brings the lists up to date. NULL: no process waits for this kind. */
static const struct qn_waiter_ids *refresh(struct qn_sqlite *self, char kind)
{
    struct qn_waiters *waiters = &self->waiters;
    const struct qn_waiter_ids *ids = ids_of(waiters, kind);
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
            return NULL;
        }
    }
    if (waiters->changed_at_ns != ns_of(info.st_mtim)) {
        list_directory(waiters, ns_of(info.st_mtim));
    }
    int *fd = fd_for(waiters, kind);
    if (ids->count > 0 && *fd < 0) {
        *fd = new_socket();
    }
    return ids->count > 0 && *fd >= 0 ? ids : NULL;
}

/* Its process died without removing them, if its lock is free. */
static void remove_stale(struct qn_waiters *waiters, const char *id)
{
    char name[QN_WAITER_ID_SIZE + 8];
    (void)snprintf(name, sizeof name, "%s.lock", id);
    int fd = openat(waiters->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    bool dead = fd < 0 ? errno == ENOENT : flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (dead) {
        qn_sockets_remove(waiters->dir_fd, id);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    waiters->changed_at_ns = -1;
}

bool qn_waiters_join(struct qn_memory *memory, char kind, int *ret_fd,
                     struct qn_memory_socket *sender)
{
    if (!qn_sockets_make_pair(ret_fd, &sender->fd)) {
        return false;
    }
    sender->kind = kind;
    pthread_mutex_lock(&memory->sockets_mutex);
    qn_list_append(&memory->sockets, &sender->node);
    pthread_mutex_unlock(&memory->sockets_mutex);
    return true;
}

void qn_waiters_leave(struct qn_memory *memory, struct qn_memory_socket *sender)
{
    if (sender->fd >= 0) {
        pthread_mutex_lock(&memory->sockets_mutex);
        qn_list_remove(&sender->node);
        pthread_mutex_unlock(&memory->sockets_mutex);
        qn_sockets_close_fd(&sender->fd);
    }
}

bool qn_waiters_take_lost(struct qn_memory *memory, struct qn_memory_socket *sender)
{
    pthread_mutex_lock(&memory->sockets_mutex);
    bool lost = sender->lost;
    sender->lost = false;
    pthread_mutex_unlock(&memory->sockets_mutex);
    return lost;
}

/* The message on the ends of tasks that are not named. */
static const struct qn_bytes any_end = {"e", 1};

static bool has_no_room(ssize_t sent)
{
    return sent < 0 && (errno == EAGAIN || errno == ENOBUFS) && !QN_BUG(LOST_UNNOTED);
}

static void send_in_memory(struct qn_memory *memory, char kind, struct qn_bytes message)
{
    pthread_mutex_lock(&memory->sockets_mutex);
    for (struct qn_list *at = memory->sockets.next; at != &memory->sockets; at = at->next) {
        struct qn_memory_socket *to = QN_CONTAINER_OF(at, struct qn_memory_socket, node);
        const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
        if (to->kind == kind && has_no_room(send(to->fd, message.data, message.size, flags)) &&
            kind == 'e' && !to->lost) {
            to->lost = true;
            (void)send(to->fd, any_end.data, any_end.size, flags);
        }
    }
    pthread_mutex_unlock(&memory->sockets_mutex);
}

static ssize_t send_to(int fd, const struct sockaddr_un *address, struct qn_bytes message)
{
    return sendto(fd, message.data, message.size, MSG_DONTWAIT | MSG_NOSIGNAL,
                  (const struct sockaddr *)(const void *)address, sizeof *address);
}

static void note_lost(struct qn_waiters *waiters, const char *id, const struct sockaddr_un *address)
{
    if (qn_sockets_note_lost(waiters->dir_fd, id)) {
        int fd = new_socket();
        if (fd >= 0) {
            (void)close(waiters->ends_fd);
            waiters->ends_fd = fd;
        }
        (void)send_to(waiters->ends_fd, address, any_end);
    }
}

static void send_to_files(struct qn_sqlite *self, char kind, struct qn_bytes message)
{
    struct qn_waiters *waiters = &self->waiters;
    const char name[] = {kind, '\0'};
    pthread_mutex_lock(&waiters->mutex);
    const struct qn_waiter_ids *ids = refresh(self, kind);
    for (size_t i = 0; ids != NULL && i < ids->count; i++) {
        struct sockaddr_un address;
        qn_sockets_address(waiters->dir_fd, ids->items[i], name, &address);
        ssize_t sent = send_to(*fd_for(waiters, kind), &address, message);
        if (sent < 0 && errno == ECONNREFUSED) {
            remove_stale(waiters, ids->items[i]);
        } else if (sent < 0 && errno == ENOENT) {
            waiters->changed_at_ns = -1;
        } else if (has_no_room(sent) && kind == 'e') {
            note_lost(waiters, ids->items[i], &address);
        }
    }
    pthread_mutex_unlock(&waiters->mutex);
}

static void send_all(struct qn_sqlite *self, char kind, const void *data, size_t size)
{
    struct qn_bytes message = {data, size};
    if (self->memory != NULL) {
        send_in_memory(self->memory, kind, message);
    } else {
        send_to_files(self, kind, message);
    }
}

void qn_waiters_wake(struct qn_sqlite *self)
{
    send_all(self, 'w', "w", 1);
}

void qn_waiters_report_ends(struct qn_sqlite *self, const struct qn_notices *ends)
{
    unsigned char message[QN_END_MESSAGE_SIZE_MAX];
    if (!qn_notices_empty(ends) && !QN_BUG(END_UNREPORTED)) {
        send_all(self, 'e', message, qn_end_message_encode(ends, message));
    }
}

void qn_waiters_report_any_end(struct qn_sqlite *self)
{
    if (!QN_BUG(END_UNREPORTED)) {
        send_all(self, 'e', any_end.data, any_end.size);
    }
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
    send_all(self, 'c', text, 1 + queue_size + id_size);
}

void qn_waiters_command(struct qn_sqlite *self, const char *text)
{
    char message[1 + QN_COMMAND_SIZE_MAX];
    int size = snprintf(message, sizeof message, "q%s", text);
    if (size > 0 && (size_t)size < sizeof message) {
        send_all(self, 'c', message, (size_t)size + 1);
    }
}

void qn_waiters_finish(struct qn_waiters *waiters)
{
    close_directory(waiters);
    qn_sockets_close_fd(&waiters->send_fd);
    qn_sockets_close_fd(&waiters->ends_fd);
    qn_free(waiters->workers.items);
    qn_free(waiters->watchers.items);
    pthread_mutex_destroy(&waiters->mutex);
}
