/* SPDX-License-Identifier: MIT */
/* test_recover.c - leases that are on another clock: after a reboot, and in a file that
 * several hosts share. The rest of recovery is in the contract suite. */
#include "lib_sqlite.h"

#include <string.h>

#include "broker/owner.h"

#define OTHER_BOOT "01234567-89ab-cdef-0123-456789abcdef"
#define NOW_MS INT64_C(1700000000000)
#define LEASE_MS 30000

struct scene {
    struct lib_sqlite place;
    struct quern_clock clock;
    struct qn_broker *broker;
};

static void scene_make(struct scene *scene, const char *parameters)
{
    char url[160];
    struct qn_broker_options options = {.create = true, .clock = &scene->clock};
    quern_error err = {0};
    lib_sqlite_make(&scene->place);
    qn_clock_init(&scene->clock, NOW_MS, 5000);
    (void)snprintf(url, sizeof url, "sqlite://%s%s", scene->place.path, parameters);
    assert_ok(qn_broker_open(url, &options, &scene->broker, &err), err);
}

static void scene_remove(struct scene *scene)
{
    qn_broker_close(scene->broker);
    lib_sqlite_remove(&scene->place);
}

static void send_heartbeat(struct scene *scene, const char *worker_id, const char *boot_id)
{
    char self[QN_OWNER_SIZE];
    char owner[QN_OWNER_SIZE];
    quern_error err = {0};
    assert_ok(qn_owner_self(self, &err), err);
    (void)snprintf(owner, sizeof owner, "%s%s", boot_id == NULL ? "" : boot_id,
                   boot_id == NULL ? self : strchr(self, ':'));
    const struct qn_heartbeat heartbeat = {.worker_id = worker_id,
                                           .owner = owner,
                                           .host = "h",
                                           .status = "active",
                                           .queues = "default=1",
                                           .pid = 1,
                                           .started_at_ms = NOW_MS,
                                           .concurrency = 1};
    assert_ok(qn_broker_heartbeat(scene->broker, &heartbeat, &err), err);
}

/* Enqueues one task and leases it for this worker. */
static void lease(struct scene *scene, const char *worker_id, const char *id)
{
    struct qn_leased *run = NULL;
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = 1};
    struct qn_exchange exchange = {.worker_id = worker_id,
                                   .lease_ms = LEASE_MS,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = 1,
                                   .start_count_now = 1};
    struct qn_exchange_reply reply = {.runs = &run};
    quern_error err = {0};
    assert_ok(lib_sqlite_enqueue(scene->broker, id, &err), err);
    assert_ok(qn_broker_exchange(scene->broker, &exchange, &reply, &err), err);
    assert_int_equal(reply.run_count, 1);
    assert_string_equal(run->task.id, id);
    qn_leased_free(run);
}

struct recovered {
    size_t count;
    char id[16];
    quern_cause cause;
};

static void note(const struct qn_recovery *recovery, void *user)
{
    struct recovered *recovered = user;
    recovered->count++;
    recovered->cause = recovery->cause;
    (void)snprintf(recovered->id, sizeof recovered->id, "%s", recovery->id);
}

static struct recovered recover(struct scene *scene)
{
    const char *queue = "default";
    struct recovered recovered = {0};
    size_t count = 0;
    quern_error err = {0};
    assert_ok(qn_broker_recover(scene->broker, (struct qn_upkeep){{&queue, 1}, 100},
                                &(struct qn_recovery_sink){note, &recovered}, &count, &err),
              err);
    assert_int_equal(count, recovered.count);
    return recovered;
}

/* Makes the file look as if this were the first boot after that of its leases. */
static void reboot(struct scene *scene)
{
    lib_sqlite_exec(scene->place.path, "UPDATE quern_meta SET boot_id = '" OTHER_BOOT "'");
}

static void reboot_voids_the_leases_of_before(void **state)
{
    (void)state;
    struct scene scene;
    scene_make(&scene, "");
    send_heartbeat(&scene, "before", OTHER_BOOT);
    lease(&scene, "before", "a");
    assert_int_equal(recover(&scene).count, 0);
    reboot(&scene);
    struct recovered recovered = recover(&scene);
    assert_int_equal(recovered.count, 1);
    assert_int_equal(recovered.cause, QUERN_CAUSE_WORKER_DIED);
    assert_int_equal(recover(&scene).count, 0);
    /* No task is charged with a reboot. */
    assert_int_equal(lib_sqlite_query(scene.place.path, "SELECT crash_count FROM quern_task"), 0);
    assert_int_equal(lib_sqlite_query(scene.place.path, "SELECT count(*) FROM quern_host"), 0);
    scene_remove(&scene);
}

