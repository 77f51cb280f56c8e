/* SPDX-License-Identifier: MIT */
/* limit.c - how limits are written, and the arithmetic of those of starts. */
#include "task/limit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/text/duration.h"
#include "base/text/number.h"

/* --- Text ------------------------------------------------------------------------------ */

static quern_status refuse(const char *text, const char *rule, quern_error *err)
{
    return qn_error_set(err, QUERN_E_INVALID, "\"%.64s\" is not a limit: %s", text, rule);
}

static const char *skip_spaces(const char *at)
{
    return at + strspn(at, " ");
}

static bool read_count(const char **at, int64_t *ret_count)
{
    uint64_t value = 0;
    struct qn_cursor cursor = {.at = *at, .end = *at + strlen(*at)};
    if (!qn_number_take(&cursor, &value)) {
        return false;
    }
    *at = cursor.at;
    *ret_count = value > INT64_MAX ? INT64_MAX : (int64_t)value;
    return true;
}

/* "1m", or "m" for one. */
static quern_status read_period(const char **at, int64_t *ret_ms, quern_error *err)
{
    char period[32];
    size_t size = strcspn(*at, " ");
    bool has_number = size > 0 && (*at)[0] >= '0' && (*at)[0] <= '9';
    int written = snprintf(period, sizeof period, "%s%.*s", has_number ? "" : "1", (int)size, *at);
    if (size == 0 || written >= (int)sizeof period) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "the period of a limit is missing: write for example 100/s or 100/1m");
    }
    *at += size;
    return qn_duration_parse(period, ret_ms, err);
}

quern_status qn_limit_check(const struct qn_limit *limit, quern_error *err)
{
    bool is_rate = limit->period_ms != 0;
    int64_t least = is_rate ? 1 : 0;
    if (limit->count < least || limit->count > QN_LIMIT_COUNT_MAX) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "a limit must be from %" PRId64 " to %" PRId64 ", not %" PRId64, least,
                            QN_LIMIT_COUNT_MAX, limit->count);
    }
    if (limit->period_ms < 0 || limit->period_ms > QN_LIMIT_PERIOD_MS_MAX) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "the period of a limit must be from 1 ms to 31 days, not %" PRId64
                            " ms",
                            limit->period_ms);
    }
    if (limit->burst < 0 || limit->burst > QN_LIMIT_COUNT_MAX || (limit->burst > 0 && !is_rate)) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "a burst must be from 1 to %" PRId64 " and needs a period, as in "
                            "100/1m burst 20",
                            QN_LIMIT_COUNT_MAX);
    }
    return QUERN_OK;
}

quern_status qn_limit_parse(const char *text, struct qn_limit *ret_limit, quern_error *err)
{
    struct qn_limit limit = {0};
    const char *at = skip_spaces(text);
    if (!read_count(&at, &limit.count)) {
        return refuse(text, "write for example 10, 100/s or \"100/1m burst 20\"", err);
    }
    at = skip_spaces(at);
    bool is_rate = *at == '/';
    if (is_rate) {
        at = skip_spaces(at + 1);
        quern_status status = read_period(&at, &limit.period_ms, err);
        if (status != QUERN_OK) {
            return status;
        }
        if (limit.period_ms == 0) {
            return refuse(text, "its period is 0", err);
        }
    }
    at = skip_spaces(at);
    if (is_rate && strncmp(at, "burst ", strlen("burst ")) == 0) {
        at = skip_spaces(at + strlen("burst "));
        if (!read_count(&at, &limit.burst) || limit.burst == 0) {
            return refuse(text, "a burst is a number from 1 on", err);
        }
    }
    if (*skip_spaces(at) != '\0') {
        return refuse(text, "write for example 10, 100/s or \"100/1m burst 20\"", err);
    }
    quern_status status = qn_limit_check(&limit, err);
    if (status == QUERN_OK) {
        *ret_limit = limit;
    }
    return status;
}

void qn_limit_format(const struct qn_limit *limit, char out[QN_LIMIT_TEXT_SIZE])
{
    char period[32];
    if (limit->period_ms == 0) {
        (void)snprintf(out, QN_LIMIT_TEXT_SIZE, "%" PRId64, limit->count);
        return;
    }
    qn_duration_format(limit->period_ms, period, sizeof period);
    if (limit->burst == 0) {
        (void)snprintf(out, QN_LIMIT_TEXT_SIZE, "%" PRId64 "/%s", limit->count, period);
    } else {
        (void)snprintf(out, QN_LIMIT_TEXT_SIZE, "%" PRId64 "/%s burst %" PRId64, limit->count,
                       period, limit->burst);
    }
}

/* --- Windows --------------------------------------------------------------------------- */

static int64_t slot_ms(const struct qn_limit *limit)
{
    return (limit->period_ms + QN_LIMIT_SLOTS - 1) / QN_LIMIT_SLOTS;
}

/* How many slots a window can touch: those it covers, and one that it begins in. */
static int64_t slot_count(const struct qn_limit *limit)
{
    int64_t size_ms = slot_ms(limit);
    return (limit->period_ms + size_ms - 1) / size_ms + (QN_BUG(WINDOW_TOO_SHORT) ? 0 : 1);
}

