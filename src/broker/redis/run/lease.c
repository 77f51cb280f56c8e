/* SPDX-License-Identifier: MIT */
/* lease.c - the second half of an exchange: reads the runs that lease.lua gave (lease_ask.c).
 *
 * The script cannot read messages. So a task that turns out here to be past its deadline, or
 * unreadable, has been leased already; it is returned apart from the runs, and the exchange puts it
 * away. The script does know deadlines in our own fields, and returns such tasks beyond the room.
 *
 * A run is one block: what the reply holds is decoded into the arena of the pipeline and copied. */
#include "broker/redis/run/exchange.h"

#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/number.h"
#include "broker/redis/redis.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/task_fields.h"

#define SINCE_SIZE 19 /* digits of a since_ns in the reply */

/* --- Reading the answer --------------------------------------------------------------- */

/* One run of the reply. */
struct found {
    const char *id;
    size_t id_size; /* it may hold NUL bytes */
    const struct qn_reply *message;
    const struct qn_reply *extra; /* NULL: none */
    size_t queue_index;
    uint64_t token;
    bool started;
    int64_t since_ns;
    int64_t now_ms;
};

static void read_extra(const struct qn_reply *extra, struct qn_task_fields_opts *ret_opts,
                       bool *ret_has_opts, struct qn_task_fields_past *ret_past)
{
    *ret_past = (struct qn_task_fields_past){0};
    *ret_has_opts = false;
    if (extra == NULL || extra->type != QN_REPLY_TEXT) {
        return;
    }
    const char *end = extra->data + extra->size;
    const char *middle = memchr(extra->data, ';', extra->size);
    const char *past = middle == NULL ? end : middle + 1;
    size_t opts_size = middle == NULL ? 0 : (size_t)(middle - extra->data);
    if (opts_size > 0) {
        qn_task_fields_opts_read(extra->data, opts_size, ret_opts);
        *ret_has_opts = true;
    }
    qn_task_fields_past_read(past, (size_t)(end - past), ret_past);
}

static int64_t since_ms(const struct found *found, const struct qn_task_fields_opts *opts)
{
    if (found->since_ns > 0) {
        return qn_moment_ms_of(found->since_ns / 1000000);
    }
    /* A Go inspector put it into pending. */
    return opts != NULL ? opts->enqueued_at_ms : found->now_ms;
}

/* Why this run happens. Go notes no cause, but it counts. */
static quern_cause cause_of(const struct qn_task_fields_past *past, int64_t retry_count)
{
    if (past->cause > 0 && past->cause <= QUERN_CAUSE_BROKER_LOST) {
        return (quern_cause)past->cause;
    }
    return retry_count > 0 ? QUERN_CAUSE_RETRY : QUERN_CAUSE_NONE;
}

/* Decodes it to one block. QUERN_E_CORRUPT: it cannot be used. */
static quern_status read_run(struct qn_pipeline *pipeline, struct qn_redis_lease_batch *batch,
                             const struct found *found, struct qn_leased **ret_run,
                             quern_error *why)
{
    struct qn_task_fields_opts opts;
    struct qn_task_fields_past past;
    struct qn_asynq_task message;
    bool has_opts = false;
    read_extra(found->extra, &opts, &has_opts, &past);
    struct qn_leased leased = {
        .token = found->token,
        .fence = found->token / 1000,
        .leased_at_boot_ms = batch->leased_at_boot_ms,
        .crash_count = past.crash_count,
        .level = past.level,
        .life_ms = past.life_ms,
        .queue_index = (uint16_t)found->queue_index,
        .started = found->started,
    };
    const struct qn_stored_task stored = {.queue = batch->exchange->queues[found->queue_index].name,
                                          .id = found->id,
                                          .message = {found->message->data, found->message->size},
                                          .opts = has_opts ? &opts : NULL};
    quern_status status =
        qn_task_fields_decode(pipeline->arena, &stored, &message, &leased.task, why);
    if (status != QUERN_OK) {
        return status == QUERN_E_NOMEM ? status : QUERN_E_CORRUPT;
    }
    leased.task.state = QUERN_TASK_ACTIVE;
    leased.task.process_at_ms = since_ms(found, has_opts ? &opts : NULL);
    leased.retry_count = qn_number_clamp(message.retry_count, 0, INT32_MAX);
    leased.cause = cause_of(&past, message.retry_count);
    *ret_run = qn_leased_copy(&batch->slab, &leased);
    return *ret_run == NULL ? QUERN_E_NOMEM : QUERN_OK;
}

