/* SPDX-License-Identifier: MIT */
/* test_inspector.c - the inspector as an object, and reading workers and facts of the broker. */
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/owner.h"
#include "lib_contract.h"
#include "quern/inspector.h"

/* --- Workers -------------------------------------------------------------------------------- */

static void announce_as(struct contract *c, const char *worker_id, const char *owner)
{
    quern_error err = {0};
    struct qn_heartbeat heartbeat = {.worker_id = worker_id,
                                     .owner = owner,
                                     .host = "host",
                                     .status = "quiet",
                                     .queues = "default=1",
                                     .pid = 5,
                                     .started_at_ms = CONTRACT_NOW_MS + 1,
                                     .concurrency = 9,
                                     .strict = true};
    assert_ok(qn_broker_heartbeat(c->broker, &heartbeat, &err), err);
}

static size_t count_workers(quern_inspector *inspector)
{
    quern_worker_list *list = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_workers(inspector, &list, &err), err);
    size_t count = quern_worker_list_size(list);
    quern_worker_list_free(list);
    return count;
}

static void worker_shows_the_runs_it_has_started(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "image", .id = "a", .timeout_ms = 5000});
    struct qn_leased *started = contract_take_id(c, "default", "a");
    contract_put(c, "default", "b");
    struct qn_leased *fetched = contract_fetch(c, "default");
    quern_inspector *inspector = contract_open_inspector(c);
    quern_worker_list *list = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_workers(inspector, &list, &err), err);
    assert_int_equal(quern_worker_list_size(list), 1);
    assert_null(quern_worker_list_at(list, 1));
    const quern_worker_info *worker = quern_worker_list_at(list, 0);
    assert_string_equal(worker->id, CONTRACT_WORKER);
    assert_string_equal(worker->host, CONTRACT_HOST);
    assert_int_equal(worker->status, QUERN_WORKER_ACTIVE);
    assert_string_equal(worker->queues, "default=1 other=1");
    assert_int_equal(worker->concurrency, 4);
    assert_false(worker->strict_priority);
    assert_int_equal(worker->started_at_ms, CONTRACT_NOW_MS);
    assert_int_equal(worker->heartbeat_at_ms, CONTRACT_NOW_MS);
    assert_int_equal(worker->run_count, 1);
    assert_string_equal(worker->runs[0].id, "a");
    assert_string_equal(worker->runs[0].type, "image");
    assert_string_equal(worker->runs[0].queue, "default");
    assert_int_equal(worker->runs[0].started_at_ms, CONTRACT_NOW_MS);
    assert_int_equal(worker->runs[0].deadline_at_ms, CONTRACT_NOW_MS + 5000);
    quern_worker_list_free(list);
    quern_inspector_free(inspector);
    qn_leased_free(started);
    qn_leased_free(fetched);
}

static void worker_shows_its_status(struct contract *c)
{
    const char *const texts[] = {"active", "quiet", "draining", "braked", "stuck", "resting"};
    const quern_worker_status wanted[] = {QUERN_WORKER_ACTIVE,   QUERN_WORKER_QUIET,
                                          QUERN_WORKER_DRAINING, QUERN_WORKER_BRAKED,
                                          QUERN_WORKER_STUCK,    QUERN_WORKER_UNKNOWN};
    char self[QN_OWNER_SIZE];
    quern_error err = {0};
    assert_ok(qn_owner_self(self, &err), err);
    quern_inspector *inspector = contract_open_inspector(c);
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        struct qn_heartbeat heartbeat = {.worker_id = CONTRACT_WORKER,
                                         .owner = self,
                                         .host = "host",
                                         .status = texts[i],
                                         .queues = "default=1",
                                         .pid = 5,
                                         .started_at_ms = CONTRACT_NOW_MS,
                                         .concurrency = 1};
        assert_ok(qn_broker_heartbeat(c->broker, &heartbeat, &err), err);
        quern_worker_list *list = NULL;
        assert_ok(quern_inspector_workers(inspector, &list, &err), err);
        assert_int_equal(quern_worker_list_size(list), 1);
        quern_worker_status status = quern_worker_list_at(list, 0)->status;
        assert_int_equal(status, wanted[i]);
        const char *name = status == QUERN_WORKER_UNKNOWN ? "unknown" : texts[i];
        assert_string_equal(quern_worker_status_name(status), name);
        quern_worker_list_free(list);
    }
    assert_null(quern_worker_status_name((quern_worker_status)99));
    quern_inspector_free(inspector);
}

