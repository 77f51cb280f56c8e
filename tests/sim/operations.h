/* SPDX-License-Identifier: MIT */
/* operations.h - what goes wrong between a program and its broker. */
#ifndef TESTS_SIM_OPERATIONS_H
#define TESTS_SIM_OPERATIONS_H

/* How often, in 1000 operations. All 0: never. */
struct sim_faults {
    int refused; /* it fails, and changes nothing */
    int lost;    /* it takes effect, and its answer is lost */
    int slow;    /* it takes up to slow_ms, before or after its effect */
    int slow_ms;
    int dies_before; /* the program ends before it takes effect */
    int dies_after;  /* the same after that */
};
extern struct sim_faults sim_faults;
/* How often each fault came to each operation, in all seeds together. */
void sim_faults_print(void);
/* An operation that a fault never came to, and which; NULL: there is none. */
const char *sim_faults_missing(void);

#endif
