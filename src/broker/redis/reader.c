/* SPDX-License-Identifier: MIT */
/* reader.c - hiredis' reader with functions of ours, which put the replies into an arena.
 *
 * What a server says is not trusted: nesting ends at 8 levels, the bytes of one reply are limited
 * by the target, and an array is believed only as far as the reply's limit could hold that many
 * items. After an error the reader is of no use; the link is closed then.
 *
 * Works with hiredis 0.14 and 1.x: the later ones have more types of replies, which the server does
 * not send as we speak RESP2 with it, and let arrays nest deeper. Both are refused here. */
#include "broker/redis/reader.h"

#include <hiredis/hiredis.h>
#include <string.h>

#include "base/error.h"

#define KEPT_SIZE_MAX ((size_t)1 << 20) /* of the reader's buffer between replies */
#define ITEM_SIZE_MIN 4                 /* of an item of an array: ":1\r\n" */
#define DEPTH_MAX 8                     /* of arrays in arrays */

#if HIREDIS_MAJOR >= 1
typedef size_t item_count;
#else
typedef int item_count;
#endif

static struct qn_reply *new_reply(const redisReadTask *task, enum qn_reply_type type)
{
    struct qn_reading *reading = task->privdata;
    struct qn_reply *reply = qn_arena_alloc(reading->arena, sizeof *reply);
    if (reply == NULL) {
        reading->nomem = true;
        return NULL;
    }
    *reply = (struct qn_reply){.type = type, .data = ""};
    if (task->parent != NULL) {
        struct qn_reply *parent = task->parent->obj;
        parent->items[task->idx] = reply;
    }
    return reply;
}

/* What we did not ask for. */
static void *refuse(const redisReadTask *task)
{
    struct qn_reading *reading = task->privdata;
    reading->strange = true;
    return NULL;
}

static size_t depth_of(const redisReadTask *task)
{
    size_t depth = 1;
    for (const redisReadTask *outer = task->parent; outer != NULL; outer = outer->parent) {
        depth++;
    }
    return depth;
}

static void *make_string(const redisReadTask *task, char *data, size_t size)
{
    struct qn_reading *reading = task->privdata;
    if (task->type != REDIS_REPLY_STRING && task->type != REDIS_REPLY_STATUS &&
        task->type != REDIS_REPLY_ERROR) {
        return refuse(task);
    }
    char *copy = qn_arena_alloc(reading->arena, size + 1);
    if (copy == NULL) {
        reading->nomem = true;
        return NULL;
    }
    struct qn_reply *reply =
        new_reply(task, task->type == REDIS_REPLY_ERROR ? QN_REPLY_ERROR : QN_REPLY_TEXT);
    if (reply != NULL) {
        memcpy(copy, data, size);
        copy[size] = '\0';
        reply->data = copy;
        reply->size = size;
    }
    return reply;
}

static void *make_array(const redisReadTask *task, item_count count)
{
    struct qn_reading *reading = task->privdata;
    if (task->type != REDIS_REPLY_ARRAY || depth_of(task) > DEPTH_MAX) {
        return refuse(task);
    }
    size_t size = (size_t)count;
    if (size > reading->size_max / ITEM_SIZE_MIN || size > reading->items_left) {
        reading->too_large = true;
        return NULL;
    }
    reading->items_left -= size;
    struct qn_reply **items = qn_arena_alloc(reading->arena, size * sizeof(struct qn_reply *));
    struct qn_reply *reply = items == NULL ? NULL : new_reply(task, QN_REPLY_ARRAY);
    if (reply == NULL) {
        reading->nomem = true;
        return NULL;
    }
    memset(items, 0, size * sizeof *items);
    reply->items = items;
    reply->count = size;
    return reply;
}

static void *make_integer(const redisReadTask *task, long long value)
{
    struct qn_reply *reply = new_reply(task, QN_REPLY_INT);
    if (reply != NULL) {
        reply->integer = value;
    }
    return reply;
}

static void *make_nil(const redisReadTask *task)
{
    return new_reply(task, QN_REPLY_NIL);
}

#if HIREDIS_MAJOR >= 1
static void *refuse_double(const redisReadTask *task, double value, char *text, size_t size)
{
    (void)value, (void)text, (void)size;
    return refuse(task);
}

static void *refuse_bool(const redisReadTask *task, int value)
{
    (void)value;
    return refuse(task);
}
#endif

/* All is in the arena. */
static void free_reply(void *reply)
{
    (void)reply;
}

static redisReplyObjectFunctions functions = {
    .createString = make_string,
    .createArray = make_array,
    .createInteger = make_integer,
    .createNil = make_nil,
#if HIREDIS_MAJOR >= 1
    .createDouble = refuse_double,
    .createBool = refuse_bool,
#endif
    .freeObject = free_reply,
};

static void begin_reply(struct qn_link *link)
{
    link->reading.bytes = 0;
    link->reading.items_left = link->reading.size_max / ITEM_SIZE_MIN;
}

quern_status qn_reader_init(struct qn_link *link, quern_error *err)
{
    link->reader = redisReaderCreateWithFunctions(&functions);
    if (link->reader == NULL) {
        return qn_error_nomem(err);
    }
    link->reading = (struct qn_reading){.size_max = link->target->reply_size_max};
    link->reader->privdata = &link->reading;
    link->reader->maxbuf = KEPT_SIZE_MAX;
    begin_reply(link);
    return QUERN_OK;
}

void qn_reader_finish(struct qn_link *link)
{
    if (link->reader != NULL) {
        redisReaderFree(link->reader);
        link->reader = NULL;
    }
}

static quern_status fail(const struct qn_link *link, quern_error *err)
{
    const struct qn_reading *reading = &link->reading;
    const char *address = link->target->address;
    if (reading->nomem) {
        return qn_error_nomem(err);
    }
    if (reading->too_large) {
        return qn_error_set(err, QUERN_E_BROKER, "%s: a reply larger than %zu bytes was refused",
                            address, reading->size_max);
    }
    return qn_error_set(err, QUERN_E_BROKER, "%s: this does not speak Redis: %s", address,
                        reading->strange ? "a reply of a kind that nobody asked for"
                                         : link->reader->errstr);
}

quern_status qn_reader_feed(struct qn_link *link, const char *data, size_t size, quern_error *err)
{
    struct qn_reading *reading = &link->reading;
    if (size > reading->size_max - reading->bytes) {
        reading->too_large = true;
        return fail(link, err);
    }
    reading->bytes += size;
    return redisReaderFeed(link->reader, data, size) == REDIS_OK ? QUERN_OK : fail(link, err);
}

quern_status qn_reader_next(struct qn_link *link, struct qn_arena *arena,
                            struct qn_reply **ret_reply, quern_error *err)
{
    void *reply = NULL;
    link->reading.arena = arena;
    if (redisReaderGetReply(link->reader, &reply) != REDIS_OK) {
        return fail(link, err);
    }
    if (reply != NULL) {
        begin_reply(link);
    }
    *ret_reply = reply;
    return QUERN_OK;
}
