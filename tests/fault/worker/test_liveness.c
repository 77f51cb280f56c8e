/* SPDX-License-Identifier: MIT */
/* test_liveness.c - a worker says when it cannot fetch: to its callback and its log, in its
 * statistics, its health, and its record at the broker.
 *
 * The linker puts functions of this test around those of the broker, so that the calls of one
 * thread hang or fail while those of the others are answered. */
#include "lib_worker.h"

#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "quern/inspector.h"
#include "worker/internal.h"

enum { STALL_MS = 2000, LEASE_MS = 1000, STEADY_MS = STALL_MS + LEASE_MS };

static const quern_worker_options options = {
    .concurrency = 2, .lease_ms = LEASE_MS, .stall_timeout_ms = STALL_MS};

static struct {
    _Atomic bool fetch_fails;  /* requests for tasks get no answer */
    _Atomic bool all_fail;     /* nor does anything else */
    _Atomic bool pump_hangs;   /* in a request for tasks */
    _Atomic bool keeper_hangs; /* in its heartbeat */
    _Atomic int wall_ahead_s;  /* of the real time */
    _Atomic int reports;       /* calls of on_health */
    _Atomic int unready_reports;
} world;

static void wait_while(const _Atomic bool *flag)
{
    while (atomic_load(flag)) {
        test_pause_ms(5);
    }
}

static quern_status refuse(quern_error *err)
{
    return qn_error_set(err, QUERN_E_CONNECT, "no answer, by the test");
}

static bool fetch_fails(void)
{
    wait_while(&world.pump_hangs);
    return atomic_load(&world.fetch_fails) || atomic_load(&world.all_fail);
}

qn_exchange_fn __real_qn_broker_exchange;
qn_exchange_fn __wrap_qn_broker_exchange;
qn_arm_fn __real_qn_broker_arm;
qn_arm_fn __wrap_qn_broker_arm;
qn_heartbeat_fn __real_qn_broker_heartbeat;
qn_heartbeat_fn __wrap_qn_broker_heartbeat;
qn_extend_fn __real_qn_broker_extend;
qn_extend_fn __wrap_qn_broker_extend;
qn_recover_fn __real_qn_broker_recover;
qn_recover_fn __wrap_qn_broker_recover;
qn_forward_fn __real_qn_broker_forward;
qn_forward_fn __wrap_qn_broker_forward;
qn_prune_fn __real_qn_broker_prune;
qn_prune_fn __wrap_qn_broker_prune;
qn_wait_fn __real_qn_broker_wait;
qn_wait_fn __wrap_qn_broker_wait;

quern_status __wrap_qn_broker_exchange(struct qn_broker *broker, struct qn_exchange *exchange,
                                       struct qn_exchange_reply *reply, quern_error *err)
{
    return fetch_fails() ? refuse(err) : __real_qn_broker_exchange(broker, exchange, reply, err);
}

quern_status __wrap_qn_broker_arm(struct qn_broker *broker, struct qn_names queues, bool *ret_work,
                                  int64_t *ret_next_due_at_ms, quern_error *err)
{
    return fetch_fails() ? refuse(err)
                         : __real_qn_broker_arm(broker, queues, ret_work, ret_next_due_at_ms, err);
}

quern_status __wrap_qn_broker_heartbeat(struct qn_broker *broker,
                                        const struct qn_heartbeat *heartbeat, quern_error *err)
{
    wait_while(&world.keeper_hangs);
    return world.all_fail ? refuse(err) : __real_qn_broker_heartbeat(broker, heartbeat, err);
}

quern_status __wrap_qn_broker_extend(struct qn_broker *broker, struct qn_extension *extensions,
                                     size_t count, int64_t lease_ms, quern_error *err)
{
    return world.all_fail ? refuse(err)
                          : __real_qn_broker_extend(broker, extensions, count, lease_ms, err);
}

quern_status __wrap_qn_broker_recover(struct qn_broker *broker, struct qn_upkeep upkeep,
                                      const struct qn_recovery_sink *sink, size_t *ret_recovered,
                                      quern_error *err)
{
    return world.all_fail ? refuse(err)
                          : __real_qn_broker_recover(broker, upkeep, sink, ret_recovered, err);
}

quern_status __wrap_qn_broker_forward(struct qn_broker *broker, struct qn_upkeep upkeep,
                                      size_t *ret_moved, int64_t *ret_next_due_at_ms,
                                      quern_error *err)
{
    return world.all_fail
               ? refuse(err)
               : __real_qn_broker_forward(broker, upkeep, ret_moved, ret_next_due_at_ms, err);
}

