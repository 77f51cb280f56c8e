/* SPDX-License-Identifier: MIT */
/* entry_row.h - the row of an entry, as the operations on it need it. */
#ifndef QN_BROKER_SQLITE_SCHEDULE_ENTRY_ROW_H
#define QN_BROKER_SQLITE_SCHEDULE_ENTRY_ROW_H

#include "broker/schedule/schedule.h"
#include "broker/sqlite/store/query.h"

struct qn_entry_row {
    bool found;
    int64_t queue_no; /* 0: no such queue */
    uint64_t revision;
    int64_t paused_at_ms;
    int64_t last_s;
};

/* found is false when there is no such entry. */
QUERN_NODISCARD quern_status qn_entry_row_find(struct qn_conn *conn, const char *queue,
                                               const char *name, struct qn_entry_row *ret_row,
                                               quern_error *err);
/* The same, but QUERN_E_NOT_FOUND, and QUERN_E_CONFLICT for another revision than that of the key.
 */
QUERN_NODISCARD quern_status qn_entry_row_find_key(struct qn_conn *conn,
                                                   const struct qn_entry_key *key,
                                                   struct qn_entry_row *ret_row, quern_error *err);
/* Takes a new revision from the counter, and makes it the version of the entries. */
QUERN_NODISCARD quern_status qn_entry_row_note_change(struct qn_conn *conn, int64_t *ret_revision,
                                                      quern_error *err);
/* A last tick as it is stored, clamped. */
int64_t qn_entry_row_column_s(sqlite3_stmt *row, int column);

/* An event of the history. */
struct qn_entry_event {
    int64_t number; /* of the counter */
    int64_t tick_s;
    int64_t now_ms;
    enum qn_tick_what what;
    uint32_t skipped;
    const char *id; /* of the task that was stored or replaced; NULL: none */
};
/* Sets the last tick, adds to the runs, and writes the event; the oldest ones go. */
QUERN_NODISCARD quern_status qn_entry_row_advance(struct qn_conn *conn,
                                                  const struct qn_entry_row *row, const char *name,
                                                  const struct qn_entry_event *event,
                                                  quern_error *err);

#endif
