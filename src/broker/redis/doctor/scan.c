/* SPDX-License-Identifier: MIT */
/* scan.c - walks over all keys of the database with SCAN. First it finds the queues and groups that
 * there are, also those that no list has. After the walks through containers it finds the hashes
 * and locks that no container lists.
 *
 * SCAN promises to show every key that is there all the time, at least once; the rest is checked
 * again by the scripts that check it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "broker/redis/doctor/suspect.h"
#include "broker/redis/doctor/walk.h"
#include "broker/redis/inspect/page_bound.h"
#include "broker/redis/schema/keys.h"

#include "base/memory/vec.h"
#include "broker/redis/doctor/doctor_hash_lua.h"
#include "broker/redis/doctor/doctor_lock_lua.h"

#define ROOT_SIZE (sizeof QN_KEY_ROOT - 1)
#define TASK_SIZE (sizeof QN_KEY_TASK - 1)

/* A key of a queue, taken apart: asynq:{<queue>}:<rest>. */
struct key {
    const char *queue;
    size_t queue_size;
    const char *rest;
    size_t rest_size;
};

static bool split(const struct qn_reply *reply, struct key *key)
{
    if (reply->size < ROOT_SIZE || memcmp(reply->data, QN_KEY_ROOT, ROOT_SIZE) != 0) {
        return false;
    }
    const char *name = reply->data + ROOT_SIZE;
    const char *end = memmem(name, reply->size - ROOT_SIZE, QN_KEY_NAME, strlen(QN_KEY_NAME));
    if (end == NULL || end == name) {
        return false;
    }
    *key = (struct key){.queue = name,
                        .queue_size = (size_t)(end - name),
                        .rest = end + 2,
                        .rest_size = (size_t)(reply->data + reply->size - (end + 2))};
    return true;
}

static bool begins(const struct key *key, const char *word)
{
    size_t size = strlen(word);
    return key->rest_size > size && memcmp(key->rest, word, size) == 0;
}

/* --- Queues ------------------------------------------------------------------------------ */

