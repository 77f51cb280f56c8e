/* SPDX-License-Identifier: MIT */
/* quern/client.h - puts tasks into queues.
 *
 * A client may be shared between threads: calls that come at the same time are stored together in
 * one transaction, so sharing one client is also the fastest way. After a fork the child must open
 * its own; the parent's is refused there with QUERN_E_CLOSED. */
#ifndef QUERN_CLIENT_H
#define QUERN_CLIENT_H

#include "quern/task.h"
#include "quern/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quern_client quern_client;
struct quern_clock;

typedef struct quern_client_options {
    int64_t connect_timeout_ms;      /* 0: 5 s */
    int64_t command_timeout_ms;      /* of one enqueue, retries included; 0: 10 s */
    size_t payload_size_max;         /* 0: 32 MiB; at most 512 MiB */
    const struct quern_clock *clock; /* NULL: the system's; see quern/testing.h */
    int64_t room_wait_ms;    /* how long a call waits for room in a queue that has its max_pending
                           * tasks (quern_queue_settings), before QUERN_E_FULL; 0: it does not */
    int64_t connect_wait_ms; /* how long opening waits for a broker that is absent or busy, and may
                              * come; 0: it does not */
    bool no_wait;            /* an enqueue fails at once while the broker is absent or busy; else it
                              * is tried again for command_timeout_ms */
    uint8_t reserved[7];
    /* Called for each failed attempt to connect to a server, by the thread that connects; and the
     * choice of the next one of several servers after `current` failed (NULL: as the URL says).
     * They must not use the client. May be NULL. */
    void (*on_link_failure)(const quern_link_failure *failure, void *user);
    size_t (*choose_server)(size_t count, size_t current, void *user);
    void *link_user;
    /* How to try again. Each pause is random, up to a limit: interval_start_ms for the first (0:
     * 50 ms), growing by interval_step_ms each time (0: it doubles) up to interval_max_ms (0: 1 s).
     * max_retries: attempts after the first; 0: as many as there is time for. Opening without
     * connect_wait_ms tries again max_retries times however long that takes, unless no_wait is set.
     * What is 0 is as the URL says, see docs/guide/brokers.md. */
    int64_t interval_start_ms;
    int64_t interval_step_ms;
    int64_t interval_max_ms;
    uint32_t max_retries;
    uint32_t reserved_too; /* 0 */
    /* Each task that is enqueued gets a span, and a trace if it has none. It must outlive the
     * client. NULL: none, and a trace is passed on as it is. */
    quern_tracer *tracer;
} quern_client_options;

/* Opens a broker for enqueueing. url: a path or "sqlite:///path/file.db", created if it does not
 * exist; or "redis://[user[:password]@]host[:port][/db]", "redis-socket:///path"; or for tests
 * "memory:" and "memory:NAME", which all clients, inspectors and workers of this process share and
 * which the last one to close frees. A text that is none of these ("localhost:6379", ":memory:",
 * "file:...") is refused with QUERN_E_INVALID, and the error shows the right spelling. options may
 * be NULL. On success *ret_client is the caller's, to be freed with quern_client_free. Errors:
 * QUERN_E_INVALID, QUERN_E_STATE (a file with the tables of another program, see
 * quern_inspector_options), broker errors. */
QUERN_NODISCARD static inline quern_status quern_client_open(const char *url,
                                                             const quern_client_options *options,
                                                             quern_client **ret_client,
                                                             quern_error *err);

/* Waits until the calls of other threads have returned, then closes. NULL is allowed. */
QUERN_API void quern_client_free(quern_client *client);

/* Stores one task, completely or not at all. ret_info may be NULL; else it receives the stored
 * task, which the caller frees. Errors: QUERN_E_INVALID (the text names the field),
 * QUERN_E_DUPLICATE (an equal task holds the unique lock), QUERN_E_CONFLICT (a task with this id
 * exists), QUERN_E_FULL (the queue has its max_pending tasks, see quern_queue_settings and
 * room_wait_ms; or no space is left), QUERN_E_NOT_REPLICATED (it is stored, but too few replicas
 * confirmed it in time, see the parameter wait of URLs: do not enqueue it again; ret_info receives
 * it), broker errors. With QUERN_E_DUPLICATE and QUERN_E_CONFLICT,
 * and no other error, ret_info receives the existing task, which the caller frees too, unless it is
 * gone by then: so set *ret_info to NULL before. After a lost reply the request is repeated until
 * command_timeout_ms is over; then the call fails with QUERN_E_UNKNOWN, with the id in err. */
QUERN_NODISCARD static inline quern_status quern_client_enqueue(quern_client *client,
                                                                const quern_task *task,
                                                                quern_task_info **ret_info,
                                                                quern_error *err);

/* The result for one task of a batch. You own arrays of this struct, so it never grows;
 * quern_inspector_task returns everything else about a task. */
typedef struct quern_enqueue_result {
    quern_status status;
    char id[257];  /* the id of the task, given or generated, or of the one that is there because
                       * of its unique lock; "" if it was invalid */
    bool existing; /* not stored, since on_duplicate settled it with the task of this id */
    uint8_t reserved[2];
} quern_enqueue_result;

