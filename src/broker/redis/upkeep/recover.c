/* SPDX-License-Identifier: MIT */
/* recover.c - returns the tasks of workers that are gone, and of expired leases.
 *
 * Only queues where something is active are checked (poll.c); each of them every ten minutes
 * anyway, for the records of workers that died idle. First the records of the workers of these
 * queues are read, to know whose process is dead (owner.h). Then, queue by queue, a script reads
 * pages of the leases (recover.lua). Leases that may not be touched yet, those of Go workers in
 * their grace period, are skipped: the next call continues after them, so that a hundred thousand
 * of them delay ours by some calls, and no script takes long. The record of a dead worker goes
 * after a whole round in which it was known to be dead, and which passed over nothing
 * (lib_pages.lua), and not within seconds (forget.lua).
 *
 * Leases end by the server's clock. When that is set forward, or another server with another clock
 * takes over, all of them seem to have expired at once; so for a while after such a jump against
 * our clock since boot none is ended, and live workers extend theirs by the new clock. */
#include "broker/redis/upkeep/recover.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "broker/redis/redis.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/node.h"
#include "broker/redis/upkeep/forget_lua.h"
#include "broker/redis/upkeep/gone.h"
#include "broker/redis/upkeep/known_workers.h"
#include "broker/redis/upkeep/recover_lua.h"
#include "broker/redis/wake/poll.h"
#include "redis/cluster/silence.h"

#define PAGE 500           /* leases that one script reads: about a millisecond */
#define PAGES_MAX 8        /* of one queue in one call */
#define CLOCK_JUMP_MS 5000 /* live workers survive less: they extend at a third of a lease */
#define CLOCK_REST_MS QN_LEASE_MS
#define LOOK_ANYWAY_MS (600 * INT64_C(1000))
#define REPLY_HEAD 6 /* the items of the reply before the leases that it ended */
/* Who beats each 5 s and is dead when unheard for 15 s has this much, and as much again to come
 * back. */
#define SILENCE_NS INT64_C(5000000000)
#define BACK_REST_NS INT64_C(3000000000)

struct qn_recovery_cursor {
    struct qn_recovery_cursor *next;
    int64_t workers_read_at_mono_ns; /* when its workers were last read; 0: never */
    int64_t asked_at_mono_ns;        /* since when there is no answer for it; 0: there was one */
    int64_t back_at_mono_ns;         /* when there was one again after a silence; 0: never */
    int64_t from;                    /* the rank where the next page begins */
    char *anchors;                   /* the text from the page before (lib_pages.lua); NULL: none */
    size_t anchors_size;
    bool is_unsure;     /* this round may have passed over some */
    uint64_t dead_mark; /* the workers that were known to be dead when this round began */
    char queue[];
};

struct recovering {
    struct qn_redis *self;
    struct qn_pipeline pipeline;
    size_t left;
    struct qn_arena arena;      /* of the next step: reported when the channel is free again */
    struct qn_recovery *report; /* room for `limit` */
    size_t count;
};

/* --- How far it has come ------------------------------------------------------------- */

void qn_recover_free_cursors(struct qn_recovery_cursor *cursor)
{
    while (cursor != NULL) {
        struct qn_recovery_cursor *next = cursor->next;
        qn_free(cursor->anchors);
        qn_free(cursor);
        cursor = next;
    }
}

/* NULL: there is none yet, and no memory. */
static struct qn_recovery_cursor *find_cursor(struct qn_redis *self, const char *queue)
{
    struct qn_recovery_cursor *cursor = self->recovery_cursors;
    while (cursor != NULL && strcmp(cursor->queue, queue) != 0) {
        cursor = cursor->next;
    }
    if (cursor == NULL) {
        size_t size = strlen(queue) + 1;
        cursor = qn_alloc_zero(1, sizeof *cursor + size);
        if (cursor != NULL) {
            memcpy(cursor->queue, queue, size);
            cursor->next = self->recovery_cursors;
            self->recovery_cursors = cursor;
        }
    }
    return cursor;
}

/* --- Pages --------------------------------------------------------------------------- */

