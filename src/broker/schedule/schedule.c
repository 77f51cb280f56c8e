/* SPDX-License-Identifier: MIT */
/* schedule.c - from each operation of schedule.h to its implementation, as broker.c for those of
 * broker.h. */
#include "broker/schedule/schedule.h"

#include "base/assert.h"
#include "base/error.h"
#include "broker/ops.h"
#include "task/limits.h"

/* May this process use it, and does it have schedules? */
static quern_status check(const struct qn_broker *broker, bool offered, quern_error *err)
{
    quern_status status = qn_broker_check_fork(broker, err);
    if (status == QUERN_OK && !offered) {
        status = qn_error_set(err, QUERN_E_UNSUPPORTED, "a %s broker has no schedules",
                              broker->ops->scheme);
    }
    return status;
}

quern_status qn_schedule_check_offered(const struct qn_broker *broker, const struct qn_task *task,
                                       quern_error *err)
{
    if (task->priority != 0 && !qn_broker_has_priorities(broker)) {
        return qn_broker_refuse_priority(err);
    }
    return task->limit_key == NULL ? QUERN_OK : qn_limit_check_key(broker, err);
}

quern_status qn_schedule_put(struct qn_broker *broker, struct qn_put *puts, size_t count,
                             quern_error *err)
{
    quern_status status = check(broker, broker->ops->schedule_put != NULL, err);
    QN_ASSERT(count <= QN_BATCH_MAX);
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        status = qn_schedule_check_entry(puts[i].entry, err);
        if (status == QUERN_OK) { /* else each tick would be refused, or lose the field */
            status = qn_schedule_check_offered(broker, &puts[i].entry->task, err);
        }
    }
    return status != QUERN_OK ? status : broker->ops->schedule_put(broker, puts, count, err);
}

quern_status qn_schedule_remove(struct qn_broker *broker, const struct qn_entry_key *key,
                                quern_error *err)
{
    quern_status status = check(broker, broker->ops->schedule_remove != NULL, err);
    return status != QUERN_OK ? status : broker->ops->schedule_remove(broker, key, err);
}

quern_status qn_schedule_pause(struct qn_broker *broker, const struct qn_entry_key *key,
                               enum qn_entry_pause what, quern_error *err)
{
    quern_status status = check(broker, broker->ops->schedule_pause != NULL, err);
    return status != QUERN_OK ? status : broker->ops->schedule_pause(broker, key, what, err);
}

quern_status qn_schedule_list(struct qn_broker *broker, const struct qn_entry_filter *filter,
                              bool (*on_entry)(const struct qn_schedule_entry *entry, void *user),
                              void *user, quern_error *err)
{
    quern_status status = check(broker, broker->ops->schedule_list != NULL, err);
    return status != QUERN_OK ? status
                              : broker->ops->schedule_list(broker, filter, on_entry, user, err);
}

quern_status qn_schedule_lead(struct qn_broker *broker, const struct qn_lead *lead,
                              struct qn_lead_reply *ret_reply, quern_error *err)
{
    quern_status status = check(broker, broker->ops->schedule_lead != NULL, err);
    return status != QUERN_OK ? status : broker->ops->schedule_lead(broker, lead, ret_reply, err);
}

quern_status qn_schedule_claim(struct qn_broker *broker, uint64_t epoch, quern_error *err)
{
    quern_status status = check(broker, broker->ops->schedule_claim != NULL, err);
    return status != QUERN_OK ? status : broker->ops->schedule_claim(broker, epoch, err);
}

quern_status qn_schedule_tick(struct qn_broker *broker, struct qn_ticks *ticks, quern_error *err)
{
    quern_status status = check(broker, broker->ops->schedule_tick != NULL, err);
    return status != QUERN_OK ? status : broker->ops->schedule_tick(broker, ticks, err);
}

quern_status qn_schedule_trigger(struct qn_broker *broker, const struct qn_trigger *trigger,
                                 quern_error *err)
{
    quern_status status = check(broker, broker->ops->schedule_trigger != NULL, err);
    return status != QUERN_OK ? status : broker->ops->schedule_trigger(broker, trigger, err);
}

quern_status qn_schedule_history(struct qn_broker *broker, const struct qn_entry_key *key,
                                 bool (*on_event)(const struct qn_tick_event *event, void *user),
                                 void *user, quern_error *err)
{
    quern_status status = check(broker, broker->ops->schedule_history != NULL, err);
    return status != QUERN_OK ? status
                              : broker->ops->schedule_history(broker, key, on_event, user, err);
}

quern_status qn_schedule_record(struct qn_broker *broker, const struct qn_record *record,
                                quern_error *err)
{
    quern_status status = check(broker, broker->ops->schedule_record != NULL, err);
    return status != QUERN_OK ? status : broker->ops->schedule_record(broker, record, err);
}
