/* SPDX-License-Identifier: MIT */
/* containers.c - goes through all that the containers of a queue list, page by page, while the
 * queue lives on.
 *
 * A first look at each task tells what may be wrong; what is in two places is found by the hashes
 * of all ids, and a second walk for those that come twice. As tasks move meanwhile, all this is
 * suspicion: each suspect is looked at again in one script, in all places at once (check_task.lua),
 * and only what that says is told. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "broker/redis/doctor/doctor.h"
#include "broker/redis/page_bound.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/task_fields.h"

#include "broker/redis/doctor/check_page_lua.h"
#include "broker/redis/doctor/check_task_lua.h"

#define PAGE_SIZE 128
#define TWINS_MAX                                                                                  \
    200              /* looked at in one check of a queue, as each look walks through its lists    \
                      */
#define WALKS_MAX 40 /* of a list while it is mended */
#define ITEMS_PER_ID 4

struct sweep {
    struct qn_redis_check *check;
    struct qn_checked_queue *queue;
    const char *container;
    bool is_list;
    struct qn_walk walk;
    const struct qn_id_set *twins; /* NULL: the first walk */
    size_t twin_count;
    struct qn_suspect *suspects; /* of this page */
    size_t suspect_count;
};

/* --- Suspects --------------------------------------------------------------------------- */

static bool blame(struct qn_redis_check *check, const char *message, size_t size, const char *why,
                  struct qn_suspect *suspect)
{
    suspect->message = qn_arena_copy(&check->page, message, size);
    suspect->message_size = size;
    suspect->why = why;
    return false;
}

/* Field 6 of the message as protobuf writes it. */
static void set_retry_count(struct qn_suspect *suspect, uint64_t count)
{
    size_t used = 0;
    suspect->addition[used++] = 6 << 3;
    for (; count >= 128; count >>= 7) {
        suspect->addition[used++] = (unsigned char)(count | 128);
    }
    suspect->addition[used++] = (unsigned char)count;
    suspect->addition_size = used;
}

bool qn_check_message(struct qn_redis_check *check, const char *queue, const char *message,
                      size_t size, struct qn_suspect *suspect)
{
    quern_error why = {0};
    struct qn_asynq_task decoded;
    struct qn_task task;
    quern_status status = qn_redis_task_decode(&check->page, message, size, queue, suspect->id,
                                               NULL, &decoded, &task, &why);
    if (status == QUERN_E_NOMEM) {
        return true; /* it is not the message's fault */
    }
    const struct qn_asynq_unusable unusable = {.data = message,
                                               .size = size,
                                               .id = suspect->id,
                                               .id_size = suspect->id_size,
                                               .queue = queue};
    if (status != QUERN_OK && qn_asynq_go_reads(&check->page, &unusable)) {
        return true; /* it is not for us, but no damage */
    }
    if (status != QUERN_OK) {
        return blame(check, message, size, qn_arena_strdup(&check->page, why.text), suspect);
    }
    suspect->group = decoded.group;
    int64_t at_ms = decoded.completed_at_ms > 0 ? decoded.completed_at_ms + task.retention_ms
                                                : decoded.failed_at_ms;
    suspect->known_at_s = at_ms / 1000;
    if (decoded.retry_count > task.retry_max) {
        set_retry_count(suspect, (uint64_t)task.retry_max);
        return blame(check, message, size,
                     qn_arena_printf(&check->page, "%lld retries of %lld",
                                     (long long)decoded.retry_count, (long long)task.retry_max),
                     suspect);
    }
    return true;
}

static void add_suspect(struct qn_pipeline *pipeline, const struct qn_redis_check *check,
                        const char *queue, const struct qn_suspect *suspect)
{
    qn_pipeline_script(pipeline, &qn_lua_check_task, 1);
    qn_pipeline_limit(pipeline, QN_REPLY_ROWS_MAX);
    qn_keys_add_prefix(pipeline, queue);
    qn_pipeline_bytes(pipeline, suspect->id, suspect->id_size);
    qn_pipeline_text(pipeline, check->repair ? "1" : "0");
    if (suspect->message != NULL) {
        qn_pipeline_bytes(pipeline, suspect->message, suspect->message_size);
    } else {
        qn_pipeline_text(pipeline, "");
    }
    qn_pipeline_text(pipeline, suspect->why == NULL ? "" : suspect->why);
    qn_pipeline_text(pipeline, suspect->seen_in == NULL ? "" : suspect->seen_in);
    qn_pipeline_text(pipeline, suspect->group == NULL ? "" : suspect->group);
    if (suspect->known_at_s > 0) {
        qn_pipeline_int(pipeline, suspect->known_at_s);
    } else {
        qn_pipeline_text(pipeline, "");
    }
    qn_pipeline_bytes(pipeline, suspect->addition, suspect->addition_size);
}