static quern_status keep_report(struct recovering *recovering, const char *queue,
                                const struct qn_reply *reply, quern_error *err)
{
    for (size_t i = REPLY_HEAD; i + 3 < reply->count && recovering->left > 0; i += 4) {
        const char *id = qn_arena_strdup(&recovering->arena, qn_reply_text(reply->items[i]));
        if (id == NULL) {
            return qn_error_nomem(err);
        }
        recovering->left--;
        recovering->report[recovering->count++] = (struct qn_recovery){
            .queue = queue,
            .id = id,
            .cause = (quern_cause)qn_reply_int(reply->items[i + 1], QUERN_CAUSE_NONE),
            .charged = qn_reply_int(reply->items[i + 2], 0) != 0,
            .archived = qn_reply_int(reply->items[i + 3], 0) != 0};
    }
    return QUERN_OK;
}

/* The latest that the server's clock may show; nothing was ever due before 1970. */
static void put_latest(struct qn_pipeline *pipeline, const struct qn_server_clock *clock,
                       int64_t boot_ms, int64_t queue_back_at_mono_ns)
{
    int64_t back_at_mono_ns = queue_back_at_mono_ns > clock->back_at_mono_ns
                                  ? queue_back_at_mono_ns
                                  : clock->back_at_mono_ns;
    bool is_back = back_at_mono_ns != 0 && qn_clock_mono_ns() - back_at_mono_ns < BACK_REST_NS;
    if (!clock->jump.seen) {
        qn_pipeline_text(pipeline, "");
    } else if (is_back || qn_clock_jump_is_recent(&clock->jump, boot_ms, CLOCK_REST_MS)) {
        qn_pipeline_int(pipeline, 0);
    } else {
        qn_pipeline_int(pipeline, boot_ms + clock->jump.offset_ms + CLOCK_JUMP_MS);
    }
}

/* After a silence of the server every worker may be alive without a recent heartbeat: each gets a
 * moment to extend its leases, so that none is taken for dead. */
static void note_answer(struct qn_server_clock *clock)
{
    int64_t now_mono_ns = qn_clock_mono_ns();
    if (clock->answered_at_mono_ns != 0 && now_mono_ns - clock->answered_at_mono_ns > SILENCE_NS) {
        clock->back_at_mono_ns = now_mono_ns;
    }
    clock->answered_at_mono_ns = now_mono_ns;
}

static void note_clock(struct qn_server_clock *clock, int64_t boot_ms, int64_t server_ms)
{
    qn_clock_jump_note_ahead(&clock->jump, boot_ms, server_ms, CLOCK_JUMP_MS);
    note_answer(clock);
}

static quern_status ask_page(struct recovering *recovering, const struct qn_recovery_cursor *cursor,
                             const struct qn_known_workers *known,
                             const struct qn_reply **ret_reply, quern_error *err)
{
    struct qn_pipeline *pipeline = &recovering->pipeline;
    int64_t sent_ms = qn_clock_boot_ms(recovering->self->base.clock);
    qn_pipeline_script(pipeline, &qn_lua_recover, 1);
    qn_pipeline_limit(pipeline, QN_REPLY_ROWS_MAX);
    qn_keys_add_prefix(pipeline, cursor->queue);
    qn_pipeline_uint(pipeline, recovering->left);
    qn_pipeline_int(pipeline, PAGE);
    qn_pipeline_int(pipeline, cursor->from);
    qn_pipeline_bytes(pipeline, cursor->anchors != NULL ? cursor->anchors : "",
                      cursor->anchors_size);
    put_latest(pipeline, &recovering->self->recover_clock, sent_ms, cursor->back_at_mono_ns);
    for (size_t i = 0; i < known->count; i++) {
        qn_pipeline_bytes(pipeline, &known->letters[i], 1);
        qn_pipeline_bytes(pipeline, known->ids[i]->data, known->ids[i]->size);
    }
    quern_status status = qn_pipeline_ask(pipeline, ret_reply, err);
    if (status == QUERN_OK) {
        status = qn_pipeline_expect(pipeline, (*ret_reply)->count >= REPLY_HEAD, "recover", err);
    }
    return status;
}

/* Where the next page begins. */
static quern_status advance_cursor(struct qn_recovery_cursor *cursor, const struct qn_reply *reply,
                                   quern_error *err)
{
    const struct qn_reply *anchors = qn_reply_at(reply, 4);
    size_t size = anchors->type == QN_REPLY_TEXT ? anchors->size : 0;
    char *copy = NULL;
    if (size > 0) {
        copy = qn_alloc(size);
        if (copy == NULL) {
            return qn_error_nomem(err);
        }
        memcpy(copy, anchors->data, size);
    }
    qn_free(cursor->anchors);
    cursor->anchors = copy;
    cursor->anchors_size = size;
    cursor->from = qn_reply_int(qn_reply_at(reply, 0), 0);
    return QUERN_OK;
}

