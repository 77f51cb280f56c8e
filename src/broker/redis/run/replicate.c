/* SPDX-License-Identifier: MIT */
/* replicate.c - waits until replicas have the tasks that were stored: WAIT, on the connection that
 * stored them.
 *
 * WAIT counts the replicas that have all writes of its connection. A request that is repeated on
 * another connection, because its reply was lost, writes nothing there; so the life of the
 * session's key is set again before, which is a write behind all others. A failure of the
 * connection leaves the tasks stored, but where else they are is not known: that counts as not
 * replicated, too. */
#include "broker/redis/run/replicate.h"

#include <inttypes.h>

#include "base/error.h"
#include "broker/redis/schema/keys.h"

#define SESSION_S 600 /* as lib_session.lua has it */
#define SLACK_MS 2000 /* for the reply, behind the time that the server waits */

quern_status qn_replicate_wait(struct qn_redis *self, struct qn_pipeline *pipeline,
                               const char *queue, uint64_t session, quern_error *err)
{
    if (self->wait_count == 0) {
        return QUERN_OK;
    }
    const struct qn_reply *reply = NULL;
    quern_error why = {0};
    size_t first = pipeline->command_count;
    qn_pipeline_command(pipeline, "EXPIRE");
    qn_keys_add(pipeline, queue, qn_arena_printf(pipeline->arena, "quern:s:%016" PRIx64, session));
    qn_pipeline_int(pipeline, SESSION_S);
    qn_pipeline_command(pipeline, "WAIT");
    qn_pipeline_uint(pipeline, self->wait_count);
    qn_pipeline_int(pipeline, self->wait_ms);
    qn_pipeline_held(pipeline);
    pipeline->timeout_ms = self->wait_ms + SLACK_MS;
    quern_status status = qn_pipeline_run(pipeline, &why);
    if (status == QUERN_OK) {
        status = qn_pipeline_reply(pipeline, first + 1, &reply, &why);
    }
    if (status != QUERN_OK) {
        return qn_error_set(err, QUERN_E_NOT_REPLICATED,
                            "whether replicas have it is not known: %.160s", why.text);
    }
    int64_t count = qn_reply_int(reply, 0);
    return count >= (int64_t)self->wait_count
               ? QUERN_OK
               : qn_error_set(err, QUERN_E_NOT_REPLICATED,
                              "%" PRId64 " of the %" PRIu32
                              " replicas asked for confirmed it within %" PRId64 " ms",
                              count, self->wait_count, self->wait_ms);
}
