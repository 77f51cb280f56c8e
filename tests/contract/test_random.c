/* SPDX-License-Identifier: MIT */
/* test_random.c - thousands of random operations on a broker and on the model of one (lib_model.c):
 * after each of them the answers and all numbers of the queues must be the same.
 *
 * Old runs are kept and reported again at random, so stale tokens and salvage occur all the time;
 * the broker is closed and opened again, and requests are replayed. A failure prints the seed. */
#include "lib_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"

#define RUNS_MAX 96

struct game {
    struct contract *c;
    struct model model;
    struct qn_random random;
    struct qn_leased *runs[RUNS_MAX]; /* finished and lost ones, too */
    size_t run_count;
    uint64_t step;
};

static const char *const queue_names[MODEL_QUEUES] = {"default", "other"};

static uint64_t dice(struct game *g, uint64_t sides)
{
    return qn_random_below(&g->random, sides);
}

static void id_of(size_t index, char out[32])
{
    (void)snprintf(out, 32, "task-%zu", index / MODEL_QUEUES);
}

static size_t index_of(const struct qn_leased *run)
{
    size_t queue = strcmp(run->task.queue, queue_names[0]) == 0 ? 0 : 1;
    return model_index(strtoul(run->task.id + strlen("task-"), NULL, 10), queue);
}

/* A delay such that no two tasks are due at the same moment. */
static int64_t pick_delay_ms(struct game *g)
{
    int64_t delay_ms = 1 + (int64_t)dice(g, 40000);
    while (model_is_due_at(&g->model, g->model.wall_ms + delay_ms)) {
        delay_ms++;
    }
    return delay_ms;
}

static void enqueue(struct game *g)
{
    char id[32];
    static const char *const keys[] = {"a", "b"};
    size_t index = dice(g, MODEL_TASKS);
    struct model_task expected = {.state = QUERN_TASK_PENDING,
                                  .queue = index % MODEL_QUEUES,
                                  .retry_max = (int64_t)dice(g, 3),
                                  .retention_ms = dice(g, 2) == 0 ? 0 : 20000};
    id_of(index, id);
    quern_task task = {.type = "t",
                       .id = id,
                       .queue = queue_names[expected.queue],
                       .retry_max =
                           expected.retry_max == 0 ? QUERN_RETRY_NEVER : expected.retry_max,
                       .retention_ms = expected.retention_ms};
    if (dice(g, 4) == 0) {
        task.delay_ms = pick_delay_ms(g);
        expected.state = QUERN_TASK_SCHEDULED;
        expected.at_ms = g->model.wall_ms + task.delay_ms;
    }
    if (dice(g, 3) == 0) {
        size_t key = dice(g, 2);
        expected.lock = model_lock_of(key, expected.queue);
        expected.payload = *keys[key];
        task.payload = keys[key];
        task.payload_size = 1;
        task.unique_ms = MODEL_UNIQUE_MS;
    }
    assert_int_equal(contract_try(g->c, &task),
                     model_enqueue(&g->model, index, &expected, MODEL_UNIQUE_MS));
}

static void keep_run(struct game *g, struct qn_leased *run)
{
    if (g->run_count == RUNS_MAX) {
        size_t victim = dice(g, RUNS_MAX);
        qn_leased_free(g->runs[victim]);
        g->runs[victim] = run;
        return;
    }
    g->runs[g->run_count++] = run;
}

static void assert_payload(const struct qn_leased *run, char payload)
{
    assert_int_equal(run->task.payload_size, payload == '\0' ? 0 : 1);
    if (payload != '\0') {
        assert_int_equal(*(const char *)run->task.payload, payload);
    }
}

static void exchange(struct game *g)
{
    size_t queue = dice(g, MODEL_QUEUES);
    uint32_t room = (uint32_t)dice(g, 5);
    struct qn_leased *runs[4] = {0};
    struct qn_queue_share share = {.name = queue_names[queue], .weight = 1, .quota = room};
    uint32_t started = (uint32_t)dice(g, room + 1);
    struct qn_exchange request = {
        .queues = &share, .queue_count = 1, .room = room, .start_count_now = started};
    size_t count = contract_exchange(g->c, &request, NULL, runs);
    assert_int_equal(share.paused, g->model.paused[queue]);
    for (size_t i = 0; i < room; i++) {
        size_t expected = model_lease(&g->model, queue, i < started);
        assert_int_equal(expected == SIZE_MAX, i >= count);
        if (expected != SIZE_MAX) {
            assert_int_equal(index_of(runs[i]), expected);
            assert_int_equal(runs[i]->retry_count, g->model.tasks[expected].retry_count);
            assert_int_equal(runs[i]->task.retry_max, g->model.tasks[expected].retry_max);
            assert_payload(runs[i], g->model.tasks[expected].payload);
            g->model.tasks[expected].token = runs[i]->token;
            keep_run(g, runs[i]);
        }
    }
}

