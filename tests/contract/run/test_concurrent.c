/* SPDX-License-Identifier: MIT */
/* test_concurrent.c - four threads on one broker object and three more processes work on the same
 * queue at once, while two threads still enqueue: each task is finished exactly once.
 *
 * All of them note the number of each task whose outcome was applied in one shared file by
 * O_APPEND, so the notes do not depend on the broker. */
#include "lib_contract.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 4
#define PROCESSES 3
#define ENQUEUERS 2
#define TASKS_EACH 600
#define TASKS (ENQUEUERS * TASKS_EACH)

struct crew_member {
    struct qn_broker *broker;
    const char *notes_path;
    struct qn_stamp stamp; /* of its latest exchange */
    const char *worker_id;
};

static void note(int fd, const struct qn_leased *run)
{
    uint32_t number = (uint32_t)strtoul(run->task.id + 1, NULL, 10);
    TEST_REQUIRE(write(fd, &number, sizeof number) == (ssize_t)sizeof number);
}

/* One exchange: reports `runs` as done, notes the applied ones, leases one to eight. */
static size_t share(struct crew_member *member, int fd, struct qn_leased **runs, size_t count)
{
    uint32_t room = 1 + (uint32_t)(member->stamp.sequence++ % 8);
    struct qn_outcome outcomes[8] = {0};
    enum qn_applied applied[8];
    struct qn_leased *next[8];
    for (size_t i = 0; i < count; i++) {
        outcomes[i] = (struct qn_outcome){.run = runs[i], .kind = QN_DONE};
    }
    struct qn_queue_share queue = {.name = "default", .weight = 1, .quota = room};
    struct qn_exchange exchange = {.stamp = member->stamp,
                                   .outcomes = outcomes,
                                   .outcome_count = count,
                                   .worker_id = member->worker_id,
                                   .lease_ms = 24 * 3600 * INT64_C(1000),
                                   .queues = &queue,
                                   .queue_count = 1,
                                   .room = room,
                                   .start_count_now = room};
    struct qn_exchange_reply reply = {.applied = applied, .runs = next};
    quern_error err = {0};
    quern_status status;
    do {
        status = qn_broker_exchange(member->broker, &exchange, &reply, &err);
    } while (status == QUERN_E_BUSY);
    if (status != QUERN_OK) {
        (void)fprintf(stderr, "exchange: %s\n", err.text);
    }
    TEST_REQUIRE(status == QUERN_OK);
    TEST_REQUIRE(reply.run_count <= room);
    for (size_t i = 0; i < count; i++) {
        TEST_REQUIRE(applied[i] == QN_APPLIED);
        note(fd, runs[i]);
        qn_leased_free(runs[i]);
    }
    memcpy(runs, next, reply.run_count * sizeof runs[0]);
    return reply.run_count;
}

/* Works until the notes of all together name every task. */
static void work(struct crew_member *member)
{
    struct qn_leased *runs[8];
    size_t count = 0;
    int fd = open(member->notes_path, O_WRONLY | O_APPEND | O_CLOEXEC);
    TEST_REQUIRE(fd >= 0);
    int64_t end_ms = test_now_ms() + 2 * TEST_PATIENCE_MS;
    for (;;) {
        count = share(member, fd, runs, count);
        TEST_REQUIRE(test_now_ms() < end_ms);
        if (count == 0 && lseek(fd, 0, SEEK_END) == (off_t)(TASKS * sizeof(uint32_t))) {
            break;
        }
        if (count == 0) {
            test_pause_ms(1);
        }
    }
    (void)close(fd);
}

static void *work_in_thread(void *argument)
{
    work(argument);
    return NULL;
}

struct enqueuer {
    struct qn_broker *broker;
    size_t first;
};

