/* SPDX-License-Identifier: MIT */
/* task_options.c - makes a task of the options of a line. */
#include "cli/task_options.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/duration.h"
#include "base/text/str.h"
#include "cli/memory.h"
#include "task/policy.h"

void qn_task_parts_init(struct qn_task_parts *parts)
{
    parts->header_count = 0;
    qn_buf_init(&parts->payload, QN_PAYLOAD_SIZE_MAX);
}

void qn_task_parts_finish(struct qn_task_parts *parts)
{
    for (size_t i = 0; i < parts->header_count; i++) {
        qn_free(parts->texts[i]);
    }
    qn_buf_finish(&parts->payload);
}

/* The K=V texts, cut in two. */
static int read_headers(const struct qn_cli *cli, struct qn_task_parts *parts)
{
    const char *text = NULL;
    while ((text = qn_args_repeat(&cli->args, QN_TASK_HEADER, parts->header_count)) != NULL) {
        if (parts->header_count == QN_HEADER_COUNT_MAX) {
            return qn_cli_usage(cli, "--header: at most %d", QN_HEADER_COUNT_MAX);
        }
        const char *equals = strchr(text, '=');
        if (equals == NULL || equals == text) {
            return qn_cli_usage(cli, "--header: '%s' is not NAME=VALUE", text);
        }
        char *copy = qn_memory_must(qn_str_dup(text));
        copy[equals - text] = '\0';
        parts->texts[parts->header_count] = copy;
        parts->headers[parts->header_count++] =
            (quern_header){.name = copy, .value = copy + (equals - text) + 1};
    }
    return QN_EXIT_OK;
}

static int read_policies(const struct qn_cli *cli, quern_task *task)
{
    const char *until = qn_args_text(&cli->args, QN_TASK_UNIQUE_UNTIL);
    const char *policy = qn_args_text(&cli->args, QN_TASK_ON_DUPLICATE);
    if (until != NULL && !qn_policy_until(until, &task->unique_until)) {
        return qn_cli_usage(cli, "--unique-until: '%s' is not " QN_POLICY_UNTIL, until);
    }
    if (policy != NULL && !qn_policy_on_duplicate(policy, &task->on_duplicate)) {
        return qn_cli_usage(cli, "--on-duplicate: '%s' is not " QN_POLICY_ON_DUPLICATE, policy);
    }
    const char *backoff = qn_args_text(&cli->args, QN_TASK_BACKOFF);
    return backoff == NULL ? QN_EXIT_OK : qn_task_options_backoff(cli, backoff, &task->retry);
}

/* DURATION, or with a cap DURATION:DURATION. */
static bool read_durations(const char *text, bool may_have_cap, int64_t *ret_base_ms,
                           int64_t *ret_cap_ms)
{
    char base[64];
    const char *colon = strchr(text, ':');
    size_t size = colon != NULL ? (size_t)(colon - text) : strlen(text);
    if (size >= sizeof base || (colon != NULL && !may_have_cap)) {
        return false;
    }
    memcpy(base, text, size);
    base[size] = '\0';
    return qn_duration_parse(base, ret_base_ms, NULL) == QUERN_OK && *ret_base_ms > 0 &&
           (colon == NULL || (qn_duration_parse(colon + 1, ret_cap_ms, NULL) == QUERN_OK &&
                              *ret_cap_ms >= *ret_base_ms));
}

int qn_task_options_backoff(const struct qn_cli *cli, const char *text,
                            quern_retry_policy *ret_policy)
{
    static const char fixed[] = "fixed:";
    static const char exponential[] = "exponential:";
    int64_t base_ms = 0;
    int64_t cap_ms = 0;
    if (strcmp(text, "asynq") == 0) {
        *ret_policy = (quern_retry_policy)QUERN_BACKOFF_ASYNQ;
    } else if (strncmp(text, fixed, strlen(fixed)) == 0 &&
               read_durations(text + strlen(fixed), false, &base_ms, &cap_ms)) {
        *ret_policy = (quern_retry_policy)QUERN_BACKOFF_FIXED(base_ms);
    } else if (strncmp(text, exponential, strlen(exponential)) == 0 &&
               read_durations(text + strlen(exponential), true, &base_ms, &cap_ms)) {
        *ret_policy = (quern_retry_policy)QUERN_BACKOFF_EXPONENTIAL(base_ms, cap_ms);
    } else {
        return qn_cli_usage(cli,
                            "--backoff: '%s' is not asynq, fixed:D or exponential:D[:CAP] "
                            "with durations above 0, CAP at least D",
                            text);
    }
    return QN_EXIT_OK;
}

