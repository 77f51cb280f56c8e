/* SPDX-License-Identifier: MIT */
/* announce.c - a mux as bytes, and a mux made of them.
 *
 * The worker needs the patterns to know which types it takes, and those options that are applied
 * outside of the handler. Callbacks stay where they are: in the child. The bytes come from a
 * program that the user chose, so they are checked as any input, but need not be taken for hostile.
 */
#include "worker/prefork/announce.h"

#include <string.h>

#include "base/error.h"
#include "base/text/number.h"
#include "task/limits.h"
#include "worker/policy/handler_options.h"
#include "worker/prefork/bytes.h"
#include "worker/prefork/wire.h"
#include "worker/run/mux.h"

#define MAGIC INT64_C(0x717565726e7a7967) /* "quernzyg" */
enum { NO_OUTCOME = -1, NO_LIST = -1 };

/* NULL, and with NULL at its end. */
static void put_list(struct qn_writer *writer, const char *const *list)
{
    int64_t count = 0;
    while (list != NULL && list[count] != NULL) {
        count++;
    }
    qn_bytes_put_number(writer, list != NULL ? count : NO_LIST);
    for (int64_t i = 0; i < count; i++) {
        qn_bytes_put_text(writer, list[i]);
    }
}

static void put_entry(struct qn_writer *writer, const struct qn_mux_entry *entry)
{
    const quern_handler_options *options = &entry->options;
    qn_bytes_put_text(writer, entry->pattern);
    qn_bytes_put_number(writer, entry->grace_ms);
    qn_bytes_put_number(writer, options->ack);
    qn_bytes_put_number(writer, options->prefetch_max);
    qn_bytes_put_number(writer, options->retry.kind);
    qn_bytes_put_number(writer, options->retry.base_ms);
    qn_bytes_put_number(writer, options->retry.cap_ms);
    qn_bytes_put_number(writer, options->on_crash);
    qn_bytes_put_number(writer, options->ack_on_failure);
    qn_bytes_put_number(writer, options->ack_on_timeout);
    qn_bytes_put_number(writer, options->retry_max);
    qn_bytes_put_number(writer, options->timeout_ms);
    qn_bytes_put_number(writer, options->kill_after_ms);
    qn_bytes_put_number(writer, options->cpu_ms);
    qn_bytes_put_number(writer, options->memory_max);
    qn_bytes_put_number(writer, options->concurrency);
    put_list(writer, options->no_retry);
    put_list(writer, options->only_retry);
}

quern_status qn_announce_write(const quern_mux *mux, struct qn_buf *out, quern_error *err)
{
    struct qn_writer writer = {.out = out, .ok = true};
    size_t count = qn_mux_count(mux);
    quern_outcome not_found = QUERN_RETRY;
    bool counts = qn_mux_counts_unknown(mux, &not_found);
    if (qn_mux_groups(mux)->count > 0) {
        return qn_error_set(err, QUERN_E_UNSUPPORTED,
                            "a zygote cannot serve aggregators: give them to the worker");
    }
    qn_bytes_put_number(&writer, MAGIC);
    qn_bytes_put_number(&writer, QN_WIRE_VERSION);
    qn_bytes_put_number(&writer, counts ? (int64_t)not_found : NO_OUTCOME);
    qn_bytes_put_number(&writer, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        put_entry(&writer, qn_mux_at(mux, i));
    }
    return writer.ok ? QUERN_OK : qn_error_nomem(err);
}

/* Called only where a run was not sent to a child: that is a bug of ours. */
static quern_outcome run_nothing(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    (void)user;
    return quern_run_fail(run, QUERN_RETRY, "its handler is in another process");
}

/* The lists of one entry, without their strings. */
struct lists {
    const char *no_retry[QN_ERROR_CLASSES_MAX + 1];
    const char *only_retry[QN_ERROR_CLASSES_MAX + 1];
};

