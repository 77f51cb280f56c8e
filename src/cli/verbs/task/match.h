/* SPDX-License-Identifier: MIT */
/* match.h - --match of `quern task`: a search, and an action on what it finds. */
#ifndef QN_CLI_VERBS_TASK_MATCH_H
#define QN_CLI_VERBS_TASK_MATCH_H

#include "cli/cli.h"
#include "cli/verbs/task/table.h"
#include "quern/search.h"

#define QN_TASK_MATCH_SCAN_MAX 10000000
#define QN_TASK_MATCH_SAMPLE 5 /* tasks that are shown before an action */

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
/* Before an action asks: shows some of the tasks that match. */
void qn_task_match_sample(const struct qn_cli *cli, const quern_search *search,
                          const quern_task_list *sample, uint64_t matched);
/* The same in place of the action, with what it would do. */
QUERN_NODISCARD int qn_task_match_dry_run(const struct qn_cli *cli,
                                          const struct qn_task_match_act *act,
                                          const quern_search *search, const quern_matching *counted,
                                          const quern_task_list *sample);
/* Shows how many match and some of them, asks, and applies the action. */
QUERN_NODISCARD int qn_task_match_act(const struct qn_cli *cli, quern_inspector *inspector,
                                      const quern_search *search,
                                      const struct qn_task_match_act *act);

#endif
