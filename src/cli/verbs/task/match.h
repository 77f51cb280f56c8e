/* SPDX-License-Identifier: MIT */
/* match.h - --match of `quern task`: a search, and an action on what it finds. */
#ifndef QN_CLI_VERBS_TASK_MATCH_H
#define QN_CLI_VERBS_TASK_MATCH_H

#include "cli/cli.h"
#include "cli/verbs/task/table.h"
#include "quern/search.h"

#define QN_TASK_MATCH_SCAN_MAX 10000000

/* One page. Returns the exit code, as the next. */
QUERN_NODISCARD int qn_task_match_list(const struct qn_cli *cli, quern_inspector *inspector,
                                       const quern_search *search,
                                       const struct qn_task_table *shape);

struct qn_task_match_act {
    quern_action action; /* without apply */
    /* Does something else to all that match, or with search->dry_run counts; NULL: the action. */
    quern_status (*apply)(quern_inspector *inspector, const quern_search *search,
                          quern_matching *ret_matching, const void *user, quern_error *err);
    const void *user;
    const char *refused_one; /* "would clash with another task"; NULL: its state forbids it */
    const char *refused_many;
    const char *ask;  /* "Delete" */
    const char *done; /* "deleted" */
    bool yes;
    bool dry_run;
};
/* Shows how many match and some of them, asks, and applies the action. */
QUERN_NODISCARD int qn_task_match_act(const struct qn_cli *cli, quern_inspector *inspector,
                                      const quern_search *search,
                                      const struct qn_task_match_act *act);

#endif