/* why_late: NULL: it is given back. */
static void refuse_run(struct qn_redis_lease_batch *batch, struct qn_leased *take_run,
                       const char *why_late)
{
    enum qn_outcome_kind kind = why_late != NULL ? QN_ARCHIVE : QN_GIVE_BACK;
    batch->refused[batch->refused_count++] = (struct qn_outcome){
        .run = take_run,
        .kind = kind,
        .cause = kind == QN_GIVE_BACK ? take_run->cause : QUERN_CAUSE_NONE,
        .error = why_late,
    };
}

static void place_run(struct qn_redis_lease_batch *batch, struct qn_leased *take_run,
                      int64_t now_ms)
{
    struct qn_exchange_reply *reply = batch->reply;
    const char *why_late = qn_leased_why_late(take_run, now_ms);
    if (why_late != NULL) {
        batch->aside_count++;
        refuse_run(batch, take_run, why_late);
    } else if (reply->run_count >= batch->exchange->room) {
        /* Our field called it late, its message does not. */
        refuse_run(batch, take_run, NULL);
    } else {
        batch->exchange->queues[take_run->queue_index].leased++;
        reply->runs[reply->run_count++] = take_run;
    }
}

static quern_status set_aside(struct qn_pipeline *pipeline, struct qn_redis_lease_batch *batch,
                              const struct found *found, const quern_error *why)
{
    struct qn_unreadable *task = &batch->unreadable[batch->unreadable_count++];
    *task = (struct qn_unreadable){
        .queue = batch->exchange->queues[found->queue_index].name,
        .id = found->id,
        .id_size = found->id_size,
        .token = found->token,
        .message = found->message,
        .why = qn_arena_printf(pipeline->arena, "cannot be used: %s", why->text),
    };
    batch->aside_count++;
    return task->why == NULL ? QUERN_E_NOMEM : QUERN_OK;
}

static quern_status take_found(struct qn_pipeline *pipeline, struct qn_redis_lease_batch *batch,
                               const struct found *found, quern_error *err)
{
    if (found->message->type != QN_REPLY_TEXT) {
        return QUERN_OK; /* a replay, and the run has ended */
    }
    struct qn_leased *run = NULL;
    quern_error why;
    bool has_nul = memchr(found->id, '\0', found->id_size) != NULL;
    quern_status status = has_nul ? qn_error_set(&why, QUERN_E_CORRUPT, "its id holds a NUL byte")
                                  : read_run(pipeline, batch, found, &run, &why);
    if (status == QUERN_OK) {
        place_run(batch, run, found->now_ms);
    } else if (status == QUERN_E_CORRUPT) {
        status = set_aside(pipeline, batch, found, &why);
    }
    return status == QUERN_OK ? QUERN_OK : qn_error_nomem(err);
}

/* The data that the script packed with cmsgpack: short lists of texts and numbers. */
struct packed {
    const unsigned char *at;
    size_t left;
    bool is_bad; /* it is no such list, or ended too early */
};

static struct packed packed_of(const struct qn_reply *reply)
{
    return (struct packed){.at = (const unsigned char *)reply->data,
                           .left = reply->type == QN_REPLY_TEXT ? reply->size : 0};
}

