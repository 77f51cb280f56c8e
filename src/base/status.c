/* SPDX-License-Identifier: MIT */
/* status.c - names of statuses, and the version of the library. */
#include "quern/status.h"

#include "quern/version.h"

const char *quern_status_name(quern_status status)
{
    switch (status) {
    case QUERN_OK:
        return "ok";
    case QUERN_E_INVALID:
        return "invalid";
    case QUERN_E_NOMEM:
        return "out of memory";
    case QUERN_E_CONNECT:
        return "connect";
    case QUERN_E_TIMEOUT:
        return "timeout";
    case QUERN_E_BROKER:
        return "broker";
    case QUERN_E_DUPLICATE:
        return "duplicate";
    case QUERN_E_CONFLICT:
        return "conflict";
    case QUERN_E_NOT_FOUND:
        return "not found";
    case QUERN_E_STATE:
        return "state";
    case QUERN_E_CORRUPT:
        return "corrupt";
    case QUERN_E_CLOSED:
        return "closed";
    case QUERN_E_BUSY:
        return "busy";
    case QUERN_E_FULL:
        return "full";
    case QUERN_E_UNKNOWN:
        return "unknown";
    case QUERN_E_NOT_REPLICATED:
        return "not replicated";
    case QUERN_E_STALE:
        return "stale";
    case QUERN_E_UNSUPPORTED:
        return "unsupported";
    case QUERN_E_DENIED:
        return "denied";
    case QUERN_E_THREADS:
        return "threads";
    }
    return "unknown status";
}

const char *quern_version(void)
{
    return QUERN_VERSION;
}

int quern_version_number(void)
{
    return QUERN_VERSION_NUMBER;
}
