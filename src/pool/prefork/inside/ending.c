/* SPDX-License-Identifier: MIT */
/* ending.c - what a dead child leaves.
 *
 * Results were read before, so all items that are left have none. Only the first of them can have
 * started, whatever the page says of the others: a child that runs two at a time breaks the rules.
 * The first one has not started if the page still says QUEUED; any other word there counts as
 * started, because it may be the item itself that has written over it. */
#include "pool/prefork/inside/ending.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/bug.h"
#include "base/memory/alloc.h"
#include "pool/prefork/inside/children.h"
#include "pool/prefork/inside/oom.h"
#include "pool/prefork/inside/window.h"
#include "quern/log.h"

void qn_ending_log(struct qn_prefork *prefork, int level, const char *message, pid_t pid,
                   const char *detail)
{
    if (prefork->ops.log != NULL) {
        (void)pthread_mutex_unlock(&prefork->mutex);
        prefork->ops.log(level, message, pid, detail, prefork->user);
        (void)pthread_mutex_lock(&prefork->mutex);
    }
}

void qn_ending_failed(struct qn_prefork *prefork, pid_t pid, const char *why)
{
    why = why == NULL ? "unknown error" : why;
    if (prefork->ops.failed == NULL) {
        qn_ending_log(prefork, QUERN_LOG_WARN, "no child could be started", pid, why);
        return;
    }
    (void)pthread_mutex_unlock(&prefork->mutex);
    prefork->ops.failed(pid, why, prefork->user);
    (void)pthread_mutex_lock(&prefork->mutex);
}

static bool was_killed(const struct qn_prefork_child *child)
{
    return WIFSIGNALED(child->status) && WTERMSIG(child->status) == SIGKILL && !child->by_us;
}

static bool is_over_cpu(const struct qn_prefork_child *child)
{
    uint64_t cpu_s = child->prefork->options.limits.cpu_s;
    int64_t used_us =
        (child->usage.ru_utime.tv_sec + child->usage.ru_stime.tv_sec) * INT64_C(1000000) +
        child->usage.ru_utime.tv_usec + child->usage.ru_stime.tv_usec;
    return child->over_cpu || (WIFSIGNALED(child->status) && WTERMSIG(child->status) == SIGXCPU) ||
           (was_killed(child) && cpu_s > 0 && (uint64_t)used_us / 1000000 >= cpu_s);
}

static void describe(const struct qn_prefork_child *child, struct qn_room text)
{
    int status = child->status;
    if (child->hostile != NULL) {
        (void)snprintf(text.data, text.size, "%s", child->hostile);
    } else if (WIFSIGNALED(status)) {
        (void)snprintf(text.data, text.size, "signal %d", WTERMSIG(status));
    } else {
        (void)snprintf(text.data, text.size, "exit status %d", WEXITSTATUS(status));
    }
}

static void call_died(struct qn_prefork_child *child, bool started,
                      const struct qn_prefork_death *death)
{
    struct qn_prefork *prefork = child->prefork;
    while (child->count > 0) {
        uint32_t place = QN_BUG(NEIGHBOUR_CHARGED) ? child->count - 1 : 0;
        struct qn_prefork_item *item = child->window[place];
        qn_window_remove(child, place);
        (void)pthread_mutex_unlock(&prefork->mutex);
        prefork->ops.died(item, started, death, prefork->user);
        (void)pthread_mutex_lock(&prefork->mutex);
        started = false;
    }
}

void qn_ending_finish(struct qn_prefork_child *child)
{
    struct qn_prefork *prefork = child->prefork;
    static const char none[] = "";
    char backtrace[QN_PAGE_TEXT_SIZE + 1];
    char detail[128];
    bool started = qn_children_has_started(child);
    bool obeyed = child->told_to_end && !child->by_us && child->status == 0;
    qn_children_close_socket(child); /* also drops what waits to be written of its items */
    qn_page_copy_text(child->page, QN_ROOM_OF(backtrace));
    char *stderr_text = qn_tail_text(&child->tail);
    bool killed = was_killed(child);
    const struct qn_prefork_death death = {
        .status = child->status,
        .by_us = child->by_us,
        .with_zygote = child->with_zygote,
        .with_pool = child->with_zygote && prefork->is_gone,
        .out_of_memory =
            killed && qn_oom_count(prefork->options.limits.cgroup_fd) > child->oom_count,
        .over_cpu = is_over_cpu(child),
        .hostile = child->hostile,
        .usage = child->usage,
        .backtrace = backtrace,
        .stderr_text = stderr_text == NULL ? none : stderr_text};
    describe(child, QN_ROOM_OF(detail));
    bool expected = obeyed || prefork->stopping || child->with_zygote;
    bool not_ready = !child->is_ready && !prefork->stopping && !child->with_zygote &&
                     (child->status != 0 || child->hostile != NULL);
    if (not_ready) {
        qn_ending_failed(prefork, child->pid, detail);
    } else {
        qn_ending_log(prefork, expected ? QUERN_LOG_DEBUG : QUERN_LOG_WARN, "a child ended",
                      child->pid, detail);
    }
    call_died(child, started, &death);
    qn_free(stderr_text);
    qn_children_remove(child);
}

void qn_ending_give_up(struct qn_prefork *prefork, struct qn_list *items)
{
    static const struct qn_prefork_death none = {.by_us = true, .backtrace = "", .stderr_text = ""};
    struct qn_list *node = qn_list_shift(items);
    while (node != NULL) {
        (void)pthread_mutex_unlock(&prefork->mutex);
        prefork->ops.died(QN_CONTAINER_OF(node, struct qn_prefork_item, node), false, &none,
                          prefork->user);
        (void)pthread_mutex_lock(&prefork->mutex);
        node = qn_list_shift(items);
    }
}