/* The number of `size` bytes that comes next. */
static uint64_t next_big_endian(struct packed *packed, size_t size)
{
    uint64_t value = 0;
    packed->is_bad = packed->is_bad || size > packed->left;
    for (size_t i = 0; !packed->is_bad && i < size; i++) {
        value = value << 8 | packed->at[i];
    }
    packed->at += packed->is_bad ? 0 : size;
    packed->left -= packed->is_bad ? 0 : size;
    return value;
}

/* The value of what begins here: a number, or the size of a text or a list. Each kind has a short
 * form, inside of its first byte, and longer ones of 1, 2, 4, ... bytes, which it numbers. */
static uint64_t next_value(struct packed *packed, unsigned short_form, unsigned short_max,
                           unsigned first_long, size_t first_size)
{
    unsigned kind = (unsigned)next_big_endian(packed, 1);
    if (kind >= short_form && kind <= short_form + short_max) {
        return kind - short_form;
    }
    packed->is_bad = packed->is_bad || kind < first_long || kind - first_long > 3;
    return packed->is_bad ? 0 : next_big_endian(packed, first_size << (kind - first_long));
}

static uint64_t next_number(struct packed *packed)
{
    return next_value(packed, 0x00, 127, 0xcc, 1);
}

static uint64_t next_list(struct packed *packed)
{
    return next_value(packed, 0x90, 15, 0xdc, 2);
}

/* A copy in the arena, NULL when memory is out. */
static char *next_text(struct packed *packed, struct qn_arena *arena, size_t *ret_size)
{
    uint64_t size = next_value(packed, 0xa0, 31, 0xd9, 1);
    packed->is_bad = packed->is_bad || size > packed->left;
    *ret_size = packed->is_bad ? 0 : (size_t)size;
    char *text = qn_arena_alloc(arena, *ret_size + 1);
    if (text != NULL) {
        memcpy(text, packed->at, *ret_size);
        text[*ret_size] = '\0';
        packed->at += *ret_size;
        packed->left -= *ret_size;
    }
    return text;
}

/* The unread rest of the reply. */
struct items {
    const struct qn_reply *reply;
    size_t at;
};

static const struct qn_reply *next_item(struct items *items)
{
    return qn_reply_at(items->reply, items->at++);
}

/* The data of a run after its message in the reply, if there is any. */
enum { NOT_STARTED = 1, HAS_EXTRA = 2 };

static void read_held(struct items *items, struct found *found, uint64_t *starts_left)
{
    int64_t flags = 0;
    found->message = next_item(items);
    if (qn_reply_at(items->reply, items->at)->type == QN_REPLY_INT) {
        flags = next_item(items)->integer;
    }
    found->extra = (flags & HAS_EXTRA) != 0 ? next_item(items) : NULL;
    found->started = (flags & NOT_STARTED) == 0 && *starts_left > 0;
    *starts_left -= found->started ? 1 : 0;
}

/* The next since_ns of the list; 0 for an invalid one. */
static int64_t next_since_ns(const struct qn_reply *row, size_t *at)
{
    uint64_t value = 0;
    if (row->type != QN_REPLY_TEXT || row->size < *at + SINCE_SIZE) {
        return 0;
    }
    for (const char *digit = row->data + *at; digit < row->data + *at + SINCE_SIZE; digit++) {
        if (*digit < '0' || *digit > '9') {
            value = 0;
            break;
        }
        value = value * 10 + (uint64_t)(*digit - '0');
    }
    *at += SINCE_SIZE;
    return value > INT64_MAX ? 0 : (int64_t)value;
}

/* The reply to one call. */
struct answer {
    const struct qn_lease_call *call;
    struct items items;
    int64_t now_ms;
    size_t given;
};

