/* SPDX-License-Identifier: MIT */
/* served.c - which queues a living worker serves, for the statements of a check.
 *
 * Whether a worker lives is seen from its process, which takes longer than all that a statement
 * does with a row. So the records are read once, and the statements ask by the name of a queue. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/vec.h"
#include "broker/served.h"
#include "broker/sqlite/doctor/doctor.h"

struct gathering {
    struct qn_served *served;
    bool no_memory;
};

static bool add_name(struct qn_served *served, const char *name, size_t size)
{
    const char **names = qn_vec_grow_in(&served->arena, served->names, served->count,
                                        &served->capacity, sizeof *names);
    if (names == NULL) {
        return false;
    }
    served->names = names;
    char *copy = qn_arena_alloc(&served->arena, size + 1);
    if (copy == NULL) {
        return false;
    }
    memcpy(copy, name, size);
    copy[size] = '\0';
    served->names[served->count++] = copy;
    return true;
}

/* Workers of a fleet serve the same. */
static bool gather(const quern_worker_info *worker, void *user)
{
    struct gathering *gathering = user;
    struct qn_served *served = gathering->served;
    bool is_same = served->any && strcmp(served->last, worker->queues) == 0;
    served->any = true;
    if (is_same) {
        return true;
    }
    served->last = qn_arena_strdup(&served->arena, worker->queues);
    gathering->no_memory = served->last == NULL;
    const char *at = served->last == NULL ? "" : served->last;
    struct qn_str name;
    while (!gathering->no_memory && qn_served_next(&at, &name)) {
        gathering->no_memory = !add_name(served, name.data, name.size);
    }
    return !gathering->no_memory;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

quern_status qn_served_read(struct qn_served *served, struct qn_sqlite *self, quern_error *err)
{
    struct gathering gathering = {.served = served};
    quern_status status = qn_sqlite_workers(&self->base, gather, &gathering, err);
    if (status == QUERN_OK && gathering.no_memory) {
        status = qn_error_nomem(err);
    }
    if (served->count > 0) {
        qsort(served->names, served->count, sizeof *served->names, compare_names);
    }
    return status;
}

bool qn_served_has(const struct qn_served *served, const char *queue)
{
    return served->count > 0 && bsearch(&queue, served->names, served->count, sizeof *served->names,
                                        compare_names) != NULL;
}

void qn_served_finish(struct qn_served *served)
{
    qn_arena_finish(&served->arena);
}
