/* SPDX-License-Identifier: MIT */
/* wait.c - sleeping until there is work, a cancellation, a command or an interruption.
 *
 * The first arm or wait makes a lock file (held with flock for life, so that senders can tell the
 * dead) and two sockets: one for wake-ups, one for cancellations and commands. All waiting is done
 * in one epoll. The wake-up socket is in it as one-shot: armed for one event, then silent until the
 * next arm, so a busy worker is not disturbed and senders soon find its socket full. Arm empties
 * the socket first and reads the tables afterwards, so no wake-up is missed.
 *
 * Safety net: a sleeper also compares data_version each second, which any commit of others changes;
 * so tasks of a transaction that sent no wake-up are found. It also checks that its sockets still
 * exist, and makes new ones if not. */
#include "broker/sqlite/wake/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "broker/sqlite/file/place.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/wake/sockets.h"
#include "broker/sqlite/wake/wait_sql.h"
#include "broker/sqlite/wake/waiters.h"

/* The values in the data of an epoll event. */
enum source { FROM_INTERRUPT, FROM_WAKE, FROM_CONTROL };

static void close_waiter(struct qn_sqlite *self)
{
    struct qn_waiter *waiter = &self->waiter;
    qn_waiters_leave(self->memory, &waiter->wake_sender);
    qn_waiters_leave(self->memory, &waiter->control_sender);
    qn_sockets_close(&waiter->sockets);
    qn_sockets_close_fd(&waiter->wake_fd);
    qn_sockets_close_fd(&waiter->control_fd);
    qn_sockets_close_fd(&waiter->epoll_fd);
    waiter->ready = false;
    waiter->deaf = false;
}

void qn_wait_init(struct qn_waiter *waiter)
{
    pthread_mutex_init(&waiter->mutex, NULL);
    waiter->epoll_fd = -1;
    waiter->interrupt_fd = -1;
    qn_sockets_init(&waiter->sockets);
    waiter->wake_fd = -1;
    waiter->control_fd = -1;
    waiter->wake_sender.fd = -1;
    waiter->control_sender.fd = -1;
}

quern_status qn_wait_open(struct qn_sqlite *self, quern_error *err)
{
    self->waiter.interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->waiter.interrupt_fd < 0) {
        return qn_error_set(err, QUERN_E_CONNECT, "sqlite %s: no descriptor left", self->path);
    }
    return QUERN_OK;
}

void qn_wait_close(struct qn_sqlite *self)
{
    close_waiter(self);
}

void qn_wait_finish(struct qn_waiter *waiter)
{
    qn_sockets_close_fd(&waiter->interrupt_fd);
    pthread_mutex_destroy(&waiter->mutex);
}

static bool watch(struct qn_waiter *waiter, int fd, uint32_t events, enum source source)
{
    struct epoll_event event = {.events = events, .data.u32 = source};
    return epoll_ctl(waiter->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool make_sockets(struct qn_sqlite *self)
{
    struct qn_waiter *waiter = &self->waiter;
    if (self->memory != NULL) {
        return qn_waiters_join(self->memory, 'c', &waiter->control_fd, &waiter->control_sender) &&
               qn_waiters_join(self->memory, 'w', &waiter->wake_fd, &waiter->wake_sender);
    }
    return qn_sockets_open(self, &waiter->sockets, true) &&
           qn_sockets_make(self, &waiter->sockets, "c", &waiter->control_fd) &&
           qn_sockets_make(self, &waiter->sockets, "w", &waiter->wake_fd);
}

static bool make_waiter(struct qn_sqlite *self)
{
    struct qn_waiter *waiter = &self->waiter;
    waiter->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return waiter->epoll_fd >= 0 && make_sockets(self) &&
           watch(waiter, waiter->interrupt_fd, EPOLLIN, FROM_INTERRUPT) &&
           watch(waiter, waiter->control_fd, EPOLLIN, FROM_CONTROL) &&
           watch(waiter, waiter->wake_fd, EPOLLONESHOT, FROM_WAKE);
}

/* A directory of another user that we trust with the file: no sockets, only the safety net. */
static bool make_unsignalled(struct qn_waiter *waiter)
{
    waiter->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    waiter->deaf =
        waiter->epoll_fd >= 0 && watch(waiter, waiter->interrupt_fd, EPOLLIN, FROM_INTERRUPT);
    return waiter->deaf;
}

/* With the mutex held. */
static quern_status prepare(struct qn_sqlite *self, quern_error *err)
{
    if (self->waiter.ready) {
        return QUERN_OK;
    }
    if (!make_waiter(self)) {
        int reason = errno;
        close_waiter(self);
        bool is_foreign = self->memory == NULL && (reason == EACCES || reason == EPERM);
        if (self->trust_owner && is_foreign && make_unsignalled(&self->waiter)) {
            self->waiter.ready = true;
            return QUERN_OK;
        }
        close_waiter(self);
        if (is_foreign) {
            return qn_error_set(err, QUERN_E_CONNECT,
                                "sqlite: no socket in %s: it belongs to another user, or others "
                                "may write to it; remove it, or write sqlite://%s?trust_owner=1",
                                self->wake_path, qn_sqlite_place_shown(self->path));
        }
        return qn_error_set(err, QUERN_E_CONNECT, "sqlite %s: cannot create a socket in %s: %s",
                            self->path, self->memory != NULL ? "memory" : self->wake_path,
                            strerror(reason));
    }
    self->waiter.ready = true;
    return QUERN_OK;
}

static quern_status read_version(struct qn_conn *conn, int64_t *ret_version, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_data_version);
    int64_t version = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK) {
        *ret_version = version;
    }
    return status;
}

