/* SPDX-License-Identifier: MIT */
/* watch.c - waits for the end of tasks, for clients.
 *
 * The first watch makes a socket, whose name ends in ".e", in the directory where workers have
 * theirs; a process that commits ends of tasks then sends a message there (waiters.c). All watched
 * tasks share it. A message is one reason to look, for any of them, so only await empties the
 * socket: nothing that another thread was to see gets lost. If there can be no socket, or the
 * message does not come because an older program wrote, the client's own looks find the end. */
#include "broker/sqlite/wake/watch.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "broker/sqlite/file/place.h"
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
    bool makes = geteuid() == 0 || geteuid() == qn_sqlite_place_owner(self);
    return qn_sockets_open(self, &watcher->sockets, makes) &&
           qn_sockets_make(self, &watcher->sockets, "e", &watcher->fd);
}

quern_status qn_sqlite_watch(struct qn_broker *broker, const char *queue, const char *id,
                             quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    (void)queue; /* a message is sent for all tasks alike */
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

quern_status qn_sqlite_await(struct qn_broker *broker, int64_t timeout_ms, bool *ret_changed,
                             quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct pollfd end = {.fd = self->watcher.fd, .events = POLLIN};
    char text[8];
    int slice_ms = timeout_ms < QN_SAFETY_NET_MS ? (int)timeout_ms : QN_SAFETY_NET_MS;
    if (poll(&end, 1, slice_ms) < 0 && errno != EINTR) {
        return qn_error_set(err, QUERN_E_CONNECT, "sqlite %s: poll: %s", self->path,
                            strerror(errno));
    }
    while (recv(end.fd, text, sizeof text, MSG_DONTWAIT) >= 0) {
        *ret_changed = true;
    }
    return QUERN_OK;
}
