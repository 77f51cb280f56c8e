/* SPDX-License-Identifier: MIT */
/* loop_stock.c - idle processes, those that are to end, and the pause between failed starts.
 *
 * A process ends by the end of its input, a second later by SIGTERM, then by SIGKILL: one that had
 * its number of runs while others go on (it is looked at when the next run begins or ends), all of
 * them with the stock. If this program is killed, their guards kill them. */
#include "cli/loop/loop_stock.h"

#include <signal.h>

#include "base/clock.h"
#include "cli/memory.h"

enum {
    EOF_MS = 1000, /* from the end of its input to SIGTERM */
    KILL_AFTER_MS = 5000,
    PAUSE_MS_MIN = 100,
    PAUSE_MS_MAX = 10000
};

/* With mutex held. Looks at those that are to end; returns when to look again, INT64_MAX: never. */
static int64_t sweep(struct qn_loop_stock *stock)
{
    int64_t next_mono_ns = INT64_MAX;
    int64_t now_mono_ns = qn_clock_mono_ns();
    struct qn_list *after;
    for (struct qn_list *node = stock->ending.next; node != &stock->ending; node = after) {
        struct qn_loop_process *process = QN_CONTAINER_OF(node, struct qn_loop_process, node);
        const struct qn_loop_wait now = {.cancel_fd = -1, .until_mono_ns = now_mono_ns};
        struct qn_bytes line;
        after = node->next;
        bool is_late = now_mono_ns >= process->alarm_mono_ns;
        if (qn_loop_process_next(process, &now, &line) == QN_LOOP_ENDED ||
            (is_late && process->killed_by_us)) {
            qn_list_remove(node);
            qn_loop_process_free(process);
            continue;
        }
        if (is_late) {
            qn_loop_process_signal(process, SIGTERM);
            process->alarm_mono_ns = now_mono_ns + KILL_AFTER_MS * QN_NS_PER_MS;
        }
        next_mono_ns =
            process->alarm_mono_ns < next_mono_ns ? process->alarm_mono_ns : next_mono_ns;
    }
    return next_mono_ns;
}

/* With mutex held. */
static void begin_end(struct qn_loop_stock *stock, struct qn_loop_process *process)
{
    qn_loop_process_close_input(process);
    process->alarm_mono_ns = qn_clock_mono_ns() + EOF_MS * QN_NS_PER_MS;
    qn_list_append(&stock->ending, &process->node);
}

struct qn_loop_process *qn_loop_stock_take(struct qn_loop_stock *stock, bool *ret_was_noisy)
{
    struct qn_loop_process *found = NULL;
    *ret_was_noisy = false;
    (void)pthread_mutex_lock(&stock->mutex);
    (void)sweep(stock);
    while (found == NULL && !qn_list_empty(&stock->idle)) {
        found = QN_CONTAINER_OF(qn_list_shift(&stock->idle), struct qn_loop_process, node);
        if (!qn_loop_process_is_quiet(found)) {
            *ret_was_noisy = *ret_was_noisy || qn_loop_process_is_noisy(found);
            qn_loop_process_free(found);
            found = NULL;
        }
    }
    (void)pthread_mutex_unlock(&stock->mutex);
    return found;
}

void qn_loop_stock_give_back(struct qn_loop_stock *stock, struct qn_loop_process *process)
{
    (void)pthread_mutex_lock(&stock->mutex);
    process->run_count++;
    if (stock->runs_max > 0 && process->run_count >= stock->runs_max) {
        begin_end(stock, process);
    } else {
        qn_list_prepend(&stock->idle, &process->node);
    }
    (void)sweep(stock);
    (void)pthread_mutex_unlock(&stock->mutex);
}

void qn_loop_stock_note_start(struct qn_loop_stock *stock, bool is_ready)
{
    (void)pthread_mutex_lock(&stock->mutex);
    int64_t pause_ms = is_ready ? 0 : stock->pause_ms > 0 ? 2 * stock->pause_ms : PAUSE_MS_MIN;
    stock->pause_ms = pause_ms < PAUSE_MS_MAX ? pause_ms : PAUSE_MS_MAX;
    stock->start_at_mono_ns = is_ready ? 0 : qn_clock_mono_ns() + stock->pause_ms * QN_NS_PER_MS;
    (void)pthread_mutex_unlock(&stock->mutex);
}

int64_t qn_loop_stock_pause_ns(struct qn_loop_stock *stock)
{
    (void)pthread_mutex_lock(&stock->mutex);
    int64_t left_ns = stock->start_at_mono_ns - qn_clock_mono_ns();
    (void)pthread_mutex_unlock(&stock->mutex);
    return left_ns;
}

void qn_loop_stock_init(struct qn_loop_stock *stock, uint64_t runs_max)
{
    stock->runs_max = runs_max;
    qn_list_init(&stock->idle);
    qn_list_init(&stock->ending);
    if (pthread_mutex_init(&stock->mutex, NULL) != 0) {
        qn_memory_exhausted();
    }
}

void qn_loop_stock_finish(struct qn_loop_stock *stock)
{
    int64_t next_mono_ns;
    while (!qn_list_empty(&stock->idle)) {
        begin_end(stock,
                  QN_CONTAINER_OF(qn_list_shift(&stock->idle), struct qn_loop_process, node));
    }
    while ((next_mono_ns = sweep(stock)) != INT64_MAX) {
        struct qn_loop_process *first =
            QN_CONTAINER_OF(stock->ending.next, struct qn_loop_process, node);
        const struct qn_loop_wait wait = {.cancel_fd = -1, .until_mono_ns = next_mono_ns};
        struct qn_bytes line;
        (void)qn_loop_process_next(first, &wait, &line);
    }
    (void)pthread_mutex_destroy(&stock->mutex);
}
