/* SPDX-License-Identifier: MIT */
/* lib_model.c - the model of a broker. Every function is a transcription of a promise of
 * src/broker/broker.h; linear searches everywhere. */
#include "lib_model.h"

size_t model_index(size_t number, size_t queue)
{
    return number * MODEL_QUEUES + queue;
}

size_t model_lock_of(size_t key, size_t queue)
{
    return 1 + key * MODEL_QUEUES + queue;
}

static void free_lock(struct model *m, size_t index)
{
    struct model_lock *lock = &m->locks[m->tasks[index].lock];
    if (m->tasks[index].lock != 0 && lock->task == index + 1) {
        *lock = (struct model_lock){0};
    }
}

/* The lock of a task that goes on holds until its time, or least_ms, after from_ms; one that has
 * ended is taken again. */
static void hold_lock(struct model *m, size_t index, int64_t from_ms, int64_t least_ms)
{
    struct model_lock *lock = &m->locks[m->tasks[index].lock];
    int64_t until_ms = from_ms + (least_ms > MODEL_UNIQUE_MS ? least_ms : MODEL_UNIQUE_MS);
    bool is_free = lock->task == 0 || lock->until_ms <= m->wall_ms;
    if (m->tasks[index].lock == 0 || (!is_free && lock->task != index + 1)) {
        return;
    }
    if (is_free || until_ms > lock->until_ms) {
        lock->until_ms = until_ms;
    }
    lock->task = index + 1;
}

static void archive_lock(struct model *m, size_t index)
{
    struct model_lock *lock = &m->locks[m->tasks[index].lock];
    int64_t until_ms = m->wall_ms + MODEL_UNIQUE_MS;
    if (m->tasks[index].lock != 0 && lock->task == index + 1 && lock->until_ms > until_ms) {
        lock->until_ms = until_ms;
    }
}

static void remove_task(struct model *m, size_t index)
{
    free_lock(m, index);
    m->tasks[index] = (struct model_task){0};
}

static void make_pending(struct model *m, size_t index)
{
    m->tasks[index].state = QUERN_TASK_PENDING;
    m->tasks[index].place = m->next_place++;
}

quern_status model_enqueue(struct model *m, size_t index, const struct model_task *task,
                           int64_t unique_ms)
{
    struct model_lock *lock = &m->locks[task->lock];
    if (task->lock != 0 && lock->task != 0 && lock->until_ms > m->wall_ms) {
        return QUERN_E_DUPLICATE;
    }
    if (m->tasks[index].state != 0) {
        return QUERN_E_CONFLICT;
    }
    m->tasks[index] = *task;
    if (task->lock != 0) {
        int64_t from_ms = task->at_ms > m->wall_ms ? task->at_ms : m->wall_ms;
        *lock = (struct model_lock){.task = index + 1, .until_ms = from_ms + unique_ms};
    }
    if (task->state == QUERN_TASK_PENDING) {
        make_pending(m, index);
    }
    return QUERN_OK;
}

size_t model_lease(struct model *m, size_t queue, bool started)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < MODEL_TASKS && !m->paused[queue]; i++) {
        const struct model_task *task = &m->tasks[i];
        if (task->state == QUERN_TASK_PENDING && task->queue == queue &&
            (best == SIZE_MAX || task->place < m->tasks[best].place)) {
            best = i;
        }
    }
    if (best != SIZE_MAX) {
        m->tasks[best].state = QUERN_TASK_ACTIVE;
        m->tasks[best].lease_until_ms = m->boot_ms + CONTRACT_LEASE_MS;
        m->tasks[best].started = started;
        hold_lock(m, best, m->wall_ms, 2 * CONTRACT_LEASE_MS);
    }
    return best;
}

static void finish_done(struct model *m, size_t index, bool keep)
{
    struct model_task *task = &m->tasks[index];
    m->processed[task->queue]++;
    if (!keep || task->retention_ms == 0) {
        remove_task(m, index);
        return;
    }
    free_lock(m, index);
    task->state = QUERN_TASK_COMPLETED;
    task->at_ms = m->wall_ms + task->retention_ms;
    task->token = 0;
}

static enum qn_applied fail_run(struct model *m, size_t index, bool final, int64_t delay_ms)
{
    struct model_task *task = &m->tasks[index];
    m->processed[task->queue]++;
    m->failed[task->queue]++;
    task->token = 0;
    if (final || task->retry_count >= task->retry_max) {
        task->state = QUERN_TASK_ARCHIVED;
        task->at_ms = m->wall_ms;
        archive_lock(m, index);
        return final ? QN_APPLIED : QN_ARCHIVED;
    }
    task->retry_count++;
    task->state = QUERN_TASK_RETRY;
    task->at_ms = m->wall_ms + delay_ms;
    hold_lock(m, index, task->at_ms, 0);
    return QN_APPLIED;
}