/* Stores `count` tasks in few transactions; the tasks of one queue keep their order. Each task is
 * stored or refused on its own. results, which may be NULL, has `count` entries. Returns QUERN_OK
 * when every task was stored or settled by its on_duplicate, else the first failure, with its
 * position (from 0) in err ("task 17: ..."); the other tasks are stored nevertheless. Only when the
 * broker itself fails or a queue is full, the tasks after that point (on Redis: after the 1 024
 * tasks around it) are not tried; their status is the same, or QUERN_E_TIMEOUT after a
 * QUERN_E_UNKNOWN. Errors as quern_client_enqueue. tasks may be NULL when count is 0. */
QUERN_NODISCARD static inline quern_status quern_client_enqueue_batch(quern_client *client,
                                                                      const quern_task *tasks,
                                                                      size_t count,
                                                                      quern_enqueue_result *results,
                                                                      quern_error *err);

/* The task as it is now, for the caller to free. queue NULL: look in all queues. Errors:
 * QUERN_E_INVALID, QUERN_E_NOT_FOUND (no such task; a task that is done is deleted unless it has
 * retention_ms), QUERN_E_STATE (it is in several queues), broker errors. */
QUERN_NODISCARD QUERN_API quern_status quern_client_find(quern_client *client, const char *queue,
                                                         const char *id, quern_task_info **ret_info,
                                                         quern_error *err);

/* Blocks until the task is completed or archived, and returns it with its result or its error, for
 * the caller to free: quern_task_info_state says which. Give the task retention_ms, else it is
 * deleted when it is done. It is looked for in all queues. timeout_ms: 0 looks once;
 * QUERN_TIMEOUT_NEVER waits as long as it takes. The broker sends a notice of the end to the thread
 * that waits for this task, so the ends of other tasks cost it nothing. The task is also read each
 * second, for lost notices; and not more than ten times a second after the first eight notices, of
 * progress for example. Where the broker sends no notices (a Redis user without CLIENT TRACKING, a
 * directory without a place for a socket), it is read after 1 ms, 2 ms and so on up to 50 ms, later
 * after 5 % of the time waited so far, up to a second. A broker that is away for a while is waited
 * for; one that does not answer may take command_timeout_ms longer than timeout_ms. Any number of
 * threads may wait on one client. Errors as quern_client_find (the text of QUERN_E_NOT_FOUND says
 * whether it was there at first), and QUERN_E_TIMEOUT: not over (the text says so if the broker was
 * away). */
QUERN_NODISCARD QUERN_API quern_status quern_client_wait(quern_client *client, const char *id,
                                                         int64_t timeout_ms,
                                                         quern_task_info **ret_info,
                                                         quern_error *err);

/* Reads the files again that its URL names (`ca`, `cert`, `key`). Connections that are made from
 * now on use them; those that there are stay. Errors: QUERN_E_UNSUPPORTED (the URL names none, or
 * is that of a file), QUERN_E_INVALID (a file is broken or missing: the old ones stay). */
QUERN_NODISCARD QUERN_API quern_status quern_client_reload_certificates(quern_client *client,
                                                                        quern_error *err);

/* Wakes sleeping workers of this broker. Needed only after the COMMIT of a transaction that used
 * quern_client_enqueue_tx (see quern/sqlite.h); without this call the workers poll once a second. A
 * failure costs no more than that second, so there is no status. NULL does nothing. */
QUERN_API void quern_client_wake(quern_client *client);

/* --- How structs grow: see quern/quern.h ------------------------------------------- */

QUERN_NODISCARD QUERN_API quern_status quern_client_open_sized(const char *url,
                                                               const quern_client_options *options,
                                                               size_t options_size,
                                                               quern_client **ret_client,
                                                               quern_error *err);
static inline quern_status quern_client_open(const char *url, const quern_client_options *options,
                                             quern_client **ret_client, quern_error *err)
{
    return quern_client_open_sized(url, options, sizeof(quern_client_options), ret_client, err);
}

QUERN_NODISCARD QUERN_API quern_status quern_client_enqueue_sized(quern_client *client,
                                                                  const quern_task *task,
                                                                  size_t task_size,
                                                                  quern_task_info **ret_info,
                                                                  quern_error *err);
static inline quern_status quern_client_enqueue(quern_client *client, const quern_task *task,
                                                quern_task_info **ret_info, quern_error *err)
{
    return quern_client_enqueue_sized(client, task, sizeof(quern_task), ret_info, err);
}

QUERN_NODISCARD QUERN_API quern_status
quern_client_enqueue_batch_sized(quern_client *client, const quern_task *tasks, size_t task_size,
                                 size_t count, quern_enqueue_result *results, quern_error *err);
static inline quern_status quern_client_enqueue_batch(quern_client *client, const quern_task *tasks,
                                                      size_t count, quern_enqueue_result *results,
                                                      quern_error *err)
{
    return quern_client_enqueue_batch_sized(client, tasks, sizeof(quern_task), count, results, err);
}

#ifdef __cplusplus
}
#endif
#endif
