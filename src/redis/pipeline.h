/* SPDX-License-Identifier: MIT */
/* pipeline.h - one exchange with the server: commands go out in one write, all replies come back.
 *
 *     struct qn_pipeline pipeline;
 *     qn_pipeline_begin(&pipeline, channel, QN_PIPELINE_WRITES);
 *     qn_pipeline_script(&pipeline, &qn_lua_forward, 1);   (a script with one key)
 *     qn_pipeline_text(&pipeline, key);
 *     qn_pipeline_int(&pipeline, limit);
 *     quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
 *     qn_pipeline_end(&pipeline);
 *
 * A pipeline keeps its first failure: out of memory while building, or a failure of the connection.
 * From then on nothing is sent, and each run reports that failure. An error reply is no failure of
 * the pipeline, only of its command. Begin takes the lock of the channel and end gives it back;
 * replies live until end. A script that the server does not know (NOSCRIPT) is sent again with its
 * text, without the caller noticing.
 *
 * On a cluster each command goes to the node that owns its slot, that of a script's first key or of
 * a command's first argument; commands without a key go to any node. Commands to different nodes
 * run at the same time (route.h). */
#ifndef QN_REDIS_PIPELINE_H
#define QN_REDIS_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quern/status.h"
#include "redis/channel.h"
#include "redis/reply.h"
#include "redis/script.h"

/* The meaning of a lost reply: QN_PIPELINE_READS: nothing was changed (QUERN_E_CONNECT,
 * QUERN_E_TIMEOUT); QN_PIPELINE_WRITES: it may have been (QUERN_E_UNKNOWN). */
enum qn_pipeline_kind { QN_PIPELINE_READS, QN_PIPELINE_WRITES };

struct qn_pipeline_command {
    const struct qn_script *script; /* NULL: a plain command */
    size_t first_arg;
    size_t arg_count;
    size_t reply_size_max;
    struct qn_reply *reply;
    /* On a cluster, nodes by their numbers, -1 for none: */
    int named;                 /* by the caller */
    int goes_to;               /* the one that it is meant for */
    int at;                    /* the one that it was sent to, and that has not refused it */
    bool hasty;                /* it waits for no node that cannot answer now */
    bool absent;               /* hasty: its reply is none of its node, which does not answer */
    const quern_error *reason; /* why it is absent; NULL: its node does not answer */
    bool lost;                 /* the same, and it may have been done */
    struct qn_reply *refusal;  /* the latest, of a node that has not done it */
};

struct qn_pipeline {
    struct qn_channel *channel;
    enum qn_pipeline_kind kind;
    struct qn_arena *arena; /* of the channel: for data that lives until end */
    quern_status status;    /* its first failure, of building, sending or receiving */
    quern_error error;      /* that of this failure */
    struct qn_pipeline_command *commands;
    size_t command_count;
    size_t command_capacity;
    size_t sent_count;   /* of the commands, so far */
    size_t read_count;   /* of their replies, by earlier runs */
    int64_t timeout_ms;  /* of a run; 0: the endpoint's */
    int64_t patience_ms; /* of hasty commands, beyond half a second: what is sent is large */
    int64_t deadline_ns; /* of the present run, which begins with the first write */
    bool maybe_done;     /* a part of its data may have reached the server */
    const char **args;
    size_t *arg_sizes;
    size_t arg_count;
    size_t arg_capacity;
};

void qn_pipeline_begin(struct qn_pipeline *pipeline, struct qn_channel *channel,
                       enum qn_pipeline_kind kind);
void qn_pipeline_end(struct qn_pipeline *pipeline);

/* Starts a command; the arguments follow. They are borrowed until run, unless documented otherwise.
 * NULL for an argument means that there was no memory for it in the arena. */
void qn_pipeline_command(struct qn_pipeline *pipeline, const char *name);
void qn_pipeline_script(struct qn_pipeline *pipeline, const struct qn_script *script,
                        size_t key_count);