static quern_status look_at_queue(struct qn_conn *conn, const char *name, bool *ret_work,
                                  int64_t *ret_due_at_ms, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_queue_state);
    qn_query_text(&query, name);
    int64_t no = 0;
    bool paused = false;
    if (qn_query_row(&query)) {
        no = sqlite3_column_int64(query.statement, 0);
        paused = sqlite3_column_int64(query.statement, 1) != 0;
    }
    quern_status status = qn_query_finish(&query, err);
    if (status != QUERN_OK || no == 0) {
        return status;
    }
    if (!paused) {
        query = qn_query_start(conn, sql_queue_has_pending);
        qn_query_int(&query, no);
        *ret_work =
            (qn_query_row(&query) && sqlite3_column_int(query.statement, 0) != 0) || *ret_work;
        status = qn_query_finish(&query, err);
    }
    int64_t due_at_ms = INT64_MAX;
    if (status == QUERN_OK) {
        status = qn_tables_next_due(conn, no, &due_at_ms, err);
    }
    if (status == QUERN_OK && due_at_ms < *ret_due_at_ms) {
        *ret_due_at_ms = due_at_ms;
    }
    return status;
}

/* Empties the wake-up socket and lets its next datagram end a wait. With the mutex held. */
static quern_status arm_socket(struct qn_sqlite *self, quern_error *err)
{
    struct qn_waiter *waiter = &self->waiter;
    char text[8];
    while (!waiter->deaf && recv(waiter->wake_fd, text, sizeof text, MSG_DONTWAIT) >= 0) {
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = FROM_WAKE};
    if (!waiter->deaf && epoll_ctl(waiter->epoll_fd, EPOLL_CTL_MOD, waiter->wake_fd, &event) != 0) {
        return qn_error_set(err, QUERN_E_CONNECT, "sqlite %s: epoll: %s", self->path,
                            strerror(errno));
    }
    waiter->armed = true;
    waiter->armed_version = 0;
    waiter->polled_at_ns = qn_clock_mono_ns();
    return QUERN_OK;
}

