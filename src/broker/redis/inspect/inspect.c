/* SPDX-License-Identifier: MIT */
/* inspect.c - the small things that every look needs: the time, names of queues and groups. */
#include "broker/redis/inspect/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/memory/vec.h"
#include "base/text/number.h"
#include "broker/redis/schema/keys.h"

void qn_redis_inspect_date(int64_t at_ms, char out[QN_DATE_SIZE])
{
    time_t at = (time_t)(at_ms / 1000);
    struct tm parts = {0};
    (void)gmtime_r(&at, &parts);
    (void)strftime(out, QN_DATE_SIZE, "%Y-%m-%d", &parts);
}

int64_t qn_redis_inspect_time_ms(const struct qn_redis *self, const struct qn_pipeline *pipeline,
                                 size_t index)
{
    const struct qn_reply *reply = NULL;
    if (qn_pipeline_reply(pipeline, index, &reply, NULL) != QUERN_OK) {
        return qn_clock_wall_ms(self->base.clock);
    }
    int64_t micros = qn_number_clamp(qn_reply_int(qn_reply_at(reply, 1), 0), 0, 999999);
    return qn_reply_seconds(qn_reply_at(reply, 0)) * 1000 + micros / 1000;
}

bool qn_redis_inspect_forbidden(const struct qn_pipeline *pipeline, size_t index)
{
    const struct qn_reply *reply = pipeline->commands[index].reply;
    return reply->type == QN_REPLY_ERROR && strncmp(reply->data, "NOPERM", 6) == 0;
}

quern_status qn_redis_inspect_now(struct qn_redis *self, int64_t *ret_now_ms, quern_error *err)
{
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, "TIME");
    quern_status status = qn_pipeline_run(&pipeline, err);
    if (status == QUERN_OK) {
        *ret_now_ms = qn_redis_inspect_time_ms(self, &pipeline, 0);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

/* --- Sets of names ---------------------------------------------------------------------- */

struct names {
    struct qn_arena *arena;
    const char **items;
    size_t count;
    size_t capacity;
};

/* A name with a NUL in it cannot come from quern or asynq: it is left out. */
static bool names_add(struct names *names, const struct qn_reply *member)
{
    if (strlen(qn_reply_text(member)) != member->size) {
        return true;
    }
    const char **items =
        qn_vec_grow_in(names->arena, names->items, names->count, &names->capacity, sizeof *items);
    if (items == NULL) {
        return false;
    }
    names->items = items;
    const char *copy = qn_arena_strdup(names->arena, qn_reply_text(member));
    names->items[names->count] = copy;
    names->count += copy != NULL;
    return copy != NULL;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A scan may name a member twice. */
static void names_sort(struct names *names)
{
    if (names->count < 2) {
        return;
    }
    qsort(names->items, names->count, sizeof *names->items, compare_names);
    size_t used = 1;
    for (size_t i = 1; i < names->count; i++) {
        if (strcmp(names->items[i], names->items[used - 1]) != 0) {
            names->items[used++] = names->items[i];
        }
    }
    names->count = used;
}

/* One step of the scan; *cursor is "0" after the last. */
static quern_status scan_step(struct qn_page_bound *bound, struct names *names, char cursor[24],
                              quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, bound->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, "SSCAN");
    if (bound->queue == NULL) {
        qn_pipeline_text(&pipeline, bound->key);
    } else {
        qn_keys_add(&pipeline, bound->queue, bound->key);
    }
    qn_pipeline_text(&pipeline, cursor);
    qn_pipeline_text(&pipeline, "COUNT");
    qn_pipeline_int(&pipeline, QN_INSPECT_BLOCK);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    if (status == QUERN_OK) {
        const struct qn_reply *next = qn_reply_at(reply, 0);
        const struct qn_reply *members = qn_reply_at(reply, 1);
        qn_page_bound_add(bound, members);
        status = qn_pipeline_expect(&pipeline, next->type == QN_REPLY_TEXT && next->size < 24,
                                    "SSCAN", err);
        for (size_t i = 0; status == QUERN_OK && i < members->count; i++) {
            status = names_add(names, qn_reply_at(members, i)) ? QUERN_OK : qn_error_nomem(err);
        }
        if (status == QUERN_OK) {
            memcpy(cursor, next->data, next->size + 1);
        }
    }
    qn_pipeline_end(&pipeline);
    return status;
}

/* The texts of a set, sorted, each once; in the arena. */
static quern_status read_set(struct qn_page_bound *bound, struct qn_arena *arena,
                             struct qn_names *ret_names, quern_error *err)
{
    struct names names = {.arena = arena};
    char cursor[24] = "0";
    quern_status status = QUERN_OK;
    do {
        status = scan_step(bound, &names, cursor, err);
        if (status == QUERN_OK) {
            status = qn_page_bound_check(bound, err);
        }
    } while (status == QUERN_OK && strcmp(cursor, "0") != 0);
    if (status == QUERN_OK) {
        names_sort(&names);
        *ret_names = (struct qn_names){.items = names.items, .count = names.count};
    }
    return status;
}

quern_status qn_redis_inspect_queues(struct qn_redis *self, struct qn_arena *arena,
                                     struct qn_names *ret_names, quern_error *err)
{
    struct qn_page_bound bound = {.self = self, .size_command = "SCARD", .key = QN_KEY_QUEUES};
    return read_set(&bound, arena, ret_names, err);
}

quern_status qn_redis_inspect_groups(struct qn_redis *self, const char *queue,
                                     struct qn_arena *arena, struct qn_names *ret_names,
                                     quern_error *err)
{
    struct qn_page_bound bound = {
        .self = self, .size_command = "SCARD", .queue = queue, .key = "groups"};
    return read_set(&bound, arena, ret_names, err);
}
