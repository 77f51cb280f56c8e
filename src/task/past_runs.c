/* SPDX-License-Identifier: MIT */
/* past_runs.c - the last runs of a task as text.
 *
 * What is read may be damaged, or of a newer version: an entry that is none ends the list. No
 * I/O. */
#include "task/past_runs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/number.h"

#define SEPARATOR '\x1f'
#define ENTRY_END '\x1e'

enum { AT, END, CAUSE, TOOK, AGO, CPU, MEMORY, EXIT, SIGNAL, NUMBER_COUNT };

static const char *const end_names[] = {
    [QUERN_RUN_DONE] = "done",
    [QUERN_RUN_FAILED] = "failed",
    [QUERN_RUN_SNOOZED] = "snoozed",
    [QUERN_RUN_ARCHIVED] = "archived",
    [QUERN_RUN_CANCELLED] = "cancelled",
    [QUERN_RUN_GIVEN_BACK] = "given back",
    [QUERN_RUN_CHILD_DIED] = "child died",
    [QUERN_RUN_WORKER_DIED] = "worker died",
    [QUERN_RUN_LEASE_EXPIRED] = "lease expired",
};

const char *quern_run_end_name(quern_run_end end)
{
    size_t count = sizeof end_names / sizeof end_names[0];
    return (size_t)end < count ? end_names[end] : NULL;
}

/* --- Writing -------------------------------------------------------------------------- */

