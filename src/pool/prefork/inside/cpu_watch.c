/* SPDX-License-Identifier: MIT */
/* cpu_watch.c - looks at the processor time of children that run an item with a limit of it.
 *
 * A hard limit of the kernel could not be raised again for the next item, so each limited item
 * would cost a process. The time is that of the process at the beginning of its item, the limit
 * rounded up to whole seconds as the child does it, and GRACE_MS. It is read again after half of
 * what is left, since a child with several threads may use more than one processor. An item that
 * waited in the window has begun a little before we know it: it is never killed too early. */
#include "pool/prefork/inside/cpu_watch.h"

#include "base/bug.h"
#include "base/clock.h"
#include "pool/prefork/inside/children.h"

enum { MS_PER_S = 1000, GRACE_MS = 1000, WAIT_MS_MIN = 20, WAIT_MS_MAX = 1000 };

static int64_t next_look(const struct qn_prefork_child *child, int64_t used_ms, int64_t now_ms)
{
    int64_t wait_ms = (child->cpu_end_ms - used_ms) / 2;
    wait_ms = wait_ms < WAIT_MS_MIN ? WAIT_MS_MIN : wait_ms;
    return now_ms + (wait_ms > WAIT_MS_MAX ? WAIT_MS_MAX : wait_ms);
}

void qn_cpu_watch_begin(struct qn_prefork_child *child)
{
    uint64_t limit_ms = child->count > 0 ? child->window[0]->limits.cpu_ms : 0;
    int64_t used_ms = limit_ms > 0 && child->pid > 0 ? qn_clock_cpu_ms(child->pid) : -1;
    qn_cpu_watch_end(child);
    if (used_ms >= 0 && limit_ms < INT64_MAX / 2) {
        int64_t end_ms = used_ms + (int64_t)limit_ms;
        child->cpu_end_ms = (end_ms + MS_PER_S - 1) / MS_PER_S * MS_PER_S + GRACE_MS;
        child->cpu_look_at_ms = next_look(child, used_ms, qn_children_now_ms());
        qn_children_set_timer(child->prefork, child->cpu_look_at_ms);
    }
}

void qn_cpu_watch_end(struct qn_prefork_child *child)
{
    child->cpu_look_at_ms = QN_NEVER_MS;
}

bool qn_cpu_watch_is_over(struct qn_prefork_child *child, int64_t now_ms)
{
    if (now_ms < child->cpu_look_at_ms) {
        return false;
    }
    int64_t used_ms = child->is_ended || child->by_us ? -1 : qn_clock_cpu_ms(child->pid);
    qn_cpu_watch_end(child);
    if (used_ms >= child->cpu_end_ms && !QN_BUG(CPU_UNWATCHED)) {
        return true;
    }
    if (used_ms >= 0) {
        child->cpu_look_at_ms = next_look(child, used_ms, now_ms);
    }
    return false;
}
