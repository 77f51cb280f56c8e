/* SPDX-License-Identifier: MIT */
/* conf.h - entries from a file, schedule.conf: a section is an entry.
 *
 *     [nightly]
 *     cron = 30 2 * * *
 *     zone = Europe/Berlin
 *     type = report:nightly
 *     payload = {"day": "yesterday"}
 *
 * Faults cost their section and no other: each is named by its line. docs/internals/schedule.md has
 * the keys and the syntax. */
#ifndef QN_SCHEDULE_CONF_H
#define QN_SCHEDULE_CONF_H

#include "base/memory/arena.h"
#include "base/memory/view.h"
#include "schedule/entry.h"

#define QN_CONF_SIZE_MAX ((size_t)16 << 20) /* 10 000 entries of 1.6 KB */
#define QN_CONF_FAULTS_MAX 1000             /* with more it is another file */

struct qn_conf_fault {
    size_t line;      /* from 1 */
    const char *name; /* of its section; "": before the first one, or it has no name */
    const char *text; /* UTF-8 that any terminal may show */
};

/* What was read. Everything in it lives in its arena; a zeroed struct is empty. */
struct qn_conf {
    struct qn_arena arena;
    struct qn_schedule_entry *entries; /* in the order of the file, no two with the same name */
    size_t entry_count;
    struct qn_conf_fault *faults; /* in the order of the file; one of each section that is bad */
    size_t fault_count;
};

struct qn_conf_terms {
    const char *origin;       /* of the entries: "file:PATH" */
    const char *default_zone; /* of entries without one; NULL: UTC */
    struct qn_zones *zones;
    int64_t now_ms;                 /* of the wall clock */
    const struct qn_broker *broker; /* as in qn_entry_terms */
};

/* The entries of a file's text, and its faults. QUERN_E_INVALID: more than QN_ENTRIES_MAX
 * entries or QN_CONF_FAULTS_MAX faults; QUERN_E_NOMEM. The terms are borrowed by the entries.
 * qn_conf_finish frees it. */
QUERN_NODISCARD quern_status qn_conf_parse(struct qn_bytes text, const struct qn_conf_terms *terms,
                                           struct qn_conf *ret_conf, quern_error *err);
/* The same for a file. QUERN_E_NOT_FOUND: there is none, or it may not be read; QUERN_E_INVALID: it
 * is no file, or longer than QN_CONF_SIZE_MAX; QUERN_E_BUSY: reading failed. */
QUERN_NODISCARD quern_status qn_conf_read(const char *path, const struct qn_conf_terms *terms,
                                          struct qn_conf *ret_conf, quern_error *err);
void qn_conf_finish(struct qn_conf *conf);

#endif
