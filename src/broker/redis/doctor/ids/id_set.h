/* SPDX-License-Identifier: MIT */
/* id_set.h - hashes of ids, 8 bytes each: the ids that a queue listed while it was checked. */
#ifndef QN_BROKER_REDIS_DOCTOR_IDS_ID_SET_H
#define QN_BROKER_REDIS_DOCTOR_IDS_ID_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quern/status.h"

struct qn_id_set {
    uint64_t *items;
    size_t count;
    size_t capacity;
};

QUERN_NODISCARD bool qn_id_set_add(struct qn_id_set *set, const char *id, size_t size);
void qn_id_set_sort(struct qn_id_set *set);
/* Sorted before. */
bool qn_id_set_has(const struct qn_id_set *set, const char *id, size_t size);
/* Sorted before: those that are in it several times, sorted. False: memory is out. */
QUERN_NODISCARD bool qn_id_set_twins(const struct qn_id_set *set, struct qn_id_set *ret_twins);
void qn_id_set_finish(struct qn_id_set *set);

#endif
