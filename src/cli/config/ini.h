/* SPDX-License-Identifier: MIT */
/* ini.h - the lines of quern.conf, without their meaning.
 *
 *     broker = redis://queue.example
 *
 *     [work]
 *     queue = mail=3
 *     exec = mail:=./send --quietly
 *
 * A value is the rest of its line: it has no quotes, no continuation, and no comment behind it. A
 * comment is a line that begins with # or ;. */
#ifndef QN_CLI_CONFIG_INI_H
#define QN_CLI_CONFIG_INI_H

#include <stddef.h>

#include "base/memory/arena.h"
#include "quern/status.h"

#define QN_INI_LINES_MAX 10000
#define QN_INI_FAULTS_MAX 100 /* with more it is another file */

struct qn_ini_line {
    size_t line;         /* from 1 */
    const char *section; /* "": before the first one */
    const char *key;     /* NULL: the head of the section itself */
    const char *value;
};

struct qn_ini_fault {
    size_t line;
    const char *section;
    const char *text; /* static */
};

/* Its arrays live in its arena, its strings in the text that was parsed. */
struct qn_ini {
    struct qn_arena arena;
    struct qn_ini_line *lines; /* in the order of the file */
    size_t line_count;
    struct qn_ini_fault *faults; /* the same */
    size_t fault_count;
};

/* Cuts the text, behind which a NUL stands, into its lines; they stay in it. QUERN_E_INVALID: more
 * lines or faults than the limits above; QUERN_E_NOMEM. qn_ini_finish frees it. */
QUERN_NODISCARD quern_status qn_ini_parse(char *text, size_t size, struct qn_ini *ret_ini,
                                          quern_error *err);
void qn_ini_finish(struct qn_ini *ini);

#endif
