/* SPDX-License-Identifier: MIT */
/* watch.c - reports a scheduler to the service manager: that it runs, its status, and while its
 * loop makes progress a sign of life. A broker that is away is no failure of its start. */
#include "cli/schedule/watch.h"

#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory/alloc.h"
#include "base/thread.h"
#include "cli/supervise/notify.h"

enum { TICK_MS = 500, START_WAIT_MS = 5000 };

struct qn_schedule_watch {
    const quern_scheduler *scheduler;
    pthread_t thread;
    int end_fd;
    int64_t begun_mono_ns;
    int64_t alive_mono_ns;
    bool is_complete; /* the start */
    int was_ready;    /* as it was reported; -1: not yet */
};

static int64_t report(struct qn_schedule_watch *watch)
{
    int64_t now_mono_ns = qn_clock_mono_ns();
    int64_t pace_ms = qn_notify_watchdog_ms();
    int64_t wait_ms = TICK_MS;
    bool is_ready = quern_scheduler_is_ready(watch->scheduler);
    bool waited = now_mono_ns - watch->begun_mono_ns >= START_WAIT_MS * QN_NS_PER_MS;
    if (!watch->is_complete && (is_ready || waited)) {
        watch->is_complete = qn_notify_ready();
    }
    if (watch->was_ready != (is_ready ? 1 : 0) &&
        qn_notify_status(is_ready ? "ready" : "not ready: waits for the broker")) {
        watch->was_ready = is_ready ? 1 : 0;
    }
    if (pace_ms > 0) {
        int64_t left_ms = pace_ms - (now_mono_ns - watch->alive_mono_ns) / QN_NS_PER_MS;
        if (left_ms <= 0 && quern_scheduler_is_live(watch->scheduler) && qn_notify_alive()) {
            watch->alive_mono_ns = now_mono_ns;
            left_ms = pace_ms;
        }
        wait_ms = left_ms > 0 && left_ms < wait_ms ? left_ms : wait_ms;
    }
    return wait_ms;
}

static void *serve(void *user)
{
    struct qn_schedule_watch *watch = user;
    struct pollfd end = {.fd = watch->end_fd, .events = POLLIN};
    do {
        int64_t wait_ms = report(watch);
        if (poll(&end, 1, (int)wait_ms) < 0) {
            end.revents = 0;
        }
    } while ((end.revents & POLLIN) == 0);
    return NULL;
}

struct qn_schedule_watch *qn_schedule_watch_start(const quern_scheduler *scheduler)
{
    quern_error err;
    if (!qn_notify_is_wanted()) {
        return NULL;
    }
    struct qn_schedule_watch *watch = qn_alloc_zero(1, sizeof *watch);
    if (watch == NULL) {
        return NULL;
    }
    watch->scheduler = scheduler;
    watch->was_ready = -1;
    watch->begun_mono_ns = qn_clock_mono_ns();
    watch->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch->end_fd < 0 ||
        qn_thread_start(&watch->thread, "quern-watch", serve, watch, &err) != QUERN_OK) {
        if (watch->end_fd >= 0) {
            (void)close(watch->end_fd);
        }
        qn_free(watch);
        return NULL;
    }
    return watch;
}

void qn_schedule_watch_stop(struct qn_schedule_watch *watch)
{
    const uint64_t one = 1;
    if (watch == NULL) {
        return;
    }
    (void)qn_notify_stopping(); /* it ends all the same */
    (void)!write(watch->end_fd, &one, sizeof one);
    (void)pthread_join(watch->thread, NULL);
    (void)close(watch->end_fd);
    qn_free(watch);
}
