/* SPDX-License-Identifier: MIT */
/* worker_record.c - writes and reads the records of workers: lines for listings, words for
 * recovery. */
#include "broker/redis/schema/worker_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/number.h"
#include "broker/worker_status.h"

#define LINE_COUNT 9 /* before the names of queues */

/* --- The whole one -------------------------------------------------------------------- */

/* The last lines of the record; NULL when out of memory. A name that Go made may contain line
 * breaks: then the runs of that queue are not listed. */
static const char *queue_lines(struct qn_arena *arena, const struct qn_heartbeat *heartbeat)
{
    size_t size = 1;
    for (size_t i = 0; i < heartbeat->queue_count; i++) {
        size += strlen(heartbeat->queue_shares[i].name) + 1;
    }
    char *lines = qn_arena_alloc(arena, size);
    char *at = lines;
    for (size_t i = 0; lines != NULL && i < heartbeat->queue_count; i++) {
        const char *name = heartbeat->queue_shares[i].name;
        if (strchr(name, '\n') == NULL) {
            *at++ = '\n';
            at = stpcpy(at, name);
        }
    }
    if (lines != NULL) {
        *at = '\0';
    }
    return lines;
}

const char *qn_worker_record_write(struct qn_arena *arena, const struct qn_heartbeat *heartbeat)
{
    const char *queues = queue_lines(arena, heartbeat);
    if (queues == NULL) {
        return NULL;
    }
    return qn_arena_printf(arena, "%s\n%s\n%s\n%lld\n%lld\n%u\n%d\n%s%s", heartbeat->status,
                           heartbeat->owner, heartbeat->host, (long long)heartbeat->pid,
                           (long long)heartbeat->started_at_ms, heartbeat->concurrency,
                           heartbeat->strict ? 1 : 0, heartbeat->queues, queues);
}

static int64_t read_number(const char *text, int64_t max)
{
    struct qn_cursor cursor = {text, text + strlen(text)};
    uint64_t value = 0;
    (void)qn_number_take(&cursor, &value);
    return value > (uint64_t)max ? max : (int64_t)value;
}

quern_status qn_worker_record_read(struct qn_arena *arena, const char *id,
                                   const struct qn_reply *reply,
                                   struct qn_worker_record *ret_record, quern_error *err)
{
    const char *lines[LINE_COUNT];
    char *text = qn_arena_strdup(arena, qn_reply_text(reply));
    size_t line_count = 1;
    for (const char *at = qn_reply_text(reply); (at = strchr(at, '\n')) != NULL; at++) {
        line_count++;
    }
    const char **queues = qn_arena_alloc(arena, line_count * sizeof *queues);
    if (text == NULL || queues == NULL) {
        return qn_error_nomem(err);
    }
    size_t count = 0;
    size_t queue_count = 0;
    for (char *rest = text; rest != NULL; count++) {
        char *line = strsep(&rest, "\n");
        if (count < LINE_COUNT) {
            lines[count] = line;
        } else {
            queues[queue_count++] = line;
        }
    }
    if (count < LINE_COUNT) {
        return qn_error_set(err, QUERN_E_CORRUPT, "the record of worker %s is incomplete", id);
    }
    *ret_record = (struct qn_worker_record){
        .owner = lines[2],
        .queues = queues,
        .queue_count = queue_count,
        .info = {.id = id,
                 .host = lines[3],
                 .status = qn_worker_status_read(lines[1]),
                 .queues = lines[8],
                 .pid = read_number(lines[4], INT64_MAX),
                 .started_at_ms = read_number(lines[5], QN_MOMENT_MS_MAX),
                 .heartbeat_at_ms = read_number(lines[0], QN_MOMENT_MS_MAX),
                 .concurrency = (uint32_t)read_number(lines[6], UINT32_MAX),
                 .strict_priority = lines[7][0] == '1'}};
    return QUERN_OK;
}

/* --- The short one -------------------------------------------------------------------- */

const char *qn_worker_record_write_holder(struct qn_arena *arena,
                                          const struct qn_heartbeat *heartbeat)
{
    return qn_arena_printf(arena, "%s %s %s", heartbeat->status, heartbeat->owner, heartbeat->host);
}

bool qn_worker_record_read_holder(struct qn_arena *arena, const struct qn_reply *reply,
                                  struct qn_worker_holder *ret_holder)
{
    char *rest = qn_arena_strdup(arena, qn_reply_text(reply));
    const char *words[3] = {NULL}; /* heartbeat, status, owner; the rest is the host */
    for (size_t i = 0; i < 3 && rest != NULL; i++) {
        words[i] = strsep(&rest, " ");
    }
    if (words[2] == NULL) {
        return false;
    }
    *ret_holder = (struct qn_worker_holder){.heartbeat_at_ms = strtoll(words[0], NULL, 10),
                                            .owner = words[2],
                                            .host = rest != NULL ? rest : ""};
    return true;
}

const char *qn_worker_record_go_key(struct qn_arena *arena, const char *set,
                                    const quern_worker_info *info)
{
    return qn_arena_printf(arena, "%s:{%s:%lld:%s}", set, info->host, (long long)info->pid,
                           info->id);
}