/* Half of the runs leave a checkpoint. False: this one does not. */
static bool pick_change(struct game *g, struct qn_task_change *ret_change,
                        struct model_change *ret_model)
{
    static const char *const payloads[] = {"v", "w", "x", "y"};
    *ret_change = (struct qn_task_change){0};
    *ret_model = (struct model_change){.retry_max = -1, .queue = SIZE_MAX};
    if (dice(g, 2) == 0) {
        const char *payload = payloads[dice(g, TEST_COUNT(payloads))];
        ret_change->payload = payload;
        ret_change->payload_size = 1;
        ret_change->has_payload = true;
        ret_model->payload = *payload;
    }
    if (dice(g, 3) == 0) {
        ret_model->retry_max = (int64_t)dice(g, 4);
        ret_change->retry_max = ret_model->retry_max;
        ret_change->has_retry_max = true;
    }
    if (dice(g, 2) == 0) {
        ret_model->queue = dice(g, MODEL_QUEUES);
        ret_change->queue = queue_names[ret_model->queue];
    }
    return dice(g, 2) == 0;
}

static void end_run(struct game *g)
{
    static const enum qn_outcome_kind kinds[] = {QN_DONE,  QN_DONE,   QN_DROP,    QN_RETRY,
                                                 QN_RETRY, QN_SNOOZE, QN_ARCHIVE, QN_GIVE_BACK,
                                                 QN_CRASH, QN_ASIDE};
    if (g->run_count == 0) {
        return;
    }
    struct qn_leased *run = g->runs[dice(g, g->run_count)];
    enum qn_applied applied = QN_STALE;
    enum qn_outcome_kind kind = kinds[dice(g, TEST_COUNT(kinds))];
    struct qn_task_change change;
    struct model_change same_change;
    bool changes = pick_change(g, &change, &same_change) &&
                   (kind != QN_GIVE_BACK || !model_is_due_at(&g->model, g->model.wall_ms));
    struct qn_outcome outcome = {.run = run,
                                 .kind = kind,
                                 .cause = QUERN_CAUSE_GIVEN_BACK,
                                 .delay_ms = pick_delay_ms(g),
                                 .error = "broken",
                                 .change = changes ? &change : NULL};
    struct qn_queue_share share = {.name = run->task.queue, .weight = 1};
    struct qn_exchange request = {
        .outcomes = &outcome, .outcome_count = 1, .queues = &share, .queue_count = 1};
    assert_int_equal(contract_exchange(g->c, &request, &applied, NULL), 0);
    const struct model_end end = {.index = index_of(run),
                                  .token = run->token,
                                  .kind = outcome.kind,
                                  .delay_ms = outcome.delay_ms,
                                  .change = changes ? &same_change : NULL};
    enum qn_applied expected = model_end(&g->model, &end);
    assert_int_equal(applied, expected);
    if (dice(g, 4) == 0) {
        /* The reply was lost: the same stamp again gives the same answer. */
        applied = QN_STALE;
        assert_int_equal(contract_exchange(g->c, &request, &applied, NULL), 0);
        assert_int_equal(applied, expected);
    }
}

static void extend(struct game *g)
{
    if (g->run_count == 0) {
        return;
    }
    struct qn_extension extension = {.run = g->runs[dice(g, g->run_count)]};
    quern_error err = {0};
    assert_ok(qn_broker_extend(g->c->broker, &extension, 1, CONTRACT_LEASE_MS, &err), err);
    assert_int_equal(extension.held,
                     model_extend(&g->model, index_of(extension.run), extension.run->token));
}

static void upkeep(struct game *g)
{
    size_t queue = dice(g, MODEL_QUEUES);
    size_t removed = 0;
    quern_error err = {0};
    switch (dice(g, 3)) {
    case 0:
        if (model_is_contested(&g->model, queue)) {
            break;
        }
        assert_int_equal(contract_recover(g->c, queue_names[queue]),
                         model_recover(&g->model, queue));
        break;
    case 1:
        assert_int_equal(contract_forward(g->c, queue_names[queue], NULL),
                         model_forward(&g->model, queue));
        break;
    default:
        assert_ok(qn_broker_prune(g->c->broker, (struct qn_upkeep){{&queue_names[queue], 1}, 1000},
                                  &removed, &err),
                  err);
        model_prune(&g->model, queue);
        break;
    }
}

