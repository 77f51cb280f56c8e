/* SPDX-License-Identifier: MIT */
/* driver.h - what the drivers in C share; README.md says what a driver is. */
#ifndef TESTS_BENCH_PEERS_DRIVER_H
#define TESTS_BENCH_PEERS_DRIVER_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAYLOAD_SIZE 100

static inline int64_t driver_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void driver_print_seconds(int64_t begin_ns)
{
    printf("%.6f\n", (double)(driver_now_ns() - begin_ns) / 1e9);
    (void)fflush(stdout);
}

/* The payload of a task of `send`: now, padded. */
static inline void driver_stamp(char payload[PAYLOAD_SIZE + 1])
{
    (void)snprintf(payload, PAYLOAD_SIZE + 1, "%-*" PRId64, PAYLOAD_SIZE, driver_now_ns());
}

/* Tells how long ago that was. */
static inline void driver_echo(const void *payload, size_t size)
{
    char text[PAYLOAD_SIZE + 1] = "";
    memcpy(text, payload, size < PAYLOAD_SIZE ? size : PAYLOAD_SIZE);
    printf("%lld\n", (long long)driver_now_ns() - strtoll(text, NULL, 10));
    (void)fflush(stdout);
}

static inline void driver_die(const char *what)
{
    (void)fprintf(stderr, "%s\n", what);
    exit(1);
}

static inline const char *driver_environment(const char *name)
{
    const char *value = getenv(name);
    if (value == NULL) {
        driver_die(name);
    }
    return value;
}

#endif
