/* SPDX-License-Identifier: MIT */
/* test_kill.c - a client process that is killed at any moment of a batch.
 *
 * The child stores one batch after the other and acknowledges each one that returned OK. It is
 * killed after some acknowledgements and a random part of a batch more. Then: every acknowledged
 * task is there, every stored task is complete, and none is stored twice. */
#include "lib_store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "quern/client.h"
#include "quern/inspector.h"

#define KILLS 30
#define KILLS_FULL 300
#define BATCH 200 /* tasks of one call: two transactions, so that a kill may fall between them */
#define BATCHES_MAX 20 /* of one child, should the kill be late: fits one listing */
#define PAYLOAD_SIZE 600
#define PAGE_SIZE 5000

/* Every part of the payload of task i of batch b identifies it. */
static void fill_payload(char payload[PAYLOAD_SIZE], uint64_t batch, size_t index)
{
    char mark[32];
    int size = snprintf(mark, sizeof mark, "<%llu.%zu>", (unsigned long long)batch, index);
    for (size_t i = 0; i < PAYLOAD_SIZE; i++) {
        payload[i] = mark[i % (size_t)size];
    }
}

static int child_main(int argc, char **argv)
{
    TEST_REQUIRE(argc == 2);
    uint64_t batch = strtoull(argv[1], NULL, 10);
    quern_client *client = NULL;
    TEST_REQUIRE(quern_client_open(argv[0], NULL, &client, NULL) == QUERN_OK);
    static char payloads[BATCH][PAYLOAD_SIZE];
    static char ids[BATCH][32];
    static quern_task tasks[BATCH];
    bool stored = true;
    for (int turn = 0; stored && turn < BATCHES_MAX; turn++, batch++) {
        for (size_t i = 0; i < BATCH; i++) {
            fill_payload(payloads[i], batch, i);
            (void)snprintf(ids[i], sizeof ids[i], "%llu.%zu", (unsigned long long)batch, i);
            tasks[i] = (quern_task){
                .type = "kill", .id = ids[i], .payload = payloads[i], .payload_size = PAYLOAD_SIZE};
        }
        stored = quern_client_enqueue_batch(client, tasks, BATCH, NULL, NULL) == QUERN_OK;
        test_parent_send(stored ? 'k' : 'f'); /* acknowledged, or failed */
    }
    (void)test_parent_receive(); /* the kill */
    return 1;
}

/* The whole task, as it must be. */
static void check_task(const quern_task_info *info, uint64_t batch, size_t index)
{
    char wanted[PAYLOAD_SIZE];
    fill_payload(wanted, batch, index);
    size_t size = 0;
    const void *payload = quern_task_info_payload(info, &size);
    assert_int_equal(size, PAYLOAD_SIZE);
    assert_memory_equal(payload, wanted, PAYLOAD_SIZE);
    assert_string_equal(quern_task_info_type(info), "kill");
    assert_int_equal(quern_task_info_state(info), QUERN_TASK_PENDING);
}

/* One page of the tasks that a child left; `seen` are before it. Returns its size. */
static size_t check_page(quern_inspector *inspector, quern_task_filter filter, uint64_t first,
                         size_t seen)
{
    quern_task_list *list = NULL;
    quern_error err = {0};
    filter.offset = seen;
    assert_ok(quern_inspector_tasks(inspector, &filter, &list, &err), err);
    size_t count = quern_task_list_size(list);
    for (size_t i = 0; i < count; i++) {
        const quern_task_info *info = quern_task_list_at(list, i);
        size_t at = seen + i;
        char id[32];
        (void)snprintf(id, sizeof id, "%llu.%zu", (unsigned long long)first + at / BATCH,
                       at % BATCH);
        assert_string_equal(quern_task_info_id(info), id); /* no gap and none twice */
        check_task(info, first + at / BATCH, at % BATCH);
    }
    quern_task_list_free(list);
    return count;
}

/* The tasks that one child may have left, from `first` batch on, in the order they were stored;
 * returns how many there are, and removes them. */
static size_t check_and_clear(quern_inspector *inspector, uint64_t first)
{
    const quern_task_filter filter = {
        .queue = "default", .state = QUERN_TASK_PENDING, .limit = PAGE_SIZE};
    size_t count = 0;
    size_t page = PAGE_SIZE;
    while (page == PAGE_SIZE) {
        page = check_page(inspector, filter, first, count);
        count += page;
    }
    uint64_t removed = 0;
    quern_error err = {0};
    assert_ok(quern_inspector_act_all(inspector, QUERN_ACTION_DELETE, &filter, &removed, &err),
              err);
    assert_int_equal(removed, count);
    return count;
}

static void a_killed_client_leaves_whole_tasks_and_every_acknowledged_one(void **state)
{
    (void)state;
    struct test_store store;
    test_store_open(&store, 0);
    struct qn_random random;
    qn_random_init_seed(&random, test_seed());
    quern_inspector *inspector = NULL;
    quern_error err = {0};
    const quern_inspector_options options = {.create = true};
    assert_ok(quern_inspector_open(store.url, &options, &inspector, &err), err);

    uint64_t first = 1;
    int kills = test_full() ? KILLS_FULL : KILLS;
    for (int kill = 0; kill < kills; kill++) {
        char number[24];
        (void)snprintf(number, sizeof number, "%llu", (unsigned long long)first);
        const char *const args[] = {store.url, number, NULL};
        struct test_child child = test_spawn("client", args);
        size_t acknowledged = 0;
        size_t wanted = 1 + qn_random_below(&random, 4);
        for (; acknowledged < wanted; acknowledged++) {
            assert_int_equal(test_child_receive(&child), 'k');
        }
        /* Some part of the next batch passes: a batch takes about as long as these turns. */
        for (uint64_t turns = qn_random_below(&random, 60000); turns > 0; turns--) {
            (void)getppid();
        }
        test_child_kill(&child);
        size_t count = check_and_clear(inspector, first);
        assert_true(count >= acknowledged * BATCH);
        first += count / BATCH + 1;
    }
    quern_inspector_free(inspector);
    test_store_close(&store);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_killed_client_leaves_whole_tasks_and_every_acknowledged_one),
};
static const struct test_role roles[] = {{"client", child_main}};

int main(int argc, char **argv)
{
    const struct test_group group = {"client_kill", tests, TEST_COUNT(tests), roles,
                                     TEST_COUNT(roles)};
    return test_main_over_brokers(argc, argv, &group);
}