/* Where the queue is, or would be. */
static size_t place_of(const struct qn_redis_doctor *doctor, const char *name, size_t size,
                       bool *ret_found)
{
    size_t low = 0;
    size_t high = doctor->queue_count;
    *ret_found = false;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const char *other = doctor->queues[middle]->name;
        int order = strncmp(name, other, size);
        order = order == 0 && other[size] != '\0' ? -1 : order;
        if (order == 0) {
            *ret_found = true;
            return middle;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

struct qn_checked_queue *qn_scan_find_queue(const struct qn_redis_doctor *doctor, const char *name,
                                            size_t size)
{
    bool found;
    size_t place = place_of(doctor, name, size, &found);
    return found ? doctor->queues[place] : NULL;
}

/* NULL when memory is out. */
static struct qn_checked_queue *queue_of(struct qn_redis_doctor *doctor, const char *name,
                                         size_t size)
{
    bool found;
    size_t place = place_of(doctor, name, size, &found);
    if (found) {
        return doctor->queues[place];
    }
    struct qn_checked_queue **queues =
        qn_vec_grow_in(&doctor->names, doctor->queues, doctor->queue_count, &doctor->queue_capacity,
                       sizeof(struct qn_checked_queue *));
    if (queues == NULL) {
        return NULL;
    }
    doctor->queues = queues;
    struct qn_checked_queue *queue = qn_arena_alloc(&doctor->names, sizeof *queue);
    char *copy = qn_arena_alloc(&doctor->names, size + 1);
    if (queue == NULL || copy == NULL) {
        return NULL;
    }
    memcpy(copy, name, size);
    copy[size] = '\0';
    *queue = (struct qn_checked_queue){.name = copy};
    memmove(&doctor->queues[place + 1], &doctor->queues[place],
            (doctor->queue_count - place) * sizeof doctor->queues[0]);
    doctor->queues[place] = queue;
    doctor->queue_count++;
    return queue;
}

static bool is_named(const struct key *key, const char *name)
{
    return key->rest_size == strlen(name) && memcmp(key->rest, name, key->rest_size) == 0;
}

static bool holds_tasks(const struct key *key)
{
    static const char *const containers[] = {"pending", "active",   "lease",    "scheduled",
                                             "retry",   "archived", "completed"};
    for (size_t i = 0; i < sizeof containers / sizeof containers[0]; i++) {
        if (is_named(key, containers[i])) {
            return true;
        }
    }
    return begins(key, QN_KEY_TASK) || begins(key, QN_KEY_GROUP);
}

static quern_status add_group(struct qn_redis_doctor *doctor, struct qn_checked_queue *queue,
                              const struct key *key, quern_error *err)
{
    for (const struct qn_checked_group *one = queue->groups; one != NULL; one = one->next) {
        if (strlen(one->container) == key->rest_size &&
            memcmp(one->container, key->rest, key->rest_size) == 0) {
            return QUERN_OK; /* SCAN may show a key twice */
        }
    }
    struct qn_checked_group *group = qn_arena_alloc(&doctor->names, sizeof *group);
    char *container = qn_arena_alloc(&doctor->names, key->rest_size + 1);
    if (group == NULL || container == NULL) {
        return qn_error_nomem(err);
    }
    memcpy(container, key->rest, key->rest_size);
    container[key->rest_size] = '\0';
    *group = (struct qn_checked_group){.next = queue->groups, .container = container};
    queue->groups = group;
    queue->group_count++;
    return QUERN_OK;
}

static quern_status note_keys(struct qn_redis_doctor *doctor, const struct qn_reply *keys,
                              quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < keys->count; i++) {
        struct key key;
        if (!split(qn_reply_at(keys, i), &key)) {
            continue;
        }
        struct qn_checked_queue *queue = queue_of(doctor, key.queue, key.queue_size);
        if (queue == NULL) {
            return qn_error_nomem(err);
        }
        queue->has_tasks = queue->has_tasks || holds_tasks(&key);
        queue->has_entries =
            queue->has_entries || is_named(&key, QN_KEY_ENTRIES) || is_named(&key, QN_KEY_TICKS);
        if (begins(&key, QN_KEY_GROUP)) {
            status = add_group(doctor, queue, &key, err);
        }
    }
    return status;
}

/* --- Walking ----------------------------------------------------------------------------- */

static quern_status note_listed(struct qn_redis_doctor *doctor, const struct qn_reply *names,
                                quern_error *err)
{
    for (size_t i = 0; i < names->count; i++) {
        const struct qn_reply *name = qn_reply_at(names, i);
        struct qn_checked_queue *queue = queue_of(doctor, name->data, name->size);
        if (queue == NULL) {
            return qn_error_nomem(err);
        }
        queue->listed = true;
    }
    return QUERN_OK;
}

static quern_status ask_lists(struct qn_redis_doctor *doctor, quern_error *err)
{
    const struct qn_reply *time;
    const struct qn_reply *names;
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, doctor->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, "TIME");
    qn_pipeline_command(&pipeline, "SMEMBERS");
    qn_pipeline_text(&pipeline, QN_KEY_QUEUES);
    quern_status status = qn_pipeline_ask(&pipeline, &time, err);
    if (status == QUERN_OK) {
        doctor->now_ms = qn_reply_seconds(qn_reply_at(time, 0)) * 1000;
    }
    if (status == QUERN_OK && !doctor->lists_no_queues) {
        status = qn_pipeline_reply(&pipeline, 1, &names, err);
        status = status == QUERN_OK ? note_listed(doctor, names, err) : status;
    }
    qn_pipeline_end(&pipeline);
    return status;
}

