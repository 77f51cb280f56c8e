/* SPDX-License-Identifier: MIT */
/* orders.c - lines by which a command decides about its task, beside its exit code.
 *
 *   last order       exit 0    exit 65   any other exit
 *   none             done      archive   retry
 *   retry-in=D       done      archive   retry in D
 *   snooze=D         snooze    archive   snooze, with the error
 *   no-retry=CLASS   done      archive   archive
 *
 * So a command may write retry-in and no-retry before it knows whether it fails. A line that begins
 * as an order and is none has no effect: it is reported, as its author meant something by it. */
#include "worker/exec/orders.h"

#include <string.h>

#include "base/text/duration.h"
#include "base/text/utf8.h"

/* The codes of sysexits.h, which mail programs made common. */
enum { EXIT_DONE = 0, EXIT_ARCHIVE = 65, DURATION_SIZE = 32 };

static const char *after(const char *line, size_t size, const char *prefix)
{
    size_t length = strlen(prefix);
    return size >= length && memcmp(line, prefix, length) == 0 ? line + length : NULL;
}

static bool read_delay(const char *text, size_t size, int64_t *delay_ms)
{
    char copy[DURATION_SIZE];
    if (size == 0 || size >= sizeof copy || memchr(text, '\0', size) != NULL) {
        return false;
    }
    memcpy(copy, text, size);
    copy[size] = '\0';
    return qn_duration_parse(copy, delay_ms, NULL) == QUERN_OK;
}

static bool read_class(const char *text, size_t size, char out[QN_ORDERS_CLASS_SIZE])
{
    char copy[QN_ORDERS_CLASS_SIZE];
    if (size >= sizeof copy || memchr(text, '\0', size) != NULL) {
        return false;
    }
    memcpy(copy, text, size);
    copy[size] = '\0';
    if (!qn_handler_options_is_class(copy)) {
        return false;
    }
    memcpy(out, copy, size + 1);
    return true;
}

static void set(struct qn_orders *orders, enum qn_order order, int64_t delay_ms)
{
    orders->order = order;
    orders->delay_ms = delay_ms;
}

bool qn_orders_take(struct qn_orders *orders, const char *line, size_t size)
{
    const char *end = line + size;
    const char *value;
    int64_t delay_ms = 0;
    bool is_right = false;
    if ((value = after(line, size, "retry-in=")) != NULL) {
        is_right = read_delay(value, (size_t)(end - value), &delay_ms);
        if (is_right) {
            set(orders, QN_ORDER_RETRY_IN, delay_ms);
        }
    } else if ((value = after(line, size, "snooze=")) != NULL) {
        is_right = read_delay(value, (size_t)(end - value), &delay_ms);
        if (is_right) {
            set(orders, QN_ORDER_SNOOZE, delay_ms);
        }
    } else if ((value = after(line, size, "no-retry=")) != NULL) {
        is_right = read_class(value, (size_t)(end - value), orders->class_name);
        if (is_right) {
            set(orders, QN_ORDER_NO_RETRY, 0);
        }
    } else if ((value = after(line, size, "error-class=")) != NULL) {
        is_right = read_class(value, (size_t)(end - value), orders->class_name);
    } else {
        return false;
    }
    if (!is_right && orders->wrong[0] == '\0') {
        (void)qn_utf8_sanitize(line, size, orders->wrong, sizeof orders->wrong);
    }
    return true;
}

quern_outcome qn_orders_decide(const struct qn_orders *orders, int exit_code)
{
    bool is_snooze = orders->order == QN_ORDER_SNOOZE;
    if (exit_code == EXIT_DONE) {
        return is_snooze ? QUERN_SNOOZE : QUERN_DONE;
    }
    if (exit_code == EXIT_ARCHIVE || orders->order == QN_ORDER_NO_RETRY) {
        return QUERN_ARCHIVE;
    }
    return is_snooze ? QUERN_SNOOZE : QUERN_RETRY;
}
