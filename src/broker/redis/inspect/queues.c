/* SPDX-License-Identifier: MIT */
/* queues.c - the numbers of all queues.
 *
 * A pipeline for the counters and counts of some queues; then, for each that has them, the groups
 * and aggregation sets, and a sample of its tasks, from which the memory is estimated, with the
 * oldest pending one. Plain read commands, none of which walks a queue. Only a single command is a
 * consistent snapshot, so counts of a busy queue may be off by the tasks that moved in between. */
#include <string.h>

#include "base/error.h"
#include "base/text/number.h"
#include "base/text/str.h"
#include "broker/redis/inspect/inspect.h"
#include "broker/redis/schema/keys.h"
#include "task/limits.h"

/* As many as asynq takes. */
#define SAMPLE_TASKS 20
#define SAMPLE_GROUPS 5
#define QUEUES_AT_ONCE 64 /* in the first pipeline: about a thousand commands */

struct counting {
    struct qn_redis *self;
    const char *queue;
    struct qn_arena *arena; /* of this queue */
    quern_queue_info *info;
    int64_t now_ms;
    const char *today; /* "2026-11-20" */
    struct qn_names groups;
    bool has_sets; /* aggregation sets */
};

/* --- Counters and counts ------------------------------------------------------------------ */

/* One command each, in this order; the states first. */
enum {
    PAUSED = QUERN_TASK_COMPLETED,
    PROCESSED,
    FAILED,
    PROCESSED_TODAY,
    FAILED_TODAY,
    TRIMMED,
    GROUPS,
    MAX_PENDING,
    SETS,
    META
};
#define COUNTS (META + 1)

static void ask_one(struct qn_pipeline *pipeline, const char *command, const char *queue,
                    const char *key)
{
    qn_pipeline_command(pipeline, command);
    qn_keys_add(pipeline, queue, key);
}

static void ask_day(struct qn_pipeline *pipeline, const struct counting *counting, const char *kind)
{
    const char *key = qn_arena_printf(pipeline->arena, "%s:%s", kind, counting->today);
    ask_one(pipeline, "GET", counting->queue, key);
}

static void ask_counts(struct qn_pipeline *pipeline, const struct counting *counting)
{
    const char *queue = counting->queue;
    for (int state = QUERN_TASK_ACTIVE; state <= QUERN_TASK_COMPLETED; state++) {
        bool list = state == QUERN_TASK_ACTIVE || state == QUERN_TASK_PENDING;
        ask_one(pipeline, list ? "LLEN" : "ZCARD", queue,
                quern_task_state_name((quern_task_state)state));
    }
    ask_one(pipeline, "GET", queue, "paused");
    ask_one(pipeline, "GET", queue, "processed");
    ask_one(pipeline, "GET", queue, "failed");
    ask_day(pipeline, counting, "processed");
    ask_day(pipeline, counting, "failed");
    ask_one(pipeline, "HGET", queue, QN_KEY_META);
    qn_pipeline_text(pipeline, "trimmed");
    ask_one(pipeline, "SCARD", queue, "groups");
    ask_one(pipeline, "GET", queue, QN_KEY_MAX_PENDING);
    ask_one(pipeline, "ZCARD", queue, "aggregation_sets");
    ask_one(pipeline, "HGETALL", queue, QN_KEY_META);
}

/* The brakes: fields "h:<host>", as lib_deaths.lua writes them. */
static void take_brakes(quern_queue_info *info, const struct qn_reply *meta)
{
    for (size_t i = 0; i + 1 < meta->count; i += 2) {
        const char *text = qn_reply_text(qn_reply_at(meta, i + 1));
        struct qn_cursor cursor = {text, text + strlen(text)};
        uint64_t numbers[4] = {0}; /* ok_at, streak, probes, probe_at */
        bool is_brake = strncmp(qn_reply_text(qn_reply_at(meta, i)), "h:", 2) == 0;
        for (size_t k = 0; is_brake && k < 4; k++) {
            is_brake = qn_number_take(&cursor, &numbers[k]) && qn_number_take_char(&cursor, ' ');
        }
        if (is_brake && numbers[1] >= QN_BRAKE_DEATHS) {
            bool is_late = numbers[3] > (uint64_t)QN_MOMENT_MS_MAX;
            int64_t probe_at_ms = is_late ? QN_MOMENT_MS_MAX : (int64_t)numbers[3];
            bool is_first = info->braked_hosts == 0 || probe_at_ms < info->probe_at_ms;
            info->probe_at_ms = is_first ? probe_at_ms : info->probe_at_ms;
            info->braked_hosts++;
        }
    }
}

