/* SPDX-License-Identifier: MIT */
/* aggregate.c - makes a set of the oldest tasks of a group whose turn it is (aggregate.lua).
 *
 * A call looks at one page of the names in groups: SSCAN gives it, the caller decides which of them
 * it aggregates, and the script looks at those. So 5 000 groups cost ten calls of two round trips,
 * and no script takes long. A page is left when no group in it gives a set; a group gives one each
 * time, so that one which is always full leaves others their turn.
 *
 * A member whose message cannot be used is archived by a second script, and leaves the set. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "base/text/hash.h"
#include "broker/redis/group/aggregate_lua.h"
#include "broker/redis/group/set_aside_lua.h"
#include "broker/redis/group/sets.h"
#include "broker/redis/redis.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/task_fields.h"

#define PAGE 250       /* groups that one script looks at: half a millisecond */
#define REPLY_HEAD 2   /* the items of the reply before the members */
#define MEMBER_ITEMS 4 /* of each member */
#define NAME_SIZE 320  /* of a set */

struct rule {
    const char *group;
    struct qn_group_settings settings;
};

struct unusable {
    const struct qn_reply *id;
    const struct qn_reply *message;
    const char *why;
};

struct aggregating {
    struct qn_pipeline pipeline;
    const struct qn_aggregate *aggregate;
    struct qn_aggregate_reply *reply;
    char next[sizeof((struct qn_group_cursor *)0)->page]; /* the page behind this one */
    struct rule *rules;
    size_t rule_count;
    char name[NAME_SIZE]; /* of the set, if there is one */
    struct unusable *unusable;
    size_t unusable_count;
};

/* --- Which groups ------------------------------------------------------------------------ */

static uint32_t mark_of(const char *group)
{
    return (uint32_t)qn_hash_bytes(QN_HASH_START, group, strlen(group));
}

/* Whether it was among the last groups that gave a set. A page grows while groups of it go. */
static bool has_given(const struct qn_group_cursor *cursor, const char *group)
{
    uint32_t mark = mark_of(group);
    for (size_t i = 0; i < cursor->given_count && i < QN_GROUPS_GIVEN_MAX; i++) {
        if (cursor->given[i] == mark) {
            return true;
        }
    }
    return false;
}

static void note_given(struct qn_group_cursor *cursor, const char *group)
{
    cursor->given[cursor->given_count++ % QN_GROUPS_GIVEN_MAX] = mark_of(group);
}

/* The groups of this page that this worker aggregates. A name with a NUL cannot come from quern or
 * asynq. */
static quern_status choose_groups(struct aggregating *self, const struct qn_reply *page,
                                  quern_error *err)
{
    const struct qn_aggregate *aggregate = self->aggregate;
    self->rules = qn_arena_alloc(self->pipeline.arena, (page->count + 1) * sizeof self->rules[0]);
    if (self->rules == NULL) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; i < page->count; i++) {
        const struct qn_reply *name = qn_reply_at(page, i);
        struct rule *rule = &self->rules[self->rule_count];
        rule->group = qn_reply_text(name);
        bool is_name = name->type == QN_REPLY_TEXT && strlen(name->data) == name->size;
        if (is_name && !has_given(aggregate->cursor, rule->group) &&
            aggregate->settings(aggregate->queue, rule->group, &rule->settings, aggregate->user)) {
            self->rule_count++;
        }
    }
    return QUERN_OK;
}

static quern_status read_page(struct aggregating *self, quern_error *err)
{
    struct qn_pipeline *pipeline = &self->pipeline;
    const struct qn_group_cursor *cursor = self->aggregate->cursor;
    const struct qn_reply *reply = NULL;
    qn_pipeline_command(pipeline, "SSCAN");
    qn_pipeline_hasty(pipeline); /* the groups of other queues do not wait for its node */
    qn_keys_add(pipeline, self->aggregate->queue, "groups");
    qn_pipeline_text(pipeline, cursor->page[0] == '\0' ? "0" : cursor->page);
    qn_pipeline_text(pipeline, "COUNT");
    qn_pipeline_int(pipeline, PAGE);
    quern_status status = qn_pipeline_ask(pipeline, &reply, err);
    if (status != QUERN_OK) {
        return status;
    }
    const struct qn_reply *next = qn_reply_at(reply, 0);
    status = qn_pipeline_expect(
        pipeline, next->type == QN_REPLY_TEXT && next->size < sizeof self->next, "SSCAN", err);
    if (status == QUERN_OK) {
        memcpy(self->next, next->data, next->size + 1);
        status = choose_groups(self, qn_reply_at(reply, 1), err);
    }
    return status;
}

