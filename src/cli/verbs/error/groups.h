/* SPDX-License-Identifier: MIT */
/* groups.h - failed tasks by the fingerprint of their error. */
#ifndef QN_CLI_VERBS_ERROR_GROUPS_H
#define QN_CLI_VERBS_ERROR_GROUPS_H

#include "cli/cli.h"
#include "task/fingerprint/fingerprint.h"

#define QN_GROUPS_MAX 1000

struct qn_error_group {
    uint64_t fingerprint;
    uint64_t retry; /* tasks that wait for a retry */
    uint64_t archived;
    int64_t first_at_ms; /* failures */
    int64_t last_at_ms;
    char text[QN_FINGERPRINT_TEXT_SIZE]; /* without numbers, ids and addresses */
    char *type;                          /* of one of them, as the next two */
    char *queue;
    char *id;
};

struct qn_error_groups {
    struct qn_error_group *items; /* QN_GROUPS_MAX; the largest first once they are sorted */
    size_t count;
    uint64_t others;   /* tasks of groups that have no room here */
    uint64_t searched; /* tasks */
    uint64_t total;    /* that wait for a retry or are archived, as far as is known */
};

/* What is looked at. */
struct qn_error_scope {
    const char *match; /* NULL: all */
    const char *queue; /* NULL: all */
    uint64_t scan_max; /* tasks in each of both states */
    /* Called for each of them, with its fingerprint; false: that is enough. NULL: not. */
    bool (*on_task)(const quern_task_info *info, uint64_t fingerprint, void *user);
    void *user;
};
/* Reads page by page. groups may be NULL. */
QUERN_NODISCARD quern_status qn_error_groups_read(quern_inspector *inspector,
                                                  const struct qn_error_scope *scope,
                                                  struct qn_error_groups *groups, quern_error *err);
void qn_error_groups_sort(struct qn_error_groups *groups);
void qn_error_groups_finish(struct qn_error_groups *groups);

#endif