static void take_number(struct counting *counting, size_t index, const struct qn_reply *reply)
{
    quern_queue_info *info = counting->info;
    if (index < PAUSED) {
        uint64_t count = qn_reply_uint(reply);
        info->counts[index + QUERN_TASK_ACTIVE] = count < UINT32_MAX ? count : UINT32_MAX;
        return;
    }
    uint64_t *const places[] = {
        [PROCESSED] = &info->processed_total,       [FAILED] = &info->failed_total,
        [PROCESSED_TODAY] = &info->processed_today, [FAILED_TODAY] = &info->failed_today,
        [TRIMMED] = &info->trimmed_total,           [GROUPS] = &info->group_count};
    if (index == META) {
        take_brakes(info, reply);
    } else if (index == SETS) {
        counting->has_sets = qn_reply_uint(reply) > 0;
    } else if (index == MAX_PENDING) {
        uint64_t limit = qn_reply_uint(reply);
        info->max_pending = limit < QUERN_MAX_PENDING_MAX ? (int64_t)limit : QUERN_MAX_PENDING_MAX;
    } else if (index == PAUSED) {
        info->paused_at_ms = reply->type == QN_REPLY_NIL ? 0 : qn_reply_seconds(reply) * 1000;
    } else {
        *places[index] = qn_reply_uint(reply);
    }
}

/* A key of a wrong type counts as empty: one damaged queue must not hide the others. Listing its
 * tasks reports it, and so does the doctor. */
static quern_status reply_or_nothing(const struct qn_pipeline *pipeline, size_t index,
                                     const struct qn_reply **ret_reply, quern_error *err)
{
    static const struct qn_reply nothing = {.type = QN_REPLY_NIL, .data = ""};
    quern_status status = qn_pipeline_reply(pipeline, index, ret_reply, err);
    if (status == QUERN_E_CORRUPT) {
        *ret_reply = &nothing;
        return QUERN_OK;
    }
    return status;
}

static quern_status read_counts(struct qn_redis *self, struct counting *block, size_t count,
                                quern_error *err)
{
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    for (size_t i = 0; i < count; i++) {
        ask_counts(&pipeline, &block[i]);
    }
    quern_status status = qn_pipeline_run(&pipeline, err);
    for (size_t i = 0; status == QUERN_OK && i < count * COUNTS; i++) {
        const struct qn_reply *reply = NULL;
        status = reply_or_nothing(&pipeline, i, &reply, err);
        if (status == QUERN_OK) {
            take_number(&block[i / COUNTS], i % COUNTS, reply);
        }
    }
    qn_pipeline_end(&pipeline);
    return status;
}

/* --- Groups ------------------------------------------------------------------------------- */

/* How many tasks these groups, or sets of groups, hold; and how many of them hold any. */
static quern_status count_zsets(struct counting *counting, struct qn_names names, uint64_t *in_use,
                                quern_error *err)
{
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, counting->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    for (size_t i = 0; i < names.count; i++) {
        const char *key = qn_arena_printf(pipeline.arena, QN_KEY_GROUP "%s", names.items[i]);
        qn_pipeline_command(&pipeline, "ZCARD");
        qn_keys_add(&pipeline, counting->queue, key);
    }
    quern_status status = qn_pipeline_run(&pipeline, err);
    for (size_t i = 0; status == QUERN_OK && i < names.count; i++) {
        const struct qn_reply *reply = NULL;
        status = reply_or_nothing(&pipeline, i, &reply, err);
        if (status == QUERN_OK) {
            uint64_t group_size = qn_reply_uint(reply);
            counting->info->counts[QUERN_TASK_AGGREGATING] +=
                group_size < UINT32_MAX ? group_size : UINT32_MAX;
            *in_use += group_size > 0 ? 1 : 0;
        }
    }
    qn_pipeline_end(&pipeline);
    return status;
}

