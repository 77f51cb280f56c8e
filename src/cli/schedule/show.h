/* SPDX-License-Identifier: MIT */
/* show.h - `quern schedule show` and `history`, and what other verbs show of an entry. */
#ifndef QN_CLI_SCHEDULE_SHOW_H
#define QN_CLI_SCHEDULE_SHOW_H

#include "cli/cli.h"

#define QN_SHOW_OPTION_COUNT 1
extern const struct qn_option qn_show_options[QN_SHOW_OPTION_COUNT];
#define QN_SHOW_HISTORY_OPTION_COUNT 2
extern const struct qn_option qn_show_history_options[QN_SHOW_HISTORY_OPTION_COUNT];

int qn_show_run(struct qn_cli *cli);
int qn_show_history(struct qn_cli *cli);

/* "ok", "paused", "error", "overdue" (no scheduler has enqueued its tick), "ahead" (its last tick
 * lies ahead of the clock), "never" (there is no next tick). */
const char *qn_show_state(const quern_entry_info *entry, int64_t now_ms);
/* Without its task. */
json_t *qn_show_json(const quern_entry_info *entry);
/* The entry of this name; queue NULL: of any queue. Reports its errors, returns the exit code. On
 * QN_EXIT_OK *ret_list has this entry alone, for the caller to free. */
QUERN_NODISCARD int qn_show_find(const struct qn_cli *cli, quern_inspector *inspector,
                                 const char *queue, const char *name, quern_entry_list **ret_list);

#endif
