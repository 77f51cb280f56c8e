/* SPDX-License-Identifier: MIT */
/* state.h - the state of a pool of children, for its own files.
 *
 * One thread, the pool's, reads from children and zygotes and calls the ops; only it adds items to
 * windows, and removes those that have ended. Other threads take items back out of windows, kill,
 * cancel and send. All fields but those marked are guarded by the mutex. */
#ifndef QN_POOL_PREFORK_INSIDE_STATE_H
#define QN_POOL_PREFORK_INSIDE_STATE_H

#include <pthread.h>

#include "pool/prefork/frame.h"
#include "pool/prefork/inside/send.h"
#include "pool/prefork/inside/tail.h"
#include "pool/prefork/page.h"
#include "pool/prefork/prefork.h"

/* Where an event of epoll comes from. */
enum qn_source_kind { QN_SOURCE_WAKE, QN_SOURCE_ZYGOTE, QN_SOURCE_SOCKET, QN_SOURCE_STDERR };
struct qn_source {
    enum qn_source_kind kind;
    void *owner;
};

/* A zygote and its children. Used by the pool's thread only. */
struct qn_generation {
    struct qn_list node;
    struct qn_zygote *zygote;
    struct qn_source source;
    size_t child_count;
    bool gone;
};

#define QN_NEVER_MS INT64_MAX

/*
 *  starting --READY and STARTED--> idle <--> busy --retiring, window empty--> closing --> ended
 *      |                             |         |                                 ^
 *      +---------- any death, any broken rule -+---------------------------------+
 */
struct qn_prefork_child {
    struct qn_list node;      /* in the pool's children */
    struct qn_list room_node; /* in idle or partial; points to itself: in none */
    struct qn_prefork *prefork;
    struct qn_generation *generation;
    struct qn_source socket_source;
    struct qn_source stderr_source;
    uint64_t number;
    pid_t pid; /* 0: not known yet */
    int pid_fd;
    int socket_fd; /* -1: at its end */
    int page_fd;   /* for the next program of the worker, see pass_on.h */
    struct qn_page *page;
    struct qn_tail tail;           /* pool's thread */
    struct qn_frame_reader reader; /* pool's thread */
    struct qn_send out;
    bool wants_write; /* epoll reports when the socket takes more */
    bool is_dirty;    /* pool's thread: frames were appended in this round */
    struct qn_prefork_item *window[QN_PAGE_SLOTS]; /* in the order in which they run */
    uint32_t count;
    uint32_t slots;  /* a bit for each that is used */
    bool head_begun; /* window[0]: cannot be taken back any more */
    bool sent_ready;
    bool is_ready;    /* it has sent READY, and we know its process */
    bool retiring;    /* it gets no more items */
    bool is_closing;  /* it was told to end, or is killed, or has left us */
    bool told_to_end; /* it reads the end of its socket */
    bool has_run;     /* an item was started in it */
    bool lied;        /* it sent a result of an item that it had not started */
    bool by_us;
    bool over_cpu;          /* killed because its item had used up its processor time */
    bool with_zygote;       /* its zygote has ended */
    bool is_ended;          /* its process: status and usage are known */
    bool was_late;          /* it did not end when it should */
    const char *hostile;    /* a constant text */
    uint32_t runs;          /* items given to it and not taken back */
    uint64_t oom_count;     /* when it started */
    int64_t ready_until_ms; /* then it is killed; QN_NEVER_MS: it is ready */
    int64_t kill_at_ms;
    int64_t end_until_ms;   /* it has left us, and its end must be reported */
    int64_t stderr_at_ms;   /* our stderr was full: when to look again */
    int64_t cpu_look_at_ms; /* at its processor time; QN_NEVER_MS: its item has no limit */
    int64_t cpu_end_ms;     /* the processor time at which it is killed */
    int status;
    struct rusage usage;
};

struct qn_prefork {
    pthread_mutex_t mutex;
    pthread_t thread;
    struct qn_prefork_options options; /* constant */
    struct qn_prefork_ops ops;         /* constant */
    void *user;                        /* constant */
    int epoll_fd;
    int wake_fd;
    struct qn_source wake_source;
    bool sleeping; /* the thread waits in epoll, and was not woken yet */
    bool woken;    /* while it called an op: what it looked at before may have changed */
    bool stopping;
    bool frozen; /* the thread has ended, or is about to, and will be started again */
    bool is_gone;
    char gone_why[128];
    struct qn_list waiting; /* items */
    struct qn_list refused; /* items that were killed before they started: `died` follows */
    struct qn_list children;
    struct qn_list freed;          /* children whose events may still be in this round */
    struct qn_list idle;           /* ready, with an empty window */
    struct qn_list partial;        /* room in the window, and all in it are short */
    struct qn_list generations;    /* the first one is used for new children */
    struct qn_zygote *next_zygote; /* of a reload */
    uint64_t last_number;          /* of a child */
    uint64_t last_sequence;        /* of an item */
    uint32_t live;                 /* children that are not closing */
    uint32_t ready;                /* those of them that can run items */
    uint32_t told_ready;           /* as the last call of ops.ready said */
    uint32_t fail_count;           /* children in a row that died before they ran anything */
    int64_t start_at_ms;           /* no child is started before */
    int64_t timer_ms;              /* the earliest of all timers, or earlier */
    struct qn_buf encoded;         /* pool's thread */
};

#endif
