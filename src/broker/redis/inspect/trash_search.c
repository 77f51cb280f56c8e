/* SPDX-License-Identifier: MIT */
/* trash_search.c - goes through the trash of a queue in the order of the deletions.
 *
 * As a search of the tasks (search.c): entries of the list in blocks, then the tasks, by plain
 * commands that only read. The position is a rank. */
#include <string.h>

#include "base/text/number.h"
#include "broker/redis/inspect/inspect.h"
#include "broker/redis/schema/keys.h"
#include "broker/task_info.h"
#include "broker/trash/trash.h"
#include "task/limits.h"

struct step {
    const struct qn_search *search;
    struct qn_search_end *end;
    struct qn_arena arena;
    struct qn_task_entry entries[QN_INSPECT_BATCH]; /* rank: until when it is kept, in ms */
    size_t count;
    size_t looked; /* entries up to the one reported last */
    uint64_t found;
    bool stopped;
};

static bool on_info(const struct qn_task_entry *entry, const quern_task_info *info, void *user)
{
    struct step *step = user;
    struct quern_task_info shown = *info;
    int64_t until_ms = qn_moment_ms_of((int64_t)(entry->rank & INT64_MAX));
    while (step->looked < step->count && step->entries[step->looked].id != entry->id) {
        step->looked++; /* it is gone */
    }
    step->looked++;
    shown.deleted_at_ms = until_ms > QN_TRASH_MS ? until_ms - QN_TRASH_MS : 0;
    if (until_ms > step->end->now_ms &&
        qn_search_fits(step->search->condition, &shown, step->end->now_ms)) {
        step->found++;
        step->stopped = !step->search->on_task(&shown, step->search->user) ||
                        step->found == step->search->limit;
    }
    return !step->stopped;
}

/* "size id". */
static quern_status take_entry(struct step *step, const struct qn_reply *member, int64_t until_ms,
                               quern_error *err)
{
    const char *text = qn_reply_text(member);
    const char *space = strchr(text, ' ');
    size_t before = space == NULL ? 0 : (size_t)(space + 1 - text);
    size_t size = member->type == QN_REPLY_TEXT ? member->size - before : 0;
    const char *id = qn_arena_copy(&step->arena, text + before, size + 1);
    if (id == NULL) {
        return qn_error_nomem(err);
    }
    step->entries[step->count++] = (struct qn_task_entry){
        .id = id, .id_size = size, .rank = (uint64_t)(until_ms < 0 ? 0 : until_ms)};
    return QUERN_OK;
}

static quern_status read_block(struct qn_redis *self, struct step *step, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    uint64_t left = step->search->scan_max - step->end->scanned;
    uint64_t room = left < QN_INSPECT_BATCH ? left : QN_INSPECT_BATCH;
    uint64_t rank = step->end->at.rank < UINT32_MAX ? step->end->at.rank : UINT32_MAX;
    step->count = step->looked = 0;
    qn_arena_reset(&step->arena);
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, step->search->oldest_first ? "ZRANGE" : "ZREVRANGE");
    qn_keys_add(&pipeline, step->search->queue, QN_KEY_TRASH);
    qn_pipeline_uint(&pipeline, rank);
    qn_pipeline_uint(&pipeline, rank + room - 1);
    qn_pipeline_text(&pipeline, "WITHSCORES");
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    for (size_t i = 0; status == QUERN_OK && step->count < room; i += 2) {
        const struct qn_reply *member = qn_reply_at(reply, i);
        if (member->type != QN_REPLY_TEXT) {
            break;
        }
        status = take_entry(step, member, qn_reply_int(qn_reply_at(reply, i + 1), 0), err);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

static quern_status search_block(struct qn_redis *self, struct step *step, quern_error *err)
{
    const struct qn_place place = {
        .queue = step->search->queue, .now_ms = step->end->now_ms, .in_trash = true};
    const struct qn_task_sink sink = {.on_info = on_info, .user = step};
    quern_status status = read_block(self, step, err);
    if (status != QUERN_OK || step->count == 0) {
        step->end->is_over = status == QUERN_OK;
        return status;
    }
    const struct qn_task_entries page = {step->entries, step->count};
    status = qn_read_task_all(self, &place, page, &sink, err);
    size_t looked = step->stopped ? step->looked : step->count;
    step->end->scanned += looked;
    step->end->at.rank += looked;
    return status;
}

quern_status qn_redis_trash_search(struct qn_broker *broker, const struct qn_search *search,
                                   struct qn_search_end *ret_end, quern_error *err)
{
    struct qn_redis *self = qn_redis_of(broker);
    struct qn_search_end end = {.at = search->from, .now_ms = search->now_ms, .by_rank = true};
    struct step step = {.search = search, .end = &end};
    quern_status status = end.now_ms == 0 ? qn_redis_inspect_now(self, &end.now_ms, err) : QUERN_OK;
    while (status == QUERN_OK && !end.is_over && !step.stopped && end.scanned < search->scan_max) {
        status = search_block(self, &step, err);
    }
    qn_arena_finish(&step.arena);
    if (status == QUERN_OK) {
        *ret_end = end;
    }
    return status;
}