static const char *const *read_list(struct qn_reader *reader,
                                    const char *list[QN_ERROR_CLASSES_MAX + 1])
{
    int64_t count = qn_bytes_number_in(reader, NO_LIST, QN_ERROR_CLASSES_MAX);
    for (int64_t i = 0; i < count; i++) {
        list[i] = qn_bytes_text(reader, QN_ERROR_CLASS_SIZE_MAX);
    }
    list[count > 0 ? count : 0] = NULL;
    return count != NO_LIST ? list : NULL;
}

static int32_t read_int(struct qn_reader *reader)
{
    return (int32_t)qn_bytes_number_in(reader, INT32_MIN, INT32_MAX);
}

/* Their values are checked when they are registered. */
static void read_options(struct qn_reader *reader, struct lists *lists,
                         quern_handler_options *options)
{
    options->ack = read_int(reader);
    options->prefetch_max = read_int(reader);
    options->retry.kind = read_int(reader);
    options->retry.base_ms = qn_bytes_number(reader);
    options->retry.cap_ms = qn_bytes_number(reader);
    options->on_crash = read_int(reader);
    options->ack_on_failure = qn_bytes_number(reader) != 0;
    options->ack_on_timeout = qn_bytes_number(reader) != 0;
    options->retry_max = qn_bytes_number(reader);
    options->timeout_ms = qn_bytes_number(reader);
    options->kill_after_ms = qn_bytes_number(reader);
    options->cpu_ms = qn_bytes_number(reader);
    options->memory_max = qn_bytes_number(reader);
    options->concurrency = (uint32_t)qn_bytes_number_in(reader, 0, UINT32_MAX);
    options->no_retry = read_list(reader, lists->no_retry);
    options->only_retry = read_list(reader, lists->only_retry);
}

static quern_status read_entry(struct qn_reader *reader, quern_mux *mux, quern_error *err)
{
    const char *pattern = qn_bytes_text(reader, QN_NAME_SIZE_MAX);
    int64_t grace_ms = qn_bytes_number_in(reader, 0, QN_DURATION_MS_MAX);
    quern_handler_options options = {0};
    struct lists lists;
    read_options(reader, &lists, &options);
    if (!reader->ok || pattern == NULL) {
        return qn_error_set(err, QUERN_E_CORRUPT, "what the zygote announced cannot be read");
    }
    quern_status status = quern_mux_handle(mux, pattern, run_nothing, NULL, &options, err);
    if (status == QUERN_OK) {
        qn_mux_set_grace(mux, pattern, grace_ms);
    }
    return status;
}

static quern_status read_all(struct qn_reader *reader, quern_mux *mux, quern_error *err)
{
    int64_t not_found = qn_bytes_number_in(reader, NO_OUTCOME, QUERN_SNOOZE);
    int64_t count = qn_bytes_number(reader);
    quern_status status = QUERN_OK;
    for (int64_t i = 0; i < count && status == QUERN_OK; i++) {
        status = read_entry(reader, mux, err);
    }
    if (status == QUERN_OK && (!reader->ok || reader->left != 0)) {
        status = qn_error_set(err, QUERN_E_CORRUPT, "what the zygote announced cannot be read");
    }
    if (status == QUERN_OK && not_found != NO_OUTCOME) {
        status = quern_mux_not_found(mux, (quern_outcome)not_found, err);
    }
    return status;
}

quern_status qn_announce_read(struct qn_bytes hello, quern_mux **ret_mux, quern_error *err)
{
    struct qn_reader reader = {.at = hello.data, .left = hello.size, .ok = true};
    int64_t magic = qn_bytes_number(&reader);
    int64_t version = qn_bytes_number(&reader);
    if (!reader.ok || magic != MAGIC || version != QN_WIRE_VERSION) {
        return qn_error_set(err, QUERN_E_UNSUPPORTED,
                            "the zygote was built with another version of libquern");
    }
    quern_mux *mux;
    quern_status status = quern_mux_new(&mux, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = read_all(&reader, mux, err);
    if (status != QUERN_OK) {
        quern_mux_free(mux);
        return status;
    }
    *ret_mux = mux;
    return QUERN_OK;
}
