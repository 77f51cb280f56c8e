/* SPDX-License-Identifier: MIT */
/* pipeline.h - one conversation with the server: commands go out in one write, all replies come
 * back.
 *
 *     struct qn_talk talk;
 *     qn_talk_begin(&talk, self, QN_LANE_PUMP, QN_TALK_WRITES);
 *     qn_talk_script(&talk, &qn_lua_forward, 1);   (a script with one key)
 *     qn_talk_prefix(&talk, queue);                (the key: "asynq:{queue}:")
 *     qn_talk_int(&talk, limit);
 *     quern_status status = qn_talk_run(&talk, err);
 *     if (status == QUERN_OK) { status = qn_talk_reply(&talk, 0, &reply, err); ... }
 *     qn_talk_end(&talk);
 *
 * What goes wrong while building (memory) is told by run. Begin takes the lock of the lane and end
 * gives it back; replies live until end. A script that the server does not know (NOSCRIPT) is sent
 * again with its text, without the caller noticing. */
#ifndef QN_REDIS_PIPELINE_H
#define QN_REDIS_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quern/status.h"
#include "redis/connection.h"

/* TRACKED is arm's alone: whatever is read on it wakes the worker when it changes (listener.h). */
enum qn_lane {
    QN_LANE_PUMP,
    QN_LANE_SECOND,
    QN_LANE_LEASES, /* nothing else may hold up an extension */
    QN_LANE_KEEPER,
    QN_LANE_REST,
    QN_LANE_TRACKED,
    QN_LANE_COUNT
};

/* A .lua file, made by scripts/embed_lua as qn_lua_<file name>. */
struct qn_script {
    const char *name;
    const char *text;
    size_t size;
    char sha1[41];
};

/* What a lost reply means: QN_TALK_READS: nothing was changed (QUERN_E_CONNECT, QUERN_E_TIMEOUT);
 * QN_TALK_WRITES: it may have been (QUERN_E_UNKNOWN). */
enum qn_talk_kind { QN_TALK_READS, QN_TALK_WRITES };

struct qn_redis;
struct qn_talk_command {
    const struct qn_script *script; /* NULL: a plain command */
    size_t first_arg;
    size_t arg_count;
    size_t reply_size_max;
    struct qn_reply *reply;
};

struct qn_talk {
    struct qn_redis *self;
    enum qn_lane lane;
    enum qn_talk_kind kind;
    struct qn_arena *arena; /* of the lane: for what lives until end */
    bool failed;            /* memory was out while building */
    struct qn_talk_command *commands;
    size_t command_count;
    size_t command_capacity;
    size_t sent_count;   /* of the commands, so far */
    size_t read_count;   /* of their replies, by earlier runs */
    int64_t timeout_ms;  /* of a run; 0: the target's */
    int64_t deadline_ns; /* of the run under way, which begins with what is sent first */
    bool maybe_done;     /* some of what it sent may have reached the server */
    const char **args;
    size_t *arg_sizes;
    size_t arg_count;
    size_t arg_capacity;
};

void qn_talk_begin(struct qn_talk *talk, struct qn_redis *self, enum qn_lane lane,
                   enum qn_talk_kind kind);
void qn_talk_end(struct qn_talk *talk);

/* Starts a command; the arguments follow. They are borrowed until run, unless said otherwise. NULL
 * for an argument is memory that was out when it was made in the arena: run tells it. */
void qn_talk_command(struct qn_talk *talk, const char *name);
void qn_talk_script(struct qn_talk *talk, const struct qn_script *script, size_t key_count);
/* The same with its text, so that the server knows it when it comes to what follows. */
void qn_talk_script_text(struct qn_talk *talk, const struct qn_script *script, size_t key_count);
/* The limit of the reply to the latest command, one of connection.h. Until it is said:
 * QN_REPLY_BRIEF_MAX for a script, which answers with what we made, QN_REPLY_ROWS_MAX for a
 * command, which answers with what anybody may have put there. */