static quern_status take_part(struct qn_pipeline *pipeline, struct qn_redis_lease_batch *batch,
                              struct answer *answer, quern_error *err)
{
    struct items *items = &answer->items;
    const struct qn_lease_call *call = answer->call;
    struct packed packed = packed_of(next_item(items));
    const struct qn_reply *sinces = next_item(items);
    struct found found = {.now_ms = answer->now_ms};
    size_t since_at = 0;
    size_t size = 0;
    (void)next_list(&packed);
    char *token = next_text(&packed, pipeline->arena, &size);
    uint64_t starts_left = next_number(&packed);
    if (token == NULL) {
        return qn_error_nomem(err);
    }
    struct qn_cursor digits = {token, token + size};
    bool is_token = qn_number_take(&digits, &found.token) && digits.at == digits.end &&
                    found.token <= (uint64_t)INT64_MAX;
    quern_status status = qn_pipeline_expect(pipeline, is_token, "lease", err);
    while (status == QUERN_OK && packed.left > 0 && !packed.is_bad) {
        size_t number = (size_t)next_number(&packed);
        uint64_t left = next_number(&packed);
        found.queue_index = call->first + number - 1;
        status = qn_pipeline_expect(pipeline, number >= 1 && number <= call->count, "lease", err);
        for (; status == QUERN_OK && left > 0 && !packed.is_bad; left--) {
            found.id = next_text(&packed, pipeline->arena, &found.id_size);
            found.since_ns = next_since_ns(sinces, &since_at);
            read_held(items, &found, &starts_left);
            answer->given++;
            status =
                found.id == NULL ? qn_error_nomem(err) : take_found(pipeline, batch, &found, err);
            found.token += 1000;
        }
    }
    return status == QUERN_OK ? qn_pipeline_expect(pipeline, !packed.is_bad, "lease", err) : status;
}

/* "now_ms early solo", then of some queues " number paused deaths braked wait_ms". False: it is
 * something else. */
static bool read_head(struct qn_redis_lease_batch *batch, const struct qn_lease_call *call,
                      const struct qn_reply *head, int64_t *ret_now_ms)
{
    struct qn_exchange *exchange = batch->exchange;
    struct qn_cursor cursor = {head->data, head->data + head->size};
    uint64_t now_ms = 0;
    uint64_t early = 0;
    uint64_t solo = 0;
    bool good = head->type == QN_REPLY_TEXT && qn_number_take(&cursor, &now_ms) &&
                now_ms <= QN_MOMENT_MS_MAX && qn_number_take_char(&cursor, ' ') &&
                qn_number_take(&cursor, &early) && qn_number_take_char(&cursor, ' ') &&
                qn_number_take(&cursor, &solo) && solo <= call->count;
    for (size_t i = call->first; i < call->first + call->count; i++) {
        exchange->queues[i].paused = false;
        exchange->queues[i].braked = false;
        exchange->queues[i].deaths = 0;
        exchange->queues[i].wait_ms = 0;
    }
    while (good && cursor.at < cursor.end) {
        uint64_t values[5] = {0}; /* the number of the queue, paused, deaths, braked, wait_ms */
        for (size_t i = 0; good && i < 5; i++) {
            good = qn_number_take_char(&cursor, ' ') && qn_number_take(&cursor, &values[i]);
        }
        good = good && values[0] >= 1 && values[0] <= call->count &&
               values[4] <= (uint64_t)QN_DURATION_MS_MAX;
        if (good) {
            struct qn_queue_share *queue = &exchange->queues[call->first + values[0] - 1];
            queue->paused = values[1] != 0;
            queue->deaths = values[2] < UINT32_MAX ? (uint32_t)values[2] : UINT32_MAX;
            queue->braked = values[3] != 0;
            queue->wait_ms = (int64_t)values[4];
        }
    }
    batch->ended_early = batch->ended_early || early != 0;
    if (good && batch->part_count == 0 && call->has_solo && exchange->solo != QN_SOLO_NONE) {
        exchange->solo_queue =
            solo > 0 ? (uint32_t)(call->first + solo - 1) : (uint32_t)exchange->queue_count;
    }
    *ret_now_ms = (int64_t)now_ms;
    return good || QN_BUG(HEAD_BELIEVED);
}

