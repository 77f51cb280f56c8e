/* SPDX-License-Identifier: MIT */
/* leader.c - the lease of the leading scheduler.
 *
 * That each tick is enqueued once does not depend on it: the broker compares the epoch and the last
 * tick. The lease saves the work of the others and shows one leader to programs that list
 * schedulers. It is measured from before the request, on the clock that counts suspended time. */
#include "schedule/tick/leader.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bug.h"
#include "message/id.h"

#define JUMP_MS 5000
#define SEND_MS_MAX (QN_LEADER_LEASE_MS * 2 / 3)
#define HOST_SIZE 256

quern_status qn_leader_init(struct qn_leader *leader, struct qn_broker *broker,
                            const struct quern_clock *clock, struct qn_log *log, quern_error *err)
{
    char host[HOST_SIZE] = "unknown";
    char id[QN_ID_TEXT_SIZE];
    struct qn_id_source ids;
    *leader = (struct qn_leader){.broker = broker, .clock = clock, .log = log};
    leader->looked_at_boot_ms = INT64_MIN / 2;
    qn_id_source_init(&ids);
    qn_id_next(&ids, qn_clock_wall_ms(clock), id);
    if (gethostname(host, sizeof host - 1) != 0) {
        (void)snprintf(host, sizeof host, "unknown");
    }
    (void)snprintf(leader->id, sizeof leader->id, "%s:%ld:%s", host, (long)getpid(), id);
    return qn_owner_self(leader->owner, err);
}

int64_t qn_leader_now_ms(const struct qn_leader *leader)
{
    return qn_clock_wall_ms(leader->clock) + leader->offset_ms;
}

void qn_leader_note_now(struct qn_leader *leader, int64_t now_ms)
{
    int64_t wall_ms;
    int64_t boot_ms;
    qn_clock_both_ms(leader->clock, &wall_ms, &boot_ms);
    leader->offset_ms = now_ms - wall_ms;
    qn_clock_jump_note(&leader->jump, boot_ms, now_ms, JUMP_MS);
    leader->has_jumped = leader->has_jumped || leader->jump.jumped;
    leader->jump.jumped = false;
}

static void end_leading(struct qn_leader *leader, const char *why)
{
    if (leader->leads) {
        leader->leads = false;
        QN_LOG(leader->log, QUERN_LOG_WARN, "scheduler leads no longer", QN_LOG_TEXT("reason", why),
               QN_LOG_NUMBER("epoch", leader->epoch));
    }
}

static quern_status ask(struct qn_leader *leader, enum qn_lead_what what,
                        struct qn_lead_reply *ret_reply, quern_error *err)
{
    const struct qn_lead lead = {
        .what = what, .owner = leader->owner, .id = leader->id, .lease_ms = QN_LEADER_LEASE_MS};
    return qn_schedule_lead(leader->broker, &lead, ret_reply, err);
}

/* Programs of others would show each entry twice. If this fails its record ends by itself. */
static void remove_record(const struct qn_leader *leader)
{
    const struct qn_record record = {.id = leader->other};
    quern_error error = {0};
    if (leader->other[0] != '\0' &&
        qn_schedule_record(leader->broker, &record, &error) != QUERN_OK) {
        QN_LOG(leader->log, QUERN_LOG_WARN, "record for other programs was not removed",
               QN_LOG_TEXT("error", error.text));
    }
}

/* Its predecessors can send nothing from now on. */
static quern_status begin_leading(struct qn_leader *leader, uint64_t epoch, quern_error *err)
{
    quern_status status = qn_schedule_claim(leader->broker, epoch, err);
    if (status == QUERN_E_STATE) {
        return QUERN_OK; /* a later one leads already */
    }
    if (status != QUERN_OK) {
        return status;
    }
    leader->leads = true;
    leader->epoch = epoch;
    remove_record(leader);
    leader->other[0] = '\0';
    QN_LOG(leader->log, QUERN_LOG_INFO, "scheduler leads", QN_LOG_TEXT("scheduler", leader->id),
           QN_LOG_NUMBER("epoch", epoch));
    return QUERN_OK;
}

static void note_other(struct qn_leader *leader, const char *id)
{
    if (id[0] != '\0' && strcmp(id, leader->id) != 0 && strcmp(id, leader->other) != 0) {
        memcpy(leader->other, id, sizeof leader->other);
        QN_LOG(leader->log, QUERN_LOG_INFO, "another scheduler leads", QN_LOG_TEXT("leader", id));
    }
    leader->has_seen_one = leader->has_seen_one || id[0] != '\0';
}

quern_status qn_leader_look(struct qn_leader *leader, quern_error *err)
{
    int64_t asked_at_boot_ms = qn_clock_boot_ms(leader->clock);
    struct qn_lead_reply reply;
    bool renews = asked_at_boot_ms - leader->renewed_at_boot_ms >= QN_LEADER_RENEW_MS;
    if (leader->leads && !qn_leader_may_send(leader)) {
        end_leading(leader, "its lease was not renewed in time");
    }
    enum qn_lead_what what = !leader->leads ? QN_LEAD_TAKE : renews ? QN_LEAD_RENEW : QN_LEAD_LOOK;
    quern_status status = ask(leader, what, &reply, err);
    if (status != QUERN_OK) {
        return status;
    }
    leader->looked_at_boot_ms = asked_at_boot_ms;
    leader->version = reply.version;
    qn_leader_note_now(leader, reply.now_ms);
    bool has_lease = strcmp(reply.id, leader->id) == 0;
    if (has_lease && what != QN_LEAD_LOOK) {
        leader->renewed_at_boot_ms = asked_at_boot_ms;
    }
    note_other(leader, reply.id);
    if (leader->leads && (!has_lease || reply.epoch != leader->epoch)) {
        end_leading(leader, "another one has taken its lease");
    } else if (!leader->leads && has_lease) {
        status = begin_leading(leader, reply.epoch, err);
    }
    return status;
}

bool qn_leader_may_send(const struct qn_leader *leader)
{
    int64_t age_ms = qn_clock_boot_ms(leader->clock) - leader->renewed_at_boot_ms;
    return leader->leads && (age_ms < SEND_MS_MAX || QN_BUG(LAPSED_LEADER_SENDS));
}

void qn_leader_give_back(struct qn_leader *leader)
{
    struct qn_lead_reply reply;
    leader->leads = false;
    leader->renewed_at_boot_ms = INT64_MIN / 2;
    /* If this fails the lease ends by itself. */
    (void)ask(leader, QN_LEAD_GIVE_BACK, &reply, NULL);
}

void qn_leader_lose(struct qn_leader *leader)
{
    end_leading(leader, "a tick was refused: another one has sent it, or claimed its queue");
    qn_leader_give_back(leader);
}
