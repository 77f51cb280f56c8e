/* SPDX-License-Identifier: MIT */
/* lib_limit_fleet.c - the tasks and their limits, the workers, and what befalls them. */
#include "lib_limit_fleet.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define SLOTS 24
#define CONTROL_SLOTS 20
#define LEASE_MS 2000
#define STOPPED_MS_MAX 300
#define STALL_MS_MIN 15

/* --- Tasks and limits ------------------------------------------------------------------ */

struct kind {
    const char *queue;
    const char *type;
    const char *key;
    uint32_t share;   /* of 100 tasks */
    uint32_t rest_ms; /* of its handler, at most; half of it on average */
};

/* The shares are those of the rates that the limits allow, so that all kinds last as long. */
static const struct kind kinds[FLEET_KINDS] = {
    [FLEET_PLAIN] = {"plain", "any", NULL, 20, 960},
    [FLEET_WINDOW] = {"window", "any", NULL, 10, 8},
    [FLEET_BUCKET] = {"bucket", "any", NULL, 10, 8},
    [FLEET_SLOW] = {"mixed", "slow", NULL, 9, 960},
    [FLEET_KEY_A] = {"mixed", "any", "a", 9, 960},
    [FLEET_KEY_B] = {"mixed", "any", "b", 9, 960},
    [FLEET_SLOW_KEY_C] = {"mixed", "slow", "c", 3, 960},
    [FLEET_PACED] = {"mixed", "paced", NULL, 10, 8},
    [FLEET_PACED_BURST] = {"mixed", "burst", NULL, 10, 8},
    [FLEET_TENANT_A] = {"tenants", "any", "a", 5, 8},
    [FLEET_TENANT_B] = {"tenants", "any", "b", 5, 8},
    [FLEET_EAST] = {"east", "shared", NULL, 6, 960},
    [FLEET_WEST] = {"west", "shared", NULL, 6, 960},
    [FLEET_EAST_KEY] = {"east", "any", "z", 4, 960},
    [FLEET_WEST_KEY] = {"west", "any", "z", 4, 960},
    [FLEET_EAST_PACED] = {"east", "timed", NULL, 5, 8},
    [FLEET_WEST_PACED] = {"west", "timed", NULL, 5, 8},
    [FLEET_CONTROL] = {"control", "any", NULL, 20, 960},
};

#define S_NS INT64_C(1000000000)
#define BIT(kind) (UINT32_C(1) << (kind))
#define BOTH(kind, other) (BIT(kind) | BIT(other))

