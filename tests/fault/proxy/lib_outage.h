/* SPDX-License-Identifier: MIT */
/* lib_outage.h - workers and clients in processes of their own, which go on enqueueing and running
 * while a test takes the broker away from them: how much CPU they need meanwhile, how soon tasks
 * run again afterwards, and what became of each task. */
#ifndef TESTS_FAULT_PROXY_LIB_OUTAGE_H
#define TESTS_FAULT_PROXY_LIB_OUTAGE_H

#include "lib_fault.h"

#define OUTAGE_PAIRS_MAX 4

/* A worker and a client that use the broker in the same way. */
struct outage_pair {
    struct test_child worker;
    struct test_child client;
    char fates[300];       /* a file with a byte for each task of the client */
    int64_t worker_cpu_ms; /* when the measuring began */
    int64_t client_cpu_ms;
};

struct outage {
    struct fault_site *site;
    struct outage_pair pairs[OUTAGE_PAIRS_MAX];
    size_t count;
    int64_t measured_from_ms;
};

/* The roles of a program with such a test. */
int outage_client(int argc, char **argv);
#define OUTAGE_ROLES                                                                               \
    {                                                                                              \
        {.name = "worker", .main = fault_worker}, {.name = "client", .main = outage_client},       \
    }

/* Starts one more pair on this URL, and waits until a task of its client has run. */
void outage_add(struct outage *outage, const char *url);
/* Begins to measure their CPU. */
void outage_measure(struct outage *outage);
/* Prints and returns the largest part of a CPU, of 1 000, that a process has needed since. */
int64_t outage_cpu_permille(const struct outage *outage);
/* Waits until the worker of this pair (from 0) has started a task after the moment (monotonic);
 * prints and returns how long after it that was. */
int64_t outage_flows_ms(const struct outage *outage, size_t pair, int64_t since_ms);
/* Ends the clients, waits until all that they stored has run, ends the workers, and asserts that
 * nothing is lost, that what was reported as failed has not run, and that each extra run has a
 * cause. */
void outage_end(struct outage *outage);

#endif
