/* SPDX-License-Identifier: MIT */
/* store.h - stores the requests of one batch, and tries again while their fate is open.
 *
 * Where some of the tasks lie on a server that does not answer, the others are settled at once:
 * their requests are done, and the batch goes on with the rest beside those of other leaders
 * (on_partial). */
#ifndef QN_CLIENT_STORE_H
#define QN_CLIENT_STORE_H

#include "client/client.h"

/* What became of a task. */
struct qn_fate {
    quern_status status;
    const char *holder;
    bool is_final;
};

enum qn_store_end {
    QN_STORE_DONE,
    QN_STORE_REFUSED, /* as a whole, for a reason that one of several requests may have brought in;
                       * no result is written */
    QN_STORE_LEFT     /* on_partial gave it away: it must not be touched any more */
};

/* Lives for one batch. */
struct qn_store {
    quern_client *client;
    struct qn_list batch; /* of struct qn_request */
    /* After an attempt that settled some tasks only: may take requests that are settled out of
     * `batch`. Returns false where another thread has it from now on. NULL: not wanted. */
    bool (*on_partial)(struct qn_store *store, void *user);
    void *user;
    struct qn_stamp stamp;
    struct qn_random *random;
    struct qn_random own_random; /* once it is apart */
    struct qn_arena arena;       /* the tasks and the arrays below */
    bool is_apart;               /* another leader may store beside it */
    bool is_partial;
    bool is_alone; /* there is one request */
    unsigned attempts;
    size_t prepared_count;
    struct qn_task *prepared;
    struct qn_origin *origins;
    quern_status *statuses; /* of the latest attempt */
    const char **holders;   /* the same; of locks, see struct qn_enqueue */
    struct qn_fate *fates;
    bool limited;             /* one of them is full because of the limit of its queue */
    quern_error few_replicas; /* why tasks are stored, but not confirmed by replicas */
};

/* Takes stamp, random numbers and memory of the client, of which the caller is the leader. */
void qn_store_begin(struct qn_store *store, quern_client *client);
/* Gives them back, if it is not apart. With the client's mutex held. */
void qn_store_finish(struct qn_store *store);
/* With the client's mutex held, before another one leads: from now on it has a session of its own,
 * as requests of one session must not overtake each other. */
void qn_store_part(struct qn_store *store);
/* Stores the requests of `batch` and writes their results. */
enum qn_store_end qn_store_run(struct qn_store *store, struct qn_list *batch,
                               int64_t deadline_mono_ns);
/* The same in the thread that has it now: what is open is tried again. */
enum qn_store_end qn_store_go_on(struct qn_store *store, int64_t deadline_mono_ns);
/* Writes the results of a request, if all its tasks are settled, and keeps nothing of it; else, or
 * without memory, false. */
bool qn_store_settle(struct qn_store *store, struct qn_request *request);
/* The results where no memory is left. */
void qn_store_fail_nomem(const struct qn_list *batch);

#endif
