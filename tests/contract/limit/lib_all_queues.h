/* SPDX-License-Identifier: MIT */
/* lib_all_queues.h - the steps of the contract tests of limits of all queues together. */
#ifndef TESTS_CONTRACT_LIMIT_LIB_ALL_QUEUES_H
#define TESTS_CONTRACT_LIMIT_LIB_ALL_QUEUES_H

#include "broker/limit/limit.h"
#include "lib_contract.h"

/* Of all queues. */
void all_set(struct contract *c, quern_limit_scope scope, const char *name, const char *text);
quern_status all_remove(struct contract *c, quern_limit_scope scope, const char *name);
/* key NULL: none. */
void all_put(struct contract *c, const char *queue, const char *id, const char *type,
             const char *key);
/* Leases up to 8 of the queue and asserts that the ids are these, in this order: "a b". */
size_t all_lease(struct contract *c, const char *queue, struct qn_leased **runs, const char *ids);
void all_done(struct contract *c, struct qn_leased *run);
/* queue: NULL: all there are. lines: "queue/scope/name used/count;". */
void all_assert_listed(struct contract *c, const char *queue, const char *lines);
/* The limit that is set allows one run with the key "k": it ends in the queue "default", and a
 * worker that sleeps on "other" takes the next one soon. */
void all_assert_end_is_noticed(struct contract *c);

#endif