static void run_without_a_timeout_shows_no_deadline(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .timeout_ms = QUERN_TIMEOUT_NEVER});
    struct qn_leased *started = contract_take_id(c, "default", "a");
    quern_inspector *inspector = contract_open_inspector(c);
    quern_worker_list *list = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_workers(inspector, &list, &err), err);
    assert_int_equal(quern_worker_list_size(list), 1);
    assert_int_equal(quern_worker_list_at(list, 0)->run_count, 1);
    assert_int_equal(quern_worker_list_at(list, 0)->runs[0].deadline_at_ms, 0);
    quern_worker_list_free(list);
    quern_inspector_free(inspector);
    qn_leased_free(started);
}

#define CROWD 300 /* more than a page of runs */

static size_t take_as(struct contract *c, const char *worker_id, uint32_t count,
                      struct qn_leased **runs)
{
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = count};
    struct qn_exchange exchange = {.worker_id = worker_id,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = count,
                                   .start_count_now = count};
    return contract_exchange(c, &exchange, NULL, runs);
}

/* The n-th worker has n % 3 runs. */
static void each_of_many_workers_shows_its_own_runs(struct contract *c)
{
    struct qn_leased *leased[CROWD];
    char self[QN_OWNER_SIZE];
    quern_error err = {0};
    assert_ok(qn_owner_self(self, &err), err);
    contract_put_many(c, "default", "t", CROWD);
    size_t taken = 0;
    for (size_t i = 0; i < CROWD; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "w%03zu", i);
        announce_as(c, id, self);
        taken += take_as(c, id, (uint32_t)(i % 3), leased + taken);
    }
    quern_inspector *inspector = contract_open_inspector(c);
    quern_worker_list *list = NULL;
    assert_ok(quern_inspector_workers(inspector, &list, &err), err);
    assert_int_equal(quern_worker_list_size(list), CROWD + 1);
    size_t shown = 0;
    for (size_t i = 0; i < CROWD + 1; i++) {
        const quern_worker_info *worker = quern_worker_list_at(list, i);
        size_t number = 0;
        if (sscanf(worker->id, "w%zu", &number) == 1) {
            assert_int_equal(worker->run_count, number % 3);
            shown += worker->run_count;
        }
    }
    assert_int_equal(shown, taken);
    quern_worker_list_free(list);
    quern_inspector_free(inspector);
    for (size_t i = 0; i < taken; i++) {
        qn_leased_free(leased[i]);
    }
}

static void worker_whose_process_is_gone_is_not_shown(struct contract *c)
{
    char self[QN_OWNER_SIZE];
    char dead[QN_OWNER_SIZE];
    char boot[40] = "";
    unsigned long long ns = 0;
    quern_error err = {0};
    assert_ok(qn_owner_self(self, &err), err);
    assert_int_equal(sscanf(self, "%36[^:]:%llu:", boot, &ns), 2);
    (void)snprintf(dead, sizeof dead, "%s:%llu:999999999:1", boot, ns); /* beyond any pid */
    quern_inspector *inspector = contract_open_inspector(c);
    assert_int_equal(count_workers(inspector), 1);
    announce_as(c, "dead", dead);
    assert_int_equal(count_workers(inspector), 1);
    announce_as(c, "alive", self);
    assert_int_equal(count_workers(inspector), 2);
    quern_inspector_free(inspector);
}

static void worker_of_another_kernel_is_shown_while_its_heartbeat_is_young(struct contract *c)
{
    quern_inspector *inspector = contract_open_inspector(c);
    announce_as(c, "far", "11111111-2222-3333-4444-555555555555:1:2:3");
    assert_int_equal(count_workers(inspector), 2);
    contract_advance(c, 31000);
    assert_int_equal(count_workers(inspector), 1);
    announce_as(c, "far", "11111111-2222-3333-4444-555555555555:1:2:3");
    assert_int_equal(count_workers(inspector), 2);
    quern_inspector_free(inspector);
}

/* --- The inspector itself --------------------------------------------------------------------- */

static void keep_fact(const char *name, const char *text, void *user)
{
    char *facts = user;
    size_t used = strlen(facts);
    (void)snprintf(facts + used, 2000 - used, "%s=%s\n", name, text);
}

static void facts_name_the_broker_and_its_durability(struct contract *c)
{
    quern_inspector *inspector = contract_open_inspector(c);
    char facts[2000] = "";
    quern_error err = {0};
    assert_ok(quern_inspector_broker(inspector, keep_fact, facts, &err), err);
    assert_non_null(strstr(facts, "broker="));
    assert_non_null(strstr(facts, "version=0."));
    assert_non_null(strstr(facts, c->maker->is_private ? "durability=D0: " : "durability=D1: "));
    assert_int_equal(quern_inspector_broker(inspector, NULL, NULL, &err), QUERN_E_INVALID);
    quern_inspector_free(inspector);
}