quern_status qn_sqlite_arm(struct qn_broker *broker, struct qn_names queues, bool *ret_work,
                           int64_t *ret_next_due_at_ms, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    pthread_mutex_lock(&self->waiter.mutex);
    quern_status status = prepare(self, err);
    if (status == QUERN_OK) {
        status = arm_socket(self, err);
    }
    pthread_mutex_unlock(&self->waiter.mutex);
    struct qn_conn *conn = NULL;
    if (status == QUERN_OK) {
        status = qn_transaction_read_begin(self, &conn, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    bool work = false;
    int64_t due_at_ms = INT64_MAX;
    int64_t version = 0;
    status = read_version(conn, &version, err);
    for (size_t i = 0; status == QUERN_OK && i < queues.count; i++) {
        status = look_at_queue(conn, queues.items[i], &work, &due_at_ms, err);
    }
    qn_transaction_read_end(self);
    if (status != QUERN_OK) {
        return status;
    }
    pthread_mutex_lock(&self->waiter.mutex);
    self->waiter.armed_version = version;
    pthread_mutex_unlock(&self->waiter.mutex);
    *ret_work = work;
    *ret_next_due_at_ms = due_at_ms;
    return QUERN_OK;
}

/* A command: 'q', its text, NUL. */
static bool take_command(const char *text, size_t size, struct qn_wakeup *wakeup)
{
    if (strlen(text) + 1 != size || size > sizeof wakeup->command) {
        return false;
    }
    (void)stpcpy(wakeup->command, text + 1);
    return true;
}

/* One command or cancellation, if there is one. The latter: a digit, the queue, NUL, the id, NUL.
 */
static bool take_order(const struct qn_waiter *waiter, struct qn_wakeup *wakeup)
{
    char text[sizeof wakeup->queue + sizeof wakeup->id + 1];
    ssize_t size = recv(waiter->control_fd, text, sizeof text, MSG_DONTWAIT);
    if (size < 4 || text[size - 1] != '\0') {
        return false;
    }
    if (text[0] == 'q') {
        return take_command(text, (size_t)size, wakeup);
    }
    const char *queue = text + 1;
    const char *id = queue + strlen(queue) + 1;
    bool whole = id < text + size && id + strlen(id) + 1 == text + size &&
                 strlen(queue) < sizeof wakeup->queue && strlen(id) < sizeof wakeup->id;
    enum qn_cancel cancel = (enum qn_cancel)(text[0] - '0');
    if (!whole || (cancel != QN_CANCEL_RETRY && cancel != QN_CANCEL_ARCHIVE)) {
        return false;
    }
    wakeup->cancel = cancel;
    (void)stpcpy(wakeup->queue, queue);
    (void)stpcpy(wakeup->id, id);
    return true;
}

static void disarm(struct qn_waiter *waiter)
{
    pthread_mutex_lock(&waiter->mutex);
    waiter->armed = false;
    pthread_mutex_unlock(&waiter->mutex);
}

/* The safety net: has anybody committed since arm? Looks once a second. */
static quern_status look_for_changes(struct qn_sqlite *self, bool *ret_changed, quern_error *err)
{
    struct qn_waiter *waiter = &self->waiter;
    int64_t now_ns = qn_clock_mono_ns();
    *ret_changed = false;
    pthread_mutex_lock(&waiter->mutex);
    bool due = waiter->armed && waiter->armed_version != 0 &&
               now_ns - waiter->polled_at_ns >= QN_SAFETY_NET_MS * QN_NS_PER_MS;
    int64_t armed_version = waiter->armed_version;
    if (due) {
        waiter->polled_at_ns = now_ns;
    }
    pthread_mutex_unlock(&waiter->mutex);
    struct qn_conn *conn = NULL;
    quern_status status = due ? qn_transaction_read_begin(self, &conn, err) : QUERN_OK;
    if (status != QUERN_OK || !due) {
        return status;
    }
    int64_t version = armed_version;
    status = read_version(conn, &version, err);
    qn_transaction_read_end(self);
    *ret_changed = version != armed_version;
    return status;
}

/* Makes new sockets when ours were removed, since no process can wake us through them. Only the
 * waiting thread does this: it uses the descriptors without the mutex. */
static quern_status renew(struct qn_sqlite *self, bool *ret_renewed, quern_error *err)
{
    struct qn_waiter *waiter = &self->waiter;
    quern_status status = QUERN_OK;
    pthread_mutex_lock(&waiter->mutex);
    *ret_renewed = qn_sockets_removed(&waiter->sockets, "w");
    if (*ret_renewed) {
        close_waiter(self);
        status = prepare(self, err);
    }
    pthread_mutex_unlock(&waiter->mutex);
    return status;
}

/* Sleeps for one slice. True: *wakeup is the reason, also for an interruption. */
static quern_status sleep_once(struct qn_sqlite *self, int timeout_ms, struct qn_wakeup *wakeup,
                               bool *ret_ended, quern_error *err)
{
    struct qn_waiter *waiter = &self->waiter;
    struct epoll_event event = {0};
    *ret_ended = false;
    int count = epoll_wait(waiter->epoll_fd, &event, 1, timeout_ms);
    if (count < 0 && errno != EINTR) {
        return qn_error_set(err, QUERN_E_CONNECT, "sqlite %s: epoll: %s", self->path,
                            strerror(errno));
    }
    quern_status status = QUERN_OK;
    uint64_t times = 0;
    if (count <= 0) {
        status = renew(self, &wakeup->work, err);
        if (status == QUERN_OK && !wakeup->work) {
            status = look_for_changes(self, &wakeup->work, err);
        }
        *ret_ended = wakeup->work;
    } else {
        switch ((enum source)event.data.u32) {
        case FROM_INTERRUPT:
            *ret_ended = read(waiter->interrupt_fd, &times, sizeof times) > 0;
            break;
        case FROM_WAKE:
            wakeup->work = true;
            *ret_ended = true;
            break;
        case FROM_CONTROL:
            *ret_ended = take_order(waiter, wakeup);
            break;
        }
    }
    if (wakeup->work) {
        disarm(waiter);
    }
    return status;
}

quern_status qn_sqlite_wait(struct qn_broker *broker, int64_t timeout_ms,
                            struct qn_wakeup *ret_wakeup, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_wakeup wakeup = {0};
    pthread_mutex_lock(&self->waiter.mutex);
    quern_status status = prepare(self, err);
    pthread_mutex_unlock(&self->waiter.mutex);
    int64_t end_ns = qn_clock_mono_ns() + timeout_ms * QN_NS_PER_MS;
    bool ended = false;
    while (status == QUERN_OK && !ended) {
        int64_t left_ns = end_ns - qn_clock_mono_ns();
        int64_t left_ms = left_ns <= 0 ? 0 : (left_ns + QN_NS_PER_MS - 1) / QN_NS_PER_MS;
        int slice_ms = left_ms < QN_SAFETY_NET_MS ? (int)left_ms : QN_SAFETY_NET_MS;
        status = sleep_once(self, slice_ms, &wakeup, &ended, err);
        ended = ended || left_ms == 0;
    }
    if (status == QUERN_OK) {
        *ret_wakeup = wakeup;
    }
    return status;
}

/* Async-signal-safe: one write to a descriptor that lives as long as the object. */
void qn_sqlite_interrupt(struct qn_broker *broker)
{
    int reason = errno;
    uint64_t once = 1;
    ssize_t written = write(qn_sqlite_of(broker)->waiter.interrupt_fd, &once, sizeof once);
    (void)written; /* a full counter is an interruption already */
    errno = reason;
}
