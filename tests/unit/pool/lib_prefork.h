/* SPDX-License-Identifier: MIT */
/* lib_prefork.h - a pool of children whose items are texts: the first letter says what the child
 * does, and all that happens to an item is recorded. */
#ifndef TESTS_UNIT_POOL_LIB_PREFORK_H
#define TESTS_UNIT_POOL_LIB_PREFORK_H

#include <pthread.h>

#include "pool/prefork/child.h"
#include "pool/prefork/prefork.h"

/* What the children of lib_prefork_start do with an item, by its first letter:
 *   e echo the rest      w wait for a byte in the fifo named by the rest, then echo
 *   p echo the own pid   z the size of the rest, in digits   Z as many bytes as the rest says
 *   a send frame 64 with the rest, wait for frame 65, echo it
 *   c wait until cancelled, by the descriptor; echo the reason
 *   k fork a grandchild that ignores TERM, ignore TERM, send frame 64 with its pid, wait
 *   and the deaths: see test_prefork_deaths.c and test_prefork_hostile.c, which add their own. */
typedef void lib_prefork_act_fn(struct qn_prefork_call *call, struct qn_bytes body,
                                struct qn_buf *out);

struct lib_prefork_item {
    struct qn_prefork_item item;
    char text[256];
    const char *more; /* sent behind the text */
    size_t more_size;
    int encoded; /* calls of encode: it has a place in a window */
    int begun;   /* 1: refusable, 2: it had started */
    int results; /* calls of result */
    int deaths;  /* calls of died */
    int frames;
    bool started; /* as died said */
    bool by_us;
    bool with_zygote;
    bool with_pool;
    bool over_cpu;
    int status;
    uint64_t order; /* of its result */
    size_t result_size;
    char result[256]; /* its beginning */
    char frame[256];
    char backtrace[1024];
    char stderr_text[256];
    char hostile[128];
};

struct lib_prefork {
    struct qn_prefork *prefork;
    struct qn_zygote *zygote;
    struct qn_prefork_options options;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t results;
    uint64_t deaths;
    int gone;
    int ended;  /* children, as the log says */
    int warned; /* see lib_prefork_warned */
    int begun;  /* calls of begin */
    bool holds; /* begin waits until it is false */
    bool refuse_begin;
    bool free_refused; /* they were made by malloc */
    bool refuse_result;
};

/* Fills the options with usable values, which the test may change before it starts. */
void lib_prefork_init(struct lib_prefork *fixture);
/* act: NULL, or what is done for letters that are unknown here. */
void lib_prefork_start(struct lib_prefork *fixture, lib_prefork_act_fn *act);
/* A zygote whose children do so, for a reload; the same `act` in all of a program. */
struct qn_zygote *lib_prefork_zygote(lib_prefork_act_fn *act);
/* Makes all zygotes of a program, as the first call of the others does: TSan has a thread of its
 * own as soon as there was any. */
enum { LIB_PREFORK_ZYGOTES = 32 };
void lib_prefork_prepare(lib_prefork_act_fn *act);
void lib_prefork_stop(struct lib_prefork *fixture);
void lib_prefork_submit(struct lib_prefork *fixture, struct lib_prefork_item *item,
                        const char *text);
/* Waits for the end of an item; true: by a result. */
bool lib_prefork_wait(struct lib_prefork *fixture, struct lib_prefork_item *item);
/* Until it has begun, or had a frame. */
void lib_prefork_wait_begun(struct lib_prefork *fixture, struct lib_prefork_item *item);
void lib_prefork_wait_encoded(struct lib_prefork *fixture, struct lib_prefork_item *item);
void lib_prefork_wait_frame(struct lib_prefork *fixture, struct lib_prefork_item *item);
/* Lets `begin` go on. */
void lib_prefork_release(struct lib_prefork *fixture);
/* Until `begin` has refused so many; then it refuses no more. */
void lib_prefork_wait_refused(struct lib_prefork *fixture, int count);
int lib_prefork_warned(struct lib_prefork *fixture); /* warnings so far */
/* Until the log has said of so many children that they ended. */
void lib_prefork_wait_ended(struct lib_prefork *fixture, int count);
void lib_prefork_wait_gone(struct lib_prefork *fixture);
/* Submits a text and waits for its end. */
void lib_prefork_run(struct lib_prefork *fixture, struct lib_prefork_item *item, const char *text);

#endif
