/* SPDX-License-Identifier: MIT */
/* check.c - whether an entry is one, before it is stored and when it is read: any program can write
 * to a broker. */
#include <string.h>

#include "base/error.h"
#include "base/text/number.h"
#include "broker/schedule/schedule.h"
#include "task/limits.h"

quern_status qn_schedule_check_name(const char *name, quern_error *err)
{
    size_t size = 0;
    for (; name[size] != '\0'; size++) {
        bool is_visible = name[size] > ' ' && name[size] <= '~';
        if (!is_visible || strchr("{}/\"", name[size]) != NULL || size == QN_ENTRY_NAME_SIZE_MAX) {
            size = 0;
            break;
        }
    }
    if (size == 0) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "the name of an entry has 1 to %d bytes of visible ASCII, without "
                            "{ } / and \"",
                            QN_ENTRY_NAME_SIZE_MAX);
    }
    return QUERN_OK;
}

quern_status qn_schedule_check_entry(const struct qn_schedule_entry *entry, quern_error *err)
{
    quern_status status = qn_schedule_check_name(entry->name, err);
    if (status != QUERN_OK) {
        return status;
    }
    const char *fault = NULL;
    if (strlen(entry->cron) > QN_CRON_SIZE_MAX || strlen(entry->zone) > QN_ZONE_SIZE_MAX ||
        strlen(entry->origin) > QN_ORIGIN_SIZE_MAX) {
        fault = "its cron expression, zone or origin is too long";
    } else if (entry->misfire < QN_MISFIRE_SKIP || entry->misfire > QN_MISFIRE_ALL ||
               entry->misfire_max < 1 || entry->misfire_max > QN_MISFIRE_MAX) {
        fault = "its misfire policy is skip, once or all with a number up to 1000";
    } else if (entry->late_ms < 0 || entry->late_ms > QN_DURATION_MS_MAX || entry->jitter_ms < 0 ||
               entry->jitter_ms > QN_JITTER_MS_MAX) {
        fault = "its lateness or jitter is out of range";
    } else if (entry->last_s < 0 || entry->last_s > QN_MOMENT_MS_MAX / 1000) {
        fault = "its last tick is out of range";
    }
    return fault == NULL
               ? QUERN_OK
               : qn_error_set(err, QUERN_E_INVALID, "entry \"%s\": %s", entry->name, fault);
}
