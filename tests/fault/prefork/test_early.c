/* SPDX-License-Identifier: MIT */
/* test_early.c - at most once: a task that is acknowledged early, in a worker with children of
 * which one is killed at each step of its way.
 *
 * Each step of each death is a cell: one task in a queue of its own, and a worker that dies there.
 * Then a last worker drains all queues. The steps are where the linker puts functions of the test
 * around those of the library; what has happened is read in the journal of the handlers. */
#include "lib_fault.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>

#include "broker/broker.h"
#include "pool/prefork/child.h"
#include "pool/prefork/page.h"
#include "worker/prefork/wire.h"
#include "worker/run/ack_early.h"

#define LEASE_MS 1000
enum { WORKERS_AT_A_TIME = 6, QUEUES_MAX = 64 };

enum step {
    STEP_NONE,
    STEP_IDLE,           /* it asks for a task */
    STEP_LEASED,         /* it has got it */
    STEP_ACK_UNSENT,     /* done is not sent yet */
    STEP_ACK_UNANSWERED, /* done is stored, and the answer is lost */
    STEP_ACK_CONFIRMED,  /* the answer has come, and no child knows of the task */
    STEP_CHILD_HAS_IT,   /* a child has received it */
    STEP_CHILD_BEGINS,   /* it has marked it as started, and its handler was not called yet */
    STEP_HANDLER,        /* in the middle of its handler */
    STEP_HANDLER_ENDED,  /* before the child reports it */
    STEP_REPORTED        /* the report was read, and the worker has not acted upon it */
};

enum victim { VICTIM_WORKER, VICTIM_CHILD, VICTIM_ZYGOTE, VICTIM_ANSWERS };

struct cell {
    enum step step;
    enum victim victim;
    unsigned starts_min, starts_max; /* of its handler, in all processes together */
    unsigned ends;                   /* of handlers that started */
};

/* A worker that dies before done is stored leaves its task to the next one; afterwards it takes it
 * along. A child that dies before it has begun leaves it to the next child. A zygote is as a worker
 * that goes on for a moment: what it had not acknowledged it may still acknowledge. */
static const struct cell cells[] = {
    {STEP_IDLE, VICTIM_WORKER, 1, 1, 1},           {STEP_IDLE, VICTIM_CHILD, 1, 1, 1},
    {STEP_IDLE, VICTIM_ZYGOTE, 0, 1, 1},           {STEP_LEASED, VICTIM_WORKER, 1, 1, 1},
    {STEP_LEASED, VICTIM_CHILD, 1, 1, 1},          {STEP_LEASED, VICTIM_ZYGOTE, 0, 1, 1},
    {STEP_ACK_UNSENT, VICTIM_WORKER, 1, 1, 1},     {STEP_ACK_UNSENT, VICTIM_CHILD, 1, 1, 1},
    {STEP_ACK_UNSENT, VICTIM_ZYGOTE, 0, 1, 1},     {STEP_ACK_UNSENT, VICTIM_ANSWERS, 1, 1, 1},
    {STEP_ACK_UNANSWERED, VICTIM_WORKER, 0, 0, 0}, {STEP_ACK_UNANSWERED, VICTIM_CHILD, 1, 1, 1},
    {STEP_ACK_UNANSWERED, VICTIM_ZYGOTE, 0, 0, 0}, {STEP_ACK_UNANSWERED, VICTIM_ANSWERS, 0, 0, 0},
    {STEP_ACK_CONFIRMED, VICTIM_WORKER, 0, 0, 0},  {STEP_ACK_CONFIRMED, VICTIM_CHILD, 1, 1, 1},
    {STEP_ACK_CONFIRMED, VICTIM_ZYGOTE, 0, 0, 0},  {STEP_CHILD_HAS_IT, VICTIM_WORKER, 0, 0, 0},
    {STEP_CHILD_HAS_IT, VICTIM_CHILD, 1, 1, 1},    {STEP_CHILD_HAS_IT, VICTIM_ZYGOTE, 0, 0, 0},
    {STEP_CHILD_BEGINS, VICTIM_WORKER, 0, 0, 0},   {STEP_CHILD_BEGINS, VICTIM_CHILD, 0, 0, 0},
    {STEP_CHILD_BEGINS, VICTIM_ZYGOTE, 0, 0, 0},   {STEP_HANDLER, VICTIM_WORKER, 1, 1, 0},
    {STEP_HANDLER, VICTIM_CHILD, 1, 1, 0},         {STEP_HANDLER, VICTIM_ZYGOTE, 1, 1, 0},
    {STEP_HANDLER_ENDED, VICTIM_WORKER, 1, 1, 1},  {STEP_HANDLER_ENDED, VICTIM_CHILD, 1, 1, 1},
    {STEP_HANDLER_ENDED, VICTIM_ZYGOTE, 1, 1, 1},  {STEP_REPORTED, VICTIM_WORKER, 1, 1, 1},
    {STEP_REPORTED, VICTIM_CHILD, 1, 1, 1},        {STEP_REPORTED, VICTIM_ZYGOTE, 1, 1, 1},
};