static enum qn_applied apply(struct model *m, size_t index, enum qn_outcome_kind kind,
                             int64_t delay_ms)
{
    struct model_task *task = &m->tasks[index];
    switch (kind) {
    case QN_DONE:
    case QN_DROP:
        finish_done(m, index, kind == QN_DONE);
        return QN_APPLIED;
    case QN_RETRY:
        return fail_run(m, index, false, delay_ms);
    case QN_ARCHIVE:
    case QN_CANCEL:
        return fail_run(m, index, true, 0);
    case QN_SNOOZE:
    case QN_ASIDE:
        task->state = QUERN_TASK_RETRY;
        task->at_ms = m->wall_ms + delay_ms;
        task->token = 0;
        hold_lock(m, index, task->at_ms, 0);
        return QN_APPLIED;
    case QN_GIVE_BACK:
    case QN_CRASH: /* not reported as started */
        task->state = QUERN_TASK_PENDING;
        task->token = 0;
        hold_lock(m, index, m->wall_ms, 0);
        return QN_APPLIED;
    case QN_ENDED: /* no word about a task */
        break;
    }
    return QN_STALE;
}

/* --- Checkpoints ---------------------------------------------------------------------- */

static bool goes_on(enum qn_outcome_kind kind)
{
    return kind == QN_RETRY || kind == QN_SNOOZE || kind == QN_GIVE_BACK;
}

static void change_data(struct model_task *task, const struct model_change *change)
{
    if (change->payload != '\0') {
        task->payload = change->payload;
    }
    if (change->retry_max >= 0) {
        task->retry_max =
            change->retry_max > task->retry_count ? change->retry_max : task->retry_count;
    }
}

/* To another queue, with its lock. */
static enum qn_applied change_queue(struct model *m, size_t index, size_t queue)
{
    struct model_task *task = &m->tasks[index];
    struct model_task *there = &m->tasks[model_index(index / MODEL_QUEUES, queue)];
    size_t lock_there = task->lock == 0 ? 0 : model_lock_of((task->lock - 1) / MODEL_QUEUES, queue);
    struct model_lock *lock = &m->locks[lock_there];
    if (there->state != 0 || (lock_there != 0 && lock->task != 0 && lock->until_ms > m->wall_ms)) {
        return QN_UNMOVED;
    }
    if (lock_there != 0 && m->locks[task->lock].task == index + 1) {
        *lock = m->locks[task->lock];
        lock->task = (size_t)(there - m->tasks) + 1;
        m->locks[task->lock] = (struct model_lock){0};
    }
    *there = *task;
    there->queue = queue;
    there->lock = lock_there;
    if (there->state == QUERN_TASK_PENDING) { /* it was given back, and has no place here */
        there->state = QUERN_TASK_RETRY;
        there->at_ms = m->wall_ms;
    }
    *task = (struct model_task){0};
    return QN_APPLIED;
}

enum qn_applied model_end(struct model *m, const struct model_end *end)
{
    struct model_task *task = &m->tasks[end->index];
    if (task->state == 0 || task->token != end->token) {
        return QN_STALE;
    }
    if (task->state == QUERN_TASK_ACTIVE) {
        bool changes = end->change != NULL && goes_on(end->kind);
        if (changes) {
            change_data(task, end->change);
        }
        enum qn_applied applied = apply(m, end->index, end->kind, end->delay_ms);
        bool moves = changes && end->change->queue != SIZE_MAX &&
                     end->change->queue != task->queue && task->state != QUERN_TASK_ARCHIVED;
        return moves ? change_queue(m, end->index, end->change->queue) : applied;
    }
    bool waits = task->state == QUERN_TASK_PENDING || task->state == QUERN_TASK_RETRY;
    if (end->kind != QN_DONE || !waits) {
        return QN_STALE;
    }
    finish_done(m, end->index, true);
    return QN_SALVAGED;
}

bool model_extend(struct model *m, size_t index, uint64_t token)
{
    struct model_task *task = &m->tasks[index];
    if (task->state != QUERN_TASK_ACTIVE || task->token != token) {
        return false;
    }
    task->lease_until_ms = m->boot_ms + CONTRACT_LEASE_MS;
    hold_lock(m, index, m->wall_ms, 2 * CONTRACT_LEASE_MS);
    return true;
}

