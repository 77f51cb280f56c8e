/* SPDX-License-Identifier: MIT */
/* containers.c - walks through all entries of the containers of a queue, page by page, while the
 * queue stays in use.
 *
 * A first check of each task finds suspects. A task that is in two places is found by the hashes of
 * all ids, and by a second walk for those that occur twice. Tasks move meanwhile, so all this is
 * suspicion: each suspect is checked again in one script, in all places at once (suspect.c), and
 * only the findings of that script are reported. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "broker/redis/doctor/suspect.h"
#include "broker/redis/inspect/page_bound.h"
#include "broker/redis/schema/keys.h"

#include "broker/redis/doctor/doctor_page_lua.h"

#define PAGE_SIZE 128
#define TWINS_MAX                                                                                  \
    200              /* looked at in one check of a queue, as each look walks through its lists    \
                      */
#define WALKS_MAX 40 /* of a list while it is repaired */
#define ITEMS_PER_ID 4

struct walk {
    struct qn_redis_doctor *doctor;
    struct qn_checked_queue *queue;
    const char *container;
    bool is_list;
    struct qn_page_bound bound;
    const struct qn_id_set *twins; /* NULL: the first walk */
    size_t twin_count;
    struct qn_suspect *suspects; /* of this page */
    size_t suspect_count;
};

/* --- Walking ---------------------------------------------------------------------------- */