const struct fleet_limit fleet_limits[] = {
    {{.queue = "plain", .scope = QUERN_LIMIT_QUEUE, .count = 20},
     {"a queue", BIT(FLEET_PLAIN), BIT(FLEET_PLAIN), 20, 0, 0}},
    {{.queue = "window", .scope = QUERN_LIMIT_QUEUE, .count = 20, .period_ms = 1000},
     {"window a queue", BIT(FLEET_WINDOW), BIT(FLEET_WINDOW), 20, S_NS, 0}},
    {{.queue = "bucket", .scope = QUERN_LIMIT_QUEUE, .count = 20, .period_ms = 1000, .burst = 6},
     {"bucket a queue", BIT(FLEET_BUCKET), BIT(FLEET_BUCKET), 20, S_NS, 6}},
    {{.queue = "mixed", .scope = QUERN_LIMIT_TYPE, .name = "slow", .count = 12},
     {"a type", BIT(FLEET_SLOW) | BIT(FLEET_SLOW_KEY_C), BIT(FLEET_SLOW), 12, 0, 0}},
    {{.queue = "mixed", .scope = QUERN_LIMIT_KEY, .name = "*", .count = 8},
     {"key a", BIT(FLEET_KEY_A), BIT(FLEET_KEY_A), 8, 0, 0}},
    {{.queue = "mixed", .scope = QUERN_LIMIT_KEY, .name = "*", .count = 8},
     {"key b", BIT(FLEET_KEY_B), BIT(FLEET_KEY_B), 8, 0, 0}},
    {{.queue = "mixed", .scope = QUERN_LIMIT_KEY, .name = "*", .count = 8},
     {"key c and its type", BIT(FLEET_SLOW_KEY_C), 0, 8, 0, 0}},
    {{.queue = "mixed", .scope = QUERN_LIMIT_TYPE, .name = "paced", .count = 20, .period_ms = 1000},
     {"window, a type", BIT(FLEET_PACED), BIT(FLEET_PACED), 20, S_NS, 0}},
    {{.queue = "mixed",
      .scope = QUERN_LIMIT_TYPE,
      .name = "burst",
      .count = 20,
      .period_ms = 1000,
      .burst = 6},
     {"bucket, a type", BIT(FLEET_PACED_BURST), BIT(FLEET_PACED_BURST), 20, S_NS, 6}},
    {{.queue = "tenants", .scope = QUERN_LIMIT_KEY, .name = "*", .count = 10, .period_ms = 1000},
     {"window, tenant a", BIT(FLEET_TENANT_A), BIT(FLEET_TENANT_A), 10, S_NS, 0}},
    {{.queue = "tenants", .scope = QUERN_LIMIT_KEY, .name = "*", .count = 10, .period_ms = 1000},
     {"window, tenant b", BIT(FLEET_TENANT_B), BIT(FLEET_TENANT_B), 10, S_NS, 0}},
    {{.queue = QUERN_ALL_QUEUES, .scope = QUERN_LIMIT_TYPE, .name = "shared", .count = 12},
     {"a type, all queues", BOTH(FLEET_EAST, FLEET_WEST), BOTH(FLEET_EAST, FLEET_WEST), 12, 0, 0}},
    {{.queue = QUERN_ALL_QUEUES, .scope = QUERN_LIMIT_KEY, .name = "z", .count = 8},
     {"a key, all queues", BOTH(FLEET_EAST_KEY, FLEET_WEST_KEY),
      BOTH(FLEET_EAST_KEY, FLEET_WEST_KEY), 8, 0, 0}},
    {{.queue = QUERN_ALL_QUEUES,
      .scope = QUERN_LIMIT_TYPE,
      .name = "timed",
      .count = 20,
      .period_ms = 1000},
     {"window, all queues", BOTH(FLEET_EAST_PACED, FLEET_WEST_PACED),
      BOTH(FLEET_EAST_PACED, FLEET_WEST_PACED), 20, S_NS, 0}},
};
const size_t fleet_limit_count = TEST_COUNT(fleet_limits);
const struct limit_rule fleet_control = {.name = "slots, no limit",
                                         .kinds = BIT(FLEET_CONTROL),
                                         .alone = BIT(FLEET_CONTROL),
                                         .count = CONTROL_SLOTS};

static const char *const queues[] = {"plain",   "window", "bucket", "mixed",
                                     "tenants", "east",   "west"};

/* --- The worker ------------------------------------------------------------------------ */

static quern_outcome rest(quern_run *run, const quern_task *task, void *user)
{
    const int *journal = user;
    uint64_t number = fault_number(task);
    fault_write(*journal, FAULT_START, run, number);
    struct pollfd cancelled = {.fd = quern_run_cancel_fd(run), .events = POLLIN};
    const char *rest_ms = strchr(task->payload, ' ');
    (void)poll(&cancelled, 1, (int)strtol(rest_ms, NULL, 10));
    fault_write(*journal, FAULT_END, run, number);
    return QUERN_DONE;
}

void fleet_stall_path(const char *journal, char out[FLEET_PATH_SIZE])
{
    (void)snprintf(out, FLEET_PATH_SIZE, "%s.stalls", journal);
}