static void drop_runs(struct qn_redis_lease_batch *batch, size_t first_run)
{
    struct qn_exchange_reply *reply = batch->reply;
    while (reply->run_count > first_run) {
        struct qn_leased *run = reply->runs[--reply->run_count];
        batch->exchange->queues[run->queue_index].leased--;
        qn_leased_free(run);
    }
    qn_redis_lease_drop_refused(batch);
}

static quern_status read_call(struct qn_pipeline *pipeline, struct qn_redis_lease_batch *batch,
                              struct qn_lease_call *call, quern_error *err)
{
    const struct qn_reply *reply = NULL;
    quern_status status = qn_pipeline_reply(pipeline, call->command, &reply, err);
    if (status == QUERN_E_BUSY && batch->is_spread && pipeline->commands[call->command].hasty) {
        /* It gives nothing now; or it has, and will say so when it is asked again. */
        bool may_have = pipeline->commands[call->command].lost || batch->exchange->again;
        batch->exchange->queues[call->first].unanswered =
            batch->exchange->queues[call->first].unanswered || (batch->may_split && may_have);
        return may_have && !batch->may_split ? qn_error_as_unknown(err, "effect unknown")
                                             : QUERN_OK;
    }
    if (status != QUERN_OK) {
        return status;
    }
    struct answer answer = {.call = call, .items = {.reply = reply, .at = 1}};
    bool has_runs = reply->type == QN_REPLY_ARRAY;
    const struct qn_reply *head = has_runs ? qn_reply_at(reply, 0) : reply;
    status =
        qn_pipeline_expect(pipeline, read_head(batch, call, head, &answer.now_ms), "lease", err);
    while (status == QUERN_OK && has_runs && answer.items.at < reply->count) {
        status = take_part(pipeline, batch, &answer, err);
        batch->parts[call->first]++;
    }
    call->given = answer.given;
    return status;
}

/* Room for what may come in the replies: each run has a message in them. */
static bool make_room(struct qn_pipeline *pipeline, struct qn_redis_lease_batch *batch)
{
    size_t run_max = 0;
    for (size_t i = 0; i < batch->call_count; i++) {
        const struct qn_reply *reply = pipeline->commands[batch->calls[i].command].reply;
        run_max += reply->type == QN_REPLY_ARRAY ? reply->count : 0;
    }
    batch->refused = qn_arena_alloc(pipeline->arena, run_max * sizeof *batch->refused);
    batch->unreadable = qn_arena_alloc(pipeline->arena, run_max * sizeof *batch->unreadable);
    return batch->refused != NULL && batch->unreadable != NULL;
}

quern_status qn_redis_lease_read(struct qn_pipeline *pipeline, struct qn_redis_lease_batch *batch,
                                 quern_error *err)
{
    size_t first_run = batch->reply->run_count;
    batch->refused_count = 0;
    batch->unreadable_count = 0;
    batch->ended_early = false;
    if (!make_room(pipeline, batch)) {
        return qn_error_nomem(err);
    }
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < batch->call_count; i++) {
        status = read_call(pipeline, batch, &batch->calls[i], err);
    }
    for (size_t i = 0; i < batch->exchange->queue_count; i++) {
        batch->part_count =
            batch->parts[i] > batch->part_count ? batch->parts[i] : batch->part_count;
    }
    if (status != QUERN_OK) {
        drop_runs(batch, first_run);
    } else {
        qn_redis_lease_note(pipeline, batch);
    }
    return status;
}

void qn_redis_lease_drop_refused(struct qn_redis_lease_batch *batch)
{
    for (size_t i = 0; i < batch->refused_count; i++) {
        /* Our own block; the outcome only borrows it. */
        qn_leased_free((struct qn_leased *)(uintptr_t)batch->refused[i].run);
    }
    batch->refused_count = 0;
}
