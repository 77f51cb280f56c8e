/* SPDX-License-Identifier: MIT */
/* receive.c - reads the frames of a child, and believes none of them.
 *
 * A child may send READY once, and then frames about the item that runs, the last of which is its
 * result. The item must be the first one of its window, must have started as the page says, and
 * must have been sent to it as a whole. Anything else is the end of the child.
 *
 * A child that sends without end gets no more than its turn: READS_MAX reads for an event. */
#include "pool/prefork/inside/receive.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "pool/prefork/inside/children.h"
#include "pool/prefork/inside/window.h"

enum { READS_MAX = 8, REST_READS_MAX = 4096, STDERR_WAIT_MS = 20 };

static bool refuse(struct qn_prefork_child *child, const char *why)
{
    qn_children_kill(child, why);
    qn_children_close_socket(child); /* nothing that it sends is read any more */
    return false;
}

static struct qn_prefork_item *find_head(struct qn_prefork_child *child,
                                         const struct qn_frame_header *header)
{
    struct qn_prefork_item *head = child->count > 0 ? child->window[0] : NULL;
    if (head == NULL || head->slot != header->slot || head->sequence != header->sequence) {
        return NULL;
    }
    return head;
}

static bool on_result(struct qn_prefork_child *child, struct qn_prefork_item *item,
                      struct qn_bytes body, bool is_last)
{
    struct qn_prefork *prefork = child->prefork;
    uint32_t slot = item->slot;
    child->has_run = true;
    if (is_last) {
        child->retiring = true;
        qn_window_take_all(child);
    }
    qn_window_remove(child, 0);
    (void)pthread_mutex_unlock(&prefork->mutex);
    bool accepted = prefork->ops.result(item, body, prefork->user);
    (void)pthread_mutex_lock(&prefork->mutex);
    if (!accepted) {
        qn_window_put_back(child, item, slot);
        return refuse(child, "it sent a result that breaks the rules");
    }
    qn_window_advance(child);
    return true;
}

static bool on_frame(struct qn_prefork_child *child, struct qn_prefork_item *item, uint16_t kind,
                     struct qn_bytes body)
{
    struct qn_prefork *prefork = child->prefork;
    (void)pthread_mutex_unlock(&prefork->mutex);
    bool accepted = prefork->ops.frame(item, kind, body, prefork->user);
    (void)pthread_mutex_lock(&prefork->mutex);
    return accepted || refuse(child, "it sent a frame that breaks the rules");
}

void qn_receive_ready(struct qn_prefork_child *child)
{
    if (child->sent_ready && child->pid > 0 && !child->is_ready) {
        child->is_ready = true;
        child->prefork->ready += child->is_closing ? 0 : 1;
        child->ready_until_ms = QN_NEVER_MS;
        qn_window_advance(child);
    }
}

static bool on_ready(struct qn_prefork_child *child, const struct qn_frame_header *header)
{
    if (child->sent_ready || header->size > 0) {
        return refuse(child, "it sent a frame that breaks the rules");
    }
    child->sent_ready = true;
    qn_receive_ready(child);
    return true;
}

bool qn_receive_frame(struct qn_prefork_child *child, const struct qn_frame_header *header,
                      struct qn_bytes body)
{
    if (header->kind == QN_FRAME_READY) {
        return on_ready(child, header);
    }
    struct qn_prefork_item *item = find_head(child, header);
    if (item == NULL || !child->is_ready) {
        return refuse(child, "it sent a frame for an item that it does not have");
    }
    if (!qn_page_is_started(child->page, item->slot, item->sequence) ||
        qn_send_has_borrowed(&child->out)) {
        child->lied = true;
        return refuse(child, "it sent a frame for an item that it has not started");
    }
    if (header->kind >= QN_PREFORK_KIND_FIRST) {
        return on_frame(child, item, header->kind, body);
    }
    if (header->kind != QN_FRAME_RESULT && header->kind != QN_FRAME_RESULT_LAST) {
        return refuse(child, "it sent a frame of an unknown kind");
    }
    return on_result(child, item, body, header->kind == QN_FRAME_RESULT_LAST);
}

static bool take_frames(struct qn_prefork_child *child)
{
    struct qn_frame_header header;
    struct qn_room body;
    enum qn_frame_found found = qn_frame_reader_next(&child->reader, &header, &body);
    while (found == QN_FRAME_FOUND) {
        if (!qn_receive_frame(child, &header, (struct qn_bytes){body.data, body.size})) {
            return false;
        }
        found = qn_frame_reader_next(&child->reader, &header, &body);
    }
    return found == QN_FRAME_NONE || refuse(child, "it sent a frame that is too large");
}

/* True: there may be more. */
static bool read_once(struct qn_prefork_child *child)
{
    struct qn_room room = qn_frame_reader_room(&child->reader);
    if (room.data == NULL) {
        return refuse(child, "there is no memory for its frame");
    }
    ssize_t count = recv(child->socket_fd, room.data, room.size, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        return errno == EINTR;
    }
    if (count <= 0) {
        qn_children_close_socket(child);
        return false;
    }
    qn_frame_reader_add(&child->reader, (size_t)count);
    return take_frames(child) && (size_t)count == room.size;
}

void qn_receive_some(struct qn_prefork_child *child)
{
    for (int i = 0; i < READS_MAX && child->socket_fd >= 0; i++) {
        if (!read_once(child)) {
            return;
        }
    }
}

void qn_receive_rest(struct qn_prefork_child *child)
{
    /* A stranger may hold its socket, and send. */
    for (int i = 0; i < REST_READS_MAX && child->socket_fd >= 0; i++) {
        if (!read_once(child)) {
            break;
        }
    }
    (void)qn_tail_read(&child->tail, true);
}

/* With no events epoll would still report the end of the pipe, again and again. */
static void watch_stderr(struct qn_prefork_child *child, bool watched)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &child->stderr_source};
    (void)epoll_ctl(child->prefork->epoll_fd, watched ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
                    child->tail.fd, &event);
}

void qn_receive_stderr(struct qn_prefork_child *child)
{
    bool was_blocked = child->stderr_at_ms != QN_NEVER_MS;
    if (child->tail.fd < 0) {
        return;
    }
    child->stderr_at_ms = QN_NEVER_MS;
    switch (qn_tail_read(&child->tail, false)) {
    case QN_TAIL_OPEN:
        if (was_blocked) {
            watch_stderr(child, true);
        }
        break;
    case QN_TAIL_BLOCKED:
        if (!was_blocked) {
            watch_stderr(child, false);
        }
        child->stderr_at_ms = qn_children_now_ms() + STDERR_WAIT_MS;
        qn_children_set_timer(child->prefork, child->stderr_at_ms);
        break;
    case QN_TAIL_ENDED:
        watch_stderr(child, false);
        break;
    }
}