static void advance_window(const struct qn_limit *limit, struct qn_limit_use *use, int64_t now_ms)
{
    int64_t size_ms = slot_ms(limit);
    int64_t passed = now_ms / size_ms - use->at_ms / size_ms;
    use->at_ms = now_ms / size_ms * size_ms;
    if (passed <= 0) {
        return; /* the clock was turned back: what was used is as old as before */
    }
    for (int64_t i = QN_LIMIT_SLOTS; i >= 0; i--) {
        use->slots[i] = i >= passed ? use->slots[i - passed] : 0;
    }
}

static int64_t window_used(const struct qn_limit *limit, const struct qn_limit_use *use)
{
    int64_t used = 0;
    for (int64_t i = 0; i < slot_count(limit); i++) {
        used += use->slots[i];
    }
    return used;
}

/* Until so many starts at most count. */
static int64_t window_wait_ms(const struct qn_limit *limit, const struct qn_limit_use *use,
                              int64_t now_ms, int64_t used_max)
{
    int64_t used = window_used(limit, use);
    int64_t age = slot_count(limit);
    while (used > used_max && age > 0) {
        age--;
        used -= use->slots[age];
    }
    int64_t gone_at_ms = use->at_ms + (slot_count(limit) - age) * slot_ms(limit);
    return age == slot_count(limit) ? 0 : gone_at_ms - now_ms;
}

/* --- Buckets --------------------------------------------------------------------------- */

static void advance_bucket(const struct qn_limit *limit, struct qn_limit_use *use, int64_t now_ms)
{
    int64_t passed_ms = now_ms - use->at_ms;
    int64_t debt_max = limit->burst * limit->period_ms;
    use->at_ms = now_ms;
    use->debt = use->debt < debt_max ? use->debt : debt_max; /* the burst may have been lowered */
    if (passed_ms > 0) {
        bool is_paid = passed_ms > use->debt / limit->count;
        use->debt = is_paid ? 0 : use->debt - passed_ms * limit->count;
    }
    if (use->debt == 0) {
        use->clear_at_ms = now_ms;
    }
}

static int64_t bucket_room(const struct qn_limit *limit, const struct qn_limit_use *use)
{
    int64_t left = limit->burst * limit->period_ms - use->debt;
    return left < 0 ? 0 : left / limit->period_ms;
}

/* --- Both ------------------------------------------------------------------------------ */

static void advance(const struct qn_limit *limit, struct qn_limit_use *use, int64_t now_ms)
{
    bool bucket = limit->burst > 0;
    if (use->period_ms != limit->period_ms || use->bucket != bucket) {
        *use =
            (struct qn_limit_use){.period_ms = limit->period_ms, .bucket = bucket, .at_ms = now_ms};
    }
    if (bucket) {
        advance_bucket(limit, use, now_ms);
    } else {
        advance_window(limit, use, now_ms);
    }
}

int64_t qn_limit_room(const struct qn_limit *limit, struct qn_limit_use *use, int64_t now_ms)
{
    advance(limit, use, now_ms);
    if (use->bucket) {
        return bucket_room(limit, use);
    }
    int64_t used = window_used(limit, use);
    return used < limit->count ? limit->count - used : 0;
}

int64_t qn_limit_wait_ms(const struct qn_limit *limit, struct qn_limit_use *use, int64_t now_ms)
{
    advance(limit, use, now_ms);
    if (!use->bucket) {
        return window_wait_ms(limit, use, now_ms, limit->count - 1);
    }
    int64_t over = use->debt - (limit->burst - 1) * limit->period_ms;
    return over <= 0 ? 0 : (over + limit->count - 1) / limit->count;
}

void qn_limit_take(const struct qn_limit *limit, struct qn_limit_use *use, int64_t now_ms)
{
    advance(limit, use, now_ms);
    if (use->bucket) {
        use->debt += limit->period_ms;
    } else {
        use->slots[0]++;
    }
}

void qn_limit_give_back(const struct qn_limit *limit, struct qn_limit_use *use, int64_t now_ms,
                        int64_t age_ms)
{
    advance(limit, use, now_ms);
    int64_t taken_at_ms = now_ms - age_ms;
    if (use->bucket) {
        /* If the bucket was full since, the start had been paid for. */
        bool counts = taken_at_ms >= use->clear_at_ms && use->debt >= limit->period_ms;
        use->debt -= counts ? limit->period_ms : 0;
        return;
    }
    int64_t age = use->at_ms / slot_ms(limit) - taken_at_ms / slot_ms(limit);
    if (age >= 0 && age <= QN_LIMIT_SLOTS && use->slots[age] > 0) {
        use->slots[age]--;
    }
}

int64_t qn_limit_used(const struct qn_limit *limit, struct qn_limit_use *use, int64_t now_ms)
{
    advance(limit, use, now_ms);
    return use->bucket ? (use->debt + limit->period_ms - 1) / limit->period_ms
                       : window_used(limit, use);
}

int64_t qn_limit_clear_at_ms(const struct qn_limit *limit, struct qn_limit_use *use, int64_t now_ms)
{
    advance(limit, use, now_ms);
    if (use->bucket) {
        return now_ms + (use->debt + limit->count - 1) / limit->count;
    }
    return now_ms + window_wait_ms(limit, use, now_ms, 0);
}
