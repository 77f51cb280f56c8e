/* SPDX-License-Identifier: MIT */
/* lib_group.c - see lib_group.h. */
#include "lib_group.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/arena.h"

#define IDS_SIZE 4096

const struct qn_group_settings group_now = {.grace_ms = 0};

void group_put(struct contract *c, const char *group, const char *id)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = id, .group = group});
}

void group_put_many(struct contract *c, const char *group, const char *prefix, size_t count)
{
    char id[64];
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(id, sizeof id, "%s%04zu", prefix, i);
        group_put(c, group, id);
    }
}

static bool settings_of(const char *queue, const char *group,
                        struct qn_group_settings *ret_settings, void *user)
{
    struct group_worker *worker = user;
    assert_string_equal(queue, "default");
    worker->look_count++;
    *ret_settings = worker->settings;
    return worker->only == NULL || strcmp(worker->only, group) == 0;
}

static void note_unusable(const struct qn_unusable *unusable, void *user)
{
    struct group_worker *worker = user;
    worker->unusable_count++;
    (void)snprintf(worker->unusable, sizeof worker->unusable, "%s", unusable->id);
    assert_non_null(unusable->why);
}

struct qn_group_set *group_take(struct contract *c, struct group_worker *worker)
{
    struct qn_aggregate_reply reply = {0};
    worker->next_ms = INT64_MAX;
    worker->waiting = false;
    while (reply.set == NULL && !reply.end) {
        quern_error err = {0};
        const struct qn_aggregate aggregate = {.queue = "default",
                                               .worker_id = worker->id != NULL ? worker->id
                                                                               : CONTRACT_WORKER,
                                               .lease_ms = CONTRACT_LEASE_MS,
                                               .cursor = &worker->cursor,
                                               .settings = settings_of,
                                               .on_unusable = note_unusable,
                                               .user = worker};
        struct qn_broker *broker = worker->via != NULL ? worker->via : c->broker;
        assert_ok(qn_broker_aggregate(broker, &aggregate, &reply, &err), err);
        worker->call_count++;
        worker->waiting = worker->waiting || reply.waiting;
        worker->next_ms = reply.next_ms < worker->next_ms ? reply.next_ms : worker->next_ms;
        assert_true(worker->call_count < 1000000);
    }
    return reply.set;
}

struct qn_group_set *group_take_now(struct contract *c)
{
    struct group_worker worker = {.settings = group_now};
    struct qn_group_set *set = group_take(c, &worker);
    assert_non_null(set);
    return set;
}

quern_status group_finish_as(struct contract *c, const struct qn_finish_set *finish)
{
    quern_error err = {0};
    quern_status status = qn_broker_finish_set(c->broker, finish, &err);
    assert_true(status == QUERN_OK || err.text[0] != '\0');
    return status;
}

quern_status group_finish(struct contract *c, const struct qn_group_set *set, const char *id)
{
    struct qn_arena arena = {0};
    struct qn_task task;
    quern_error err = {0};
    const struct qn_task_terms terms = contract_terms(c);
    const quern_task made = {.type = "made", .id = id};
    assert_ok(qn_task_prepare(&made, &terms, &arena, &task, &err), err);
    const struct qn_finish_set finish = {
        .stamp = {.session = c->session, .sequence = ++c->sequence},
        .set = set,
        .task = id == NULL ? NULL : &task};
    quern_status status = group_finish_as(c, &finish);
    qn_arena_finish(&arena);
    return status;
}

quern_status group_return(struct contract *c, const struct qn_group_set *set)
{
    quern_error err = {0};
    return qn_broker_return_set(c->broker, set, &err);
}

bool group_extend(struct contract *c, const struct qn_group_set *set)
{
    quern_error err = {0};
    struct qn_set_extension extension = {.set = set};
    assert_ok(qn_broker_extend_sets(c->broker, &extension, 1, CONTRACT_LEASE_MS, &err), err);
    return extension.held;
}

size_t group_reclaim(struct contract *c, size_t limit)
{
    const char *queue = "default";
    size_t reclaimed = 0;
    quern_error err = {0};
    const struct qn_upkeep upkeep = {{&queue, 1}, limit};
    assert_ok(qn_broker_reclaim_sets(c->broker, upkeep, &reclaimed, &err), err);
    return reclaimed;
}

const char *group_ids(const struct qn_group_set *set)
{
    static char ids[IDS_SIZE];
    size_t size = 0;
    ids[0] = '\0';
    for (size_t i = 0; i < set->count && size < sizeof ids; i++) {
        size += (size_t)snprintf(ids + size, sizeof ids - size, "%s%s", i == 0 ? "" : " ",
                                 set->members[i]->task.id);
    }
    return ids;
}