static quern_status scan_queues_at(struct qn_redis_doctor *doctor, int node, quern_error *err)
{
    struct qn_walk walk = {.node = node, .cursor = "0"};
    struct qn_page_bound bound = {.self = doctor->self, .size_command = "DBSIZE", .node = node};
    quern_status status;
    do {
        struct qn_pipeline pipeline;
        const struct qn_reply *keys;
        qn_redis_begin(&pipeline, doctor->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
        status = qn_walk_step(&walk, &pipeline, &keys, err);
        if (status == QUERN_OK) {
            qn_page_bound_add(&bound, keys);
            status = note_keys(doctor, keys, err);
        }
        qn_pipeline_end(&pipeline);
        if (status == QUERN_OK) {
            status = qn_page_bound_check(&bound, err);
        }
    } while (status == QUERN_OK && strcmp(walk.cursor, "0") != 0);
    return status;
}

quern_status qn_scan_queues(struct qn_redis_doctor *doctor, quern_error *err)
{
    quern_status status = ask_lists(doctor, err);
    return status == QUERN_OK ? qn_walk_nodes(doctor, scan_queues_at, err) : status;
}

/* --- Hashes and locks -------------------------------------------------------------------- */

/* The keys of one page, in order of their queues. */
struct page {
    struct qn_redis_doctor *doctor;
    struct key *keys;
    size_t count;
};

static int compare_keys(const void *left, const void *right)
{
    const struct key *a = left;
    const struct key *b = right;
    size_t size = a->queue_size < b->queue_size ? a->queue_size : b->queue_size;
    int order = memcmp(a->queue, b->queue, size);
    return order != 0 ? order : (a->queue_size > b->queue_size) - (a->queue_size < b->queue_size);
}

static quern_status take_keys(struct page *page, const struct qn_reply *keys, quern_error *err)
{
    page->count = 0;
    page->keys = qn_arena_alloc(&page->doctor->page, (keys->count + 1) * sizeof(struct key));
    if (page->keys == NULL) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; i < keys->count; i++) {
        const struct qn_reply *reply = qn_reply_at(keys, i);
        struct qn_reply copy = *reply;
        struct key key;
        copy.data = qn_arena_copy(&page->doctor->page, reply->data, reply->size + 1);
        if (copy.data == NULL) {
            return qn_error_nomem(err);
        }
        if (split(&copy, &key) && (begins(&key, QN_KEY_TASK) || begins(&key, QN_KEY_UNIQUE))) {
            page->keys[page->count++] = key;
        }
    }
    if (page->count > 0) {
        qsort(page->keys, page->count, sizeof page->keys[0], compare_keys);
    }
    return QUERN_OK;
}

/* Whether the state in this hash has to be checked. */
static bool is_suspect(const struct qn_checked_queue *queue, const struct key *key,
                       const char *answer)
{
    if (answer[0] == 'p') {
        return !qn_id_set_has(&queue->ids, key->rest + TASK_SIZE, key->rest_size - TASK_SIZE);
    }
    return answer[0] != '.';
}

/* The keys of one queue in this page, and which of their hashes are suspect. */
struct queue_keys {
    const struct qn_checked_queue *queue;
    const struct key *keys;
    size_t count;
    struct qn_suspect *suspects; /* room for all */
    size_t suspect_count;
};