/* The name in the key of a set; NULL: it is no key of this queue, and nothing is asked about it. */
static const char *set_name(const char *prefix, const char *key)
{
    return qn_str_starts_with(key, prefix) ? key + strlen(prefix) : NULL;
}

static quern_status read_set_names(struct counting *counting, struct qn_names *ret_names,
                                   quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    const char **names = NULL;
    size_t count = 0;
    size_t used = 0;
    qn_redis_begin(&pipeline, counting->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    ask_one(&pipeline, "ZRANGE", counting->queue, "aggregation_sets");
    qn_pipeline_int(&pipeline, 0);
    qn_pipeline_int(&pipeline, QN_INSPECT_BLOCK - 1);
    quern_status status = qn_pipeline_run(&pipeline, err);
    if (status == QUERN_OK) {
        status = reply_or_nothing(&pipeline, 0, &reply, err);
    }
    const char *prefix =
        qn_arena_printf(counting->arena, QN_KEY_ROOT "%s}:" QN_KEY_GROUP, counting->queue);
    if (status == QUERN_OK) {
        count = reply->type == QN_REPLY_ARRAY ? reply->count : 0;
        names = qn_arena_alloc(counting->arena, (count + 1) * sizeof *names);
        status = names == NULL || prefix == NULL ? qn_error_nomem(err) : QUERN_OK;
    }
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        const char *name = set_name(prefix, qn_reply_text(qn_reply_at(reply, i)));
        if (name != NULL) {
            names[used] = qn_arena_strdup(counting->arena, name);
            status = names[used++] == NULL ? qn_error_nomem(err) : QUERN_OK;
        }
    }
    qn_pipeline_end(&pipeline);
    *ret_names = (struct qn_names){.items = names, .count = used};
    return status;
}

/* A group all of whose tasks are in sets is listed (lib_sets.lua), but has none that wait. */
static quern_status read_groups(struct counting *counting, quern_error *err)
{
    struct qn_names sets;
    uint64_t group_count = 0;
    uint64_t set_count = 0;
    quern_status status = QUERN_OK;
    if (counting->info->group_count > 0) {
        status = qn_redis_inspect_groups(counting->self, counting->queue, counting->arena,
                                         &counting->groups, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < counting->groups.count; i += QN_INSPECT_BLOCK) {
        size_t left = counting->groups.count - i;
        const struct qn_names block = {.items = counting->groups.items + i,
                                       .count = left < QN_INSPECT_BLOCK ? left : QN_INSPECT_BLOCK};
        status = count_zsets(counting, block, &group_count, err);
    }
    counting->info->group_count = group_count;
    if (status != QUERN_OK || !counting->has_sets) {
        return status;
    }
    status = read_set_names(counting, &sets, err);
    return status == QUERN_OK && sets.count > 0 ? count_zsets(counting, sets, &set_count, err)
                                                : status;
}

/* --- Memory and latency --------------------------------------------------------------------- */

/* A list or zset, and a sample of its entries. */
struct sample {
    const char *key;
    bool list;
    uint64_t count;
    const struct qn_reply *ids;
    size_t first; /* of its tasks' commands */
};
#define BYTES_MAX (INT64_C(1) << 50) /* no server holds more */
#define SAMPLES_MAX (QUERN_TASK_COMPLETED + SAMPLE_GROUPS)

static size_t choose_samples(const struct counting *counting, struct qn_pipeline *pipeline,
                             struct sample *samples)
{
    size_t count = 0;
    for (int state = QUERN_TASK_ACTIVE; state <= QUERN_TASK_COMPLETED; state++) {
        if (counting->info->counts[state] > 0) {
            samples[count++] =
                (struct sample){.key = quern_task_state_name((quern_task_state)state),
                                .list = state == QUERN_TASK_ACTIVE || state == QUERN_TASK_PENDING,
                                .count = counting->info->counts[state]};
        }
    }
    size_t groups = counting->groups.count < SAMPLE_GROUPS ? counting->groups.count : SAMPLE_GROUPS;
    for (size_t i = 0; i < groups; i++) {
        const char *key =
            qn_arena_printf(pipeline->arena, QN_KEY_GROUP "%s", counting->groups.items[i]);
        samples[count++] = (struct sample){
            .key = key, .count = counting->info->counts[QUERN_TASK_AGGREGATING] / groups};
    }
    return count;
}

/* For each sample its own memory and a few ids; the head of a list, which is its end, at last. */
static void ask_samples(struct qn_pipeline *pipeline, const char *queue,
                        const struct sample *samples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        qn_pipeline_command(pipeline, "MEMORY");
        qn_pipeline_text(pipeline, "USAGE");
        qn_keys_add(pipeline, queue, samples[i].key);
        ask_one(pipeline, samples[i].list ? "LRANGE" : "ZRANGE", queue, samples[i].key);
        qn_pipeline_int(pipeline, samples[i].list ? -SAMPLE_TASKS : 0);
        qn_pipeline_int(pipeline, samples[i].list ? -1 : SAMPLE_TASKS - 1);
    }
}