static void lease_of_a_vanished_worker_ends_with_its_boot(void **state)
{
    (void)state;
    struct scene scene;
    scene_make(&scene, "");
    lease(&scene, "never announced", "a");
    assert_int_equal(recover(&scene).count, 0);
    reboot(&scene);
    assert_int_equal(recover(&scene).count, 1);
    scene_remove(&scene);
}

static void lease_taken_after_the_reboot_is_kept(void **state)
{
    (void)state;
    struct scene scene;
    scene_make(&scene, "");
    send_heartbeat(&scene, "before", OTHER_BOOT);
    send_heartbeat(&scene, "after", NULL);
    lease(&scene, "before", "old");
    lease(&scene, "after", "new");
    reboot(&scene);
    struct recovered recovered = recover(&scene);
    assert_int_equal(recovered.count, 1);
    assert_string_equal(recovered.id, "old");
    atomic_fetch_add(&scene.clock.boot_ms, LEASE_MS + 1);
    recovered = recover(&scene);
    assert_int_equal(recovered.count, 1);
    assert_string_equal(recovered.id, "new");
    assert_int_equal(recovered.cause, QUERN_CAUSE_LEASE_EXPIRED);
    scene_remove(&scene);
}

/* Its end on the clock of that boot is no longer valid, even before any process has noticed. */
static void delay_of_before_the_reboot_ends_by_the_wall_clock(void **state)
{
    (void)state;
    struct scene scene;
    const char *queue = "q";
    size_t moved = 0;
    int64_t next_due_at_ms = 0;
    quern_error err = {0};
    scene_make(&scene, "");
    lib_sqlite_exec(scene.place.path,
                    "INSERT INTO quern_queue (name) VALUES ('q') ON CONFLICT DO NOTHING");
    lib_sqlite_exec(
        scene.place.path,
        "INSERT INTO quern_task (queue, id, state, place, at_ms, due_boot_ms, retry_max,"
        " timeout_ms, enqueued_at_ms, type) SELECT no, 'late', 3, 1, 1, 1 << 60, 0, 0, 1,"
        " 't' FROM quern_queue WHERE name = 'q'");
    reboot(&scene);
    assert_ok(qn_broker_forward(scene.broker, (struct qn_upkeep){{&queue, 1}, 10}, &moved,
                                &next_due_at_ms, &err),
              err);
    assert_int_equal(moved, 1);
    scene_remove(&scene);
}