static void pass_time(struct game *g)
{
    int64_t ms = dice(g, 8) == 0 ? (int64_t)dice(g, 40000) : (int64_t)dice(g, 2000);
    do {
        contract_advance(g->c, ms);
        g->model.wall_ms += ms;
        g->model.boot_ms += ms;
        ms = 1;
    } while (model_on_edge(&g->model));
}

/* The actions of an operator; the runs of the affected task are forgotten, since the contract
 * leaves open whether their success would still be salvaged. */
static void act(struct game *g)
{
    static const quern_action actions[] = {QUERN_ACTION_RUN, QUERN_ACTION_ARCHIVE,
                                           QUERN_ACTION_DELETE};
    size_t index = dice(g, MODEL_TASKS);
    quern_action action = actions[dice(g, TEST_COUNT(actions))];
    char id[32];
    quern_error err = {0};
    id_of(index, id);
    quern_status status =
        qn_broker_operate(g->c->broker, action, queue_names[index % MODEL_QUEUES], id, &err);
    quern_status expected = model_act(&g->model, action, index);
    if (expected == QUERN_E_NOT_FOUND &&
        contract_queue(g->c, queue_names[index % 2]).name == NULL) {
        return;
    }
    assert_int_equal(status, expected);
    for (size_t i = 0; expected == QUERN_OK && i < g->run_count;) {
        if (index_of(g->runs[i]) == index) {
            qn_leased_free(g->runs[i]);
            g->runs[i] = g->runs[--g->run_count];
        } else {
            i++;
        }
    }
}

static void pause_or_reopen(struct game *g)
{
    size_t queue = dice(g, MODEL_QUEUES);
    quern_error err = {0};
    if (dice(g, 3) == 0) {
        qn_broker_close(g->c->broker);
        g->c->broker = contract_open(g->c);
        return;
    }
    g->model.paused[queue] = !g->model.paused[queue];
    assert_ok(qn_broker_pause(g->c->broker, queue_names[queue], g->model.paused[queue], &err), err);
}

static void compare(struct game *g)
{
    for (size_t queue = 0; queue < MODEL_QUEUES; queue++) {
        uint64_t counts[QUERN_TASK_STATE_COUNT] = {0};
        for (size_t i = 0; i < MODEL_TASKS; i++) {
            const struct model_task *task = &g->model.tasks[i];
            counts[task->state] += task->state != 0 && task->queue == queue ? 1 : 0;
        }
        quern_queue_info info = contract_queue(g->c, queue_names[queue]);
        assert_memory_equal(info.counts, counts, sizeof counts);
        assert_int_equal(info.processed_total, g->model.processed[queue]);
        assert_int_equal(info.failed_total, g->model.failed[queue]);
        assert_int_equal(info.paused_at_ms != 0, g->model.paused[queue]);
    }
}

static void move(struct game *g)
{
    uint64_t roll = dice(g, 100);
    if (roll < 25) {
        enqueue(g);
    } else if (roll < 45) {
        exchange(g);
    } else if (roll < 70) {
        end_run(g);
    } else if (roll < 75) {
        extend(g);
    } else if (roll < 85) {
        upkeep(g);
    } else if (roll < 93) {
        pass_time(g);
    } else if (roll < 98) {
        act(g);
    } else {
        pause_or_reopen(g);
    }
}

static void report_violation(const quern_finding *finding, void *user)
{
    if (finding->severity >= 2) {
        print_message("%s: %s\n", finding->invariant, finding->text);
        (*(size_t *)user)++;
    }
}

static void random_operations_end_as_in_the_model(struct contract *c)
{
    struct game *g = calloc(1, sizeof *g);
    size_t violations = 0;
    quern_error err = {0};
    assert_non_null(g);
    *g = (struct game){.c = c,
                       .model = {.next_place = 1,
                                 .wall_ms = CONTRACT_NOW_MS,
                                 .boot_ms = qn_clock_boot_ms(&c->clock)}};
    qn_random_init_seed(&g->random, test_seed());
    uint64_t steps = test_full() ? 100000 : 4000;
    for (g->step = 0; g->step < steps; g->step++) {
        move(g);
        compare(g);
    }
    assert_ok(qn_broker_doctor(c->broker, false, report_violation, &violations, &err), err);
    assert_int_equal(violations, 0);
    while (g->run_count > 0) {
        qn_leased_free(g->runs[--g->run_count]);
    }
    free(g);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(random_operations_end_as_in_the_model),
};
CONTRACT_MAIN(tests)
