/* SPDX-License-Identifier: MIT */
/* quern/status.h - the status and the error text that calls return.
 *
 * Every function that can fail returns quern_status and takes `quern_error *err` last. `err` may be
 * NULL; else a failing call fills it with the status and one self-contained line of text. A call
 * that succeeds does not change it.
 *
 * The comment of a function names the errors with a special meaning there. Besides, any function
 * that returns quern_status may return QUERN_E_INVALID (a pointer that must not be NULL is NULL, an
 * argument is out of its range) and QUERN_E_NOMEM; and where a comment says "broker errors", also
 * QUERN_E_CONNECT, QUERN_E_TIMEOUT, QUERN_E_BROKER, QUERN_E_BUSY, QUERN_E_FULL, QUERN_E_CORRUPT,
 * QUERN_E_DENIED, QUERN_E_UNSUPPORTED and, in the child of a fork, QUERN_E_CLOSED. A newer library
 * may return a status that these headers do not define: treat it as a failure. */
#ifndef QUERN_STATUS_H
#define QUERN_STATUS_H

#include <stdint.h>

#include "quern/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers are ABI: add at the end, never renumber. */
typedef enum quern_status {
    QUERN_OK = 0,
    QUERN_E_INVALID = 1,   /* an argument or option breaks its documented range */
    QUERN_E_NOMEM = 2,     /* an allocation failed; nothing was changed */
    QUERN_E_CONNECT = 3,   /* the broker could not be reached or opened */
    QUERN_E_TIMEOUT = 4,   /* not done in time; a later call may succeed */
    QUERN_E_BROKER = 5,    /* the broker refused; the text quotes its error */
    QUERN_E_DUPLICATE = 6, /* a task with this unique key is already there */
    QUERN_E_CONFLICT = 7,  /* a task with this id already exists in the queue */
    QUERN_E_NOT_FOUND = 8, /* no such queue, task, worker or pattern */
    QUERN_E_STATE = 9,     /* not allowed in the present state, e.g. deleting an active task */
    QUERN_E_CORRUPT = 10,  /* stored data could not be understood; nothing was overwritten */
    QUERN_E_CLOSED = 11,   /* the object is shutting down, or belongs to the parent of a fork */
    QUERN_E_BUSY = 12,     /* the file stayed locked, or the server is loading; try again */
    QUERN_E_FULL = 13,     /* the disk or the memory of the broker is full; nothing was stored */
    QUERN_E_UNKNOWN = 14,  /* the reply was lost: the effect is unknown; err names the id */
    QUERN_E_NOT_REPLICATED = 15, /* stored, but too few replicas confirmed; do not enqueue again */
    QUERN_E_STALE = 16,          /* the run's lease is lost: another run may own the task now */
    QUERN_E_UNSUPPORTED = 17,    /* this broker, or this version of it, does not offer this */
    QUERN_E_DENIED = 18,         /* the broker refused the login: user or password is wrong */
    QUERN_E_THREADS = 19         /* this process has other threads: too late for a zygote */
} quern_status;

typedef struct quern_error {
    quern_status code;
    char text[252]; /* NUL-terminated; a fixed buffer, so that out-of-memory can be reported, too */
} quern_error;

/* One failed attempt to connect to a server, for callbacks. The texts are gone after it returns. */
typedef struct quern_link_failure {
    const char *address; /* of the server, without password */
    const char *error;
    int32_t status;     /* a quern_status */
    uint32_t attempts;  /* that failed in a row, this one included */
    int64_t failing_ms; /* since the first of them */
} quern_link_failure;

/* The name of a status, for example "duplicate". A static string; "unknown status" for others. */
QUERN_API const char *quern_status_name(quern_status status);

#ifdef __cplusplus
}
#endif
#endif
