/* SPDX-License-Identifier: MIT */
/* limits.h - the limits that more than one file needs, with their reasons. To add one: see
 * CONTRIBUTING.md. */
#ifndef QN_TASK_LIMITS_H
#define QN_TASK_LIMITS_H

#include <stdint.h>

#define QN_NAME_SIZE_MAX 256 /* type, queue, id, group: they become parts of keys and paths */
#define QN_SERVED_NAME_SIZE_MAX 4096 /* a queue that others made, and that a worker serves */
#define QN_COMMAND_SIZE_MAX 128      /* one to a worker, with its NUL: 92 are needed */
#define QN_CRON_SIZE_MAX 1024        /* a cron expression: all sixty minutes listed are 170 */
#define QN_HEADER_COUNT_MAX 64
#define QN_HEADER_VALUE_SIZE_MAX 8192
#define QN_PAYLOAD_SIZE_MAX ((size_t)32 << 20)    /* default; 512 MiB is Redis's own limit */
#define QN_PAYLOAD_SIZE_LIMIT ((size_t)512 << 20) /* of payload_size_max, and of a result */
#define QN_ERROR_TEXT_SIZE_MAX 4096 /* of a failed run: enough for the last lines of stderr */
#define QN_NOTE_SIZE_MAX 256
#define QN_MEMORY_MAX_MIN (INT64_C(1) << 20) /* of the address space of a run: a typing error */
#define QN_BATCH_MAX 128    /* tasks in one transaction or script: 0.6 ms of Redis */
#define QN_ENQUEUE_MAX 1024 /* tasks of one enqueue, where it may be several batches: 5 ms */
#define QN_EXCHANGES_MAX 2  /* of a worker at a time: one is in flight while the broker does one */
#define QN_BATCH_WORTH 64   /* enough for an exchange beside the one in flight */
#define QN_KILL_AFTER_MS 1000                /* from SIGTERM to SIGKILL of a prefork child */
#define QN_BATCH_BYTES_MAX ((size_t)8 << 20) /* of payload in one batch; one task may exceed it */
#define QN_CONCURRENCY_MAX 4096
/* At most this many threads whose handlers ignore their cancellation are replaced. */
#define QN_REPLACED_MAX(slots) ((slots) < 8 ? 1 : (slots) / 4)
#define QN_QUEUES_MAX 256 /* of one worker */
#define QN_WEIGHT_MAX 10000
#define QN_LEASE_MS 30000 /* as asynq */
#define QN_LEASE_MS_MIN 1000
/* Deaths of processes: src/task/deaths.h. */
#define QN_POISON_CHARGES 3 /* this many charges, this many of them alone: poison */
#define QN_POISON_LONE 2
#define QN_CHARGE_WINDOW_MS (72 * 3600 * INT64_C(1000)) /* then charges are forgotten */
#define QN_CHARGED_WAIT_MS 2000 /* how long a task waits that was charged twice or more */
#define QN_HEARTBEAT_MS 5000    /* the interval of a worker's heartbeats */
#define QN_ALONE_CHARGES 4   /* a task charged so often runs alone; before that in less company */
#define QN_SOLO_MS 60000     /* a worker that is silent for this long has lost the solo lock */
#define QN_SOLO_DEATH_MS 250 /* the queue rests so much longer where a solo run died */
#define QN_BRAKE_DEATHS 10   /* in a row on one host, with no other end between: a broken deploy */
#define QN_BRAKE_MS_MIN 1000
#define QN_BRAKE_MS_MAX 60000
#define QN_BRAKE_EVEN_PROBES 20    /* wait QN_BRAKE_MS_MIN each; each later one twice as long */
#define QN_OK_NOTE_MS 1000         /* that a run ended well is written at most so often */
#define QN_TAKE_BACK_MS 100        /* a leased run that has not started is taken back after this */
#define QN_PREFETCH_MAX 64         /* fewer waste round trips, more keep tasks from other workers */
#define QN_PREFETCH_SAMPLES_MIN 32 /* measured runs of a type before any is prefetched */
#define QN_PREFETCH_MEAN_NS_MAX INT64_C(10000000) /* slower types are not prefetched */
#define QN_PREFETCH_DEEP 3 /* times as many, at least QN_PREFETCH_MAX, where that is soon over */
#define QN_PREFETCH_DEEP_NS INT64_C(5000000) /* soon: one after the other, within this time */
#define QN_ARCHIVE_SIZE_MAX 10000            /* per queue, as asynq */
#define QN_ARCHIVE_AGE_MS (90 * 24 * 3600 * INT64_C(1000))
#define QN_PRUNE_BATCH_MAX 500                  /* rows deleted in one step */
#define QN_BULK_MAX 500                         /* tasks that an operator changes in one step */
#define QN_TRASH_MS (24 * 3600 * INT64_C(1000)) /* how long a deleted task can be restored */
#define QN_TRASH_SIZE_MAX 250000                /* tasks of a queue; then nothing more is deleted */
#define QN_TRASH_BYTES_MAX (INT64_C(256) << 20) /* of them: the trash must not fill a server */
#define QN_TRASH_TASK_BYTES 512                 /* what a task takes beside its data, roughly */
#define QN_HISTORY_DAYS 90
#define QN_SAFETY_NET_MS 1000 /* the longest sleep without looking */

/* Priorities are from -this to this. On SQLite a task of priority p stands p * QN_PRIORITY_STEP
 * before its number in its queue: that is more numbers than a counter gives in 89 years at 100 000
 * a second, and few enough that no sum with a number up to 2^62 overflows. */
#define QN_PRIORITY_MAX 100
#define QN_PRIORITY_STEP (INT64_C(1) << 48)

#endif
