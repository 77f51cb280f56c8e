/* SPDX-License-Identifier: MIT */
/* watch.c - waits for the end of tasks, for clients.
 *
 * The first watch makes a socket, whose name ends in ".e", in the directory where workers have
 * theirs; a process that commits ends of tasks then sends a message there, which names them
 * (waiters.c). All watched tasks share it. Await takes one message at a time. When the socket is
 * empty, it checks whether a sender found it full meanwhile: then any task may have ended.
 *
 * When a second has passed without a message, await checks that the socket still exists by its
 * name, and makes a new one if not. Only await does this: it uses the descriptor without the mutex.
 */
#include "broker/sqlite/wake/watch.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/bug.h"
#include "base/clock.h"
#include "base/error.h"
#include "broker/sqlite/file/place.h"
#include "broker/sqlite/wake/end_message.h"
#include "broker/sqlite/wake/sockets.h"
#include "broker/sqlite/wake/waiters.h"

void qn_watch_init(struct qn_watcher *watcher)
{
    pthread_mutex_init(&watcher->mutex, NULL);
    qn_sockets_init(&watcher->sockets);
    watcher->fd = -1;
    watcher->sender.fd = -1;
}

void qn_watch_close(struct qn_sqlite *self)
{
    struct qn_watcher *watcher = &self->watcher;
    qn_waiters_leave(self->memory, &watcher->sender);
    qn_sockets_close(&watcher->sockets);
    qn_sockets_close_fd(&watcher->fd);
}

void qn_watch_finish(struct qn_watcher *watcher)
{
    pthread_mutex_destroy(&watcher->mutex);
}

static bool make(struct qn_sqlite *self)
{
    struct qn_watcher *watcher = &self->watcher;
    if (self->memory != NULL) {
        return qn_waiters_join(self->memory, 'e', &watcher->fd, &watcher->sender);
    }
    /* One that another user makes would keep the workers of the file's owner from theirs. */
    bool makes =
        geteuid() == 0 || geteuid() == qn_sqlite_place_owner(self) || QN_BUG(DIRECTORY_BY_ANYONE);
    return qn_sockets_open(self, &watcher->sockets, makes) &&
           qn_sockets_make(self, &watcher->sockets, "e", &watcher->fd);
}

quern_status qn_sqlite_watch(struct qn_broker *broker, const char *queue, const char *id,
                             quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    (void)queue; /* messages are sent for all tasks */
    (void)id;
    quern_status status = QUERN_OK;
    pthread_mutex_lock(&self->watcher.mutex);
    if (self->watcher.fd < 0 && !make(self)) {
        status = qn_error_set(err, QUERN_E_UNSUPPORTED, "sqlite %s: cannot create a socket: %s",
                              self->path, strerror(errno));
        qn_watch_close(self);
    }
    pthread_mutex_unlock(&self->watcher.mutex);
    return status;
}

/* One message, or the note that one was lost. False: there is none. */
static bool receive(struct qn_sqlite *self, int fd, struct qn_notices *notices)
{
    struct qn_watcher *watcher = &self->watcher;
    unsigned char message[QN_END_MESSAGE_SIZE_MAX];
    /* The size is that of the whole message, also of one that is too long. */
    ssize_t size = recv(fd, message, sizeof message, MSG_DONTWAIT | MSG_TRUNC);
    if (size >= 0) {
        qn_end_message_decode((struct qn_bytes){message, (size_t)size}, notices);
        return true;
    }
    pthread_mutex_lock(&watcher->mutex);
    bool lost = self->memory != NULL ? qn_waiters_take_lost(self->memory, &watcher->sender)
                                     : qn_sockets_take_lost(&watcher->sockets);
    pthread_mutex_unlock(&watcher->mutex);
    notices->all = notices->all || lost;
    return lost;
}

/* No process can send to a socket whose name was removed. */
static void renew(struct qn_sqlite *self, struct qn_notices *notices)
{
    struct qn_watcher *watcher = &self->watcher;
    pthread_mutex_lock(&watcher->mutex);
    if (watcher->fd >= 0 && !QN_BUG(SOCKET_NOT_RENEWED) &&
        qn_sockets_removed(&watcher->sockets, "e")) {
        qn_watch_close(self);
        if (!make(self)) {
            qn_watch_close(self); /* the next watch returns why */
        }
        notices->all = true;
    }
    pthread_mutex_unlock(&watcher->mutex);
}

quern_status qn_sqlite_await(struct qn_broker *broker, int64_t timeout_ms,
                             struct qn_notices *ret_notices, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    pthread_mutex_lock(&self->watcher.mutex);
    struct pollfd end = {.fd = self->watcher.fd, .events = POLLIN};
    pthread_mutex_unlock(&self->watcher.mutex);
    if (receive(self, end.fd, ret_notices)) {
        return QUERN_OK;
    }
    int slice_ms = timeout_ms < QN_SAFETY_NET_MS ? (int)timeout_ms : QN_SAFETY_NET_MS;
    int count = poll(&end, 1, slice_ms);
    if (count < 0 && errno != EINTR) {
        return qn_error_set(err, QUERN_E_CONNECT, "sqlite %s: poll: %s", self->path,
                            strerror(errno));
    }
    if (count > 0) {
        (void)receive(self, end.fd, ret_notices);
    } else {
        renew(self, ret_notices);
    }
    return QUERN_OK;
}