/* --- In the worker and its children ------------------------------------------------------- */

/* Made before the zygote, and shared by all of them. */
struct plan {
    enum step step;
    enum victim victim;
    pid_t worker;
    _Atomic pid_t zygote;
    _Atomic pid_t child; /* the youngest one */
    _Atomic bool is_done;
    uint64_t silent_sequence; /* the early ack that gets no answer */
};

static struct plan *plan;

struct journal {
    const char *path;
    int fd;
};

/* Kills, and waits until that is dead; of what takes this process along it never returns. */
static void strike(void)
{
    pid_t pid = plan->victim == VICTIM_WORKER  ? plan->worker
                : plan->victim == VICTIM_CHILD ? plan->child
                                               : plan->zygote;
    int pid_fd = pidfd_open(pid, 0);
    struct pollfd ended = {.fd = pid_fd, .events = POLLIN};
    TEST_REQUIRE(pid > 0 && pid_fd >= 0 && kill(pid, SIGKILL) == 0);
    TEST_REQUIRE(poll(&ended, 1, TEST_PATIENCE_MS) == 1);
    (void)close(pid_fd);
    if (getpid() != plan->worker) {
        TEST_REQUIRE(poll(NULL, 0, TEST_PATIENCE_MS) == 0); /* killed with it */
        _exit(98);
    }
}

static bool is_at(enum step step)
{
    return plan != NULL && plan->step == step && !atomic_exchange(&plan->is_done, true);
}

static void reach(enum step step)
{
    if (plan != NULL && plan->step == step && plan->victim != VICTIM_ANSWERS && is_at(step)) {
        strike();
    }
}

static quern_status lose_answer(quern_error *err)
{
    (void)snprintf(err->text, sizeof err->text, "lost by the test");
    err->code = QUERN_E_CONNECT;
    return QUERN_E_CONNECT;
}

/* Whether this early ack is the one whose answers are lost, however often it is sent. */
static bool is_silenced(const struct qn_exchange *exchange)
{
    if (plan == NULL || plan->victim != VICTIM_ANSWERS) {
        return false;
    }
    if (is_at(plan->step)) {
        plan->silent_sequence = exchange->stamp.sequence;
    }
    return plan->silent_sequence == exchange->stamp.sequence;
}

qn_exchange_fn __real_qn_broker_exchange;
qn_exchange_fn __wrap_qn_broker_exchange;
bool __real_qn_ack_early_confirm(struct quern_worker *worker, struct quern_run *run);
bool __wrap_qn_ack_early_confirm(struct quern_worker *worker, struct quern_run *run);
bool __real_qn_page_start(struct qn_page *page, uint32_t slot, uint64_t sequence);
bool __wrap_qn_page_start(struct qn_page *page, uint32_t slot, uint64_t sequence);
bool __real_qn_wire_put_end(struct qn_buf *out, const struct quern_run *run);
bool __wrap_qn_wire_put_end(struct qn_buf *out, const struct quern_run *run);
bool __real_qn_wire_get_end(struct qn_bytes body, struct quern_run *run);
bool __wrap_qn_wire_get_end(struct qn_bytes body, struct quern_run *run);

static quern_status acknowledge(struct qn_broker *broker, struct qn_exchange *exchange,
                                struct qn_exchange_reply *reply, quern_error *err)
{
    bool is_silent = is_silenced(exchange);
    reach(STEP_ACK_UNSENT);
    if (is_silent && plan->step == STEP_ACK_UNSENT) {
        return lose_answer(err);
    }
    quern_status status = __real_qn_broker_exchange(broker, exchange, reply, err);
    if (is_silent ||
        (plan->step == STEP_ACK_UNANSWERED && plan->victim != VICTIM_ANSWERS && !plan->is_done)) {
        reach(STEP_ACK_UNANSWERED);
        return lose_answer(err);
    }
    return status;
}

quern_status __wrap_qn_broker_exchange(struct qn_broker *broker, struct qn_exchange *exchange,
                                       struct qn_exchange_reply *reply, quern_error *err)
{
    if (plan != NULL && exchange->room == 0 && exchange->outcome_count == 1 &&
        exchange->outcomes[0].kind == QN_DONE && exchange->is_leaving) {
        return acknowledge(broker, exchange, reply, err);
    }
    if (exchange->room > 0) {
        reach(STEP_IDLE);
    }
    quern_status status = __real_qn_broker_exchange(broker, exchange, reply, err);
    if (status == QUERN_OK && reply->run_count > 0) {
        reach(STEP_LEASED);
    }
    return status;
}