/* Most of them have a digit or two. */
static size_t put_number(char *out, int64_t value)
{
    char digits[20];
    size_t count = 0;
    if (value < 0) {
        out[0] = '-';
        return 1;
    }
    do {
        digits[count++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    for (size_t i = 0; i < count; i++) {
        out[i] = digits[count - 1 - i];
    }
    return count;
}

/* A text of ours is UTF-8: it is cut before a character. */
static size_t cut(const char *text, size_t size_max)
{
    size_t size = strnlen(text, size_max + 1);
    if (size <= size_max) {
        return size;
    }
    size = size_max;
    while (size > 0 && ((unsigned char)text[size] & 0xc0) == 0x80) {
        size--;
    }
    return size;
}

/* The bytes that end a text and an entry are in neither. */
static size_t put_text(char *out, const char *text, size_t size_max)
{
    size_t size = cut(text, size_max);
    for (size_t i = 0; i < size; i++) {
        bool is_sign = text[i] == SEPARATOR || text[i] == ENTRY_END;
        out[i] = (char)(is_sign ? ' ' : text[i]);
    }
    return size;
}

size_t qn_past_run_worker(const char *host, int64_t pid, const char *worker_id,
                          char out[QN_PAST_RUN_WORKER_SIZE_MAX])
{
    char text[QN_PAST_RUN_WORKER_SIZE_MAX];
    const char *id = worker_id != NULL ? worker_id : "";
    if (host == NULL || host[0] == '\0') {
        return put_text(out, id, sizeof text - 1);
    }
    (void)snprintf(text, sizeof text, "%.256s:%" PRId64 ":%s", host, pid, id);
    return put_text(out, text, sizeof text - 1);
}

size_t qn_past_run_write(const struct qn_past_run *run, qn_past_run_text out)
{
    const struct qn_run_facts *facts = &run->facts;
    const int64_t numbers[NUMBER_COUNT] = {
        [END] = run->end,
        [CAUSE] = run->cause == QUERN_CAUSE_NONE ? -1 : (int64_t)run->cause,
        [TOOK] = run->took_ms,
        [AGO] = run->ago_ms == 0 ? -1 : run->ago_ms,
        [CPU] = facts->known ? facts->cpu_ms : -1,
        [MEMORY] = facts->known ? facts->memory_kib : -1,
        [EXIT] = facts->known ? facts->exit_code : -1,
        [SIGNAL] = facts->known && facts->signal > 0 ? facts->signal : -1,
    };
    size_t size = 0;
    size_t count = NUMBER_COUNT;
    while (count > END + 1 && numbers[count - 1] < 0) {
        count--;
    }
    for (size_t i = END; i < count; i++) {
        size += put_number(out + size, numbers[i]);
        out[size++] = i + 1 < count ? ' ' : SEPARATOR;
    }
    if (run->worker.size > 0) {
        memcpy(out + size, run->worker.data, run->worker.size);
        size += run->worker.size;
    }
    out[size++] = SEPARATOR;
    if (run->error != NULL) {
        size += put_text(out + size, run->error, QN_PAST_RUN_ERROR_SIZE_MAX);
    }
    out[size] = '\0';
    return size;
}

/* The bytes of the first `count` entries. */
static size_t size_of_first(struct qn_bytes runs, size_t count)
{
    const char *from = runs.data;
    size_t size = 0;
    for (size_t i = 0; i < count && size < runs.size; i++) {
        const char *end = memchr(from + size, ENTRY_END, runs.size - size);
        if (end == NULL) {
            return size;
        }
        size = (size_t)(end - from) + 1;
    }
    return size;
}

static size_t put_entry(char *out, int64_t now_ms, struct qn_bytes entry)
{
    size_t size = put_number(out, now_ms);
    out[size++] = ' ';
    memcpy(out + size, entry.data, entry.size);
    size += entry.size;
    out[size++] = ENTRY_END;
    return size;
}

void qn_past_runs_first(int64_t now_ms, struct qn_bytes entry, qn_past_run_text out)
{
    out[put_entry(out, now_ms, entry)] = '\0';
}

void qn_past_runs_add(int64_t now_ms, struct qn_bytes entry, struct qn_bytes before,
                      qn_past_runs_text out)
{
    size_t size = entry.size > 0 ? put_entry(out, now_ms, entry) : 0;
    size_t kept = size_of_first(before, QN_PAST_RUNS_MAX - 1);
    if (kept > QN_PAST_RUNS_SIZE_MAX - size) {
        kept = 0; /* it is damaged */
    }
    if (kept > 0) {
        memcpy(out + size, before.data, kept);
    }
    out[size + kept] = '\0';
}

struct qn_bytes qn_past_runs_older(struct qn_bytes runs)
{
    size_t size = size_of_first(runs, 1);
    return size == 0 ? runs : (struct qn_bytes){(const char *)runs.data + size, runs.size - size};
}

/* --- Reading -------------------------------------------------------------------------- */

struct entry {
    int64_t numbers[NUMBER_COUNT]; /* -1: not known */
    struct qn_bytes worker;
    struct qn_bytes error;
};

static bool take_number(struct qn_cursor *cursor, int64_t *ret_number)
{
    uint64_t value = 0;
    *ret_number = -1;
    if (qn_number_take_char(cursor, '-')) {
        return true;
    }
    bool is_one = qn_number_take(cursor, &value);
    *ret_number = value > INT64_MAX / 4096 ? INT64_MAX / 4096 : (int64_t)value;
    return is_one;
}

/* The bytes up to this sign, which is passed over. */
static bool take_text(struct qn_cursor *cursor, char sign, struct qn_bytes *ret_text)
{
    const char *end = memchr(cursor->at, sign, (size_t)(cursor->end - cursor->at));
    if (end == NULL) {
        return false;
    }
    *ret_text = (struct qn_bytes){cursor->at, (size_t)(end - cursor->at)};
    cursor->at = end + 1;
    return true;
}

/* At least the first two numbers; those that are missing are not known. */
static bool take_numbers(struct qn_cursor *cursor, int64_t numbers[NUMBER_COUNT])
{
    size_t count = 0;
    do {
        if (count == NUMBER_COUNT || !take_number(cursor, &numbers[count])) {
            return false;
        }
        count++;
    } while (qn_number_take_char(cursor, ' '));
    for (size_t i = count; i < NUMBER_COUNT; i++) {
        numbers[i] = -1;
    }
    return count > END && qn_number_take_char(cursor, SEPARATOR);
}

static bool take_entry(struct qn_cursor *cursor, struct entry *entry)
{
    return take_numbers(cursor, entry->numbers) && take_text(cursor, SEPARATOR, &entry->worker) &&
           take_text(cursor, ENTRY_END, &entry->error) && entry->numbers[AT] >= 0;
}

size_t qn_past_runs_count(struct qn_bytes runs, size_t *ret_text_size)
{
    struct entry entry;
    struct qn_cursor cursor = {runs.data, (const char *)runs.data + runs.size};
    size_t count = 0;
    *ret_text_size = 0;
    while (runs.size > 0 && count < QN_PAST_RUNS_MAX && take_entry(&cursor, &entry)) {
        *ret_text_size += entry.worker.size + entry.error.size + 2;
        count++;
    }
    return count;
}

static const char *keep(struct qn_bytes text, char **texts)
{
    char *kept = *texts;
    for (size_t i = 0; i < text.size; i++) {
        char byte = ((const char *)text.data)[i];
        kept[i] = (char)(byte == '\0' ? ' ' : byte);
    }
    kept[text.size] = '\0';
    *texts += text.size + 1;
    return kept;
}

static int32_t small(int64_t number)
{
    return (int32_t)qn_number_clamp(number, -1, INT32_MAX);
}

void qn_past_runs_read(struct qn_bytes runs, size_t count, quern_past_run *ret_runs, char *texts)
{
    struct qn_cursor cursor = {runs.data, (const char *)runs.data + runs.size};
    for (size_t i = 0; i < count; i++) {
        struct entry entry;
        if (!take_entry(&cursor, &entry)) {
            return; /* it was counted */
        }
        const int64_t *numbers = entry.numbers;
        int64_t ago_ms = numbers[AGO] > 0 ? numbers[AGO] : 0;
        int64_t ended_at_ms = qn_moment_ms_of(qn_moment_ms_of(numbers[AT]) - ago_ms);
        bool is_cause = quern_cause_name((quern_cause)numbers[CAUSE]) != NULL;
        ret_runs[i] = (quern_past_run){
            .started_at_ms = numbers[TOOK] < 0 ? 0 : qn_moment_ms_of(ended_at_ms - numbers[TOOK]),
            .ended_at_ms = ended_at_ms,
            .worker = keep(entry.worker, &texts),
            .error = keep(entry.error, &texts),
            .end = small(numbers[END]),
            .cause = is_cause ? (int32_t)numbers[CAUSE] : QUERN_CAUSE_NONE,
            .cpu_ms = numbers[CPU],
            .memory_bytes = numbers[MEMORY] < 0 ? -1 : numbers[MEMORY] * 1024,
            .exit_code = small(numbers[EXIT]),
            .signal = numbers[SIGNAL] < 0 ? 0 : small(numbers[SIGNAL]),
        };
    }
}