quern_status __wrap_qn_broker_prune(struct qn_broker *broker, struct qn_upkeep upkeep,
                                    size_t *ret_removed, quern_error *err)
{
    return world.all_fail ? refuse(err) : __real_qn_broker_prune(broker, upkeep, ret_removed, err);
}

quern_status __wrap_qn_broker_wait(struct qn_broker *broker, int64_t timeout_ms,
                                   struct qn_wakeup *ret_wakeup, quern_error *err)
{
    return world.all_fail ? refuse(err)
                          : __real_qn_broker_wait(broker, timeout_ms, ret_wakeup, err);
}

/* --- Looking --------------------------------------------------------------------------- */

static void on_health(const quern_worker_health *health, void *user)
{
    (void)user;
    atomic_fetch_add(&world.reports, 1);
    atomic_fetch_add(&world.unready_reports, health->ready ? 0 : 1);
}

static quern_worker_health health_of(struct rig_worker *worker)
{
    quern_worker_health health;
    quern_worker_get_health(worker->worker, &health);
    return health;
}

static quern_worker_check check_of(struct rig_worker *worker, const char *name)
{
    quern_worker_health health = health_of(worker);
    for (size_t i = 0; i < health.check_count; i++) {
        if (strcmp(health.checks[i].name, name) == 0) {
            return health.checks[i];
        }
    }
    fail_msg("there is no check %s", name);
    return (quern_worker_check){.ok = false};
}

static bool is_ready(void *worker)
{
    return health_of(worker).ready;
}

static bool has_asked(void *worker)
{
    return health_of(worker).exchange_age_ms >= 0;
}

static bool is_unready(void *worker)
{
    return !health_of(worker).ready;
}

static bool is_dead(void *worker)
{
    return !health_of(worker).live;
}

/* As its record says. */
static quern_worker_status recorded(struct rig *rig, int64_t *ret_exchange_age_ms)
{
    quern_error error = {0};
    quern_inspector *inspector = NULL;
    quern_worker_list *list = NULL;
    assert_ok(quern_inspector_open(rig->url, NULL, &inspector, &error), error);
    assert_ok(quern_inspector_workers(inspector, &list, &error), error);
    assert_int_equal(quern_worker_list_size(list), 1);
    const quern_worker_info *info = quern_worker_list_at(list, 0);
    quern_worker_status status = info->status;
    *ret_exchange_age_ms =
        info->exchanged_at_ms == 0 ? -1 : info->heartbeat_at_ms - info->exchanged_at_ms;
    quern_worker_list_free(list);
    quern_inspector_free(inspector);
    return status;
}

static bool is_recorded_as_stalled(void *rig)
{
    int64_t age_ms;
    return recorded(rig, &age_ms) == QUERN_WORKER_STALLED;
}

static bool is_recorded_as_active(void *rig)
{
    int64_t age_ms;
    return recorded(rig, &age_ms) == QUERN_WORKER_ACTIVE;
}

static struct rig *begin(struct rig_worker *worker)
{
    struct rig *rig = rig_new(false);
    quern_worker_options with_callback = options;
    with_callback.on_health = on_health;
    (void)memset(&world, 0, sizeof world);
    rig_start(rig, worker, &with_callback);
    assert_true(test_until(is_ready, worker));
    assert_true(test_until(has_asked, worker));
    return rig;
}

static void end(struct rig *rig, struct rig_worker *worker)
{
    rig_stop(worker);
    rig_free(rig);
}

/* --- Tests ------------------------------------------------------------------------------- */

/* On queues of their own. */
static void start_another(struct rig *rig, struct rig_worker *worker, const quern_queue *queue)
{
    quern_worker_options on_queue = options;
    on_queue.queues = queue;
    on_queue.queue_count = 1;
    rig_start(rig, worker, &on_queue);
    assert_true(test_until(is_ready, worker));
}

static void start_full(struct rig *rig, struct rig_worker *worker)
{
    static const quern_queue queue = {.name = "full"};
    start_another(rig, worker, &queue);
    for (size_t i = 0; i < options.concurrency; i++) {
        const quern_task task = {
            .type = "t", .queue = "full", .payload = "hold", .payload_size = 4};
        rig_put_task(rig, &task);
    }
    rig_wait_starts(rig, options.concurrency);
}

