/* SPDX-License-Identifier: MIT */
/* lib_limits.h - the steps of the contract tests of limits. All on the queue "default" unless they
 * name another. A broker without limits skips the tests. */
#ifndef TESTS_CONTRACT_LIMIT_LIB_LIMITS_H
#define TESTS_CONTRACT_LIMIT_LIB_LIMITS_H

#include "lib_contract.h"

/* The first step of each test. */
void limits_begin(struct contract *c);
/* text as qn_limit_parse reads it. */
void limits_set(struct contract *c, quern_limit_scope scope, const char *name, const char *text);
void limits_remove(struct contract *c, quern_limit_scope scope, const char *name);
/* Stores a task with this id; type NULL: "t"; key NULL: none. */
void limits_put(struct contract *c, const char *id, const char *type, const char *key);
/* Leases up to `room` and asserts that the ids are these, in this order: "a b c". */
void limits_lease(struct contract *c, uint32_t room, const char *ids);
/* The run of this task that limits_lease returned; ends it as done. */
void limits_done(struct contract *c, const char *id);
void limits_end(struct contract *c, const char *id, enum qn_outcome_kind kind);
/* The same for a run that has not started. */
void limits_give_back(struct contract *c, const char *id);
/* What the list of limits reports as used. */
int64_t limits_used(struct contract *c, quern_limit_scope scope, const char *name, bool rate);
/* Frees what a test has not ended. The last step of each. */
void limits_finish(void);

#endif