/* Never ends; the process does. */
static void *note_stalls(void *user)
{
    const int *stalls = user;
    struct fleet_stall stall = {.pid = getpid()};
    int64_t at_ns = qn_clock_mono_ns();
    for (;;) {
        test_pause_ms(5);
        stall.span = (struct limit_span){.from_ns = at_ns, .until_ns = qn_clock_mono_ns()};
        at_ns = stall.span.until_ns;
        if (at_ns - stall.span.from_ns > STALL_MS_MIN * QN_NS_PER_MS) {
            TEST_REQUIRE(write(*stalls, &stall, sizeof stall) == (ssize_t)sizeof stall);
        }
    }
    return NULL;
}

static void begin_noting(const char *journal)
{
    static int stalls;
    char path[FLEET_PATH_SIZE];
    pthread_t thread;
    fleet_stall_path(journal, path);
    stalls = fault_journal_open(path);
    TEST_REQUIRE(pthread_create(&thread, NULL, note_stalls, &stalls) == 0);
    TEST_REQUIRE(pthread_detach(thread) == 0);
}

int fleet_worker(int argc, char **argv)
{
    quern_error err = {0};
    quern_mux *mux = NULL;
    quern_queue served[TEST_COUNT(queues)];
    static const quern_queue control = {.name = "control", .weight = 1};
    TEST_REQUIRE(argc == 3);
    bool is_control = strcmp(argv[2], "control") == 0;
    int journal = fault_journal_open(argv[1]);
    begin_noting(argv[1]);
    for (size_t i = 0; i < TEST_COUNT(queues); i++) {
        served[i] = (quern_queue){.name = queues[i], .weight = 1};
    }
    const quern_worker_options options = {.queues = is_control ? &control : served,
                                          .queue_count = is_control ? 1 : TEST_COUNT(queues),
                                          .concurrency = is_control ? CONTROL_SLOTS : SLOTS,
                                          .lease_ms = LEASE_MS};
    TEST_REQUIRE(quern_mux_new(&mux, &err) == QUERN_OK);
    TEST_REQUIRE(quern_mux_handle(mux, "*", rest, &journal, NULL, &err) == QUERN_OK);
    int code = fault_serve(argv[0], mux, &options);
    quern_mux_free(mux);
    (void)close(journal);
    return code;
}

/* --- The site -------------------------------------------------------------------------- */

/* Neighbours in the queue are of different kinds. */
uint32_t fleet_kind_of(const struct fleet *fleet, uint64_t number)
{
    uint32_t share = (uint32_t)(number * 37 % fleet->shares);
    for (uint32_t kind = 0; kind < FLEET_KINDS; kind++) {
        uint32_t part = kinds[kind].share;
        if (share < part) {
            return kind;
        }
        share -= part;
    }
    return 0;
}

static void set_limits(const struct fleet *fleet)
{
    quern_error err = {0};
    for (size_t i = 0; i < fleet_limit_count; i++) {
        assert_ok(quern_inspector_set_limit(fleet->inspector, &fleet_limits[i].set, &err), err);
    }
}

#define BATCH 100

static void put_batch(struct fleet *fleet, quern_client *client)
{
    quern_task tasks[BATCH];
    char payloads[BATCH][32];
    char ids[BATCH][16];
    quern_error err = {0};
    for (size_t i = 0; i < BATCH; i++) {
        size_t number = fleet->site.task_count++;
        uint32_t kind = fleet_kind_of(fleet, number);
        fleet->puts[kind]++;
        (void)snprintf(ids[i], sizeof ids[i], "%zu", number);
        (void)snprintf(payloads[i], sizeof payloads[i], "%zu %u", number,
                       (unsigned)qn_random_below(&fleet->random, kinds[kind].rest_ms + 1));
        tasks[i] = (quern_task){.type = kinds[kind].type,
                                .queue = kinds[kind].queue,
                                .limit_key = kinds[kind].key,
                                .id = ids[i],
                                .payload = payloads[i],
                                .payload_size = strlen(payloads[i]),
                                .retention_ms = 24 * 3600 * INT64_C(1000)};
    }
    assert_ok(quern_client_enqueue_batch(client, tasks, BATCH, NULL, &err), err);
}

