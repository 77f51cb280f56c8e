/* SPDX-License-Identifier: MIT */
/* lib_group.h - short helpers for tests of groups: all tasks are in the queue "default". */
#ifndef TESTS_CONTRACT_LIB_GROUP_H
#define TESTS_CONTRACT_LIB_GROUP_H

#include "lib_contract.h"

#include "broker/group.h"

/* What a worker aggregates. */
struct group_worker {
    struct qn_group_settings settings;
    const char *only;  /* this group; NULL: all */
    size_t look_count; /* out: groups that it was asked about */
    size_t call_count; /* out: of qn_broker_aggregate */
    size_t unusable_count;
    char unusable[CONTRACT_TEXT_SIZE]; /* the last id */
    int64_t next_ms;                   /* out: the earliest of all calls */
    bool waiting;
    struct qn_group_cursor cursor;
    const char *id;        /* NULL: CONTRACT_WORKER */
    struct qn_broker *via; /* NULL: that of the contract */
};

/* Due at once. */
extern const struct qn_group_settings group_now;

void group_put(struct contract *c, const char *group, const char *id);
/* count tasks "PREFIX0000", ... */
void group_put_many(struct contract *c, const char *group, const char *prefix, size_t count);
/* The next set of the round, or NULL at its end. */
struct qn_group_set *group_take(struct contract *c, struct group_worker *worker);
/* A set of any group whose tasks have waited for a while; there must be one. */
struct qn_group_set *group_take_now(struct contract *c);
/* Stores a task of this id, made of the set; NULL: none. Each time with a new stamp. */
quern_status group_finish(struct contract *c, const struct qn_group_set *set, const char *id);
quern_status group_return(struct contract *c, const struct qn_group_set *set);
bool group_extend(struct contract *c, const struct qn_group_set *set);
size_t group_reclaim(struct contract *c, size_t limit);
/* The ids of the members, with spaces between. */
const char *group_ids(const struct qn_group_set *set);
/* A finish with this stamp, queue "default". */
quern_status group_finish_as(struct contract *c, const struct qn_finish_set *finish);

#endif