static quern_status check_hashes(struct page *page, struct queue_keys *of, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply;
    qn_redis_begin(&pipeline, page->doctor->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_script(&pipeline, &qn_lua_doctor_hash, 1);
    qn_pipeline_limit(&pipeline, QN_REPLY_ROWS_MAX);
    qn_keys_add_prefix(&pipeline, of->queue->name);
    for (size_t i = 0; i < of->count; i++) {
        const struct key *key = &of->keys[i];
        if (begins(key, QN_KEY_TASK)) {
            qn_pipeline_bytes(&pipeline, key->rest + TASK_SIZE, key->rest_size - TASK_SIZE);
        }
    }
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    size_t at = 0;
    for (size_t i = 0; status == QUERN_OK && i < of->count; i++) {
        const struct key *key = &of->keys[i];
        if (!begins(key, QN_KEY_TASK)) {
            continue;
        }
        const char *answer = qn_reply_text(qn_reply_at(reply, at));
        const struct qn_reply *message = qn_reply_at(reply, at + 1);
        at += 2;
        if (is_suspect(of->queue, key, answer)) {
            struct qn_suspect *suspect = &of->suspects[of->suspect_count++];
            *suspect = (struct qn_suspect){.id = key->rest + TASK_SIZE,
                                           .id_size = key->rest_size - TASK_SIZE};
            if (message->size > 0) {
                (void)qn_suspect_read(page->doctor, of->queue->name, message->data, message->size,
                                      suspect);
            }
        }
    }
    qn_pipeline_end(&pipeline);
    return status == QUERN_E_CORRUPT ? QUERN_OK : status;
}

/* Of the script's reply, which has three items for each lock that is wrong. */
static quern_status keep_lock(struct qn_redis_doctor *doctor, const char *queue,
                              const struct qn_reply *reply, size_t first, quern_error *err)
{
    const char *text = qn_reply_text(qn_reply_at(reply, first + 1));
    int64_t ends_in_s = qn_reply_int(qn_reply_at(reply, first + 2), -1);
    bool stays = ends_in_s < 0;
    if (!stays) {
        text = qn_arena_printf(&doctor->page, "%s; it ends in %lld s", text, (long long)ends_in_s);
    }
    const quern_finding finding = {.invariant = stays ? "I4" : "lock",
                                   .queue = queue,
                                   .id = qn_reply_text(qn_reply_at(reply, first)),
                                   .text = text,
                                   .repaired = stays && doctor->repair};
    return text == NULL ? qn_error_nomem(err)
                        : qn_redis_findings_keep(&doctor->findings, &finding, err);
}

static quern_status check_locks(struct page *page, const struct queue_keys *of, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply;
    qn_redis_begin(&pipeline, page->doctor->self, QN_CHANNEL_REST,
                   page->doctor->repair ? QN_PIPELINE_WRITES : QN_PIPELINE_READS);
    qn_pipeline_script(&pipeline, &qn_lua_doctor_lock, 1);
    qn_pipeline_limit(&pipeline, QN_REPLY_ROWS_MAX);
    qn_keys_add_prefix(&pipeline, of->queue->name);
    qn_pipeline_text(&pipeline, page->doctor->repair ? "1" : "0");
    for (size_t i = 0; i < of->count; i++) {
        const struct key *key = &of->keys[i];
        if (begins(key, QN_KEY_UNIQUE)) {
            const char *start = key->queue - ROOT_SIZE;
            qn_pipeline_bytes(&pipeline, start, (size_t)(key->rest + key->rest_size - start));
        }
    }
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    for (size_t i = 0; status == QUERN_OK && i + 2 < reply->count; i += 3) {
        status = keep_lock(page->doctor, of->queue->name, reply, i, err);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

static quern_status check_keys_of(struct page *page, const struct key *keys, size_t count,
                                  quern_error *err)
{
    struct qn_redis_doctor *doctor = page->doctor;
    struct queue_keys of = {.queue = queue_of(doctor, keys[0].queue, keys[0].queue_size),
                            .keys = keys,
                            .count = count,
                            .suspects =
                                qn_arena_alloc(&doctor->page, count * sizeof(struct qn_suspect))};
    if (of.queue == NULL || of.suspects == NULL) {
        return qn_error_nomem(err);
    }
    size_t hash_count = 0;
    for (size_t i = 0; i < count; i++) {
        hash_count += begins(&keys[i], QN_KEY_TASK) ? 1 : 0;
    }
    quern_status status = hash_count > 0 ? check_hashes(page, &of, err) : QUERN_OK;
    if (status == QUERN_OK) {
        status = qn_suspect_check_all(doctor, of.queue->name, of.suspects, of.suspect_count, err);
    }
    if (status == QUERN_OK && hash_count < count) {
        status = check_locks(page, &of, err);
    }
    return status;
}

static quern_status check_page(struct page *page, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < page->count;) {
        size_t end = i + 1;
        while (end < page->count && compare_keys(&page->keys[i], &page->keys[end]) == 0) {
            end++;
        }
        status = check_keys_of(page, &page->keys[i], end - i, err);
        i = end;
    }
    return status;
}

static quern_status scan_keys_at(struct qn_redis_doctor *doctor, int node, quern_error *err)
{
    struct qn_walk walk = {.node = node, .cursor = "0"};
    struct page page = {.doctor = doctor};
    struct qn_page_bound bound = {.self = doctor->self, .size_command = "DBSIZE", .node = node};
    quern_status status;
    do {
        struct qn_pipeline pipeline;
        const struct qn_reply *keys;
        qn_redis_begin(&pipeline, doctor->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
        status = qn_walk_step(&walk, &pipeline, &keys, err);
        if (status == QUERN_OK) {
            qn_page_bound_add(&bound, keys);
            status = take_keys(&page, keys, err);
        }
        qn_pipeline_end(&pipeline);
        if (status == QUERN_OK) {
            status = qn_page_bound_check(&bound, err);
        }
        if (status == QUERN_OK) {
            status = check_page(&page, err);
        }
        qn_redis_findings_report(&doctor->findings);
        qn_arena_reset(&doctor->page);
    } while (status == QUERN_OK && strcmp(walk.cursor, "0") != 0);
    return status;
}

quern_status qn_scan_keys(struct qn_redis_doctor *doctor, quern_error *err)
{
    return qn_walk_nodes(doctor, scan_keys_at, err);
}