static void ask_task_memory(struct qn_pipeline *pipeline, const char *queue, struct sample *sample)
{
    sample->first = pipeline->command_count;
    for (size_t i = 0; i < sample->ids->count; i++) {
        const struct qn_reply *id = qn_reply_at(sample->ids, i);
        struct qn_task_entry entry = {.id = id->data, .id_size = id->size};
        qn_pipeline_command(pipeline, "MEMORY");
        qn_pipeline_text(pipeline, "USAGE");
        qn_keys_add_task(pipeline, queue, entry.id, entry.id_size);
    }
}

static int64_t bytes_of(const struct qn_reply *reply)
{
    return qn_number_clamp(qn_reply_int(reply, 0), 0, BYTES_MAX);
}

/* Bytes of a sample's list or zset and of all its tasks; refused: -1. */
static int64_t sum_sample(const struct qn_pipeline *pipeline, const struct sample *sample,
                          size_t index)
{
    const struct qn_reply *reply = NULL;
    int64_t bytes = 0;
    if (qn_pipeline_reply(pipeline, 2 * index, &reply, NULL) != QUERN_OK) {
        return -1;
    }
    int64_t own = bytes_of(reply);
    for (size_t i = 0; i < sample->ids->count; i++) {
        if (qn_pipeline_reply(pipeline, sample->first + i, &reply, NULL) != QUERN_OK) {
            return -1;
        }
        bytes += bytes_of(reply);
    }
    if (sample->count == sample->ids->count) {
        return own + bytes; /* all of them */
    }
    int64_t average = sample->ids->count == 0 ? 0 : bytes / (int64_t)sample->ids->count;
    int64_t count = (int64_t)sample->count;
    bool fits = count == 0 || average <= BYTES_MAX / count;
    return own + (fits ? average * count : BYTES_MAX);
}

static void take_latency(const struct counting *counting, const struct qn_reply *since)
{
    int64_t since_ms = qn_moment_ms_of(qn_reply_int(since, 0) / 1000000);
    if (since_ms > 0 && since_ms < counting->now_ms) {
        counting->info->latency_ms = counting->now_ms - since_ms;
    }
}

/* The id at the head of pending, whose wait is the latency; NULL: none. */
static const struct qn_reply *oldest_of(const struct sample *samples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(samples[i].key, "pending") == 0 && samples[i].ids->count > 0) {
            return qn_reply_at(samples[i].ids, samples[i].ids->count - 1);
        }
    }
    return NULL;
}