static void end_page(struct aggregating *self)
{
    struct qn_group_cursor *cursor = self->aggregate->cursor;
    memcpy(cursor->page, self->next, sizeof cursor->page);
    cursor->given_count = 0;
    self->reply->end = strcmp(self->next, "0") == 0;
}

/* --- The set ----------------------------------------------------------------------------- */

/* Who has made it is in its name. Go takes what follows the last colon for the name. */
static void name_set(struct aggregating *self, struct qn_redis *redis)
{
    const char *worker_id = self->aggregate->worker_id;
    bool fits = strchr(worker_id, ':') == NULL && strlen(worker_id) < NAME_SIZE - 20;
    (void)snprintf(self->name, sizeof self->name, "%s.%016" PRIx64, fits ? worker_id : "",
                   qn_random_next(&redis->channels[QN_CHANNEL_REST].random));
}

/* For these of the rules. */
static void ask_set(struct aggregating *self, size_t first, size_t count)
{
    struct qn_pipeline *pipeline = &self->pipeline;
    qn_pipeline_script(pipeline, &qn_lua_aggregate, 1);
    qn_pipeline_hasty(pipeline);
    qn_pipeline_limit(pipeline, QN_REPLY_TASKS_MAX);
    qn_keys_add_prefix(pipeline, self->aggregate->queue);
    qn_pipeline_text(pipeline, self->name);
    qn_pipeline_int(pipeline, self->aggregate->lease_ms);
    qn_pipeline_uint(pipeline, QN_BATCH_BYTES_MAX);
    for (size_t i = first; i < first + count; i++) {
        const struct qn_group_settings *settings = &self->rules[i].settings;
        bool is_small = settings->max_size > 0 && settings->max_size < QN_GROUP_SET_MAX;
        int64_t most = is_small ? settings->max_size : QN_GROUP_SET_MAX;
        qn_pipeline_text(pipeline, self->rules[i].group);
        qn_pipeline_int(pipeline, settings->max_size > 0 ? most : 0);
        qn_pipeline_int(pipeline, settings->max_delay_ms);
        qn_pipeline_int(pipeline, settings->grace_ms);
        qn_pipeline_int(pipeline, most);
    }
}

/* "options;past". */
static void read_extra(const struct qn_reply *extra, struct qn_task_fields_opts *ret_opts,
                       bool *ret_has_opts, struct qn_task_fields_past *ret_past)
{
    const char *text = qn_reply_text(extra);
    const char *middle = strchr(text, ';');
    size_t opts_size = middle == NULL ? 0 : (size_t)(middle - text);
    const char *past = middle == NULL ? "" : middle + 1;
    *ret_has_opts = opts_size > 0;
    qn_task_fields_opts_read(text, opts_size, ret_opts);
    qn_task_fields_past_read(past, strlen(past), ret_past);
}