void qn_talk_limit(struct qn_talk *talk, size_t reply_size_max);
void qn_talk_text(struct qn_talk *talk, const char *text);
void qn_talk_bytes(struct qn_talk *talk, const void *data, size_t size);
void qn_talk_int(struct qn_talk *talk, int64_t value);   /* copied */
void qn_talk_uint(struct qn_talk *talk, uint64_t value); /* copied */
/* A session of a stamp, as our keys spell it: 16 hexadecimal digits. Copied. */
void qn_talk_session(struct qn_talk *talk, uint64_t session);
/* "asynq:{queue}:", the key of our scripts: they make the names of all keys from it. Copied. */
void qn_talk_prefix(struct qn_talk *talk, const char *queue);
/* "asynq:{queue}:" followed by suffix, for plain commands. Copied. */
void qn_talk_key(struct qn_talk *talk, const char *queue, const char *suffix);

/* Sends what was added and reads nothing yet, so that the server works on it while more is made.
 * What it fails with, also unknown effects, is as run says. After a failure: end. */
QUERN_NODISCARD quern_status qn_talk_send(struct qn_talk *talk, quern_error *err);
/* For who fails between send and run: the status, or QUERN_E_UNKNOWN if something was sent. */
quern_status qn_talk_fail(const struct qn_talk *talk, quern_status status, quern_error *err);
/* Sends the rest and reads all replies. May be called again after more commands were added: only
 * those go out then. An error reply to one command is no failure of run. After a failure: end. The
 * commands of one run must not rely on their order, as a script that is sent again comes last;
 * calls of one script may, if the first is a qn_talk_script_text. */
QUERN_NODISCARD quern_status qn_talk_run(struct qn_talk *talk, quern_error *err);
/* The reply to the index-th command. An error reply becomes a status: OOM, MISCONF: QUERN_E_FULL;
 * LOADING, BUSY, MASTERDOWN, READONLY, TRYAGAIN, CLUSTERDOWN: QUERN_E_BUSY; WRONGTYPE:
 * QUERN_E_CORRUPT; NOAUTH, WRONGPASS: QUERN_E_DENIED; NOPERM and all others: QUERN_E_BROKER. The
 * text has the address, words for people and the code, or the script or command and the server's
 * words. */
QUERN_NODISCARD quern_status qn_talk_reply(const struct qn_talk *talk, size_t index,
                                           const struct qn_reply **ret_reply, quern_error *err);

/* --- Looking into replies ----------------------------------------------------------- */

/* The item, or a nil if there is no such item. */
const struct qn_reply *qn_reply_at(const struct qn_reply *reply, size_t index);
/* An integer, or a text that is one (also "12.0"); `otherwise` for everything else. */
int64_t qn_reply_int(const struct qn_reply *reply, int64_t otherwise);
uint64_t qn_reply_uint(const struct qn_reply *reply); /* 0 for what is none */
/* A moment in milliseconds, within what number.h says; 0 for what is none. */
int64_t qn_reply_moment_ms(const struct qn_reply *reply);
/* The same in whole seconds, as scores and asynq's moments are; also of a score that is so large
 * that the server writes it with an exponent, or inf. */
int64_t qn_reply_seconds(const struct qn_reply *reply);
/* Microseconds from now, within what a duration may be; `otherwise` for what is no integer. */
int64_t qn_reply_span_us(const struct qn_reply *reply, int64_t otherwise);
const char *qn_reply_text(const struct qn_reply *reply); /* "" for what is no text */
/* The status and text for an error reply to a command, or to the script if there is one. */
quern_status qn_reply_refusal(const struct qn_link *link, const struct qn_reply *reply,
                              const char *command, const struct qn_script *script,
                              quern_error *err);
/* QUERN_E_BROKER "... answered what it should not": for replies of the wrong shape. */
QUERN_NODISCARD quern_status qn_reply_expect(const struct qn_talk *talk, bool condition,
                                             const char *what, quern_error *err);

#endif
