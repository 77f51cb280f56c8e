/* SPDX-License-Identifier: MIT */
/* field.h - the fields of a task that a query can compare.
 *
 * If you add a field: the table in field.c, the switches that the compiler names (condition.c, and
 * broker/sqlite/inspect/search_where.c), docs/guide/queries.md, man/quern.1. */
#ifndef QN_QUERY_FIELD_H
#define QN_QUERY_FIELD_H

#include "base/memory/view.h"

enum qn_field {
    QN_FIELD_NONE = 0,
    /* Texts. */
    QN_FIELD_ID,
    QN_FIELD_TYPE,
    QN_FIELD_QUEUE,
    QN_FIELD_STATE,
    QN_FIELD_GROUP,   /* "": none */
    QN_FIELD_WORKER,  /* "": not active */
    QN_FIELD_ERROR,   /* "": none */
    QN_FIELD_PAYLOAD, /* bytes */
    QN_FIELD_TEXT,    /* the payload or the error */
    QN_FIELD_HEADER,  /* header.NAME */
    /* Numbers. */
    QN_FIELD_RETRIED,
    QN_FIELD_CRASHES,
    QN_FIELD_PRIORITY,
    QN_FIELD_SIZE, /* of the payload */
    /* How long ago, or how long until: nothing is known of a moment that has not come. */
    QN_FIELD_AGE,     /* since it was enqueued */
    QN_FIELD_RUNNING, /* since its run started */
    QN_FIELD_FAILED,  /* since it last failed */
    QN_FIELD_ENDED,   /* since it was archived or completed */
    QN_FIELD_DUE      /* until it is due */
};

enum qn_field_kind { QN_KIND_TEXT, QN_KIND_NUMBER, QN_KIND_SIZE, QN_KIND_DURATION };

/* QN_FIELD_NONE: no field has this name. Of "header.x" only the part before the dot counts. */
enum qn_field qn_field_find(struct qn_bytes name);
enum qn_field_kind qn_field_kind(enum qn_field field);
const char *qn_field_name(enum qn_field field);
/* All names, with commas between them, for messages. */
extern const char qn_field_names[];

#endif
