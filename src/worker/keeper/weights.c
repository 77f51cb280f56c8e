/* SPDX-License-Identifier: MIT */
/* weights.c - see weights.h.
 *
 * Weights are changed by any thread under the mutex (reload.c); the pump takes them over with its
 * next request, and the heartbeat, which uses texts and shares without the mutex, here. */
#include "worker/keeper/weights.h"

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/buf.h"
#include "worker/internal.h"

enum { TEXT_SIZE_MAX = QN_QUEUES_MAX * (QN_SERVED_NAME_SIZE_MAX + 16) };

quern_status qn_weights_describe(struct quern_worker *worker, quern_error *err)
{
    struct qn_buf text;
    qn_buf_init(&text, TEXT_SIZE_MAX);
    quern_status status = QUERN_OK;
    for (size_t i = 0; i < worker->queue_count && status == QUERN_OK; i++) {
        status = qn_buf_printf(&text, "%s%s=%u", i == 0 ? "" : " ", worker->queue_shares[i].name,
                               worker->queue_shares[i].weight);
    }
    if (status != QUERN_OK) {
        qn_buf_finish(&text);
        return qn_error_nomem(err);
    }
    for (char *at = text.data; *at != '\0'; at++) {
        *at = (unsigned char)*at < ' ' || *at == 0x7f ? '?' : *at; /* it is a line of the record */
    }
    qn_free(worker->queues_text);
    worker->queues_text = text.data;
    return QUERN_OK;
}

void qn_weights_refresh(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    bool are_new = worker->shares_are_new;
    worker->shares_are_new = false;
    for (size_t i = 0; are_new && i < worker->queue_count; i++) {
        worker->queue_shares[i].weight = worker->options.queues[i].weight;
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    if (are_new && qn_weights_describe(worker, NULL) == QUERN_OK) {
        QN_LOG(&worker->log, QUERN_LOG_INFO, "queues have other weights",
               QN_LOG_TEXT("worker", worker->id), QN_LOG_TEXT("queues", worker->queues_text));
    }
}
