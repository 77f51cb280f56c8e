/* SPDX-License-Identifier: MIT */
/* listener.h - the thread that waits for notices from the broker. */
#ifndef QN_WORKER_FETCH_LISTENER_H
#define QN_WORKER_FETCH_LISTENER_H

void *qn_listener_main(void *worker);

#endif