bool __wrap_qn_ack_early_confirm(struct quern_worker *worker, struct quern_run *run)
{
    bool confirmed = __real_qn_ack_early_confirm(worker, run);
    if (confirmed) {
        reach(STEP_ACK_CONFIRMED);
    }
    return confirmed;
}

bool __wrap_qn_page_start(struct qn_page *page, uint32_t slot, uint64_t sequence)
{
    reach(STEP_CHILD_HAS_IT);
    bool started = __real_qn_page_start(page, slot, sequence);
    if (started) {
        reach(STEP_CHILD_BEGINS);
    }
    return started;
}

bool __wrap_qn_wire_put_end(struct qn_buf *out, const struct quern_run *run)
{
    reach(STEP_HANDLER_ENDED);
    return __real_qn_wire_put_end(out, run);
}

bool __wrap_qn_wire_get_end(struct qn_bytes body, struct quern_run *run)
{
    reach(STEP_REPORTED);
    return __real_qn_wire_get_end(body, run);
}

static quern_outcome run_task(quern_run *run, const quern_task *task, void *user)
{
    const struct journal *journal = user;
    uint64_t number = fault_number(task);
    fault_write(journal->fd, FAULT_START, run, number);
    reach(STEP_HANDLER);
    fault_write(journal->fd, FAULT_END, run, number);
    return QUERN_DONE;
}

static void note_child(void *user)
{
    struct journal *journal = user;
    journal->fd = fault_journal_open(journal->path);
    plan->zygote = fault_parent_of(getppid()); /* ours is our guard */
    plan->child = getpid();
}

static size_t split(char *names, quern_queue *queues)
{
    size_t count = 0;
    char *rest = NULL;
    char *name = strtok_r(names, ",", &rest);
    while (name != NULL && count < QUEUES_MAX) {
        queues[count++].name = name;
        name = strtok_r(NULL, ",", &rest);
    }
    return count;
}

/* argv: URL, journal, step, victim, queues. */
static int serve(int argc, char **argv)
{
    TEST_REQUIRE(argc == 5);
    quern_queue queues[QUEUES_MAX] = {0};
    struct journal journal = {.path = argv[1], .fd = -1};
    const quern_handler_options options = {.ack = QUERN_ACK_EARLY};
    quern_worker_options worker = {.queues = queues,
                                   .queue_count = split(argv[4], queues),
                                   .concurrency = 1,
                                   .lease_ms = LEASE_MS,
                                   .drain = true,
                                   .pool = QUERN_POOL_PREFORK};
    quern_mux *mux = NULL;
    plan = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TEST_REQUIRE(plan != MAP_FAILED);
    plan->step = (enum step)strtol(argv[2], NULL, 10);
    plan->victim = (enum victim)strtol(argv[3], NULL, 10);
    plan->worker = getpid();
    TEST_REQUIRE(quern_mux_new(&mux, NULL) == QUERN_OK);
    TEST_REQUIRE(quern_mux_handle(mux, "early", run_task, &journal, &options, NULL) == QUERN_OK);
    const quern_zygote_options zygote = {.on_child_start = note_child, .user = &journal};
    TEST_REQUIRE(quern_zygote_start(mux, &zygote, &worker.zygote, NULL) == QUERN_OK);
    int code = fault_serve(argv[0], mux, &worker);
    quern_zygote_free(worker.zygote);
    quern_mux_free(mux);
    return code;
}

/* --- In the test -------------------------------------------------------------------------- */

struct scene {
    struct fault_site site;
    size_t count; /* of cells */
    char queues[QUEUES_MAX][16];
};

static const struct cell *cell_at(size_t i)
{
    return &cells[i % TEST_COUNT(cells)];
}

static void put(struct scene *scene, size_t number)
{
    quern_client *client = NULL;
    quern_error err = {0};
    char text[16];
    (void)snprintf(scene->queues[number], sizeof scene->queues[number], "q%zu", number);
    (void)snprintf(text, sizeof text, "%zu", number);
    const quern_task task = {.type = "early",
                             .queue = scene->queues[number],
                             .id = text,
                             .payload = text,
                             .payload_size = strlen(text),
                             .retention_ms = 24 * 3600 * INT64_C(1000)};
    assert_ok(quern_client_open(scene->site.url, NULL, &client, &err), err);
    assert_ok(quern_client_enqueue(client, &task, NULL, &err), err);
    quern_client_free(client);
    scene->site.task_count++;
}

