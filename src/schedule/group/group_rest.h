/* SPDX-License-Identifier: MIT */
/* group_rest.h - the groups whose aggregator failed, and how long each rests. No I/O. */
#ifndef QN_SCHEDULE_GROUP_GROUP_REST_H
#define QN_SCHEDULE_GROUP_GROUP_REST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QN_GROUP_RESTS_MAX 1024
#define QN_GROUP_REST_MS_MIN 1000
#define QN_GROUP_REST_MS_MAX 60000

/* Zeroed it is empty. One thread at a time. A group is known by the hash of its name and of its
 * queue: two that share one would rest together. */
struct qn_group_rests {
    size_t count;
    struct qn_group_rest {
        uint64_t group;
        uint32_t failures; /* in a row */
        int64_t until_mono_ns;
    } items[QN_GROUP_RESTS_MAX];
};

/* A failure: the group rests twice as long as before. Returns for how many ms. Without room, the
 * group whose rest ends first is forgotten. */
int64_t qn_group_rests_fail(struct qn_group_rests *rests, const char *queue, const char *group,
                            int64_t now_mono_ns);
/* It did not fail: the next failure is the first again. */
void qn_group_rests_forget(struct qn_group_rests *rests, const char *queue, const char *group);
/* Until when it rests; 0: it does not. */
int64_t qn_group_rests_until(const struct qn_group_rests *rests, const char *queue,
                             const char *group, int64_t now_mono_ns);

#endif
