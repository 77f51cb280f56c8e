/* SPDX-License-Identifier: MIT */
/* decode.c - hiredis' reader with functions of ours, which put the replies into an arena.
 *
 * Data from a server is not trusted: nesting ends at 8 levels, a line at 64 KiB, a reply at the
 * limit of its kind (reply.h), and so do the structs of its items, which may be larger than
 * they. An array grows as its items arrive, regardless of the announced size. hiredis searches a
 * line for its end from the start whenever bytes arrive, so a line without end would take quadratic
 * time if it were not refused. After an error the reader cannot be used; the connection is closed
 * then.
 *
 * Works with hiredis 0.14 and 1.x: the later ones have more types of replies, which the server does
 * not send over RESP2, and let arrays nest deeper. Both are refused here. */
#include "redis/decode.h"

#include <hiredis/hiredis.h>
#include <string.h>

#include "base/bug.h"
#include "base/error.h"

#define KEPT_SIZE_MAX ((size_t)1 << 20) /* of the reader's buffer between replies */
#define ITEM_SIZE_MIN 4                 /* of an item of an array: ":1\r\n" */
#define ITEM_COST (sizeof(struct qn_reply) + sizeof(struct qn_reply *))
#define DEPTH_MAX 8 /* of arrays in arrays */
#define LINE_SIZE_MAX 65536

#if HIREDIS_MAJOR >= 1
typedef size_t item_count;
#else
typedef int item_count;
#endif

/* Room for the item at this index: as much as has come could fill, then twice as much. */
static bool make_room(struct qn_decoder *decoder, struct qn_reply *array, size_t index)
{
    if (index < array->room) {
        return true;
    }
    size_t arrived = (decoder->reader->len - decoder->reader->pos) / ITEM_SIZE_MIN + 1;
    size_t room = 2 * array->room > arrived ? 2 * array->room : arrived;
    room = room < array->count && !QN_BUG(ARRAY_BELIEVED) ? room : array->count;
    struct qn_reply **items = qn_arena_alloc(decoder->arena, room * sizeof(struct qn_reply *));
    if (items == NULL) {
        decoder->nomem = true;
        return false;
    }
    if (array->room > 0) {
        memcpy(items, array->items, array->room * sizeof(struct qn_reply *));
    }
    array->items = items;
    array->room = room;
    return true;
}

static struct qn_reply *new_reply(const redisReadTask *task, enum qn_reply_type type)
{
    struct qn_decoder *decoder = task->privdata;
    struct qn_reply *reply = qn_arena_alloc(decoder->arena, sizeof *reply);
    if (reply == NULL) {
        decoder->nomem = true;
        return NULL;
    }
    *reply = (struct qn_reply){.type = type, .data = ""};
    if (task->parent != NULL) {
        struct qn_reply *parent = task->parent->obj;
        size_t index = (size_t)task->idx;
        if (!make_room(decoder, parent, index)) {
            return NULL;
        }
        parent->items[index] = reply;
    }
    return reply;
}

static void *too_large(struct qn_decoder *decoder, size_t limit)
{
    decoder->refused_at = limit;
    return NULL;
}

