/* SPDX-License-Identifier: MIT */
/* command.h - commands to workers, by way of the broker.
 *
 * A command is a line of text that reaches all workers which wait at the broker; the one that it
 * names carries it out, and writes its answer into its record. It may be lost, so it is sent again
 * until the record has the answer; the number of the request makes a repetition harmless. A user
 * who may write to the broker may send commands; on Redis the ACL must allow the channel.
 *
 * Belongs to broker.h and inspect.h, whose rules and errors hold here, too. */
#ifndef QN_BROKER_COMMAND_COMMAND_H
#define QN_BROKER_COMMAND_COMMAND_H

#include "broker/broker.h"
#include "message/id.h"
#include "quern/command.h"

/* In the state that a worker reports (QN_HEARTBEAT_SEPARATOR), where no request has come. */
#define QN_COMMAND_NONE "-"
#define QN_COMMAND_OK "ok"
#define QN_COMMAND_ANSWER_SIZE 128

struct qn_command {
    char worker_id[QN_ID_TEXT_SIZE];
    uint64_t request; /* random: of all copies of one command */
    quern_worker_order order;
    uint32_t number; /* resize: the slots; log-level: a quern_log_level */
};
void qn_command_write(const struct qn_command *command, char out[QN_COMMAND_SIZE_MAX]);
/* False: it is none, or one of a newer version. */
QUERN_NODISCARD bool qn_command_read(const char *text, struct qn_command *ret_command);
/* "quiet", "log-level", ...; NULL: no such order. */
const char *qn_command_name(quern_worker_order order);

/* A worker's answer, as it is in its record behind the moment of its last exchange. */
struct qn_command_answer {
    uint64_t request;                  /* 0: it has got none */
    bool is_known;                     /* false: it takes no commands */
    char text[QN_COMMAND_ANSWER_SIZE]; /* QN_COMMAND_OK, or why not */
};
void qn_command_write_answer(const struct qn_command_answer *answer, char *out, size_t size);
/* served: the queues of a heartbeat and the fields behind them. */
void qn_command_read_answer(const char *served, struct qn_command_answer *ret_answer);

/* Sends it to all workers that wait at this broker. Whether one received it is not known. */
typedef quern_status qn_command_fn(struct qn_broker *broker, const char *text, quern_error *err);
QUERN_NODISCARD qn_command_fn qn_broker_command;

/* The record of one worker. */
struct qn_found_worker {
    bool is_there; /* else it has none: there was none, it has ended, or others removed it */
    bool lives;    /* false: its process is known to be gone, or has been silent for too long */
    quern_worker_status status;
    struct qn_command_answer answer;
};
typedef quern_status qn_find_worker_fn(struct qn_broker *broker, const char *id,
                                       struct qn_found_worker *ret_worker, quern_error *err);
QUERN_NODISCARD qn_find_worker_fn qn_broker_find_worker;

#endif
