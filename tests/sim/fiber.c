/* SPDX-License-Identifier: MIT */
/* fiber.c - ucontext to begin a fiber, setjmp and longjmp for all later switches, which need no
 * system call. AddressSanitizer is notified of each switch.
 *
 * Stacks are reused, because mapping one costs more than most simulated threads. */
#undef _FORTIFY_SOURCE /* its longjmp refuses to change to another stack */
#include "fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/assert.h"

#if defined(__SANITIZE_ADDRESS__)
#define SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_ASAN 1
#endif
#endif

enum { STACK_SIZE = 1 << 20, SPARE_MAX = 64 };

static void *spare[SPARE_MAX];
static size_t spare_count;
/* Whom the fiber that runs now was switched to from: its stack becomes known only then. */
static struct sim_fiber *came_from;

#ifdef SIM_ASAN

#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

static void begin_switch(struct sim_fiber *from, const struct sim_fiber *to, bool for_good)
{
    __sanitizer_start_switch_fiber(for_good ? NULL : &from->fake_stack, to->stack, to->stack_size);
    came_from = from;
}

static void end_switch(struct sim_fiber *self)
{
    const void *bottom = NULL;
    size_t size = 0;
    __sanitizer_finish_switch_fiber(self->fake_stack, &bottom, &size);
    if (came_from->stack == NULL) { /* that of the thread of the system */
        came_from->stack = bottom;
        came_from->stack_size = size;
    }
}

static void clean_stack(const void *stack)
{
    __asan_unpoison_memory_region(stack, STACK_SIZE);
}

#else

static void begin_switch(struct sim_fiber *from, const struct sim_fiber *to, bool for_good)
{
    (void)to;
    (void)for_good;
    came_from = from;
}

static void end_switch(struct sim_fiber *self)
{
    (void)self;
}

static void clean_stack(const void *stack)
{
    (void)stack;
}

#endif

void sim_fiber_adopt(struct sim_fiber *fiber)
{
    *fiber = (struct sim_fiber){.begun = true};
}

/* makecontext passes only ints. */
static void begin(unsigned int high, unsigned int low)
{
    struct sim_fiber *self =
        (struct sim_fiber *)(uintptr_t)((uint64_t)high << 32 | (uint64_t)low); /* NOLINT */
    end_switch(self);
    self->entry(self->user);
    QN_ASSERT(self == NULL); /* the entry must not return */
}

void sim_fiber_init(struct sim_fiber *fiber, void (*entry)(void *user), void *user)
{
    *fiber = (struct sim_fiber){.stack_size = STACK_SIZE, .entry = entry, .user = user};
    if (spare_count > 0) {
        fiber->own_stack = spare[--spare_count];
    } else {
        fiber->own_stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        QN_ASSERT(fiber->own_stack != MAP_FAILED);
    }
    fiber->stack = fiber->own_stack;
    int code = getcontext(&fiber->context);
    QN_ASSERT(code == 0);
    fiber->context.uc_stack.ss_sp = fiber->own_stack;
    fiber->context.uc_stack.ss_size = STACK_SIZE;
    uint64_t self = (uint64_t)(uintptr_t)fiber;
    makecontext(&fiber->context, (void (*)(void))begin, 2, (unsigned int)(self >> 32),
                (unsigned int)self);
}

static void enter(struct sim_fiber *to)
{
    if (to->begun) {
        _longjmp(to->place, 1);
    }
    to->begun = true;
    (void)setcontext(&to->context);
    QN_ASSERT(to == NULL); /* setcontext does not return */
}

void sim_fiber_switch(struct sim_fiber *from, struct sim_fiber *to)
{
    begin_switch(from, to, false);
    if (_setjmp(from->place) == 0) {
        enter(to);
    }
    end_switch(from);
}

void sim_fiber_leave(struct sim_fiber *from, struct sim_fiber *to)
{
    begin_switch(from, to, true);
    enter(to);
}

void sim_fiber_finish(struct sim_fiber *fiber)
{
    clean_stack(fiber->own_stack);
    if (spare_count < SPARE_MAX) {
        spare[spare_count++] = fiber->own_stack;
    } else {
        (void)munmap(fiber->own_stack, STACK_SIZE);
    }
    fiber->own_stack = NULL;
}