static void idle_full_and_quiet_workers_do_not_stall(void **state)
{
    (void)state;
    static const quern_queue queue = {.name = "quiet"};
    struct rig_worker idle;
    struct rig_worker full;
    struct rig_worker quiet;
    struct rig *rig = begin(&idle);
    start_full(rig, &full);
    start_another(rig, &quiet, &queue);
    quern_worker_quiet(quiet.worker);
    assert_true(test_until(is_unready, &quiet));
    assert_string_equal(check_of(&quiet, "accepting").detail, "quiet");
    int64_t until_ms = test_now_ms() + STEADY_MS;
    while (test_now_ms() < until_ms) {
        quern_worker_health health = health_of(&idle);
        assert_true(health.live && health.ready && health.started);
        assert_true(health.exchange_age_ms >= 0 && health.exchange_age_ms < STALL_MS);
        assert_true(health_of(&full).ready);
        assert_true(health_of(&quiet).live && check_of(&quiet, "broker").ok);
        test_pause_ms(50);
    }
    int64_t at_ms = rig_stats(&idle).exchanged_at_ms;
    assert_true(at_ms > qn_clock_wall_ms(qn_clock_system()) - STALL_MS);
    assert_int_equal(world.unready_reports, 0);
    assert_false(rig_logged(rig, "stalled"));
    quern_worker_resume(quiet.worker);
    assert_true(test_until(is_ready, &quiet));
    rig_stop(&quiet);
    rig_open_gate(rig);
    rig_stop(&full);
    end(rig, &idle);
}

static void one_that_alone_gets_no_answer_is_dead_and_its_record_says_that_it_stalls(void **state)
{
    (void)state;
    struct rig_worker worker;
    struct rig *rig = begin(&worker);
    world.fetch_fails = true;
    assert_true(test_until(is_unready, &worker));
    quern_worker_check broker = check_of(&worker, "broker");
    assert_true(!broker.ok && broker.for_ms >= STALL_MS);
    assert_true(test_until(is_recorded_as_stalled, rig));
    int64_t age_ms;
    assert_int_equal(recorded(rig, &age_ms), QUERN_WORKER_STALLED);
    assert_true(age_ms >= STALL_MS);
    rig_wait_log(rig, "worker has stalled");
    assert_false(rig_stats(&worker).ready);
    assert_true(test_until(is_dead, &worker));
    assert_false(check_of(&worker, "fetch").ok);
    assert_true(world.unready_reports > 0);
    world.fetch_fails = false;
    assert_true(test_until(is_ready, &worker));
    rig_wait_log(rig, "worker no longer stalls");
    assert_true(test_until(is_recorded_as_active, rig));
    end(rig, &worker);
}

static void a_broker_that_is_away_makes_it_unready_and_not_dead(void **state)
{
    (void)state;
    struct rig_worker idle;
    struct rig_worker full;
    struct rig *rig = begin(&idle);
    start_full(rig, &full);
    world.all_fail = true;
    assert_true(test_until(is_unready, &idle));
    assert_true(test_until(is_unready, &full));
    assert_false(check_of(&full, "broker").ok);
    int64_t until_ms = test_now_ms() + STEADY_MS;
    while (test_now_ms() < until_ms) {
        quern_worker_health health = health_of(&idle);
        assert_true(health.live && !health.ready);
        assert_true(health_of(&full).live);
        test_pause_ms(50);
    }
    world.all_fail = false;
    assert_true(test_until(is_ready, &idle));
    assert_true(test_until(is_ready, &full));
    rig_open_gate(rig);
    rig_stop(&full);
    end(rig, &idle);
}

static void a_pump_that_hangs_is_named(void **state)
{
    (void)state;
    struct rig_worker worker;
    struct rig *rig = begin(&worker);
    world.pump_hangs = true;
    assert_true(test_until(is_unready, &worker));
    assert_true(test_until(is_dead, &worker));
    quern_worker_check threads = check_of(&worker, "threads");
    assert_false(threads.ok);
    assert_true(strstr(threads.detail, "hangs") != NULL);
    world.pump_hangs = false;
    assert_true(test_until(is_ready, &worker));
    end(rig, &worker);
}

static void a_keeper_that_hangs_is_named(void **state)
{
    (void)state;
    struct rig_worker worker;
    struct rig *rig = begin(&worker);
    world.keeper_hangs = true;
    assert_true(test_until(is_dead, &worker));
    assert_string_equal(check_of(&worker, "threads").detail, "thread keeper hangs");
    rig_wait_log(rig, "keeper hangs");
    world.keeper_hangs = false;
    assert_true(test_until(is_ready, &worker));
    end(rig, &worker);
}

/* Whatever holds it. */
static void health_is_known_while_the_lock_of_the_worker_is_held(void **state)
{
    (void)state;
    struct rig_worker worker;
    struct rig *rig = begin(&worker);
    pthread_mutex_t *mutex = &worker.worker->mutex;
    (void)pthread_mutex_lock(mutex);
    quern_worker_health health = health_of(&worker);
    (void)pthread_mutex_unlock(mutex);
    assert_false(health.live || health.ready);
    assert_true(test_until(is_ready, &worker));
    end(rig, &worker);
}

