/* SPDX-License-Identifier: MIT */
/* walk.c - through the names of all keys. */
#include "broker/redis/doctor/walk.h"

#include <stdio.h>
#include <string.h>

#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/node.h"

#define SCAN_COUNT 512

quern_status qn_walk_step(struct qn_walk *walk, struct qn_pipeline *pipeline,
                          const struct qn_reply **ret_keys, quern_error *err)
{
    const struct qn_reply *reply;
    qn_pipeline_command(pipeline, "SCAN");
    qn_pipeline_at(pipeline, walk->node);
    qn_pipeline_text(pipeline, walk->cursor);
    qn_pipeline_text(pipeline, "MATCH");
    qn_pipeline_text(pipeline, QN_KEY_ROOT "*");
    qn_pipeline_text(pipeline, "COUNT");
    qn_pipeline_int(pipeline, SCAN_COUNT);
    quern_status status = qn_pipeline_ask(pipeline, &reply, err);
    if (status == QUERN_OK) {
        const struct qn_reply *next = qn_reply_at(reply, 0);
        *ret_keys = qn_reply_at(reply, 1);
        status = qn_pipeline_expect(pipeline,
                                    next->type == QN_REPLY_TEXT && next->size > 0 &&
                                        next->size < sizeof walk->cursor &&
                                        (*ret_keys)->type == QN_REPLY_ARRAY,
                                    "SCAN", err);
        (void)snprintf(walk->cursor, sizeof walk->cursor, "%s", qn_reply_text(next));
    }
    return status;
}

quern_status qn_walk_nodes(struct qn_redis_doctor *doctor,
                           quern_status (*scan)(struct qn_redis_doctor *, int, quern_error *),
                           quern_error *err)
{
    int nodes[QN_SLOT_NODES_MAX];
    size_t count = qn_node_list(doctor->self->cluster, nodes);
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        status = scan(doctor, nodes[i], err);
    }
    return status;
}
