/* SPDX-License-Identifier: MIT */
/* lib_unique.h - unique tasks in contract tests. */
#ifndef TESTS_CONTRACT_LIB_UNIQUE_H
#define TESTS_CONTRACT_LIB_UNIQUE_H

#include "lib_contract.h"

#define UNIQUE_HOUR_MS INT64_C(3600000)
#define UNIQUE_BATCH 100

/* With the key "k", the payload "old" and a lock of an hour. */
extern const quern_task unique_keyed;

struct unique_answer {
    quern_status status;
    char holder[QN_NAME_SIZE_MAX + 1]; /* "": none */
};

/* Stores tasks in one batch. */
void unique_store(struct contract *c, struct qn_stamp stamp, const quern_task *tasks, size_t count,
                  struct unique_answer *answers);
struct unique_answer unique_try(struct contract *c, const quern_task *task);
/* A task that is equal to unique_keyed, with the payload "new" and this policy. */
struct unique_answer unique_try_policy(struct contract *c, const char *id, int32_t policy);
/* unique_keyed once more. */
quern_status unique_again(struct contract *c);
void unique_assert(struct unique_answer answer, quern_status status, const char *holder);
/* unique_keyed as "holder". */
void unique_put_holder(struct contract *c, int32_t until);
/* The next run is of this task, has these three bytes, and is done then. */
void unique_assert_payload(struct contract *c, const char *id, const char *payload);

#endif
