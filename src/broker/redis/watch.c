/* SPDX-License-Identifier: MIT */
/* watch.c - opening and closing the pair of connections that hears of news. */
#include "broker/redis/watch.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"

quern_status qn_watch_init(struct qn_watch *watch, const struct qn_link_target *target,
                           quern_error *err)
{
    pthread_mutex_init(&watch->mutex, NULL);
    qn_link_init(&watch->listener, target);
    watch->interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return watch->interrupt_fd >= 0
               ? QUERN_OK
               : qn_error_set(err, QUERN_E_CONNECT, "%s: no descriptor left", target->address);
}

void qn_watch_finish(struct qn_watch *watch)
{
    qn_link_close(&watch->listener);
    if (watch->interrupt_fd >= 0) {
        (void)close(watch->interrupt_fd);
    }
    pthread_mutex_destroy(&watch->mutex);
}
