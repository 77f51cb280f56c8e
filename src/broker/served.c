/* SPDX-License-Identifier: MIT */
/* served.c - reads the queues of a heartbeat: each name ends where a weight follows it. */
#include "broker/served.h"

#include <string.h>

#include "broker/broker.h"

bool qn_served_next(const char **at, struct qn_str *ret_name)
{
    const char *begin = *at;
    const char *equals = strchr(begin, '=');
    while (equals != NULL) {
        size_t digits = strspn(equals + 1, "0123456789");
        const char *end = equals + 1 + digits;
        if (digits > 0 && (*end == ' ' || *end == QN_HEARTBEAT_SEPARATOR || *end == '\0')) {
            *ret_name = (struct qn_str){begin, (size_t)(equals - begin)};
            /* Behind the separator come other things. */
            *at = *end == ' ' ? end + 1 : "";
            return true;
        }
        equals = strchr(equals + 1, '=');
    }
    return false;
}
