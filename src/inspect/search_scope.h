/* SPDX-License-Identifier: MIT */
/* search_scope.h - what a search goes through: the query, and the places (a state of a queue, or
 * its trash) that hold tasks and in which some could fulfil it. */
#ifndef QN_INSPECT_SEARCH_SCOPE_H
#define QN_INSPECT_SEARCH_SCOPE_H

#include "base/memory/arena.h"
#include "broker/trash/trash.h"
#include "inspect/inspector.h"
#include "quern/search.h"

#define QN_SEARCH_LIMIT_MAX 10000
#define QN_SEARCH_SCAN_MAX 10000000

/* Copies what a caller gave, with the defaults, and checks it. */
QUERN_NODISCARD quern_status qn_search_scope_take(const quern_inspector *inspector,
                                                  struct qn_bytes given, quern_search *ret_search,
                                                  quern_error *err);

struct qn_search_place {
    const char *queue;
    quern_task_state state; /* 0: its trash */
    uint64_t count;         /* when the search began */
};

struct qn_search_scope {
    struct qn_condition *condition;
    const quern_search *search;
    struct qn_arena arena;
    struct qn_search_place *places; /* by queue, then state */
    size_t count;
    size_t capacity;
    uint64_t total; /* tasks in them */
    bool no_memory;
};

/* Parses the query and finds the places. qn_search_scope_finish in any case. */
QUERN_NODISCARD quern_status qn_search_scope_init(struct qn_search_scope *scope,
                                                  struct qn_broker *broker,
                                                  const quern_search *search, quern_error *err);
void qn_search_scope_finish(struct qn_search_scope *scope);

/* How far a search has come. */
struct qn_search_cursor {
    size_t place; /* its index */
    struct qn_search_position at;
    uint64_t searched;
    int64_t now_ms;
};
/* As text, for the caller to free; NULL: memory is out. */
char *qn_search_scope_write(const struct qn_search_scope *scope,
                            const struct qn_search_cursor *cursor);
/* The place of the text may be empty by now: then it is the next one. QUERN_E_INVALID: it is no
 * cursor, or that of another search. */
QUERN_NODISCARD quern_status qn_search_scope_read(const struct qn_search_scope *scope,
                                                  const char *text,
                                                  struct qn_search_cursor *ret_cursor,
                                                  quern_error *err);

#endif
