/* SPDX-License-Identifier: MIT */
/* leader.h - whether this scheduler leads: the lease of the leader, its epoch, the claim.
 *
 * The lease lasts 10 s and is renewed every 3 s. While it does not lead a scheduler asks for the
 * lease each second. One thread. */
#ifndef QN_SCHEDULE_TICK_LEADER_H
#define QN_SCHEDULE_TICK_LEADER_H

#include "base/clock_jump.h"
#include "base/log.h"
#include "broker/schedule/schedule.h"

#define QN_LEADER_LEASE_MS 10000
#define QN_LEADER_RENEW_MS 3000
#define QN_LEADER_LOOK_MS 1000

struct qn_leader {
    struct qn_broker *broker;
    const struct quern_clock *clock;
    struct qn_log *log;
    char owner[QN_OWNER_SIZE];
    char id[QN_LEADER_ID_SIZE_MAX + 1];
    bool leads;
    bool has_seen_one; /* it leads or has led, or another one does */
    uint64_t epoch;    /* its own, while it leads */
    int64_t renewed_at_boot_ms;
    int64_t looked_at_boot_ms;
    uint64_t version;  /* of the entries, see qn_lead_reply */
    int64_t offset_ms; /* the broker's wall clock is ahead of ours by this */
    struct qn_clock_jump jump;
    bool has_jumped;                       /* out of look: the broker's clock was set */
    char other[QN_LEADER_ID_SIZE_MAX + 1]; /* the other one that leads; "": none is known */
};

QUERN_NODISCARD quern_status qn_leader_init(struct qn_leader *leader, struct qn_broker *broker,
                                            const struct quern_clock *clock, struct qn_log *log,
                                            quern_error *err);
/* Takes or renews the lease, or looks who leads, whichever is due. A new leader has claimed all
 * queues afterwards. On an error it does not become leader; a leader stays one until its lease is
 * nearly over. */
QUERN_NODISCARD quern_status qn_leader_look(struct qn_leader *leader, quern_error *err);
/* It leads, and its lease is not so old that another scheduler might lead. */
bool qn_leader_may_send(const struct qn_leader *leader);
/* Another one leads: the broker has refused a tick. The lease, if it has it, is given back, so that
 * the next one has a later epoch. */
void qn_leader_lose(struct qn_leader *leader);
void qn_leader_give_back(struct qn_leader *leader);
/* The broker's wall clock, by its latest reply. */
int64_t qn_leader_now_ms(const struct qn_leader *leader);
/* The broker's clock as a later reply has it. */
void qn_leader_note_now(struct qn_leader *leader, int64_t now_ms);

#endif
