/* SPDX-License-Identifier: MIT */
/* brake.h - the brakes of queues on hosts; the rules are in task/deaths.h. */
#ifndef QN_BROKER_SQLITE_QUEUE_BRAKE_H
#define QN_BROKER_SQLITE_QUEUE_BRAKE_H

#include "broker/sqlite/queue/queue_counters.h"
#include "broker/sqlite/store/query.h"
#include "task/brake.h"

/* From five columns of the present row, in the order of the struct. */
void qn_brake_columns(const struct qn_query *query, int first, struct qn_brake *ret_brake);
/* All zero where there is no record. */
QUERN_NODISCARD quern_status qn_brake_read(struct qn_conn *conn, int64_t queue_no, const char *host,
                                           struct qn_brake *ret_brake, quern_error *err);
QUERN_NODISCARD quern_status qn_brake_write(struct qn_queue_counters *counters, int64_t queue_no,
                                            const char *host, const struct qn_brake *brake,
                                            quern_error *err);

/* The task that is the probe now; 0: none, or it has ended otherwise than by an outcome. */
QUERN_NODISCARD quern_status qn_brake_probe(struct qn_conn *conn, int64_t queue_no,
                                            const struct qn_brake *brake, int64_t *ret_seq,
                                            quern_error *err);
/* Puts the task behind all others, in any state. */
QUERN_NODISCARD quern_status qn_brake_put_behind(struct qn_conn *conn, int64_t seq,
                                                 quern_error *err);

/* A task, and its level (task/isolation.h). */
struct qn_candidate {
    int64_t seq; /* 0: there is none */
    int64_t level;
};
/* Of charged tasks, those of these levels; QN_ALONE_CHARGES: or above. */
struct qn_level_range {
    uint32_t first;
    uint32_t last;
};
/* Which pending task is to be the next probe: a charged task in this range or, where that begins
 * with 0, an uncharged one. */
QUERN_NODISCARD quern_status qn_brake_choose(struct qn_conn *conn,
                                             const struct qn_counted_queue *queue,
                                             struct qn_level_range range,
                                             struct qn_candidate *ret_chosen, quern_error *err);

#endif