/* A page with leases of workers whose death was not noted is read again, at once or, where no
 * more may be ended, by the next call. */
static quern_status look_at_page(struct recovering *recovering, struct qn_recovery_cursor *cursor,
                                 const struct qn_known_workers *known, bool *ret_end,
                                 quern_error *err)
{
    const struct qn_reply *reply = NULL;
    quern_status status = ask_page(recovering, cursor, known, &reply, err);
    if (status == QUERN_OK) {
        status = keep_report(recovering, cursor->queue, reply, err);
    }
    const struct qn_reply *asked = status == QUERN_OK ? qn_reply_at(reply, 3) : NULL;
    for (size_t i = 0; status == QUERN_OK && i < asked->count; i++) {
        status =
            qn_gone_note(&recovering->pipeline, cursor->queue, qn_reply_text(asked->items[i]), err);
    }
    if (status == QUERN_OK && asked->count > 0 && recovering->left > 0) {
        status = ask_page(recovering, cursor, known, &reply, err);
        if (status == QUERN_OK) {
            status = keep_report(recovering, cursor->queue, reply, err);
        }
    }
    if (status != QUERN_OK) {
        return status;
    }
    note_clock(&recovering->self->recover_clock, qn_clock_boot_ms(recovering->self->base.clock),
               qn_reply_moment_ms(reply->items[2]));
    cursor->is_unsure = cursor->is_unsure || qn_reply_int(reply->items[5], 1) != 0;
    if (qn_reply_at(reply, 3)->count > 0) {
        return QUERN_OK;
    }
    *ret_end = qn_reply_int(reply->items[1], 0) != 0;
    return advance_cursor(cursor, reply, err);
}

/* They hold no lease any more, and can get another one only by a request that is still in
 * flight. */
static quern_status forget_dead(struct qn_pipeline *pipeline, const char *queue,
                                const struct qn_known_workers *known, quern_error *err)
{
    qn_pipeline_script(pipeline, &qn_lua_forget, 1);
    qn_keys_add_prefix(pipeline, queue);
    for (size_t i = 0; i < known->count; i++) {
        if (known->letters[i] == 'd') {
            qn_pipeline_bytes(pipeline, known->ids[i]->data, known->ids[i]->size);
        }
    }
    return qn_pipeline_run(pipeline, err);
}

static quern_status recover_queue(struct recovering *recovering, struct qn_recovery_cursor *cursor,
                                  const struct qn_known_workers *known, quern_error *err)
{
    if (known->dead_count > 0 && cursor->dead_mark != known->mark) {
        cursor->from = 0; /* a new round, in which all of them are known */
        cursor->is_unsure = false;
    }
    cursor->dead_mark = known->mark;
    quern_status status = QUERN_OK;
    bool end = false;
    for (int i = 0; status == QUERN_OK && i < PAGES_MAX && !end && recovering->left > 0; i++) {
        status = look_at_page(recovering, cursor, known, &end, err);
    }
    if (status == QUERN_OK && end && known->dead_count > 0 && !cursor->is_unsure) {
        status = forget_dead(&recovering->pipeline, cursor->queue, known, err);
    }
    cursor->is_unsure = cursor->is_unsure && !end;
    return status;
}

/* --- Which queues --------------------------------------------------------------------- */

/* Notes since when each queue is asked for without an answer. Of a cluster one node may be silent
 * while others answer, which the clock of the server does not show. */
static quern_status note_asked(struct qn_redis *self, const char *const *queues, size_t count,
                               quern_error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct qn_recovery_cursor *cursor = find_cursor(self, queues[i]);
        if (cursor == NULL) {
            return qn_error_nomem(err);
        }
        cursor->asked_at_mono_ns =
            cursor->asked_at_mono_ns != 0 ? cursor->asked_at_mono_ns : qn_clock_mono_ns();
    }
    return QUERN_OK;
}

/* Its node has answered. */
static void note_queue_answer(struct qn_recovery_cursor *cursor)
{
    int64_t now_mono_ns = qn_clock_mono_ns();
    if (now_mono_ns - cursor->asked_at_mono_ns > SILENCE_NS) {
        cursor->back_at_mono_ns = now_mono_ns;
    }
    cursor->asked_at_mono_ns = 0;
}

