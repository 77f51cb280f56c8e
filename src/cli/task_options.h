/* SPDX-License-Identifier: MIT */
/* task_options.h - the options of a task, for each verb that makes one. */
#ifndef QN_CLI_TASK_OPTIONS_H
#define QN_CLI_TASK_OPTIONS_H

#include "base/text/buf.h"
#include "cli/cli.h"
#include "task/limits.h"

/* A verb's table begins with QN_TASK_OPTIONS; its own options follow from QN_TASK_OPTION_COUNT on.
 */
enum qn_task_option {
    QN_TASK_QUEUE,
    QN_TASK_RETRY_MAX,
    QN_TASK_TIMEOUT,
    QN_TASK_DEADLINE,
    QN_TASK_START_WITHIN,
    QN_TASK_DELAY,
    QN_TASK_UNIQUE,
    QN_TASK_UNIQUE_KEY,
    QN_TASK_UNIQUE_UNTIL,
    QN_TASK_ON_DUPLICATE,
    QN_TASK_RETENTION,
    QN_TASK_GROUP,
    QN_TASK_LIMIT_KEY,
    QN_TASK_HEADER,
    QN_TASK_PRIORITY,
    QN_TASK_KILL_AFTER,
    QN_TASK_CPU,
    QN_TASK_MEMORY,
    QN_TASK_BACKOFF,
    QN_TASK_OPTION_COUNT
};

/* clang-format off */
#define QN_TASK_OPTIONS \
    [QN_TASK_QUEUE] = \
        {"queue", "NAME", "into this queue (default: default)", QN_OPTION_TEXT}, \
    [QN_TASK_RETRY_MAX] = \
        {"retry-max", "N", "retries after failures (25), or never; also --retry", \
        QN_OPTION_COUNT, .max = INT32_MAX, .alias = "retry", .never = true}, \
    [QN_TASK_TIMEOUT] = \
        {"timeout", "D", "limit of one run (30m), or never", QN_OPTION_DURATION, \
        .never = true}, \
    [QN_TASK_DEADLINE] = \
        {"deadline", "T", "not started, and cancelled, after T", QN_OPTION_MOMENT}, \
    [QN_TASK_START_WITHIN] = \
        {"start-within", "D", "archived unless it starts this long after due", \
        QN_OPTION_DURATION, .min = 1}, \
    [QN_TASK_DELAY] = \
        {"delay", "D", "run it after this delay: 90, 1h30m, 2d (also --in)", \
        QN_OPTION_DURATION, .alias = "in"}, \
    [QN_TASK_UNIQUE] = \
        {"unique", "D", "refuse an equal task this long; more in the manual", \
        QN_OPTION_DURATION, .min = 1000}, \
    [QN_TASK_UNIQUE_KEY] = \
        {"unique-key", "KEY", "equal is what has this key in its queue", \
        QN_OPTION_TEXT, .unlisted = true}, \
    [QN_TASK_UNIQUE_UNTIL] = \
        {"unique-until", "WHEN", "done, started, removed, ended, or expired", \
        QN_OPTION_TEXT, .unlisted = true}, \
    [QN_TASK_ON_DUPLICATE] = \
        {"on-duplicate", "WHAT", "fail, ignore, replace its data, or debounce", \
        QN_OPTION_TEXT, .unlisted = true}, \
    [QN_TASK_RETENTION] = \
        {"retention", "D", "keep the finished task and its result this long", \
        QN_OPTION_DURATION}, \
    [QN_TASK_GROUP] = \
        {"group", "NAME", "store it as part of this group", QN_OPTION_TEXT}, \
    [QN_TASK_LIMIT_KEY] = \
        {"limit-key", "KEY", "whose it is: keys take turns, have limits", \
        QN_OPTION_TEXT, .unlisted = true}, \
    [QN_TASK_HEADER] = \
        {"header", "K=V", "a header; may be repeated", QN_OPTION_TEXT, \
        .repeats = true}, \
    [QN_TASK_PRIORITY] = \
        {"priority", "N", "-100 to 100: higher ones start first (SQLite only)", \
        QN_OPTION_COUNT, .min = -QN_PRIORITY_MAX, .max = QN_PRIORITY_MAX, \
        .unlisted = true}, \
    [QN_TASK_KILL_AFTER] = \
        {"kill-after", "D", "a run that is cancelled is killed after this", \
        QN_OPTION_DURATION, .unlisted = true}, \
    [QN_TASK_CPU] = \
        {"cpu", "D", "processor time of one run", QN_OPTION_DURATION, .unlisted = true}, \
    [QN_TASK_MEMORY] = \
        {"memory", "SIZE", "address space of one run: 512M, 2G", QN_OPTION_SIZE, \
        .unlisted = true}, \
    [QN_TASK_BACKOFF] = \
        {"backoff", "WHAT", "asynq, fixed:D or exponential:D[:CAP]", \
        QN_OPTION_TEXT, .unlisted = true}
/* clang-format on */

/* What a task borrows. */
struct qn_task_parts {
    quern_header headers[QN_HEADER_COUNT_MAX];
    char *texts[QN_HEADER_COUNT_MAX]; /* of the headers, owned */
    size_t header_count;
    struct qn_buf payload;
};

void qn_task_parts_init(struct qn_task_parts *parts);
void qn_task_parts_finish(struct qn_task_parts *parts);
/* The task that the options describe, without type, payload and id. What is left out is 0, which is
 * the default. Reports its errors, returns the exit code. */
QUERN_NODISCARD int qn_task_options_read(const struct qn_cli *cli, struct qn_task_parts *parts,
                                         quern_task *ret_task);
/* Reads asynq, fixed:D or exponential:D[:CAP]. Reports its errors, returns the exit code. */
QUERN_NODISCARD int qn_task_options_backoff(const struct qn_cli *cli, const char *text,
                                            quern_retry_policy *ret_policy);
/* Sets the payload: the text, or with "-" what stdin has; NULL: none. */
QUERN_NODISCARD int qn_task_options_payload(const struct qn_cli *cli, const char *text,
                                            struct qn_task_parts *parts, quern_task *task);

#endif