/* Types of replies that we did not request. */
static void *refuse_type(const redisReadTask *task)
{
    struct qn_decoder *decoder = task->privdata;
    decoder->strange = true;
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
    struct qn_decoder *decoder = task->privdata;
    if (task->type != REDIS_REPLY_STRING && task->type != REDIS_REPLY_STATUS &&
        task->type != REDIS_REPLY_ERROR) {
        return refuse_type(task);
    }
    if (task->type != REDIS_REPLY_STRING && size > LINE_SIZE_MAX) {
        return too_large(decoder, LINE_SIZE_MAX);
    }
    char *copy = qn_arena_alloc(decoder->arena, size + 1);
    if (copy == NULL) {
        decoder->nomem = true;
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
    struct qn_decoder *decoder = task->privdata;
    if (task->type != REDIS_REPLY_ARRAY || depth_of(task) > DEPTH_MAX) {
        return refuse_type(task);
    }
    size_t size = (size_t)count;
    if (size > decoder->items_left) {
        return too_large(decoder, decoder->size_max);
    }
    decoder->items_left -= size;
    struct qn_reply *reply = new_reply(task, QN_REPLY_ARRAY);
    if (reply != NULL) {
        reply->count = size;
    }
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
    return refuse_type(task);
}

static void *refuse_bool(const redisReadTask *task, int value)
{
    (void)value;
    return refuse_type(task);
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

/* The bytes that were received, but not decoded. */
static size_t unread(const struct qn_decoder *decoder)
{
    return decoder->reader->len - decoder->reader->pos;
}

quern_status qn_decode_init(struct qn_decoder *decoder, const char *address, quern_error *err)
{
    *decoder = (struct qn_decoder){.reader = redisReaderCreateWithFunctions(&functions),
                                   .address = address,
                                   .size_max = QN_REPLY_BRIEF_MAX,
                                   .begins = true};
    if (decoder->reader == NULL) {
        return qn_error_nomem(err);
    }
    decoder->reader->privdata = decoder;
    decoder->reader->maxbuf = KEPT_SIZE_MAX;
    return QUERN_OK;
}

void qn_decode_finish(struct qn_decoder *decoder)
{
    if (decoder->reader != NULL) {
        redisReaderFree(decoder->reader);
        decoder->reader = NULL;
    }
}

static quern_status fail(const struct qn_decoder *decoder, quern_error *err)
{
    const char *address = decoder->address;
    if (decoder->nomem) {
        return qn_error_nomem(err);
    }
    if (decoder->refused_at > 0) {
        return qn_error_set(err, QUERN_E_BROKER, "%s: a %s larger than %zu bytes was refused",
                            address, decoder->refused_at == LINE_SIZE_MAX ? "line" : "reply",
                            decoder->refused_at);
    }
    if (decoder->is_tls) {
        return qn_error_set(err, QUERN_E_BROKER, "%s: this port speaks TLS: write rediss://",
                            address);
    }
    return qn_error_set(err, QUERN_E_BROKER, "%s: this is not the Redis protocol: %s", address,
                        decoder->strange ? "a reply of an unexpected type"
                                         : decoder->reader->errstr);
}

bool qn_decode_has_unread(const struct qn_decoder *decoder)
{
    return decoder->reader != NULL && unread(decoder) > 0;
}

/* Whether bytes are the start of a record of TLS: an alert, or a handshake, of version 3.x. No
 * reply of Redis begins with such a byte. */
static bool is_record(const char *data, size_t size)
{
    return (data[0] == 0x15 || data[0] == 0x16) && (size == 1 || data[1] == 0x03);
}

quern_status qn_decode_feed(struct qn_decoder *decoder, const char *data, size_t size,
                            quern_error *err)
{
    if (!decoder->has_begun && size > 0) {
        decoder->has_begun = true;
        decoder->is_tls = is_record(data, size);
    }
    decoder->bytes += size;
    return redisReaderFeed(decoder->reader, data, size) == REDIS_OK ? QUERN_OK : fail(decoder, err);
}

/* After an attempt to decode a reply: whether its received part is within the limits. */
static bool is_within_limits(struct qn_decoder *decoder, bool whole)
{
    const struct redisReader *reader = decoder->reader;
    size_t size = decoder->bytes - (whole ? unread(decoder) : 0);
    if (size > decoder->size_max) {
        decoder->refused_at = decoder->size_max;
    } else if (!whole && unread(decoder) > LINE_SIZE_MAX && !QN_BUG(LINE_WITHOUT_END) &&
               memmem(reader->buf + reader->pos, LINE_SIZE_MAX, "\r\n", 2) == NULL) {
        decoder->refused_at = LINE_SIZE_MAX;
    }
    return decoder->refused_at == 0;
}

quern_status qn_decode_next(struct qn_decoder *decoder, struct qn_arena *arena,
                            struct qn_reply **ret_reply, quern_error *err)
{
    void *reply = NULL;
    decoder->arena = arena;
    if (decoder->begins) {
        decoder->begins = false;
        decoder->bytes = unread(decoder);
        decoder->items_left = decoder->size_max / ITEM_COST;
    }
    if (redisReaderGetReply(decoder->reader, &reply) != REDIS_OK ||
        !is_within_limits(decoder, reply != NULL)) {
        return fail(decoder, err);
    }
    decoder->begins = reply != NULL;
    *ret_reply = reply;
    return QUERN_OK;
}
