/* SPDX-License-Identifier: MIT */
/* children.c - makes children by the zygote, signals them and takes them apart.
 *
 * A child that is missing is started at once, all of them side by side. One that dies before it has
 * run anything delays the next start: 50 ms, then twice as long each time, up to 10 s. When the
 * system has no descriptors or processes left, it is the same.
 */
#include "pool/prefork/inside/children.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/memory/alloc.h"
#include "pool/prefork/inside/oom.h"
#include "quern/log.h"

enum { READY_MS = 4000, END_MS = 1000, BACKOFF_MS_MIN = 50, BACKOFF_MS_MAX = 10000 };

int64_t qn_children_now_ms(void)
{
    return qn_clock_mono_ns() / QN_NS_PER_MS;
}

void qn_children_wake(struct qn_prefork *prefork)
{
    const uint64_t one = 1;
    prefork->woken = true;
    if (prefork->sleeping) {
        prefork->sleeping = false;
        (void)!write(prefork->wake_fd, &one, sizeof one);
    }
}

void qn_children_set_timer(struct qn_prefork *prefork, int64_t at_ms)
{
    if (at_ms < prefork->timer_ms) {
        prefork->timer_ms = at_ms;
        qn_children_wake(prefork);
    }
}

struct ends {
    int socket_fds[2]; /* ours, the child's */
    int stderr_fds[2]; /* ours, the child's */
    int page_fd;
};

static void close_fd(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

static void close_ends(const struct ends *ends)
{
    close_fd(ends->socket_fds[0]);
    close_fd(ends->socket_fds[1]);
    close_fd(ends->stderr_fds[0]);
    close_fd(ends->stderr_fds[1]);
    close_fd(ends->page_fd);
}

static bool open_ends(struct ends *ends, struct qn_page **ret_page)
{
    *ends = (struct ends){{-1, -1}, {-1, -1}, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends->socket_fds) != 0 ||
        pipe2(ends->stderr_fds, O_CLOEXEC) != 0 ||
        fcntl(ends->stderr_fds[0], F_SETFL, O_NONBLOCK) != 0 ||
        qn_page_new(ret_page, &ends->page_fd, NULL) != QUERN_OK) {
        close_ends(ends);
        return false;
    }
    return true;
}