/* QUERN_E_CORRUPT: it cannot be used. */
static quern_status read_member(struct aggregating *self, struct qn_slab *slab,
                                const struct qn_reply *const *items, struct qn_leased **ret_member,
                                quern_error *why)
{
    struct qn_task_fields_opts opts;
    struct qn_task_fields_past past;
    struct qn_asynq_task message;
    bool has_opts = false;
    read_extra(items[3], &opts, &has_opts, &past);
    if (strlen(qn_reply_text(items[0])) != items[0]->size) {
        return qn_error_set(why, QUERN_E_CORRUPT, "its id holds a NUL byte");
    }
    struct qn_leased member = {
        .crash_count = past.crash_count, .level = past.level, .life_ms = past.life_ms};
    const struct qn_stored_task stored = {.queue = self->aggregate->queue,
                                          .id = qn_reply_text(items[0]),
                                          .message = {items[1]->data, items[1]->size},
                                          .opts = has_opts ? &opts : NULL};
    quern_status status =
        qn_task_fields_decode(self->pipeline.arena, &stored, &message, &member.task, why);
    if (status != QUERN_OK) {
        return status == QUERN_E_NOMEM ? status : QUERN_E_CORRUPT;
    }
    int64_t added_at_ms = qn_moment_ms_of(qn_reply_seconds(items[2]) * 1000);
    bool is_later = !has_opts || added_at_ms > opts.enqueued_at_ms;
    member.task.state = QUERN_TASK_AGGREGATING;
    member.task.process_at_ms = is_later ? added_at_ms : opts.enqueued_at_ms;
    member.retry_count = qn_number_clamp(message.retry_count, 0, INT32_MAX);
    *ret_member = qn_leased_copy(slab, &member);
    return *ret_member == NULL ? QUERN_E_NOMEM : QUERN_OK;
}

static quern_status read_members(struct aggregating *self, const struct qn_reply *reply,
                                 struct qn_group_set *set, quern_error *err)
{
    struct qn_slab slab = {0};
    quern_status status = QUERN_OK;
    size_t count = (reply->count - REPLY_HEAD) / MEMBER_ITEMS;
    self->unusable = qn_arena_alloc(self->pipeline.arena, count * sizeof *self->unusable);
    if (self->unusable == NULL) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        const struct qn_reply *items[MEMBER_ITEMS];
        quern_error why;
        for (size_t k = 0; k < MEMBER_ITEMS; k++) {
            items[k] = qn_reply_at(reply, REPLY_HEAD + i * MEMBER_ITEMS + k);
        }
        status = read_member(self, &slab, items, &set->members[set->count], &why);
        set->count += status == QUERN_OK ? 1 : 0;
        if (status == QUERN_E_CORRUPT) {
            const char *text =
                qn_arena_printf(self->pipeline.arena, "cannot be used: %s", why.text);
            self->unusable[self->unusable_count++] = (struct unusable){items[0], items[1], text};
            status = text == NULL ? QUERN_E_NOMEM : QUERN_OK;
        }
    }
    qn_slab_finish(&slab);
    return status == QUERN_OK ? QUERN_OK : qn_error_nomem(err);
}

/* --- Members that cannot be used ----------------------------------------------------------- */

static quern_status add_unusable(struct aggregating *self, const struct unusable *unusable,
                                 quern_error *err)
{
    const struct qn_asynq_unusable data = {.data = qn_reply_text(unusable->message),
                                           .size = unusable->message->size,
                                           .id = unusable->id->data,
                                           .id_size = unusable->id->size,
                                           .queue = self->aggregate->queue,
                                           .why = unusable->why};
    struct qn_bytes bytes;
    quern_status status = qn_asynq_task_excuse(self->pipeline.arena, &data, &bytes, err);
    if (status == QUERN_OK) {
        qn_pipeline_bytes(&self->pipeline, unusable->id->data, unusable->id->size);
        qn_pipeline_bytes(&self->pipeline, bytes.data, bytes.size);
    }
    return status;
}

