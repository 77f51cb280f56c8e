/* SPDX-License-Identifier: MIT */
/* workers.c - the list of workers that an inspector hands out. Texts and runs live in the list's
 * arena. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/arena.h"
#include "base/memory/vec.h"
#include "broker/command/command.h"
#include "inspect/inspector.h"

struct quern_worker_list {
    struct qn_arena arena;
    quern_worker_info *items;
    size_t count;
    size_t capacity;
    bool no_memory;
};

static bool copy_run(struct qn_arena *arena, const quern_worker_run_info *run,
                     quern_worker_run_info *copy)
{
    *copy = *run;
    copy->id = qn_arena_strdup(arena, run->id);
    copy->type = qn_arena_strdup(arena, run->type);
    copy->queue = qn_arena_strdup(arena, run->queue);
    return copy->id != NULL && copy->type != NULL && copy->queue != NULL;
}

static bool copy_runs(struct qn_arena *arena, const quern_worker_info *worker,
                      quern_worker_info *copy)
{
    copy->runs = NULL;
    if (worker->run_count == 0) {
        return true;
    }
    quern_worker_run_info *runs = qn_arena_alloc(arena, worker->run_count * sizeof *runs);
    copy->runs = runs;
    bool copied = runs != NULL;
    for (size_t i = 0; copied && i < worker->run_count; i++) {
        copied = copy_run(arena, &worker->runs[i], &runs[i]);
    }
    return copied;
}

/* The moment that is so many ms before the heartbeat: clocks of machines differ. 0: not known. */
static int64_t worker_moment(int64_t heartbeat_at_ms, const char *age_text)
{
    int64_t age_ms = strtoll(age_text, NULL, 10);
    return age_ms >= 0 && age_ms < heartbeat_at_ms ? heartbeat_at_ms - age_ms : 0;
}

/* Cuts off the text after the queues in the copy of a heartbeat. */
static void split_served(char *queues, quern_worker_info *copy)
{
    char *hung = strchr(queues, QN_HEARTBEAT_SEPARATOR);
    copy->hung = 0;
    copy->types = NULL;
    copy->exchanged_at_ms = 0;
    if (hung == NULL) {
        return;
    }
    *hung = '\0';
    char *types = strchr(hung + 1, QN_HEARTBEAT_SEPARATOR);
    char *age = NULL;
    copy->hung = (uint32_t)strtoul(hung + 1, &age, 10);
    if (*age == ' ') {
        copy->exchanged_at_ms = worker_moment(copy->heartbeat_at_ms, age + 1);
    }
    copy->types = types == NULL ? NULL : types + 1;
    for (; types != NULL; types = strchr(types, QN_HEARTBEAT_SEPARATOR)) {
        *types = '\n';
    }
}

static bool copy_worker(struct qn_arena *arena, const quern_worker_info *worker,
                        quern_worker_info *copy)
{
    *copy = *worker;
    copy->id = qn_arena_strdup(arena, worker->id);
    copy->host = qn_arena_strdup(arena, worker->host);
    struct qn_command_answer answer;
    qn_command_read_answer(worker->queues, &answer);
    copy->takes_commands = answer.is_known;
    char *queues = qn_arena_strdup(arena, worker->queues);
    copy->queues = queues;
    if (queues != NULL) {
        split_served(queues, copy);
    }
    return copy->id != NULL && copy->host != NULL && copy->queues != NULL &&
           copy_runs(arena, worker, copy);
}

static bool add_worker(const quern_worker_info *worker, void *user)
{
    quern_worker_list *list = user;
    quern_worker_info *items =
        qn_vec_grow(list->items, list->count, &list->capacity, sizeof *items);
    if (items == NULL) {
        list->no_memory = true;
        return false;
    }
    list->items = items;
    if (!copy_worker(&list->arena, worker, &list->items[list->count])) {
        list->no_memory = true;
        return false;
    }
    list->count++;
    return true;
}

quern_status quern_inspector_workers(quern_inspector *inspector, quern_worker_list **ret_list,
                                     quern_error *err)
{
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK && ret_list == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "ret_list: must not be NULL");
    }
    if (status != QUERN_OK) {
        return status;
    }
    quern_worker_list *list = qn_alloc_zero(1, sizeof *list);
    if (list == NULL) {
        return qn_error_nomem(err);
    }
    status = qn_broker_workers(inspector->broker, add_worker, list, err);
    if (status == QUERN_OK && list->no_memory) {
        status = qn_error_nomem(err);
    }
    if (status != QUERN_OK) {
        quern_worker_list_free(list);
        return status;
    }
    *ret_list = list;
    return QUERN_OK;
}

size_t quern_worker_list_size(const quern_worker_list *list)
{
    return list->count;
}

const quern_worker_info *quern_worker_list_at(const quern_worker_list *list, size_t index)
{
    return index < list->count ? &list->items[index] : NULL;
}

void quern_worker_list_free(quern_worker_list *list)
{
    if (list != NULL) {
        qn_arena_finish(&list->arena);
        qn_free(list->items);
        qn_free(list);
    }
}