static bool add_source(struct qn_prefork *prefork, int fd, struct qn_source *source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};
    return epoll_ctl(prefork->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* On a machine without CPU to spare all children may be slow: killing them again and again would
 * be of no use, so each one that failed gives the next more time, up to a minute. */
static int64_t ready_within_ms(const struct qn_prefork *prefork)
{
    return (int64_t)READY_MS << (prefork->fail_count < 4 ? prefork->fail_count : 4);
}

static void fill(struct qn_prefork_child *child, struct qn_prefork *prefork,
                 struct qn_generation *generation)
{
    int64_t now = qn_children_now_ms();
    child->prefork = prefork;
    child->generation = generation;
    child->socket_source = (struct qn_source){QN_SOURCE_SOCKET, child};
    child->stderr_source = (struct qn_source){QN_SOURCE_STDERR, child};
    child->number = ++prefork->last_number;
    child->pid_fd = -1;
    child->ready_until_ms = now + ready_within_ms(prefork);
    child->kill_at_ms = QN_NEVER_MS;
    child->end_until_ms = QN_NEVER_MS;
    child->stderr_at_ms = QN_NEVER_MS;
    child->cpu_look_at_ms = QN_NEVER_MS;
    child->oom_count = qn_oom_count(prefork->options.limits.cgroup_fd);
    qn_list_init(&child->room_node);
    qn_frame_reader_init(&child->reader, prefork->options.frame_size_max);
    qn_send_init(&child->out);
    qn_children_set_timer(prefork, child->ready_until_ms);
}

/* The zygote has the child's ends, or has refused them: they are closed here either way, but for
 * the page. */
static bool ask_zygote(struct qn_prefork_child *child, struct ends *ends)
{
    const struct qn_zygote_ends theirs = {.socket_fd = ends->socket_fds[1],
                                          .page_fd = ends->page_fd,
                                          .stderr_fd = ends->stderr_fds[1]};
    quern_error err = {0};
    quern_status status = qn_zygote_start_child(child->generation->zygote, child->number, &theirs,
                                                &child->prefork->options.limits, &err);
    close_fd(ends->socket_fds[1]);
    close_fd(ends->stderr_fds[1]);
    ends->socket_fds[1] = ends->stderr_fds[1] = -1;
    return status == QUERN_OK;
}

static bool start_child(struct qn_prefork *prefork, struct qn_generation *generation)
{
    struct ends ends;
    struct qn_prefork_child *child = qn_alloc_zero(1, sizeof *child);
    if (child == NULL) {
        return false;
    }
    if (!open_ends(&ends, &child->page)) {
        goto fail_child;
    }
    fill(child, prefork, generation);
    child->socket_fd = ends.socket_fds[0];
    child->page_fd = ends.page_fd;
    if (!qn_tail_init(&child->tail, ends.stderr_fds[0], prefork->options.stderr_size_max)) {
        goto fail_ends;
    }
    if (!add_source(prefork, child->socket_fd, &child->socket_source) ||
        !add_source(prefork, child->tail.fd, &child->stderr_source) || !ask_zygote(child, &ends)) {
        goto fail_tail;
    }
    qn_list_append(&prefork->children, &child->node);
    generation->child_count++;
    prefork->live++;
    return true;

fail_tail:
    qn_tail_finish(&child->tail);
    ends.stderr_fds[0] = -1;
fail_ends:
    close_ends(&ends); /* which takes them out of epoll, too */
    qn_page_free(child->page);
fail_child:
    qn_free(child);
    return false;
}

void qn_children_back_off(struct qn_prefork *prefork)
{
    int64_t wait_ms = BACKOFF_MS_MAX;
    if (prefork->fail_count < 8) {
        wait_ms = INT64_C(1) * BACKOFF_MS_MIN << prefork->fail_count;
        prefork->fail_count++;
    }
    if (wait_ms > BACKOFF_MS_MAX) {
        wait_ms = BACKOFF_MS_MAX;
    }
    prefork->start_at_ms = qn_children_now_ms() + wait_ms;
    qn_children_set_timer(prefork, prefork->start_at_ms);
}

bool qn_children_has_started(const struct qn_prefork_child *child)
{
    const struct qn_prefork_item *head = child->count > 0 ? child->window[0] : NULL;
    return head != NULL && child->head_begun &&
           (child->lied || !qn_page_is_queued(child->page, head->slot, head->sequence));
}

static void note_death(struct qn_prefork_child *child)
{
    struct qn_prefork *prefork = child->prefork;
    if (child->has_run || qn_children_has_started(child)) {
        prefork->fail_count = 0;
    } else if (qn_children_now_ms() >= prefork->start_at_ms) {
        qn_children_back_off(prefork); /* of several that die together only the first one counts */
    }
}

int qn_children_start(struct qn_prefork *prefork)
{
    struct qn_generation *generation =
        QN_CONTAINER_OF(prefork->generations.next, struct qn_generation, node);
    if (prefork->stopping || prefork->is_gone || prefork->live >= prefork->options.size ||
        qn_children_now_ms() < prefork->start_at_ms) {
        return 0;
    }
    while (prefork->live < prefork->options.size) {
        if (!start_child(prefork, generation)) {
            int error_number = errno;
            qn_children_back_off(prefork);
            return error_number != 0 ? error_number : EAGAIN;
        }
    }
    return 0;
}

void qn_children_signal(const struct qn_prefork_child *child, int number)
{
    if (child->pid > 0 && !child->is_ended) {
        qn_zygote_kill(child->pid, child->pid_fd, number);
    }
}

void qn_children_note_closing(struct qn_prefork_child *child)
{
    if (!child->is_closing) {
        child->is_closing = true;
        child->retiring = true;
        qn_list_remove(&child->room_node);
        child->prefork->live--;
        child->prefork->ready -= child->is_ready ? 1 : 0;
    }
}

void qn_children_kill(struct qn_prefork_child *child, const char *hostile)
{
    child->by_us = true;
    child->retiring = true;
    qn_list_remove(&child->room_node);
    if (hostile != NULL && child->hostile == NULL) {
        child->hostile = hostile;
    }
    child->kill_at_ms = QN_NEVER_MS;
    if (child->end_until_ms == QN_NEVER_MS) {
        child->end_until_ms = qn_children_now_ms() + END_MS;
        qn_children_set_timer(child->prefork, child->end_until_ms);
    }
    qn_children_signal(child, SIGKILL);
}

static void close_if_done(struct qn_prefork_child *child)
{
    if (child->retiring && child->count == 0 && !child->is_closing && child->socket_fd >= 0) {
        qn_children_note_closing(child);
        (void)shutdown(child->socket_fd, SHUT_WR); /* the child reads the end, and ends */
        child->told_to_end = true;
        child->end_until_ms = qn_children_now_ms() + READY_MS;
        qn_children_set_timer(child->prefork, child->end_until_ms);
    }
}

void qn_children_retire(struct qn_prefork_child *child)
{
    child->retiring = true;
    qn_list_remove(&child->room_node);
    close_if_done(child);
}

void qn_children_flush(struct qn_prefork_child *child)
{
    if (child->socket_fd < 0) {
        return;
    }
    bool full = !qn_send_flush(&child->out, child->socket_fd);
    if (full != child->wants_write) {
        struct epoll_event event = {.events = EPOLLIN | (full ? (uint32_t)EPOLLOUT : 0),
                                    .data.ptr = &child->socket_source};
        (void)epoll_ctl(child->prefork->epoll_fd, EPOLL_CTL_MOD, child->socket_fd, &event);
        child->wants_write = full;
    }
}

/* A process that the worker has just forked may hold a copy, and would keep a descriptor that is
 * only closed in the epoll, with the address of a child that is freed. */
static void unwatch(struct qn_prefork_child *child, int fd)
{
    if (fd >= 0) {
        (void)epoll_ctl(child->prefork->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    }
}

void qn_children_close_socket(struct qn_prefork_child *child)
{
    if (child->socket_fd >= 0) {
        unwatch(child, child->socket_fd);
        (void)close(child->socket_fd);
        child->socket_fd = -1;
        qn_send_finish(&child->out);
        if (!child->is_closing) {
            note_death(child);
        }
        qn_children_note_closing(child);
        if (child->end_until_ms == QN_NEVER_MS) {
            child->end_until_ms = qn_children_now_ms() + END_MS;
            qn_children_set_timer(child->prefork, child->end_until_ms);
        }
    }
}

void qn_children_remove(struct qn_prefork_child *child)
{
    QN_ASSERT(child->count == 0);
    qn_children_close_socket(child);
    unwatch(child, child->tail.fd);
    qn_tail_finish(&child->tail);
    close_fd(child->pid_fd);
    close_fd(child->page_fd);
    child->pid_fd = child->page_fd = -1;
    qn_frame_reader_finish(&child->reader);
    qn_page_free(child->page);
    child->page = NULL;
    child->generation->child_count--;
    qn_list_remove(&child->node);
    qn_list_append(&child->prefork->freed, &child->node);
}

void qn_children_free_removed(struct qn_prefork *prefork)
{
    struct qn_list *node = qn_list_shift(&prefork->freed);
    while (node != NULL) {
        qn_free(QN_CONTAINER_OF(node, struct qn_prefork_child, node));
        node = qn_list_shift(&prefork->freed);
    }
}