static struct test_child spawn(const struct fleet *fleet, const char *part)
{
    const char *const args[] = {fleet->site.url, fleet->site.journal, part, NULL};
    return test_spawn("worker", args);
}

static void make_stall_file(const struct fleet *fleet)
{
    char path[FLEET_PATH_SIZE];
    fleet_stall_path(fleet->site.journal, path);
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
}

void fleet_open(struct fleet *fleet, size_t tasks)
{
    quern_client *client = NULL;
    quern_error err = {0};
    *fleet = (struct fleet){.shares = 0};
    qn_random_init_seed(&fleet->random, test_seed());
    fault_site_open(&fleet->site);
    make_stall_file(fleet);
    assert_ok(quern_client_open(fleet->site.url, NULL, &client, &err), err);
    assert_ok(quern_inspector_open(fleet->site.url, NULL, &fleet->inspector, &err), err);
    for (uint32_t kind = 0; kind < FLEET_KINDS; kind++) {
        fleet->shares += kinds[kind].share;
    }
    set_limits(fleet);
    while (fleet->site.task_count < tasks * fleet->shares / 100) {
        put_batch(fleet, client);
    }
    quern_client_free(client);
    fleet->control = spawn(fleet, "control");
    for (size_t i = 0; i < FLEET_WORKERS; i++) {
        fleet->children[i] = spawn(fleet, "limits");
    }
}

void fleet_stop(struct fleet *fleet)
{
    for (size_t i = 0; i < FLEET_WORKERS; i++) {
        test_child_send(&fleet->children[i], 'q');
        assert_int_equal(test_child_join(&fleet->children[i]), 0);
    }
    test_child_send(&fleet->control, 'q');
    assert_int_equal(test_child_join(&fleet->control), 0);
}

void fleet_close(struct fleet *fleet)
{
    quern_inspector_free(fleet->inspector);
    fault_site_close(&fleet->site);
}

/* --- Kills and stops ------------------------------------------------------------------- */

void fleet_stop_one(struct fleet *fleet)
{
    assert_true(fleet->loss_count < FLEET_LOSSES_MAX);
    struct fleet_loss *loss = &fleet->losses[fleet->loss_count++];
    loss->pid = fleet->children[qn_random_below(&fleet->random, FLEET_WORKERS)].pid;
    loss->at_ns = qn_clock_mono_ns();
    assert_int_equal(kill(loss->pid, SIGSTOP), 0);
    test_pause_ms(1 + (int)qn_random_below(&fleet->random, STOPPED_MS_MAX));
    assert_int_equal(kill(loss->pid, SIGCONT), 0);
    loss->until_ns = qn_clock_mono_ns();
}

void fleet_kill_one(struct fleet *fleet)
{
    assert_true(fleet->loss_count < FLEET_LOSSES_MAX);
    struct fleet_loss *loss = &fleet->losses[fleet->loss_count++];
    struct test_child *child = &fleet->children[qn_random_below(&fleet->random, FLEET_WORKERS)];
    *loss = (struct fleet_loss){.pid = child->pid, .killed = true, .at_ns = qn_clock_mono_ns()};
    fault_kill(&fleet->site, child);
    *child = spawn(fleet, "limits");
}

size_t fleet_completed(const struct fleet *fleet)
{
    quern_queue_list *list = NULL;
    quern_error err = {0};
    size_t completed = 0;
    assert_ok(quern_inspector_queues(fleet->inspector, &list, &err), err);
    for (size_t i = 0; i < quern_queue_list_size(list); i++) {
        completed += quern_queue_list_at(list, i)->counts[QUERN_TASK_COMPLETED];
    }
    quern_queue_list_free(list);
    return completed;
}
