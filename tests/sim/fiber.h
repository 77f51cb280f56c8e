/* SPDX-License-Identifier: MIT */
/* fiber.h - stacks between which one thread of the system switches. */
#ifndef TESTS_SIM_FIBER_H
#define TESTS_SIM_FIBER_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <ucontext.h>

struct sim_fiber {
    ucontext_t context; /* how it begins */
    jmp_buf place;      /* where it goes on */
    bool begun;
    const void *stack; /* NULL: not yet known */
    void *own_stack;   /* NULL: it has that of the thread of the system */
    size_t stack_size;
    void *fake_stack; /* of AddressSanitizer, while it does not run */
    void (*entry)(void *user);
    void *user;
};

/* The fiber that calls it first; it has a stack already. */
void sim_fiber_adopt(struct sim_fiber *fiber);
/* A fiber that begins with entry(user) when it is first switched to. The entry must not return: its
 * last act is sim_fiber_leave. */
void sim_fiber_init(struct sim_fiber *fiber, void (*entry)(void *user), void *user);
/* Continues with `to`; returns at a switch back to `from`. */
void sim_fiber_switch(struct sim_fiber *from, struct sim_fiber *to);
/* The same, for good. */
void sim_fiber_leave(struct sim_fiber *from, struct sim_fiber *to);
/* Its stack can be used for another one. Only of a fiber that has left. */
void sim_fiber_finish(struct sim_fiber *fiber);

#endif
