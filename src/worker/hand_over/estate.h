/* SPDX-License-Identifier: MIT */
/* estate.h - what a worker leaves to the program that replaces its own by execve, in a memfd.
 *
 * First the descriptors that must stay open, then the worker and its runs, then the pool of
 * children. Numbers are in the order of this machine. */
#ifndef QN_WORKER_HAND_OVER_ESTATE_H
#define QN_WORKER_HAND_OVER_ESTATE_H

#include <stdbool.h>

#include "base/memory/view.h"
#include "quern/status.h"
#include "worker/prefork/bytes.h"
#include "worker/run/run.h"

struct quern_worker;

/* Changes whenever bytes here or in pool/prefork/inside/pass_on.c do. A program is only executed
 * that says it reads this one. */
#define QN_ESTATE_VERSION 1

struct qn_estate {
    char *data; /* owned */
    size_t size;
    struct qn_bytes body; /* of the worker and its pool */
};

/* Makes the memfd; *ret_fd is the caller's. fds: descriptors, as int. */
QUERN_NODISCARD quern_status qn_estate_write(struct qn_bytes fds, struct qn_bytes body, int *ret_fd,
                                             quern_error *err);
/* Reads it, and makes its descriptors close at the next execve, as all others of a worker do.
 * QUERN_E_UNSUPPORTED: of another version. */
QUERN_NODISCARD quern_status qn_estate_read(int fd, struct qn_estate *ret_estate, quern_error *err);
void qn_estate_finish(struct qn_estate *estate);
/* Whether the memfd and its descriptors stay open at an execve. */
QUERN_NODISCARD bool qn_estate_keep_open(int fd, bool open);

/* A run, with all that its outcome will need. */
void qn_estate_put_run(struct qn_writer *writer, const struct quern_run *run);
/* The same as a run of this worker, waiting; NULL: it cannot be read, or memory is out. */
struct quern_run *qn_estate_get_run(struct qn_reader *reader, struct quern_worker *worker);

#endif
