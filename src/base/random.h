/* SPDX-License-Identifier: MIT */
/* random.h - random numbers as an object: seeded by the kernel, or by a test. Not for secrets.
 * One thread at a time. */
#ifndef QN_BASE_RANDOM_H
#define QN_BASE_RANDOM_H

#include <stdint.h>

struct qn_random {
    uint64_t state[4]; /* xoshiro256** by Blackman and Vigna */
};

void qn_random_init(struct qn_random *random);                     /* from the kernel */
void qn_random_init_seed(struct qn_random *random, uint64_t seed); /* the same row each time */
uint64_t qn_random_next(struct qn_random *random);
/* Uniform in 0 .. bound-1; bound must not be 0. */
uint64_t qn_random_below(struct qn_random *random, uint64_t bound);

#endif