/* The first walk: every id is kept, and tasks that look wrong become suspects. */
static bool note_id(struct walk *walk, const struct qn_reply *page, size_t first, bool *ret_wrong)
{
    struct qn_checked_queue *queue = walk->queue;
    const struct qn_reply *id = qn_reply_at(page, first);
    bool is_lease = strcmp(walk->container, "lease") == 0;
    bool is_index = strcmp(walk->container, QN_KEY_DUE) == 0;
    bool is_active = strcmp(walk->container, "active") == 0;
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

static quern_status look_at(struct walk *walk, const struct qn_reply *page, size_t first,
                            quern_error *err)
{
    struct qn_redis_doctor *doctor = walk->doctor;
    const struct qn_reply *id = qn_reply_at(page, first);
    const struct qn_reply *message = qn_reply_at(page, first + 3);
    struct qn_suspect suspect = {.seen_in = walk->container, .id_size = id->size};
    bool wrong = true;
    if (walk->twins == NULL) {
        if (!note_id(walk, page, first, &wrong)) {
            return qn_error_nomem(err);
        }
    } else if (!qn_id_set_has(walk->twins, id->data, id->size) || walk->twin_count++ >= TWINS_MAX) {
        return QUERN_OK;
    }
    suspect.id = qn_arena_copy(&doctor->page, id->data, id->size + 1);
    if (suspect.id == NULL) {
        return qn_error_nomem(err);
    }
    if (message->size > 0) {
        wrong =
            !qn_suspect_read(doctor, walk->queue->name, message->data, message->size, &suspect) ||
            wrong;
    }
    if (wrong) {
        walk->suspects[walk->suspect_count++] = suspect;
    }
    return QUERN_OK;
}

/* *cursor becomes NULL at the end. */
static quern_status read_page(struct walk *walk, const char **cursor, quern_error *err)
{
    struct qn_redis_doctor *doctor = walk->doctor;
    const struct qn_reply *page;
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, doctor->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_script(&pipeline, &qn_lua_doctor_page, 1);
    qn_pipeline_limit(&pipeline, QN_REPLY_ROWS_MAX);
    qn_keys_add_prefix(&pipeline, walk->queue->name);
    qn_pipeline_text(&pipeline, walk->container);
    qn_pipeline_text(&pipeline, walk->is_list ? "list" : "zset");
    qn_pipeline_text(&pipeline, *cursor);
    qn_pipeline_int(&pipeline, PAGE_SIZE);
    quern_status status = qn_pipeline_ask(&pipeline, &page, err);
    if (status == QUERN_OK) {
        const char *next = qn_reply_text(qn_reply_at(page, 0));
        *cursor = strcmp(next, "0") == 0 ? NULL : qn_arena_strdup(&doctor->page, next);
        qn_page_bound_add(&walk->bound, page);
        walk->suspect_count = 0;
        walk->suspects =
            qn_arena_alloc(&doctor->page, (page->count + 1) * sizeof(struct qn_suspect));
        if (walk->suspects == NULL || (*cursor == NULL && strcmp(next, "0") != 0)) {
            status = qn_error_nomem(err);
        }
        for (size_t i = 1; status == QUERN_OK && i + ITEMS_PER_ID <= page->count;
             i += ITEMS_PER_ID) {
            status = look_at(walk, page, i, err);
        }
    }
    qn_pipeline_end(&pipeline);
    return status;
}

static quern_status walk_once(struct walk *walk, const char *container, bool is_list,
                              size_t *ret_suspects, quern_error *err)
{
    char place[32] = "0";
    const char *cursor = place;
    quern_status status = QUERN_OK;
    *ret_suspects = 0;
    walk->container = container;
    walk->is_list = is_list;
    walk->bound = (struct qn_page_bound){.self = walk->doctor->self,
                                         .size_command = is_list ? "LLEN" : "ZCARD",
                                         .queue = walk->queue->name,
                                         .key = container};
    while (status == QUERN_OK && cursor != NULL) {
        status = read_page(walk, &cursor, err);
        if (status == QUERN_OK) {
            status = qn_page_bound_check(&walk->bound, err);
        }
        if (status == QUERN_OK) {
            *ret_suspects += walk->suspect_count;
            status = qn_suspect_check_all(walk->doctor, walk->queue->name, walk->suspects,
                                          walk->suspect_count, err);
        }
        if (cursor != NULL && cursor != place) {
            (void)snprintf(place, sizeof place, "%s", cursor);
            cursor = place;
        }
        qn_redis_findings_report(&walk->doctor->findings);
        qn_arena_reset(&walk->doctor->page);
    }
    return status == QUERN_E_CORRUPT ? QUERN_OK
                                     : status; /* of the wrong type: a finding of its own */
}

/* Where entries are taken out of a list, those behind move up and are skipped: so again, until
 * nothing is taken out. */
static quern_status walk_container(struct walk *walk, const char *container, bool is_list,
                                   quern_error *err)
{
    size_t ids_before = walk->queue->ids.count;
    size_t active_before = walk->queue->active.count;
    size_t suspects = 1;
    quern_status status = QUERN_OK;
    for (int i = 0; status == QUERN_OK && suspects > 0 && i < WALKS_MAX; i++) {
        if (walk->twins == NULL && is_list) {
            walk->queue->ids.count = ids_before;
            walk->queue->active.count = active_before;
        }
        status = walk_once(walk, container, is_list, &suspects, err);
        if (!walk->doctor->repair || !is_list || walk->twins != NULL) {
            break;
        }
    }
    return status;
}

static quern_status walk_all(struct walk *walk, quern_error *err)
{
    static const char *const zsets[] = {"scheduled", "retry", "archived", "completed"};
    quern_status status = walk_container(walk, "active", true, err);
    if (status == QUERN_OK) {
        status = walk_container(walk, "pending", true, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < sizeof zsets / sizeof zsets[0]; i++) {
        status = walk_container(walk, zsets[i], false, err);
    }
    for (const struct qn_checked_group *group = walk->queue->groups;
         status == QUERN_OK && group != NULL; group = group->next) {
        status = walk_container(walk, group->container, false, err);
    }
    return status;
}

quern_status qn_containers_walk(struct qn_redis_doctor *doctor, struct qn_checked_queue *queue,
                                quern_error *err)
{
    struct qn_id_set twins = {0};
    struct walk walk = {.doctor = doctor, .queue = queue};
    quern_status status = walk_all(&walk, err);
    qn_id_set_sort(&queue->ids);
    qn_id_set_sort(&queue->active);
    if (status == QUERN_OK) {
        status = walk_container(&walk, "lease", false, err);
    }
    if (status == QUERN_OK && !qn_id_set_twins(&queue->ids, &twins)) {
        status = qn_error_nomem(err);
    }
    if (status == QUERN_OK && twins.count > 0) {
        walk.twins = &twins;
        status = walk_all(&walk, err);
    }
    qn_id_set_finish(&twins);
    return status;
}

quern_status qn_containers_walk_index(struct qn_redis_doctor *doctor,
                                      struct qn_checked_queue *queue, quern_error *err)
{
    struct walk walk = {.doctor = doctor, .queue = queue};
    return walk_container(&walk, QN_KEY_DUE, false, err);
}