static quern_status take_samples(struct counting *counting, struct qn_pipeline *pipeline,
                                 struct sample *samples, size_t count, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        status = reply_or_nothing(pipeline, 2 * i + 1, &samples[i].ids, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        ask_task_memory(pipeline, counting->queue, &samples[i]);
    }
    size_t last = pipeline->command_count;
    const struct qn_reply *oldest = status == QUERN_OK ? oldest_of(samples, count) : NULL;
    if (oldest != NULL) {
        struct qn_task_entry entry = {.id = oldest->data, .id_size = oldest->size};
        qn_pipeline_command(pipeline, "HGET");
        qn_keys_add_task(pipeline, counting->queue, entry.id, entry.id_size);
        qn_pipeline_text(pipeline, "pending_since");
    }
    if (status == QUERN_OK) {
        status = qn_pipeline_run(pipeline, err);
    }
    const struct qn_reply *since = NULL;
    if (status == QUERN_OK && oldest != NULL &&
        qn_pipeline_reply(pipeline, last, &since, NULL) == QUERN_OK) {
        take_latency(counting, since);
    }
    int64_t *memory = &counting->info->memory_bytes;
    for (size_t i = 0; status == QUERN_OK && i < count && *memory >= 0; i++) {
        int64_t bytes = sum_sample(pipeline, &samples[i], i);
        *memory = bytes < 0 ? -1 : *memory + bytes;
    }
    return status;
}

static quern_status read_samples(struct counting *counting, quern_error *err)
{
    struct sample samples[SAMPLES_MAX];
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, counting->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    size_t count = choose_samples(counting, &pipeline, samples);
    ask_samples(&pipeline, counting->queue, samples, count);
    quern_status status = qn_pipeline_run(&pipeline, err);
    if (status == QUERN_OK) {
        status = take_samples(counting, &pipeline, samples, count, err);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

/* --- All ------------------------------------------------------------------------------------- */

/* What its counts show to be there. */
static quern_status read_rest(struct counting *counting, quern_error *err)
{
    quern_queue_info *info = counting->info;
    quern_status status = read_groups(counting, err);
    for (int state = QUERN_TASK_ACTIVE; state <= QUERN_TASK_AGGREGATING; state++) {
        info->size += info->counts[state];
    }
    return status == QUERN_OK && info->size > 0 ? read_samples(counting, err) : status;
}

struct listing {
    struct qn_redis *self;
    struct qn_arena arena; /* of one queue */
    struct qn_names names;
    int64_t now_ms;
    char today[QN_DATE_SIZE];
    bool (*on_queue)(const quern_queue_info *queue, void *user);
    void *user;
    bool goes_on;
};

/* The queues from this one on. */
static quern_status read_block(struct listing *listing, size_t first, size_t count,
                               quern_error *err)
{
    struct counting block[QUEUES_AT_ONCE];
    quern_queue_info infos[QUEUES_AT_ONCE];
    for (size_t i = 0; i < count; i++) {
        infos[i] = (quern_queue_info){.name = listing->names.items[first + i]};
        block[i] = (struct counting){.self = listing->self,
                                     .queue = infos[i].name,
                                     .arena = &listing->arena,
                                     .info = &infos[i],
                                     .now_ms = listing->now_ms,
                                     .today = listing->today};
    }
    quern_status status = read_counts(listing->self, block, count, err);
    for (size_t i = 0; status == QUERN_OK && i < count && listing->goes_on; i++) {
        status = read_rest(&block[i], err);
        listing->goes_on = status == QUERN_OK && listing->on_queue(&infos[i], listing->user);
        qn_arena_reset(&listing->arena);
    }
    return status;
}

quern_status qn_redis_queues(struct qn_broker *broker, const struct qn_names *only,
                             bool (*on_queue)(const quern_queue_info *queue, void *user),
                             void *user, quern_error *err)
{
    struct qn_arena names_arena = {0};
    struct listing listing = {
        .self = qn_redis_of(broker), .on_queue = on_queue, .user = user, .goes_on = true};
    quern_status status = qn_redis_inspect_now(listing.self, &listing.now_ms, err);
    if (status == QUERN_OK) {
        qn_redis_inspect_date(listing.now_ms, listing.today);
        if (only != NULL) {
            listing.names = *only;
        } else {
            status = qn_redis_inspect_queues(listing.self, &names_arena, &listing.names, err);
        }
    }
    for (size_t i = 0; status == QUERN_OK && i < listing.names.count && listing.goes_on;
         i += QUEUES_AT_ONCE) {
        size_t left = listing.names.count - i;
        status = read_block(&listing, i, left < QUEUES_AT_ONCE ? left : QUEUES_AT_ONCE, err);
    }
    qn_arena_finish(&listing.arena);
    qn_arena_finish(&names_arena);
    return status;
}