static struct test_child spawn(struct scene *scene, size_t number)
{
    char step[16];
    char victim[16];
    (void)snprintf(step, sizeof step, "%d", (int)cell_at(number)->step);
    (void)snprintf(victim, sizeof victim, "%d", (int)cell_at(number)->victim);
    const char *args[] = {scene->site.url, scene->site.journal,   step,
                          victim,          scene->queues[number], NULL};
    return test_spawn("early", args);
}

static void assert_code(size_t number, int code)
{
    enum victim victim = cell_at(number)->victim;
    int expected = victim == VICTIM_WORKER ? 128 + SIGKILL : victim == VICTIM_ZYGOTE ? 1 : 0;
    if (code != expected) {
        fail_msg("step %d, victim %d: its worker ended with %d, not %d", (int)cell_at(number)->step,
                 (int)victim, code, expected);
    }
}

static void judge(const struct scene *scene)
{
    unsigned starts[QUEUES_MAX] = {0};
    unsigned ends[QUEUES_MAX] = {0};
    size_t count = 0;
    struct fault_record *records = fault_journal_read(&scene->site, &count);
    for (size_t i = 0; i < count; i++) {
        assert_true(records[i].task < scene->count);
        (records[i].kind == FAULT_START ? starts : ends)[records[i].task]++;
    }
    free(records);
    for (size_t i = 0; i < scene->count; i++) {
        const struct cell *cell = cell_at(i);
        if (starts[i] < cell->starts_min || starts[i] > cell->starts_max ||
            ends[i] != starts[i] * cell->ends) {
            fail_msg("step %d, victim %d: %u starts, %u ends", (int)cell->step, (int)cell->victim,
                     starts[i], ends[i]);
        }
    }
}

static void show_finding(const quern_finding *finding, void *user)
{
    if (finding->severity >= 2) {
        print_error("%s %s/%s: %s\n", finding->invariant, finding->queue, finding->id,
                    finding->text);
        *(size_t *)user += 1;
    }
}

/* Each task is done and counted once, whatever became of its run. */
static void assert_all_done(const struct scene *scene)
{
    quern_inspector *inspector = NULL;
    quern_queue_list *list = NULL;
    quern_error err = {0};
    size_t violated = 0;
    assert_ok(quern_inspector_open(scene->site.url, NULL, &inspector, &err), err);
    assert_ok(quern_inspector_queues(inspector, &list, &err), err);
    assert_int_equal(quern_queue_list_size(list), scene->count);
    for (size_t i = 0; i < scene->count; i++) {
        const quern_queue_info *queue = quern_queue_list_at(list, i);
        assert_int_equal(queue->counts[QUERN_TASK_COMPLETED], 1);
        assert_int_equal(queue->size, 1);
        assert_int_equal(queue->processed_total, 1);
        assert_int_equal(queue->failed_total, 0);
    }
    quern_queue_list_free(list);
    assert_ok(quern_inspector_check(inspector, false, show_finding, &violated, &err), err);
    assert_int_equal(violated, 0);
    quern_inspector_free(inspector);
}

static void drain(const struct scene *scene)
{
    char queues[QUEUES_MAX * 16] = "";
    for (size_t i = 0; i < scene->count; i++) {
        size_t size = strlen(queues);
        (void)snprintf(queues + size, sizeof queues - size, "%s,", scene->queues[i]);
    }
    const char *args[] = {scene->site.url, scene->site.journal, "0", "0", queues, NULL};
    struct test_child last = test_spawn("early", args);
    assert_int_equal(test_child_join(&last), 0);
}

static void no_death_makes_a_task_run_twice(void **state)
{
    (void)state;
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    scene->count = test_full() ? 2 * TEST_COUNT(cells) : TEST_COUNT(cells);
    assert_true(scene->count <= QUEUES_MAX);
    fault_site_open(&scene->site);
    for (size_t first = 0; first < scene->count; first += WORKERS_AT_A_TIME) {
        struct test_child workers[WORKERS_AT_A_TIME];
        size_t rest = scene->count - first;
        size_t count = rest < WORKERS_AT_A_TIME ? rest : WORKERS_AT_A_TIME;
        for (size_t i = 0; i < count; i++) {
            put(scene, first + i);
            workers[i] = spawn(scene, first + i);
        }
        for (size_t i = 0; i < count; i++) {
            assert_code(first + i, test_child_join(&workers[i]));
        }
    }
    drain(scene);
    judge(scene);
    assert_all_done(scene);
    fault_site_close(&scene->site);
    free(scene);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_death_makes_a_task_run_twice),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = {{.name = "early", .main = serve}};
    const struct test_group group = {"early", tests, TEST_COUNT(tests), roles, TEST_COUNT(roles)};
    return test_main_over_brokers(argc, argv, &group);
}
