/* SPDX-License-Identifier: MIT */
/* prefork.h - a pool of child processes; the worker's side.
 *
 * It knows no tasks: an item is bytes to send to a child, and bytes that come back. One thread of
 * the pool serves all children by epoll. A child is hostile: each of its frames is checked for its
 * length and for an item that it really has. What does not fit kills the child, and costs the item
 * that it ran.
 *
 * A child has a window of items: the first one runs, the others wait in the child, so that it need
 * not wait for us after each short one. Whether an item has started is decided in the page that
 * both share (page.h), by compare and exchange: so an item can be taken back, and a death is
 * charged to the one that really ran, or to none. A result is sent before the next item starts.
 *
 * Locks: callers may hold the worker's mutex in all functions; the pool calls its ops with no lock
 * held. */
#ifndef QN_POOL_PREFORK_PREFORK_H
#define QN_POOL_PREFORK_PREFORK_H

#include "base/memory/list.h"
#include "base/text/buf.h"
#include "pool/pool.h"
#include "pool/prefork/zygote.h"

struct qn_prefork;
struct qn_prefork_child;

/* 0: none. Each is set in the child before the item starts, and reset after it. */
struct qn_prefork_limits {
    uint64_t address_space_bytes; /* RLIMIT_AS, soft */
    uint64_t cpu_ms;              /* RLIMIT_CPU, soft, rounded up to seconds: SIGXCPU; a second
                                   * later it is killed */
};

/* Embedded in the worker's run. */
struct qn_prefork_item {
    struct qn_list node; /* the pool's */
    struct qn_prefork_limits limits;
    bool is_short; /* may wait in the window of a child that runs another one */
    /* The pool's own. */
    struct qn_prefork_child *child;
    uint64_t sequence;
    uint32_t slot;
    bool is_killed; /* while it was on its way to a child */
};

/* Why a child ended. */
struct qn_prefork_death {
    int status;            /* as of waitpid */
    bool by_us;            /* the pool or its caller killed it: a hard limit, hostility, the end */
    bool with_zygote;      /* it went down with its zygote: the facts below are not known */
    bool with_pool;        /* with the newest zygote: `gone` follows, or was called */
    bool out_of_memory;    /* killed by the kernel for want of memory, as a cgroup shows */
    bool over_cpu;         /* by SIGXCPU, or killed after it */
    const char *hostile;   /* what it sent that it may not; NULL: nothing */
    struct rusage usage;   /* of its whole life */
    const char *backtrace; /* written by its signal handler; "": none; valid UTF-8 */
    const char *stderr_text; /* the end of its stderr; "": nothing */
};

/* Called on the pool's thread, without locks. */
struct qn_prefork_ops {
    /* The pool is made, and none of the others was called yet; a child that was passed on may send
     * next. NULL if qn_prefork_new fails after that. The op itself may be NULL. */
    void (*made)(struct qn_prefork *prefork, void *user);
    /* The item is about to start. False: it must not, and the pool forgets it. has_started: a child
     * has begun it already (it waited in the window), so it cannot be refused. */
    bool (*begin)(struct qn_prefork_item *item, bool has_started, void *user);
    /* Before it is sent: appends the bytes for the child, and points to more of them that live
     * until the item has ended. False: out of memory; the item is given back by `died` with
     * started = false. */
    bool (*encode)(struct qn_prefork_item *item, struct qn_buf *out, struct qn_bytes *ret_more,
                   void *user);
    /* A frame about the item that runs. kind: QN_PREFORK_KIND_FIRST or more. False: it breaks the
     * rules, the child is killed. */
    bool (*frame)(struct qn_prefork_item *item, uint16_t kind, struct qn_bytes body, void *user);
    /* The item has ended with this result, and the pool forgets it. False as in frame (then `died`
     * follows). */
    bool (*result)(struct qn_prefork_item *item, struct qn_bytes body, void *user);
    /* Its child ended before its result. Not started: it may be submitted again. */
    void (*died)(struct qn_prefork_item *item, bool started, const struct qn_prefork_death *death,
                 void *user);
    /* The newest zygote is gone: the pool has called `died` for all items, those of its children
     * first, and takes no more. An older one that is gone costs the items of its children only. */
    void (*gone)(const char *why, void *user);
    /* So many children can run items now; called when that changes. NULL: nothing. */
    void (*ready)(uint32_t count, void *user);
    /* A child could not be made (pid 0), or ended before it was ready. NULL: it goes to the log. */
    void (*failed)(pid_t pid, const char *why, void *user);
    /* For the log: a child started, ended, or was refused. Words never change, as in base/log.h. */
    void (*log)(int level, const char *message, pid_t pid, const char *detail, void *user);
};
#define QN_PREFORK_KIND_FIRST 64