/* Those that have to be checked now, moved to the front of `queues`. */
static quern_status choose_queues(struct recovering *recovering, const char **queues, size_t *count,
                                  quern_error *err)
{
    struct qn_redis *self = recovering->self;
    bool *held = qn_arena_alloc(&recovering->arena, *count * sizeof *held);
    if (held == NULL) {
        return qn_error_nomem(err);
    }
    int64_t now_mono_ns = qn_clock_mono_ns();
    struct qn_poll poll = {.queues = queues, .queue_count = *count, .held = held};
    quern_status status = note_asked(self, queues, *count, err);
    if (status == QUERN_OK) {
        status = qn_poll_run(self, &recovering->pipeline, &poll, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    if (poll.clock_ms > 0) {
        note_clock(&self->recover_clock, qn_clock_boot_ms(self->base.clock), poll.clock_ms);
    }
    size_t chosen = 0;
    for (size_t i = 0; i < *count; i++) {
        struct qn_recovery_cursor *cursor = find_cursor(self, queues[i]);
        int node = -1;
        status = qn_node_of_queue(self->cluster, &recovering->arena, queues[i], &node, err);
        if (status != QUERN_OK) {
            return status;
        }
        if (self->cluster != NULL && qn_silence_is(self->cluster, node)) {
            continue; /* the other queues do not wait for it */
        }
        note_queue_answer(cursor);
        bool late = cursor->workers_read_at_mono_ns == 0 ||
                    now_mono_ns - cursor->workers_read_at_mono_ns >= LOOK_ANYWAY_MS * 1000000;
        if (held[i] || late) {
            cursor->workers_read_at_mono_ns = now_mono_ns;
            queues[chosen++] = queues[i];
        }
    }
    *count = chosen;
    return QUERN_OK;
}

static quern_status recover_chosen(struct recovering *recovering, struct qn_names queues,
                                   quern_error *err)
{
    struct qn_known_workers *known =
        qn_arena_alloc(&recovering->arena, queues.count * sizeof known[0]);
    recovering->report =
        qn_arena_alloc(&recovering->arena, recovering->left * sizeof recovering->report[0]);
    if (known == NULL || recovering->report == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = qn_known_workers_read(&recovering->pipeline, queues, known, err);
    quern_status damaged = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < queues.count && recovering->left > 0; i++) {
        quern_error *to = damaged == QUERN_OK ? err : NULL;
        status = recover_queue(recovering, find_cursor(recovering->self, queues.items[i]),
                               &known[i], to);
        if (status == QUERN_E_CORRUPT) { /* stops no other queue, and is reported at the end */
            damaged = status;
            status = QUERN_OK;
        }
    }
    return status == QUERN_OK ? damaged : status;
}

static quern_status recover_queues(struct recovering *recovering, struct qn_names queues,
                                   quern_error *err)
{
    const char **chosen = qn_arena_alloc(&recovering->arena, queues.count * sizeof *chosen);
    if (chosen == NULL) {
        return qn_error_nomem(err);
    }
    memcpy(chosen, queues.items, queues.count * sizeof *chosen);
    qn_redis_begin(&recovering->pipeline, recovering->self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    quern_status status = choose_queues(recovering, chosen, &queues.count, err);
    if (status == QUERN_OK && queues.count > 0) {
        status = recover_chosen(recovering, (struct qn_names){chosen, queues.count}, err);
    }
    qn_pipeline_end(&recovering->pipeline);
    return status;
}

quern_status qn_redis_recover(struct qn_broker *broker, struct qn_upkeep upkeep,
                              const struct qn_recovery_sink *sink, size_t *ret_recovered,
                              quern_error *err)
{
    struct recovering recovering = {.self = qn_redis_of(broker), .left = upkeep.limit};
    quern_status status = QUERN_OK;
    if (upkeep.queues.count > 0 && upkeep.limit > 0) {
        status = recover_queues(&recovering, upkeep.queues, err);
    }
    /* Also after a failure: these have ended. */
    for (size_t i = 0; sink != NULL && i < recovering.count; i++) {
        sink->on_recovery(&recovering.report[i], sink->user);
    }
    if (status == QUERN_OK) {
        *ret_recovered = recovering.count;
    }
    qn_arena_finish(&recovering.arena);
    return status;
}