/* The same with its text, so that the server knows it for the commands that follow. */
void qn_pipeline_script_text(struct qn_pipeline *pipeline, const struct qn_script *script,
                             size_t key_count);
/* The limit of the reply to the latest command, one of reply.h. Until it is set:
 * QN_REPLY_BRIEF_MAX for a script, whose replies we control, QN_REPLY_ROWS_MAX for a command, which
 * may return data of other programs. */
void qn_pipeline_limit(struct qn_pipeline *pipeline, size_t reply_size_max);
/* On a cluster: the latest command goes to this node (qn_cluster_masters), not to that of its key;
 * -1: as without this call. */
void qn_pipeline_at(struct qn_pipeline *pipeline, int node);
/* On a cluster: where the slot of the latest command is being moved, or its node does not answer
 * within half a second, this is its reply, as an error reply (QUERN_E_BUSY), and it is `lost` if it
 * may have been done; all other commands wait until the deadline of the run. */
void qn_pipeline_hasty(struct qn_pipeline *pipeline);
/* The same for all commands from this one on. */
void qn_pipeline_hasty_from(struct qn_pipeline *pipeline, size_t first);
/* On one server: it keeps the replies of this pipeline back on purpose (WAIT), so that silence does
 * not show that the connection is dead. */
void qn_pipeline_held(struct qn_pipeline *pipeline);
/* After a run: QUERN_E_BUSY where there are commands from `first` on, and no node of theirs
 * answers. */
QUERN_NODISCARD quern_status qn_pipeline_any_present(const struct qn_pipeline *pipeline,
                                                     size_t first, quern_error *err);
/* Memory was out for something else that the pipeline needs. */
void qn_pipeline_nomem(struct qn_pipeline *pipeline);
void qn_pipeline_text(struct qn_pipeline *pipeline, const char *text);
void qn_pipeline_bytes(struct qn_pipeline *pipeline, const void *data, size_t size);
void qn_pipeline_int(struct qn_pipeline *pipeline, int64_t value);   /* copied */
void qn_pipeline_uint(struct qn_pipeline *pipeline, uint64_t value); /* copied */

/* Sends the added commands and reads nothing yet, so that the server works on them while more are
 * built. Its failures, also unknown effects, are those of run. After a failure: end. */
QUERN_NODISCARD quern_status qn_pipeline_send(struct qn_pipeline *pipeline, quern_error *err);
/* For callers that fail between send and run: the status, or QUERN_E_UNKNOWN if something was
 * sent. */
quern_status qn_pipeline_fail(const struct qn_pipeline *pipeline, quern_status status,
                              quern_error *err);
/* Sends the rest and reads all replies. May be called again after more commands were added: only
 * those go out then. An error reply to one command is no failure of run. After a failure: end. The
 * commands of one run must not rely on their order, as a script that is sent again comes last;
 * calls of one script may, if the first is a qn_pipeline_script_text. */
QUERN_NODISCARD quern_status qn_pipeline_run(struct qn_pipeline *pipeline, quern_error *err);
/* As run, and then as reply for the first command that this run has read the reply of. */
QUERN_NODISCARD quern_status qn_pipeline_ask(struct qn_pipeline *pipeline,
                                             const struct qn_reply **ret_reply, quern_error *err);
/* The reply to the index-th command, after a run without failure. An error reply becomes a status
 * (server_error.h). */
QUERN_NODISCARD quern_status qn_pipeline_reply(const struct qn_pipeline *pipeline, size_t index,
                                               const struct qn_reply **ret_reply, quern_error *err);
/* The same for an error within the reply to that command; QUERN_E_BROKER if it is none. */
QUERN_NODISCARD quern_status qn_pipeline_refusal(const struct qn_pipeline *pipeline, size_t index,
                                                 const struct qn_reply *error, quern_error *err);
/* QUERN_E_BROKER "unexpected reply to ...": for replies of the wrong shape. */
QUERN_NODISCARD quern_status qn_pipeline_expect(const struct qn_pipeline *pipeline, bool condition,
                                                const char *what, quern_error *err);

#endif