static void opening_creates_nothing_unless_requested(struct contract *c)
{
    char url[300];
    (void)snprintf(url, sizeof url, "%s-none", c->url);
    quern_inspector *inspector = NULL;
    quern_error err = {0};
    assert_int_equal(quern_inspector_open(url, NULL, &inspector, &err), QUERN_E_NOT_FOUND);
    assert_null(inspector);
    assert_int_equal(quern_inspector_open(url, &(quern_inspector_options){0}, &inspector, &err),
                     QUERN_E_NOT_FOUND);
    assert_ok(
        quern_inspector_open(url, &(quern_inspector_options){.create = true}, &inspector, &err),
        err);
    quern_inspector_free(inspector);
    assert_ok(quern_inspector_open(url, NULL, &inspector, &err), err);
    quern_inspector_free(inspector);
    assert_int_equal(quern_inspector_open("carrier-pigeon://x", NULL, &inspector, &err),
                     QUERN_E_INVALID);
    assert_int_equal(quern_inspector_open(NULL, NULL, &inspector, &err), QUERN_E_INVALID);
    quern_inspector_free(NULL);
}

static void options_of_a_newer_program_are_refused_unless_zero(struct contract *c)
{
    struct {
        quern_inspector_options known;
        int64_t unknown;
    } options = {.known = {.clock = &c->clock}};
    quern_inspector *inspector = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_open_sized(c->url, &options.known, sizeof options, &inspector, &err),
              err);
    quern_inspector_free(inspector);
    options.unknown = 1;
    assert_int_equal(
        quern_inspector_open_sized(c->url, &options.known, sizeof options, &inspector, &err),
        QUERN_E_INVALID);
}

static void inspector_of_a_parent_is_refused_in_a_fork(struct contract *c)
{
    quern_inspector *inspector = contract_open_inspector(c);
    pid_t pid = fork();
    assert_int_not_equal(pid, -1);
    if (pid == 0) {
        quern_queue_list *list = NULL;
        _exit(quern_inspector_queues(inspector, &list, NULL) == QUERN_E_CLOSED ? 0 : 1);
    }
    int code = -1;
    assert_int_equal(waitpid(pid, &code, 0), pid);
    assert_int_equal(code, 0);
    quern_inspector_free(inspector);
}

static void *inspect_all(void *user)
{
    quern_inspector *inspector = user;
    for (size_t i = 0; i < 25; i++) {
        quern_queue_list *queues = NULL;
        quern_task_list *tasks = NULL;
        if (quern_inspector_queues(inspector, &queues, NULL) != QUERN_OK) {
            return NULL;
        }
        bool right = quern_queue_list_size(queues) == 2;
        quern_queue_list_free(queues);
        if (!right || quern_inspector_tasks(inspector, NULL, &tasks, NULL) != QUERN_OK) {
            return NULL;
        }
        right = quern_task_list_size(tasks) == 10;
        quern_task_list_free(tasks);
        if (!right) {
            return NULL;
        }
    }
    return user;
}

static void threads_share_an_inspector(struct contract *c)
{
    contract_put_many(c, "default", "t", 10);
    quern_inspector *inspector = contract_open_inspector(c);
    pthread_t threads[4];
    for (size_t i = 0; i < TEST_COUNT(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, inspect_all, inspector), 0);
    }
    for (size_t i = 0; i < TEST_COUNT(threads); i++) {
        void *result = NULL;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, inspector);
    }
    quern_inspector_free(inspector);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(worker_shows_the_runs_it_has_started),
    CONTRACT_TEST(worker_shows_its_status),
    CONTRACT_TEST(run_without_a_timeout_shows_no_deadline),
    CONTRACT_TEST(each_of_many_workers_shows_its_own_runs),
    CONTRACT_TEST(worker_whose_process_is_gone_is_not_shown),
    CONTRACT_TEST(worker_of_another_kernel_is_shown_while_its_heartbeat_is_young),
    CONTRACT_TEST(facts_name_the_broker_and_its_durability),
    CONTRACT_TEST_ONLY("sqlite", opening_creates_nothing_unless_requested),
    CONTRACT_TEST(options_of_a_newer_program_are_refused_unless_zero),
    CONTRACT_TEST(inspector_of_a_parent_is_refused_in_a_fork),
    CONTRACT_TEST(threads_share_an_inspector),
};
CONTRACT_MAIN(tests)