static bool is_lost(const struct model *m, size_t index, size_t queue)
{
    const struct model_task *task = &m->tasks[index];
    return task->state == QUERN_TASK_ACTIVE && task->queue == queue &&
           task->lease_until_ms < m->boot_ms;
}

bool model_is_contested(const struct model *m, size_t queue)
{
    size_t takers[MODEL_LOCKS + 1] = {0};
    for (size_t i = 0; i < MODEL_TASKS; i++) {
        const struct model_lock *lock = &m->locks[m->tasks[i].lock];
        bool is_free = lock->task == 0 || lock->until_ms <= m->wall_ms;
        if (m->tasks[i].lock != 0 && is_free && is_lost(m, i, queue) &&
            ++takers[m->tasks[i].lock] > 1) {
            return true;
        }
    }
    return false;
}

size_t model_recover(struct model *m, size_t queue)
{
    size_t count = 0;
    for (size_t i = 0; i < MODEL_TASKS; i++) {
        struct model_task *task = &m->tasks[i];
        if (is_lost(m, i, queue)) {
            if (task->started && task->retry_count >= task->retry_max) {
                (void)fail_run(m, i, true, 0);
            } else {
                task->state = QUERN_TASK_PENDING;
                hold_lock(m, i, m->wall_ms, 0);
            }
            count++;
        }
    }
    return count;
}

static bool waits_for_its_moment(const struct model_task *task)
{
    return task->state == QUERN_TASK_SCHEDULED || task->state == QUERN_TASK_RETRY;
}

size_t model_forward(struct model *m, size_t queue)
{
    for (size_t count = 0;; count++) {
        size_t first = SIZE_MAX;
        for (size_t i = 0; i < MODEL_TASKS; i++) {
            const struct model_task *task = &m->tasks[i];
            if (waits_for_its_moment(task) && task->queue == queue && task->at_ms <= m->wall_ms &&
                (first == SIZE_MAX || task->at_ms < m->tasks[first].at_ms)) {
                first = i;
            }
        }
        if (first == SIZE_MAX) {
            return count;
        }
        make_pending(m, first);
    }
}

void model_prune(struct model *m, size_t queue)
{
    for (size_t i = 0; i < MODEL_TASKS; i++) {
        if (m->tasks[i].state == QUERN_TASK_COMPLETED && m->tasks[i].queue == queue &&
            m->tasks[i].at_ms < m->wall_ms) {
            remove_task(m, i);
        }
    }
}

quern_status model_act(struct model *m, quern_action action, size_t index)
{
    struct model_task *task = &m->tasks[index];
    if (task->state == 0) {
        return QUERN_E_NOT_FOUND;
    }
    if (task->state == QUERN_TASK_ACTIVE ||
        (action == QUERN_ACTION_RUN && task->state == QUERN_TASK_PENDING) ||
        (action == QUERN_ACTION_ARCHIVE && task->state == QUERN_TASK_ARCHIVED)) {
        return QUERN_E_STATE;
    }
    if (action == QUERN_ACTION_RUN) {
        make_pending(m, index);
        hold_lock(m, index, m->wall_ms, 0);
    } else if (action == QUERN_ACTION_ARCHIVE) {
        task->state = QUERN_TASK_ARCHIVED;
        task->at_ms = m->wall_ms;
        archive_lock(m, index);
    } else {
        remove_task(m, index);
    }
    return QUERN_OK;
}

bool model_is_due_at(const struct model *m, int64_t at_ms)
{
    for (size_t i = 0; i < MODEL_TASKS; i++) {
        if (waits_for_its_moment(&m->tasks[i]) && m->tasks[i].at_ms == at_ms) {
            return true;
        }
    }
    return false;
}

bool model_on_edge(const struct model *m)
{
    for (size_t i = 0; i < MODEL_TASKS; i++) {
        const struct model_task *task = &m->tasks[i];
        if ((task->state == QUERN_TASK_ACTIVE && task->lease_until_ms == m->boot_ms) ||
            (task->state == QUERN_TASK_COMPLETED && task->at_ms == m->wall_ms)) {
            return true;
        }
    }
    for (size_t i = 1; i <= MODEL_LOCKS; i++) {
        if (m->locks[i].task != 0 && m->locks[i].until_ms == m->wall_ms) {
            return true;
        }
    }
    return false;
}
