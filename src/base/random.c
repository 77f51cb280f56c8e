/* SPDX-License-Identifier: MIT */
/* random.c - xoshiro256**, an algorithm that Blackman and Vigna gave to the public domain.
 *
 * The kernel seeds it. Where the kernel refuses (a sandbox), clocks and addresses do: these numbers
 * spread retries and queues, they protect nothing, so a weak seed is better than a failure. */
#include "base/random.h"

#include <stdbool.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"

static uint64_t rotate_left(uint64_t value, int bits)
{
    return (value << bits) | (value >> (64 - bits));
}

/* splitmix64: turns any seed, also a poor one, into a well mixed state that is never all zero. */
static uint64_t mix(uint64_t *seed)
{
    *seed += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *seed;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void qn_random_init_seed(struct qn_random *random, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        random->state[i] = mix(&seed);
    }
}

void qn_random_init(struct qn_random *random)
{
    ssize_t size = getrandom(random->state, sizeof random->state, 0);
    bool seeded = size == (ssize_t)sizeof random->state &&
                  (random->state[0] | random->state[1] | random->state[2] | random->state[3]) != 0;
    if (!seeded) {
        uint64_t seed = (uint64_t)qn_clock_mono_ns() ^ ((uint64_t)getpid() << 40) ^
                        (uint64_t)qn_clock_wall_ms(qn_clock_system()) ^ (uint64_t)(uintptr_t)random;
        qn_random_init_seed(random, seed);
    }
}

uint64_t qn_random_next(struct qn_random *random)
{
    uint64_t *s = random->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t qn_random_below(struct qn_random *random, uint64_t bound)
{
    QN_ASSERT(bound > 0);
    /* 2^64 mod bound: numbers below it would make the small remainders more likely. */
    uint64_t rest = (UINT64_MAX - bound + 1) % bound;
    uint64_t number = qn_random_next(random);
    while (number < rest) {
        number = qn_random_next(random);
    }
    return number % bound;
}