quern_status qn_check_suspects(struct qn_redis_check *check, const char *queue,
                               const struct qn_suspect *suspects, size_t count, quern_error *err)
{
    struct qn_pipeline pipeline;
    if (count == 0) {
        return QUERN_OK;
    }
    qn_redis_begin(&pipeline, check->self, QN_CHANNEL_REST,
                   check->repair ? QN_PIPELINE_WRITES : QN_PIPELINE_READS);
    for (size_t i = 0; i < count; i++) {
        add_suspect(&pipeline, check, queue, &suspects[i]);
    }
    quern_status status = qn_pipeline_run(&pipeline, err);
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        const struct qn_reply *reply;
        status = qn_pipeline_reply(&pipeline, i, &reply, err);
        for (size_t k = 0; status == QUERN_OK && k + 1 < reply->count; k += 2) {
            status =
                qn_check_keep(check, qn_reply_text(qn_reply_at(reply, k)), queue, suspects[i].id,
                              qn_reply_text(qn_reply_at(reply, k + 1)), check->repair, err);
        }
        if (status == QUERN_E_CORRUPT) {
            status = QUERN_OK; /* a container of the wrong type is told of by itself */
        }
    }
    qn_pipeline_end(&pipeline);
    return status;
}

/* --- Walking ---------------------------------------------------------------------------- */

/* The first walk: every id is kept, and what looks wrong is suspect. */
static bool note_id(struct sweep *sweep, const struct qn_reply *page, size_t first, bool *ret_wrong)
{
    struct qn_checked_queue *queue = sweep->queue;
    const struct qn_reply *id = qn_reply_at(page, first);
    bool is_lease = strcmp(sweep->container, "lease") == 0;
    bool is_index = strcmp(sweep->container, "quern:due") == 0;
    bool is_active = strcmp(sweep->container, "active") == 0;
    *ret_wrong = qn_reply_int(qn_reply_at(page, first + 1), 0) == 1;
    if (is_lease || is_index) {
        *ret_wrong = *ret_wrong || (is_lease && !qn_id_set_has(&queue->active, id->data, id->size));
        return true;
    }
    uint64_t token = is_active && !*ret_wrong ? qn_reply_uint(qn_reply_at(page, first + 2)) : 0;
    queue->token = token > queue->token ? token : queue->token;
    return qn_id_set_add(&queue->ids, id->data, id->size) &&
           (!is_active || qn_id_set_add(&queue->active, id->data, id->size));
}

static quern_status look_at(struct sweep *sweep, const struct qn_reply *page, size_t first,
                            quern_error *err)
{
    struct qn_redis_check *check = sweep->check;
    const struct qn_reply *id = qn_reply_at(page, first);
    const struct qn_reply *message = qn_reply_at(page, first + 3);
    struct qn_suspect suspect = {.seen_in = sweep->container, .id_size = id->size};
    bool wrong = true;
    if (sweep->twins == NULL) {
        if (!note_id(sweep, page, first, &wrong)) {
            return qn_error_nomem(err);
        }
    } else if (!qn_id_set_has(sweep->twins, id->data, id->size) ||
               sweep->twin_count++ >= TWINS_MAX) {
        return QUERN_OK;
    }
    suspect.id = qn_arena_copy(&check->page, id->data, id->size + 1);
    if (suspect.id == NULL) {
        return qn_error_nomem(err);
    }
    if (message->size > 0) {
        wrong =
            !qn_check_message(check, sweep->queue->name, message->data, message->size, &suspect) ||
            wrong;
    }
    if (wrong) {
        sweep->suspects[sweep->suspect_count++] = suspect;
    }
    return QUERN_OK;
}