/* As a clock that is set while the lock is waited for: what is counted from it is an hour off. */
int clock_gettime(clockid_t id, struct timespec *ret_now)
{
    int code = (int)syscall(SYS_clock_gettime, id, ret_now);
    ret_now->tv_sec += id == CLOCK_REALTIME ? atomic_load(&world.wall_ahead_s) : 0;
    return code;
}

struct holder {
    pthread_mutex_t *mutex;
    _Atomic bool holds;
    _Atomic bool released;
};

static bool is_held(void *user)
{
    return atomic_load(&((struct holder *)user)->holds);
}

static bool is_released(void *user)
{
    return atomic_load(&((struct holder *)user)->released);
}

static void *hold_for_long(void *user)
{
    struct holder *holder = user;
    (void)pthread_mutex_lock(holder->mutex);
    atomic_store(&holder->holds, true);
    (void)test_until(is_released, holder);
    (void)pthread_mutex_unlock(holder->mutex);
    return NULL;
}

static void wall_clock_that_jumps_does_not_delay_health(void **state)
{
    (void)state;
    struct rig_worker worker;
    struct rig *rig = begin(&worker);
    struct holder holder = {.mutex = &worker.worker->mutex};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, hold_for_long, &holder), 0);
    assert_true(test_until(is_held, &holder));
    atomic_store(&world.wall_ahead_s, 3600);
    quern_worker_health health = health_of(&worker);
    atomic_store(&world.wall_ahead_s, 0);
    atomic_store(&holder.released, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(health.live);
    assert_true(test_until(is_ready, &worker));
    end(rig, &worker);
}

static void one_that_drains_is_live_and_not_ready(void **state)
{
    (void)state;
    struct rig_worker worker;
    struct rig *rig = begin(&worker);
    rig_put(rig, "a", "hold");
    rig_wait_starts(rig, 1);
    quern_worker_stop(worker.worker);
    assert_true(test_until(is_unready, &worker));
    assert_string_equal(check_of(&worker, "accepting").detail, "draining");
    assert_true(health_of(&worker).live);
    rig_open_gate(rig);
    assert_int_equal(rig_join(&worker), QUERN_OK);
    rig_free(rig);
}

/* A handler that ignores its cancellation, in each slot and in each thread that replaces one. */
static void one_without_a_slot_is_not_ready(void **state)
{
    (void)state;
    struct rig_worker worker;
    struct rig *rig = begin(&worker);
    quern_worker_options hasty = options;
    static const quern_queue queue = {.name = "hang"};
    struct rig_worker hung;
    hasty.queues = &queue;
    hasty.queue_count = 1;
    hasty.concurrency = 1;
    hasty.quarantine_after_ms = 20;
    rig_start(rig, &hung, &hasty);
    for (size_t i = 0; i < 1 + QN_REPLACED_MAX(1); i++) {
        const quern_task task = {.type = "t",
                                 .queue = "hang",
                                 .payload = "hold",
                                 .payload_size = 4,
                                 .timeout_ms = 20,
                                 .retry_max = QUERN_RETRY_NEVER};
        rig_put_task(rig, &task);
    }
    rig_wait_log(rig, "no slot is left");
    quern_worker_health health = health_of(&hung);
    assert_true(health.live && !health.ready);
    assert_false(check_of(&hung, "slots").ok);
    rig_open_gate(rig);
    assert_true(test_until(is_ready, &hung));
    rig_stop(&hung);
    end(rig, &worker);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("sqlite", idle_full_and_quiet_workers_do_not_stall),
    cmocka_unit_test(one_that_alone_gets_no_answer_is_dead_and_its_record_says_that_it_stalls),
    TEST_ONLY_OVER("sqlite", a_broker_that_is_away_makes_it_unready_and_not_dead),
    TEST_ONLY_OVER("sqlite", a_pump_that_hangs_is_named),
    TEST_ONLY_OVER("sqlite", a_keeper_that_hangs_is_named),
    TEST_ONLY_OVER("sqlite", health_is_known_while_the_lock_of_the_worker_is_held),
    TEST_ONLY_OVER("sqlite", wall_clock_that_jumps_does_not_delay_health),
    TEST_ONLY_OVER("sqlite", one_that_drains_is_live_and_not_ready),
    TEST_ONLY_OVER("sqlite", one_without_a_slot_is_not_ready),
};

TEST_MAIN_OVER_BROKERS(tests)
