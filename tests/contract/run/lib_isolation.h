/* SPDX-License-Identifier: MIT */
/* lib_isolation.h - charged tasks, and leases of a worker that reports its runs. */
#ifndef TEST_CONTRACT_LIB_ISOLATION_H
#define TEST_CONTRACT_LIB_ISOLATION_H

#include "lib_contract.h"

#define SLOTS 8 /* of the worker; so 4, 2 and 1 */
#define SOLO 3  /* with this many charges a task runs alone there */

struct isolation_want {
    const char *queue; /* NULL: "default" */
    uint32_t room;
    uint32_t started; /* 0: as many as room */
    uint32_t slots;   /* 0: SLOTS */
    uint32_t held[QN_ALONE_CHARGES - 1];
    const char *worker_id; /* NULL: CONTRACT_WORKER */
    enum qn_solo solo;
};

struct isolation_got {
    struct qn_leased *runs[QN_BATCH_MAX];
    size_t count;
    bool locked; /* the solo lock is the worker's */
};

struct isolation_got isolation_lease(struct contract *c, const struct isolation_want *want);
void isolation_give_back(struct contract *c, const struct isolation_got *got);
void isolation_assert_runs(const struct isolation_got *got, const char *const *ids, size_t count);
/* Leaves tasks "PREFIX0000".. pending with this many charges, by workers that died with all of them
 * and "mate", so that no death is a lone one. */
void isolation_charge(struct contract *c, const char *queue, const char *prefix, size_t count,
                      int64_t charges);
/* Ends the runs as crashes of their commands, and waits until their tasks are pending again. */
void isolation_crash(struct contract *c, const struct isolation_got *got);

#endif
