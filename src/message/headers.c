/* SPDX-License-Identifier: MIT */
/* headers.c - headers to JSON and back, by jansson.
 *
 * jansson keeps the order of an object's members. Its values live only inside these two functions
 * and come from its own allocator, since the only way to give it another one is global to the
 * process, which belongs to the program; what is returned lives in the arena. */
#include "message/headers.h"

#include <jansson.h>
#include <string.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/str.h"

/* Far above what a task may carry, also when every byte is escaped. */
#define TEXT_SIZE_MAX                                                                              \
    ((size_t)QN_HEADER_COUNT_MAX * 6 * (QN_NAME_SIZE_MAX + QN_HEADER_VALUE_SIZE_MAX + 8))

static int append_to_buf(const char *data, size_t size, void *user)
{
    return qn_buf_append(user, data, size) == QUERN_OK ? 0 : -1;
}

static quern_status fill_object(json_t *object, const quern_header *headers, size_t count,
                                quern_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const char *name = headers[i].name;
        if (json_object_get(object, name) != NULL) {
            return qn_error_set(err, QUERN_E_INVALID, "header \"%.64s\" is given twice", name);
        }
        const char *value = headers[i].value == NULL ? "" : headers[i].value;
        if (!qn_utf8_valid(name, strlen(name)) || !qn_utf8_valid(value, strlen(value))) {
            return qn_error_set(err, QUERN_E_INVALID, "header \"%.64s\" is not UTF-8", name);
        }
        if (json_object_set_new(object, name, json_string(value)) != 0) {
            return qn_error_nomem(err);
        }
    }
    return QUERN_OK;
}

quern_status qn_headers_to_json(struct qn_arena *arena, const quern_header *headers, size_t count,
                                const char **ret_text, quern_error *err)
{
    struct qn_buf buf;
    qn_buf_init(&buf, TEXT_SIZE_MAX);
    quern_status status = QUERN_E_NOMEM;
    json_t *object = json_object();
    if (object == NULL) {
        status = qn_error_nomem(err);
        goto done;
    }
    status = fill_object(object, headers, count, err);
    if (status != QUERN_OK) {
        goto done;
    }
    if (json_dump_callback(object, append_to_buf, &buf, JSON_COMPACT) != 0) {
        status = qn_error_nomem(err);
        goto done;
    }
    const char *text = qn_arena_strdup(arena, qn_buf_text(&buf));
    if (text == NULL) {
        status = qn_error_nomem(err);
        goto done;
    }
    *ret_text = text;

done:
    json_decref(object);
    qn_buf_finish(&buf);
    return status;
}

static quern_status copy_members(struct qn_arena *arena, json_t *object,
                                 const quern_header **ret_headers, size_t *ret_count,
                                 quern_error *err)
{
    size_t count = json_object_size(object);
    quern_header *headers = NULL;
    if (count > 0) {
        headers = qn_arena_alloc(arena, count * sizeof *headers);
        if (headers == NULL) {
            return qn_error_nomem(err);
        }
    }
    size_t at = 0;
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        if (!json_is_string(value)) {
            return qn_error_set(err, QUERN_E_CORRUPT, "headers: \"%.64s\" is not a text", name);
        }
        QN_ASSERT(at < count);
        headers[at].name = qn_arena_strdup(arena, name);
        headers[at].value = qn_arena_strdup(arena, json_string_value(value));
        if (headers[at].name == NULL || headers[at].value == NULL) {
            return qn_error_nomem(err);
        }
        at++;
    }
    *ret_headers = headers;
    *ret_count = count;
    return QUERN_OK;
}

quern_status qn_headers_from_json(struct qn_arena *arena, const char *text,
                                  const quern_header **ret_headers, size_t *ret_count,
                                  quern_error *err)
{
    if (text == NULL || text[0] == '\0') {
        *ret_headers = NULL;
        *ret_count = 0;
        return QUERN_OK;
    }
    json_error_t reason;
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &reason);
    quern_status status;
    if (object == NULL && json_error_code(&reason) == json_error_out_of_memory) {
        status = qn_error_nomem(err);
    } else if (object == NULL) {
        status = qn_error_set(err, QUERN_E_CORRUPT, "headers: %s", reason.text);
    } else if (!json_is_object(object)) {
        status = qn_error_set(err, QUERN_E_CORRUPT, "headers: not a JSON object");
    } else {
        status = copy_members(arena, object, ret_headers, ret_count, err);
    }
    json_decref(object);
    return status;
}