struct qn_prefork_options {
    uint32_t size;           /* children */
    uint32_t window;         /* items per child at a time, 1 to 4 */
    uint32_t child_runs_max; /* then it is replaced; 0: never */
    uint64_t child_rss_max;  /* bytes of resident memory after an item; 0: any */
    uint64_t frame_size_max; /* of a frame from a child */
    size_t stderr_size_max;  /* last bytes kept for `died`; all is copied to our stderr, too */
    int64_t kill_after_ms;   /* from TERM to KILL of its group */
    struct qn_zygote_limits limits;               /* of each child from its start */
    const struct qn_prefork_passed_on *passed_on; /* NULL: nothing */
    void *user;                                   /* given to the ops */
};

/* What a pool of the program before this one has left, see qn_prefork_pass_on. Its children with
 * items go on as those of an old zygote do after a reload. */
struct qn_prefork_passed_on {
    struct qn_bytes state;
    /* The item that had this key; NULL: there is none, which is an error. */
    struct qn_prefork_item *(*find)(uint64_t key, void *user);
    void *user;
};

/* Starts its children at once. The zygote is the pool's if it succeeds. */
QUERN_NODISCARD quern_status qn_prefork_new(struct qn_zygote *zygote,
                                            const struct qn_prefork_options *options,
                                            const struct qn_prefork_ops *ops,
                                            struct qn_prefork **ret_prefork, quern_error *err);
/* Appends items (a list of node) and empties the list. Any thread. */
void qn_prefork_submit(struct qn_prefork *prefork, struct qn_list *take_items);
/* Takes an item back that no child has started; false: too late. Any thread. */
bool qn_prefork_take_back(struct qn_prefork *prefork, struct qn_prefork_item *item);
/* Sends a frame to the child that runs this item, e.g. an answer; nothing if it has ended. Any
 * thread. */
void qn_prefork_send(struct qn_prefork *prefork, struct qn_prefork_item *item, uint16_t kind,
                     struct qn_bytes body);
/* Soft: the item sees `reason` (not 0) and its cancel descriptor, and the child gets SIGUSR1. */
void qn_prefork_cancel(struct qn_prefork *prefork, struct qn_prefork_item *item, uint32_t reason);
/* Hard: TERM to its group, after kill_after_ms KILL (0: at once); `died` follows. */
void qn_prefork_kill(struct qn_prefork *prefork, struct qn_prefork_item *item,
                     int64_t kill_after_ms);
/* Uses this zygote for new children: those of the old one end after what they have, and then it is
 * freed. Any thread. */
void qn_prefork_reload(struct qn_prefork *prefork, struct qn_zygote *take_zygote);
/* From now on it has so many children, at least one: those that are too many end, the idle ones
 * first, the others after the item that they run. Any thread. */
void qn_prefork_resize(struct qn_prefork *prefork, uint32_t size);
/* Its thread ends; children run on, and what they send waits. No other thread may free it
 * meanwhile. */
void qn_prefork_freeze(struct qn_prefork *prefork);
/* Its thread goes on. On failure it stays frozen. */
QUERN_NODISCARD quern_status qn_prefork_thaw(struct qn_prefork *prefork, quern_error *err);
/* Of a frozen pool: appends to `out` what the pool of the next program of this process needs to
 * know of zygotes and of children with items, and to `fds` the descriptors (as int) that it must
 * find open. key: finds an item again. Items that have not started are not part of it. False: out
 * of memory. */
QUERN_NODISCARD bool qn_prefork_describe(struct qn_prefork *prefork, struct qn_buf *out,
                                         struct qn_buf *fds,
                                         uint64_t (*key)(const struct qn_prefork_item *item));
/* Frees a frozen pool that was described, and ends none of what it has described. */
void qn_prefork_pass_on(struct qn_prefork *prefork);
void qn_prefork_count(struct qn_prefork *prefork, struct qn_pool_counts *ret_counts);
/* Kills what is left and frees all, also the zygote. No item may be submitted. */
void qn_prefork_free(struct qn_prefork *prefork);

#endif