static void *enqueue_in_thread(void *argument)
{
    const struct enqueuer *enqueuer = argument;
    for (size_t done = 0; done < TASKS_EACH; done += 4) {
        struct qn_task tasks[4];
        char ids[4][16];
        quern_status results[4];
        for (size_t i = 0; i < 4; i++) {
            (void)snprintf(ids[i], sizeof ids[i], "t%zu", enqueuer->first + done + i);
            tasks[i] = (struct qn_task){
                .id = ids[i], .queue = "default", .type = "t", .state = QUERN_TASK_PENDING};
        }
        struct qn_stamp stamp = {500 + enqueuer->first, done + 1};
        TEST_REQUIRE(qn_broker_enqueue(enqueuer->broker,
                                       &(struct qn_enqueue){stamp, tasks, 4, results},
                                       NULL) == QUERN_OK);
        for (size_t i = 0; i < 4; i++) {
            TEST_REQUIRE(results[i] == QUERN_OK);
        }
    }
    return NULL;
}

/* argv: URL, path of the notes, number of the process. */
static int crew_process(int argc, char **argv)
{
    char worker_id[32];
    TEST_REQUIRE(argc == 3);
    (void)snprintf(worker_id, sizeof worker_id, "process-%s", argv[2]);
    struct crew_member member = {.broker = contract_open_child(argv[0]),
                                 .notes_path = argv[1],
                                 .stamp = {.session = 900 + strtoul(argv[2], NULL, 10)},
                                 .worker_id = worker_id};
    contract_heartbeat(member.broker, worker_id);
    work(&member);
    qn_broker_close(member.broker);
    return 0;
}

static void assert_each_once(const char *notes_path)
{
    static uint32_t numbers[TASKS + 1];
    static unsigned char seen[TASKS];
    int fd = open(notes_path, O_RDONLY | O_CLOEXEC);
    memset(seen, 0, sizeof seen);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, numbers, sizeof numbers), TASKS * sizeof numbers[0]);
    (void)close(fd);
    for (size_t i = 0; i < TASKS; i++) {
        assert_true(numbers[i] < TASKS);
        assert_int_equal(seen[numbers[i]], 0);
        seen[numbers[i]] = 1;
    }
}

static void each_task_is_finished_exactly_once(struct contract *c)
{
    char notes_path[TEST_DIR_SIZE + 16];
    char dir[TEST_DIR_SIZE];
    pthread_t workers[THREADS];
    pthread_t enqueuers[ENQUEUERS];
    struct test_child children[PROCESSES];
    struct crew_member members[THREADS];
    struct enqueuer sources[ENQUEUERS];
    size_t process_count = c->maker->is_private ? 0 : PROCESSES;
    test_dir_make(dir);
    (void)snprintf(notes_path, sizeof notes_path, "%s/notes", dir);
    int fd = open(notes_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    for (size_t i = 0; i < process_count; i++) {
        char number[4];
        (void)snprintf(number, sizeof number, "%zu", i);
        const char *args[] = {c->url, notes_path, number, NULL};
        children[i] = test_spawn("crew_process", args);
    }
    for (size_t i = 0; i < ENQUEUERS; i++) {
        sources[i] = (struct enqueuer){.broker = c->broker, .first = i * TASKS_EACH};
        assert_int_equal(pthread_create(&enqueuers[i], NULL, enqueue_in_thread, &sources[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        members[i] = (struct crew_member){.broker = c->broker,
                                          .notes_path = notes_path,
                                          .stamp = {.session = 800 + i},
                                          .worker_id = CONTRACT_WORKER};
        assert_int_equal(pthread_create(&workers[i], NULL, work_in_thread, &members[i]), 0);
    }
    for (size_t i = 0; i < ENQUEUERS; i++) {
        assert_int_equal(pthread_join(enqueuers[i], NULL), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i], NULL), 0);
    }
    for (size_t i = 0; i < process_count; i++) {
        assert_int_equal(test_child_join(&children[i]), 0);
    }
    assert_each_once(notes_path);
    assert_int_equal(contract_queue(c, "default").size, 0);
    assert_int_equal(contract_queue(c, "default").processed_total, TASKS);
    test_dir_remove(dir);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(each_task_is_finished_exactly_once),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = {{.name = "crew_process", .main = crew_process}};
    const struct contract_suite suite = {tests, TEST_COUNT(tests), roles, TEST_COUNT(roles)};
    return contract_main(argc, argv, &suite);
}
