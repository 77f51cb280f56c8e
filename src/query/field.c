/* SPDX-License-Identifier: MIT */
/* field.c - the table of fields. */
#include "query/field.h"

#include <string.h>

static const struct {
    const char *name;
    enum qn_field_kind kind;
} fields[] = {
    [QN_FIELD_NONE] = {"", QN_KIND_TEXT},
    [QN_FIELD_ID] = {"id", QN_KIND_TEXT},
    [QN_FIELD_TYPE] = {"type", QN_KIND_TEXT},
    [QN_FIELD_QUEUE] = {"queue", QN_KIND_TEXT},
    [QN_FIELD_STATE] = {"state", QN_KIND_TEXT},
    [QN_FIELD_GROUP] = {"group", QN_KIND_TEXT},
    [QN_FIELD_WORKER] = {"worker", QN_KIND_TEXT},
    [QN_FIELD_ERROR] = {"error", QN_KIND_TEXT},
    [QN_FIELD_PAYLOAD] = {"payload", QN_KIND_TEXT},
    [QN_FIELD_TEXT] = {"text", QN_KIND_TEXT},
    [QN_FIELD_HEADER] = {"header", QN_KIND_TEXT},
    [QN_FIELD_RETRIED] = {"retried", QN_KIND_NUMBER},
    [QN_FIELD_CRASHES] = {"crashes", QN_KIND_NUMBER},
    [QN_FIELD_PRIORITY] = {"priority", QN_KIND_NUMBER},
    [QN_FIELD_SIZE] = {"size", QN_KIND_SIZE},
    [QN_FIELD_AGE] = {"age", QN_KIND_DURATION},
    [QN_FIELD_RUNNING] = {"running", QN_KIND_DURATION},
    [QN_FIELD_FAILED] = {"failed", QN_KIND_DURATION},
    [QN_FIELD_ENDED] = {"ended", QN_KIND_DURATION},
    [QN_FIELD_DUE] = {"due", QN_KIND_DURATION},
};
#define FIELD_COUNT (sizeof fields / sizeof fields[0])

const char qn_field_names[] =
    "id, type, queue, state, group, worker, error, payload, text, header.NAME, retried, crashes, "
    "priority, size, age, running, failed, ended, due";

enum qn_field qn_field_find(struct qn_bytes name)
{
    const char *text = name.data;
    const char *dot = name.size == 0 ? NULL : memchr(text, '.', name.size);
    size_t size = dot == NULL ? name.size : (size_t)(dot - text);
    for (size_t i = QN_FIELD_ID; i < FIELD_COUNT; i++) {
        if (strlen(fields[i].name) == size && memcmp(fields[i].name, text, size) == 0) {
            return (i == QN_FIELD_HEADER) == (dot != NULL) ? (enum qn_field)i : QN_FIELD_NONE;
        }
    }
    return QN_FIELD_NONE;
}

enum qn_field_kind qn_field_kind(enum qn_field field)
{
    return fields[field].kind;
}

const char *qn_field_name(enum qn_field field)
{
    return fields[field].name;
}
