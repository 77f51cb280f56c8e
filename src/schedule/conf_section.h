/* SPDX-License-Identifier: MIT */
/* conf_section.h - one section of schedule.conf: its keys, one by one, become a definition. */
#ifndef QN_SCHEDULE_CONF_SECTION_H
#define QN_SCHEDULE_CONF_SECTION_H

#include "base/memory/arena.h"
#include "base/text/buf.h"
#include "schedule/entry.h"
#include "task/limits.h"

#define QN_CONF_KEYS_MAX 32

struct qn_conf_section {
    struct qn_arena *arena; /* of the values */
    struct qn_entry_given given;
    quern_header headers[QN_HEADER_COUNT_MAX];
    struct qn_buf payload;
    size_t lines[QN_CONF_KEYS_MAX]; /* of each key of the table; 0: it was not given */
    bool has_payload;
};

void qn_conf_section_init(struct qn_conf_section *section, struct qn_arena *arena);
void qn_conf_section_finish(struct qn_conf_section *section);
/* The value is copied. QUERN_E_INVALID: the text names the key and the fault. */
QUERN_NODISCARD quern_status qn_conf_section_set(struct qn_conf_section *section, const char *key,
                                                 const char *value, size_t line, quern_error *err);
/* A further line of the payload. */
QUERN_NODISCARD quern_status qn_conf_section_continue(struct qn_conf_section *section,
                                                      const char *value, quern_error *err);
/* Whether the key of a line takes any text, so that what looks like a comment belongs to it. */
bool qn_conf_section_is_free(const char *key);
/* Whether the key of a line is this one, with _ or - between its words. */
bool qn_conf_section_is_key(const char *key, const char *name);
/* The definition, when all keys are set; in the arena but for its headers. */
QUERN_NODISCARD quern_status qn_conf_section_given(struct qn_conf_section *section,
                                                   struct qn_entry_given *ret_given,
                                                   quern_error *err);
/* The line of the key with whose name an error of qn_entry_make begins; 0: there is none. */
size_t qn_conf_section_line_of(const struct qn_conf_section *section, const char *text);

#endif
