/* SPDX-License-Identifier: MIT */
/* round.h - one round of a pipeline on a cluster: what is wanted goes out to all nodes at once, and
 * their replies come in; for route.c.
 *
 * A node that does not answer, or cannot be reached, holds up only the commands that wait for it:
 * hasty ones get an error reply in its place (pipeline.h). */
#ifndef QN_REDIS_CLUSTER_ROUND_H
#define QN_REDIS_CLUSTER_ROUND_H

#include "redis/pipeline.h"

/* A run of a pipeline: what its rounds have found so far. */
struct qn_route {
    struct qn_pipeline *pipeline;
    size_t first; /* command */
    int64_t begun_mono_ns;
    unsigned hops;                 /* in this run */
    unsigned pauses;               /* the same */
    struct qn_cluster_fault fault; /* of the map that this round uses */
    bool stale;                    /* the map is at fault */
    bool later;                    /* something needs a pause */
    bool again;                    /* something has to be sent again */
    quern_status unmet;            /* why the latest command that was not sent could not be */
    quern_error unmet_error;
};

/* When the run has to end. */
int64_t qn_round_end(const struct qn_route *route);
/* Why a command could not be sent. */
void qn_round_note_unmet(struct qn_route *route, quern_status status, const quern_error *error);
/* Whether it is to be sent. */
static inline bool qn_round_wants(const struct qn_pipeline_command *command)
{
    return command->reply == NULL && command->at < 0;
}

/* A hasty command gets the reply of a node that cannot be reached, because of `error`. */
void qn_round_leave_out(struct qn_route *route, struct qn_pipeline_command *command,
                        const quern_error *error);

/* Writes the wanted commands, one block to each node. */
QUERN_NODISCARD quern_status qn_round_write(struct qn_route *route, quern_error *err);
/* Reads the replies to all that is out. */
QUERN_NODISCARD quern_status qn_round_read(struct qn_route *route, quern_error *err);

#endif
