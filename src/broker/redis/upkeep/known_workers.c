/* SPDX-License-Identifier: MIT */
/* known_workers.c - whose process is dead or alive, of the workers that hold leases in a queue: by
 * looking at the process itself where it is on this host (owner.h), and by the boot of its host. */
#include "broker/redis/upkeep/known_workers.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/hash.h"
#include "broker/owner.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/worker_record.h"

struct holder {
    const struct qn_reply *id;
    struct qn_worker_holder record;
};

static bool is_same_boot(const struct holder *a, const struct holder *b)
{
    size_t size = strcspn(a->record.owner, ":");
    return strcspn(b->record.owner, ":") == size &&
           strncmp(a->record.owner, b->record.owner, size) == 0;
}

/* By host, the latest heartbeat first: so one walk finds workers of another boot. */
static int compare_holders(const void *left, const void *right)
{
    const struct holder *a = left;
    const struct holder *b = right;
    int order = strcmp(a->record.host, b->record.host);
    int later = (a->record.heartbeat_at_ms < b->record.heartbeat_at_ms) -
                (a->record.heartbeat_at_ms > b->record.heartbeat_at_ms);
    return order != 0 ? order : later;
}

/* rival: the worker with the latest heartbeat from another boot of its host; NULL: none. */
static char letter_of(const struct holder *holder, const struct holder *rival)
{
    switch (qn_owner_judge(holder->record.owner)) {
    case QN_OWNER_DEAD:
        return 'd';
    case QN_OWNER_ALIVE:
        return 'l';
    case QN_OWNER_UNKNOWN:
        break;
    }
    return rival != NULL && rival->record.heartbeat_at_ms > holder->record.heartbeat_at_ms ? 'b'
                                                                                           : '\0';
}

/* workers: the reply to HGETALL. */
static quern_status find_known(struct qn_arena *arena, const struct qn_reply *workers,
                               struct qn_known_workers *ret_known, quern_error *err)
{
    struct qn_known_workers known = {0};
    size_t room = workers->count / 2 + 1;
    size_t count = 0;
    struct holder *holders = qn_arena_alloc(arena, room * sizeof holders[0]);
    known.ids = qn_arena_alloc(arena, room * sizeof(const struct qn_reply *));
    known.letters = qn_arena_alloc(arena, room);
    if (holders == NULL || known.ids == NULL || known.letters == NULL) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; i + 1 < workers->count; i += 2) {
        if (qn_worker_record_read_holder(arena, workers->items[i + 1], &holders[count].record)) {
            holders[count++].id = workers->items[i];
        }
    }
    qsort(holders, count, sizeof holders[0], compare_holders);
    const struct holder *last = holders; /* of this host, and the last on another boot than that */
    const struct holder *other = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct holder *holder = &holders[i];
        bool is_same_host = strcmp(last->record.host, holder->record.host) == 0;
        last = is_same_host ? last : holder;
        bool is_other = !is_same_boot(last, holder);
        other = !is_same_host ? NULL : other == NULL && is_other ? holder : other;
        char letter = letter_of(holder, is_other ? last : other);
        if (letter == 'd') {
            known.dead_count++;
            /* Two sets are the same if these sums are, for what hangs on it. */
            known.mark += qn_hash_bytes(QN_HASH_START, holder->id->data, holder->id->size);
        }
        if (letter != '\0') {
            known.letters[known.count] = letter;
            known.ids[known.count++] = holder->id;
        }
    }
    *ret_known = known;
    return QUERN_OK;
}

quern_status qn_known_workers_read(struct qn_pipeline *pipeline, struct qn_names queues,
                                   struct qn_known_workers *known, quern_error *err)
{
    size_t first = pipeline->command_count;
    for (size_t i = 0; i < queues.count; i++) {
        qn_pipeline_command(pipeline, "HGETALL");
        qn_keys_add(pipeline, queues.items[i], QN_KEY_HOLDERS);
    }
    quern_status status = qn_pipeline_run(pipeline, err);
    for (size_t i = 0; status == QUERN_OK && i < queues.count; i++) {
        const struct qn_reply *workers = NULL;
        status = qn_pipeline_reply(pipeline, first + i, &workers, err);
        if (status == QUERN_OK) {
            status = find_known(pipeline->arena, workers, &known[i], err);
        } else if (status == QUERN_E_CORRUPT) {
            known[i] = (struct qn_known_workers){0}; /* the script of this queue will report it,
                                                      * too */
            status = QUERN_OK;
        }
    }
    return status;
}
