/* SPDX-License-Identifier: MIT */
/* handler_options.c - the options of a handler: their limits, and a copy that owns its lists.
 *
 * Each list is one block, its pointers before its texts. */
#include "worker/policy/handler_options.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/sized.h"
#include "base/text/number.h"
#include "base/text/utf8.h"
#include "task/limits.h"
#include "task/retry.h"

static quern_status refuse(const char *name, int64_t value, const char *range, quern_error *err)
{
    return qn_error_set(err, QUERN_E_INVALID, "handler option %s is %lld, not %s", name,
                        (long long)value, range);
}

static quern_status check_durations(const quern_handler_options *options, quern_error *err)
{
    const struct {
        const char *name;
        int64_t ms;
        int64_t ms_min;
    } durations[] = {{"timeout_ms", options->timeout_ms, QUERN_TIMEOUT_NEVER},
                     {"kill_after_ms", options->kill_after_ms, 0},
                     {"cpu_ms", options->cpu_ms, 0}};
    for (size_t i = 0; i < sizeof durations / sizeof *durations; i++) {
        if (durations[i].ms < durations[i].ms_min || durations[i].ms > QN_DURATION_MS_MAX) {
            return refuse(durations[i].name, durations[i].ms, "from 0 to 100 years", err);
        }
    }
    return QUERN_OK;
}

static quern_status check_numbers(const quern_handler_options *options, quern_error *err)
{
    if (options->ack < QUERN_ACK_DEFAULT || options->ack > QUERN_ACK_LATE) {
        return refuse("ack", options->ack, "default, early or late", err);
    }
    if (options->prefetch_max < -1 || options->prefetch_max > QN_PREFETCH_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "handler option prefetch_max is %d, not -1 to %d",
                            (int)options->prefetch_max, QN_PREFETCH_MAX);
    }
    if (options->on_crash < QUERN_ON_CRASH_REQUEUE || options->on_crash > QUERN_ON_CRASH_DROP) {
        return refuse("on_crash", options->on_crash, "requeue, fail, archive or drop", err);
    }
    if (options->retry_max < QUERN_RETRY_NEVER || options->retry_max > QN_RETRY_MAX_DEFAULT) {
        return refuse("retry_max", options->retry_max, "from 0 to 25 or QUERN_RETRY_NEVER", err);
    }
    if (options->memory_max < 0) {
        return refuse("memory_max", options->memory_max, "at least 0", err);
    }
    if (options->concurrency > QN_CONCURRENCY_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "handler option concurrency is %u, not 0 to %d",
                            options->concurrency, QN_CONCURRENCY_MAX);
    }
    if (!qn_sized_zero(options->reserved, sizeof options->reserved) || options->reserved_too != 0) {
        return qn_error_set(err, QUERN_E_INVALID, "handler options: reserved is not 0");
    }
    quern_status status = check_durations(options, err);
    return status == QUERN_OK ? qn_retry_policy_check(&options->retry, err) : status;
}

bool qn_handler_options_is_class(const char *text)
{
    size_t size = strnlen(text, QN_ERROR_CLASS_SIZE_MAX + 1);
    if (size == 0 || size > QN_ERROR_CLASS_SIZE_MAX || !qn_utf8_valid(text, size)) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f) {
            return false;
        }
    }
    return true;
}

/* *list: the caller's (NULL: none); on success ours. */
static quern_status copy_list(const char *name, const char *const **list, quern_error *err)
{
    const char *const *theirs = *list;
    if (theirs == NULL) {
        return QUERN_OK;
    }
    size_t count = 0;
    size_t size = 0;
    for (; theirs[count] != NULL; count++) {
        if (count == QN_ERROR_CLASSES_MAX) {
            return qn_error_set(err, QUERN_E_INVALID, "handler option %s has over %d classes", name,
                                QN_ERROR_CLASSES_MAX);
        }
        if (!qn_handler_options_is_class(theirs[count])) {
            return qn_error_set(err, QUERN_E_INVALID,
                                "handler option %s: class %zu is not 1 to %d bytes of UTF-8 "
                                "without spaces",
                                name, count + 1, QN_ERROR_CLASS_SIZE_MAX);
        }
        size += strlen(theirs[count]) + 1;
    }
    const char **ours = qn_alloc((count + 1) * sizeof(char *) + size);
    if (ours == NULL) {
        return qn_error_nomem(err);
    }
    char *text = (char *)(ours + count + 1);
    for (size_t i = 0; i < count; i++) {
        size_t text_size = strlen(theirs[i]) + 1;
        memcpy(text, theirs[i], text_size);
        ours[i] = text;
        text += text_size;
    }
    ours[count] = NULL;
    *list = ours;
    return QUERN_OK;
}

quern_status qn_handler_options_read(struct qn_bytes theirs, quern_handler_options *ret_options,
                                     quern_error *err)
{
    quern_handler_options options;
    quern_status status = qn_sized_copy(QN_ROOM_OF(options), theirs, "handler options", err);
    if (status == QUERN_OK) {
        status = check_numbers(&options, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    if (options.no_retry != NULL && options.only_retry != NULL) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "handler options no_retry and only_retry exclude each other");
    }
    status = copy_list("no_retry", &options.no_retry, err);
    if (status == QUERN_OK) {
        status = copy_list("only_retry", &options.only_retry, err);
    }
    if (status == QUERN_OK) {
        *ret_options = options;
    }
    return status;
}

void qn_handler_options_finish(quern_handler_options *options)
{
    qn_free((void *)(uintptr_t)options->no_retry);
    qn_free((void *)(uintptr_t)options->only_retry);
    options->no_retry = NULL;
    options->only_retry = NULL;
}