/* *cursor becomes NULL at the end. */
static quern_status read_page(struct sweep *sweep, const char **cursor, quern_error *err)
{
    struct qn_redis_check *check = sweep->check;
    const struct qn_reply *page;
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, check->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_script(&pipeline, &qn_lua_check_page, 1);
    qn_pipeline_limit(&pipeline, QN_REPLY_ROWS_MAX);
    qn_keys_add_prefix(&pipeline, sweep->queue->name);
    qn_pipeline_text(&pipeline, sweep->container);
    qn_pipeline_text(&pipeline, sweep->is_list ? "list" : "zset");
    qn_pipeline_text(&pipeline, *cursor);
    qn_pipeline_int(&pipeline, PAGE_SIZE);
    quern_status status = qn_pipeline_run(&pipeline, err);
    if (status == QUERN_OK) {
        status = qn_pipeline_reply(&pipeline, 0, &page, err);
    }
    if (status == QUERN_OK) {
        const char *next = qn_reply_text(qn_reply_at(page, 0));
        *cursor = strcmp(next, "0") == 0 ? NULL : qn_arena_strdup(&check->page, next);
        qn_walk_add(&sweep->walk, page);
        sweep->suspect_count = 0;
        sweep->suspects =
            qn_arena_alloc(&check->page, (page->count + 1) * sizeof(struct qn_suspect));
        if (sweep->suspects == NULL || (*cursor == NULL && strcmp(next, "0") != 0)) {
            status = qn_error_nomem(err);
        }
        for (size_t i = 1; status == QUERN_OK && i + ITEMS_PER_ID <= page->count;
             i += ITEMS_PER_ID) {
            status = look_at(sweep, page, i, err);
        }
    }
    qn_pipeline_end(&pipeline);
    return status;
}

static quern_status walk_once(struct sweep *sweep, const char *container, bool is_list,
                              size_t *ret_suspects, quern_error *err)
{
    char place[32] = "0";
    const char *cursor = place;
    quern_status status = QUERN_OK;
    *ret_suspects = 0;
    sweep->container = container;
    sweep->is_list = is_list;
    sweep->walk = (struct qn_walk){.self = sweep->check->self,
                                   .size_command = is_list ? "LLEN" : "ZCARD",
                                   .queue = sweep->queue->name,
                                   .key = container};
    while (status == QUERN_OK && cursor != NULL) {
        status = read_page(sweep, &cursor, err);
        if (status == QUERN_OK) {
            status = qn_walk_check(&sweep->walk, err);
        }
        if (status == QUERN_OK) {
            *ret_suspects += sweep->suspect_count;
            status = qn_check_suspects(sweep->check, sweep->queue->name, sweep->suspects,
                                       sweep->suspect_count, err);
        }
        if (cursor != NULL && cursor != place) {
            (void)snprintf(place, sizeof place, "%s", cursor);
            cursor = place;
        }
        qn_check_tell(sweep->check);
    }
    return status == QUERN_E_CORRUPT ? QUERN_OK : status; /* of the wrong type: told by itself */
}

/* Where entries are taken out of a list, those behind move up and are skipped: so again, until
 * nothing is taken out. */
static quern_status walk(struct sweep *sweep, const char *container, bool is_list, quern_error *err)
{
    size_t ids_before = sweep->queue->ids.count;
    size_t active_before = sweep->queue->active.count;
    size_t suspects = 1;
    quern_status status = QUERN_OK;
    for (int i = 0; status == QUERN_OK && suspects > 0 && i < WALKS_MAX; i++) {
        if (sweep->twins == NULL && is_list) {
            sweep->queue->ids.count = ids_before;
            sweep->queue->active.count = active_before;
        }
        status = walk_once(sweep, container, is_list, &suspects, err);
        if (!sweep->check->repair || !is_list || sweep->twins != NULL) {
            break;
        }
    }
    return status;
}

static quern_status walk_all(struct sweep *sweep, quern_error *err)
{
    static const char *const zsets[] = {"scheduled", "retry", "archived", "completed"};
    quern_status status = walk(sweep, "active", true, err);
    if (status == QUERN_OK) {
        status = walk(sweep, "pending", true, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < sizeof zsets / sizeof zsets[0]; i++) {
        status = walk(sweep, zsets[i], false, err);
    }
    for (const struct qn_checked_group *group = sweep->queue->groups;
         status == QUERN_OK && group != NULL; group = group->next) {
        status = walk(sweep, group->container, false, err);
    }
    return status;
}

quern_status qn_check_sweep(struct qn_redis_check *check, struct qn_checked_queue *queue,
                            quern_error *err)
{
    struct qn_id_set twins = {0};
    struct sweep sweep = {.check = check, .queue = queue};
    quern_status status = walk_all(&sweep, err);
    qn_id_set_sort(&queue->ids);
    qn_id_set_sort(&queue->active);
    if (status == QUERN_OK) {
        status = walk(&sweep, "lease", false, err);
    }
    if (status == QUERN_OK && !qn_id_set_twins(&queue->ids, &twins)) {
        status = qn_error_nomem(err);
    }
    if (status == QUERN_OK && twins.count > 0) {
        sweep.twins = &twins;
        status = walk_all(&sweep, err);
    }
    qn_id_set_finish(&twins);
    return status;
}

quern_status qn_check_index(struct qn_redis_check *check, struct qn_checked_queue *queue,
                            quern_error *err)
{
    struct sweep sweep = {.check = check, .queue = queue};
    return walk(&sweep, "quern:due", false, err);
}