/* Those that stay go back to the group with the set, and come again. */
static quern_status set_aside(struct aggregating *self, const struct qn_group_set *set,
                              quern_error *err)
{
    const struct qn_aggregate *aggregate = self->aggregate;
    const struct qn_reply *answer = NULL;
    quern_status status = QUERN_OK;
    qn_pipeline_script(&self->pipeline, &qn_lua_set_aside, 1);
    qn_pipeline_hasty(&self->pipeline);
    qn_keys_add_prefix(&self->pipeline, aggregate->queue);
    qn_sets_add_key(&self->pipeline, set);
    for (size_t i = 0; status == QUERN_OK && i < self->unusable_count; i++) {
        status = add_unusable(self, &self->unusable[i], err);
    }
    if (status == QUERN_OK) {
        status = qn_pipeline_ask(&self->pipeline, &answer, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < self->unusable_count; i++) {
        const struct qn_unusable unusable = {.queue = aggregate->queue,
                                             .id = qn_reply_text(self->unusable[i].id),
                                             .why = self->unusable[i].why};
        bool is_away = i < answer->size && qn_reply_text(answer)[i] == '1';
        if (is_away && aggregate->on_unusable != NULL) {
            aggregate->on_unusable(&unusable, aggregate->user);
        }
    }
    return status;
}

/* --- The operation ------------------------------------------------------------------------- */

static quern_status take_set(struct aggregating *self, const struct qn_reply *reply,
                             const char *group, quern_error *err)
{
    const struct qn_group_set terms = {
        .queue = self->aggregate->queue, .group = group, .name = self->name};
    struct qn_group_set *set = qn_group_set_new(&terms, (reply->count - REPLY_HEAD) / MEMBER_ITEMS);
    if (set == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = read_members(self, reply, set, err);
    if (status == QUERN_OK && self->unusable_count > 0) {
        status = set_aside(self, set, err);
    }
    if (status != QUERN_OK || set->count == 0) {
        qn_group_set_free(set);
        return status;
    }
    self->reply->set = set;
    return QUERN_OK;
}

/* There is a set now, which nothing will be made of. */
static quern_status as_unknown(quern_error *err)
{
    return qn_error_as_unknown(err, "a set is left until its lease is over");
}

/* *ret_place: that of the group of the set in the rules, from 1; 0: there is none. */
static quern_status run_script(struct aggregating *self, size_t first, const struct qn_reply **ret,
                               size_t *ret_place, quern_error *err)
{
    struct qn_aggregate_reply *out = self->reply;
    size_t left = self->rule_count - first;
    size_t count = left < PAGE ? left : PAGE;
    ask_set(self, first, count);
    quern_status status = qn_pipeline_ask(&self->pipeline, ret, err);
    if (status != QUERN_OK) {
        return status;
    }
    uint64_t place = qn_reply_uint(qn_reply_at(*ret, 0));
    size_t least = place == 0 ? REPLY_HEAD : REPLY_HEAD + MEMBER_ITEMS;
    status = qn_pipeline_expect(&self->pipeline, (*ret)->count >= least && place <= count,
                                "aggregate", err);
    if (status != QUERN_OK) {
        return status;
    }
    int64_t next_ms = qn_reply_int((*ret)->items[1], -1);
    if (next_ms >= 0 && next_ms < out->next_ms) {
        out->next_ms = next_ms;
    }
    out->waiting = out->waiting || next_ms >= 0 || place > 0;
    *ret_place = place > 0 ? first + (size_t)place : 0;
    return QUERN_OK;
}

static quern_status aggregate_page(struct aggregating *self, struct qn_redis *redis,
                                   quern_error *err)
{
    const struct qn_reply *reply = NULL;
    size_t place = 0;
    self->reply->end = false;
    quern_status status = read_page(self, err);
    name_set(self, redis);
    for (size_t i = 0; status == QUERN_OK && place == 0 && i < self->rule_count; i += PAGE) {
        status = run_script(self, i, &reply, &place, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    if (place == 0) {
        end_page(self);
        return QUERN_OK;
    }
    const char *group = self->rules[place - 1].group;
    self->reply->next_ms = 0;
    note_given(self->aggregate->cursor, group);
    status = take_set(self, reply, group, err);
    return status == QUERN_OK ? QUERN_OK : as_unknown(err);
}

quern_status qn_redis_aggregate(struct qn_broker *broker, const struct qn_aggregate *aggregate,
                                struct qn_aggregate_reply *reply, quern_error *err)
{
    struct qn_redis *redis = qn_redis_of(broker);
    struct aggregating self = {.aggregate = aggregate, .reply = reply};
    qn_redis_begin(&self.pipeline, redis, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    quern_status status = aggregate_page(&self, redis, err);
    qn_pipeline_end(&self.pipeline);
    return status;
}