int qn_task_options_read(const struct qn_cli *cli, struct qn_task_parts *parts,
                         quern_task *ret_task)
{
    const struct qn_args *args = &cli->args;
    /* In C "" is none; here it is a variable of a script that is empty by mistake. */
    if (qn_args_given(args, QN_TASK_GROUP) && qn_args_text(args, QN_TASK_GROUP)[0] == '\0') {
        return qn_cli_usage(cli, "--group: must not be empty");
    }
    int exit_code = read_headers(cli, parts);
    *ret_task = (quern_task){
        .queue = qn_args_text(args, QN_TASK_QUEUE),
        .retry_max = qn_args_number(args, QN_TASK_RETRY_MAX, 0),
        .timeout_ms = qn_args_number(args, QN_TASK_TIMEOUT, 0),
        .deadline_at_ms = qn_args_number(args, QN_TASK_DEADLINE, 0),
        .delay_ms = qn_args_number(args, QN_TASK_DELAY, 0),
        .unique_ms = qn_args_number(args, QN_TASK_UNIQUE, 0),
        .unique_key = qn_args_text(args, QN_TASK_UNIQUE_KEY),
        .retention_ms = qn_args_number(args, QN_TASK_RETENTION, 0),
        .group = qn_args_text(args, QN_TASK_GROUP),
        .start_within_ms = qn_args_number(args, QN_TASK_START_WITHIN, 0),
        .priority = (int32_t)qn_args_number(args, QN_TASK_PRIORITY, 0),
        .limit_key = qn_args_text(args, QN_TASK_LIMIT_KEY),
        .kill_after_ms = qn_args_number(args, QN_TASK_KILL_AFTER, 0),
        .cpu_ms = qn_args_number(args, QN_TASK_CPU, 0),
        .memory_max = qn_args_number(args, QN_TASK_MEMORY, 0),
        .headers = parts->header_count > 0 ? parts->headers : NULL,
        .header_count = parts->header_count,
    };
    return exit_code == QN_EXIT_OK ? read_policies(cli, ret_task) : exit_code;
}

/* Reads one byte more than the limit, so that the library refuses it. */
static int read_stdin(const struct qn_cli *cli, struct qn_buf *payload)
{
    char block[65536];
    size_t size = 0;
    while ((size = fread(block, 1, sizeof block, stdin)) > 0) {
        quern_status status = qn_buf_append(payload, block, size);
        if (status != QUERN_OK) {
            qn_cli_message(cli, "the payload on stdin is more than %zu bytes", payload->size_max);
            return status == QUERN_E_FULL ? QN_EXIT_DATA : QN_EXIT_TEMPORARY;
        }
    }
    if (ferror(stdin) != 0) {
        qn_cli_message(cli, "cannot read stdin");
        return QN_EXIT_FAILURE;
    }
    return QN_EXIT_OK;
}

int qn_task_options_payload(const struct qn_cli *cli, const char *text, struct qn_task_parts *parts,
                            quern_task *task)
{
    int exit_code = QN_EXIT_OK;
    if (text != NULL && strcmp(text, "-") == 0) {
        exit_code = read_stdin(cli, &parts->payload);
        /* Empty is not the same as none. */
        task->payload = parts->payload.size > 0 ? parts->payload.data : "";
        task->payload_size = parts->payload.size;
    } else if (text != NULL) {
        task->payload = text;
        task->payload_size = strlen(text);
    }
    return exit_code;
}