/* A stopped process holds the lock, and no lease can be extended. */
static void who_lives_has_a_moment_after_a_long_lock(void **state)
{
    (void)state;
    struct scene scene;
    sqlite3 *other = NULL;
    const char *queue = "default";
    size_t count = 0;
    quern_error err = {0};
    scene_make(&scene, "");
    struct qn_sqlite *self = qn_sqlite_of(scene.broker);
    send_heartbeat(&scene, "me", NULL);
    lease(&scene, "me", "a");
    atomic_store(&scene.broker->command_timeout_ms, 700);
    assert_int_equal(sqlite3_open(scene.place.path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    atomic_fetch_add(&scene.clock.boot_ms, LEASE_MS + 1);
    assert_int_equal(
        qn_broker_recover(scene.broker, (struct qn_upkeep){{&queue, 1}, 100}, NULL, &count, &err),
        QUERN_E_BUSY);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    assert_int_equal(recover(&scene).count, 0);
    atomic_store(&self->rest_until_mono_ns, 1); /* the moment is over */
    assert_int_equal(recover(&scene).count, 1);
    scene_remove(&scene);
}

static void pass(struct scene *scene, int64_t ms)
{
    atomic_fetch_add(&scene->clock.wall_ms, ms);
    atomic_fetch_add(&scene->clock.boot_ms, ms);
}

static void shared_file_judges_other_hosts_by_their_heartbeat(void **state)
{
    (void)state;
    struct scene scene;
    scene_make(&scene, "?unsafe_fs=1");
    send_heartbeat(&scene, "far", OTHER_BOOT);
    lease(&scene, "far", "a");
    /* Its lease may have expired on our clock: that proves nothing. */
    atomic_fetch_add(&scene.clock.boot_ms, 10 * LEASE_MS);
    assert_int_equal(recover(&scene).count, 0);
    pass(&scene, 59000);
    assert_int_equal(recover(&scene).count, 0);
    send_heartbeat(&scene, "far", OTHER_BOOT);
    assert_int_equal(recover(&scene).count, 0);
    pass(&scene, 59000);
    assert_int_equal(recover(&scene).count, 0);
    pass(&scene, 2000);
    struct recovered recovered = recover(&scene);
    assert_int_equal(recovered.count, 1);
    assert_int_equal(recovered.cause, QUERN_CAUSE_WORKER_DIED);
    /* All of that host are silent: it may have been rebooted. */
    assert_int_equal(lib_sqlite_query(scene.place.path, "SELECT crash_count FROM quern_task"), 0);
    assert_int_equal(lib_sqlite_query(scene.place.path, "SELECT count(*) FROM quern_host"), 0);
    assert_int_equal(lib_sqlite_query(scene.place.path, "SELECT count(*) FROM quern_worker"), 0);
    scene_remove(&scene);
}

static void worker_of_a_host_that_lives_is_charged_with_its_death(void **state)
{
    (void)state;
    struct scene scene;
    scene_make(&scene, "?unsafe_fs=1");
    send_heartbeat(&scene, "far", OTHER_BOOT);
    lease(&scene, "far", "a");
    assert_int_equal(recover(&scene).count, 0);
    pass(&scene, 61000);
    send_heartbeat(&scene, "mate", OTHER_BOOT);
    assert_int_equal(recover(&scene).count, 1);
    assert_int_equal(lib_sqlite_query(scene.place.path, "SELECT crash_count FROM quern_task"), 1);
    scene_remove(&scene);
}

/* An hour ahead or behind, for a moment or for good, here or there: only what changes counts. */
static void shared_file_needs_no_right_wall_clock(void **state)
{
    (void)state;
    static const int64_t jumps_ms[] = {3600000, -7200000, 3600000};
    struct scene scene;
    scene_make(&scene, "?unsafe_fs=1");
    send_heartbeat(&scene, "far", OTHER_BOOT);
    lease(&scene, "far", "a");
    for (size_t i = 0; i < TEST_COUNT(jumps_ms); i++) {
        atomic_fetch_add(&scene.clock.wall_ms, jumps_ms[i]);
        assert_int_equal(recover(&scene).count, 0);
        pass(&scene, 30000);
        assert_int_equal(recover(&scene).count, 0);
        send_heartbeat(&scene, "far", OTHER_BOOT);
        assert_int_equal(recover(&scene).count, 0);
    }
    atomic_fetch_add(&scene.clock.wall_ms, 3600000);
    send_heartbeat(&scene, "far", OTHER_BOOT);
    atomic_fetch_add(&scene.clock.wall_ms, -3600000);
    assert_int_equal(recover(&scene).count, 0);
    pass(&scene, 61000);
    assert_int_equal(recover(&scene).count, 1);
    scene_remove(&scene);
}

static void silent_record_goes_when_it_holds_nothing(void **state)
{
    (void)state;
    struct scene scene;
    scene_make(&scene, "");
    send_heartbeat(&scene, "far", OTHER_BOOT);
    lease(&scene, "far", "a");
    atomic_fetch_add(&scene.clock.wall_ms, 61000);
    assert_int_equal(recover(&scene).count, 0);
    assert_int_equal(lib_sqlite_query(scene.place.path, "SELECT count(*) FROM quern_worker"), 1);
    atomic_fetch_add(&scene.clock.boot_ms, LEASE_MS + 1);
    assert_int_equal(recover(&scene).count, 1);
    assert_int_equal(recover(&scene).count, 0);
    assert_int_equal(lib_sqlite_query(scene.place.path, "SELECT count(*) FROM quern_worker"), 0);
    scene_remove(&scene);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(reboot_voids_the_leases_of_before),
    cmocka_unit_test(lease_of_a_vanished_worker_ends_with_its_boot),
    cmocka_unit_test(lease_taken_after_the_reboot_is_kept),
    cmocka_unit_test(who_lives_has_a_moment_after_a_long_lock),
    cmocka_unit_test(delay_of_before_the_reboot_ends_by_the_wall_clock),
    cmocka_unit_test(shared_file_judges_other_hosts_by_their_heartbeat),
    cmocka_unit_test(worker_of_a_host_that_lives_is_charged_with_its_death),
    cmocka_unit_test(shared_file_needs_no_right_wall_clock),
    cmocka_unit_test(silent_record_goes_when_it_holds_nothing),
};
TEST_MAIN(tests)
