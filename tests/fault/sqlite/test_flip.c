/* SPDX-License-Identifier: MIT */
/* test_flip.c - a damaged file: bytes of a filled database are overwritten at random, then
 * every operation is tried on it. Each may fail, with a text; none may crash, hang, or hand out
 * something that is incomplete. */
#include "lib_test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "broker/inspect.h"

#define TASKS 60
#define ROOM 8

struct scene {
    char dir[TEST_DIR_SIZE];
    char path[128];
    char *data; /* the file as it was */
    size_t size;
};

static void read_file(struct scene *scene)
{
    struct stat info;
    assert_int_equal(stat(scene->path, &info), 0);
    scene->size = (size_t)info.st_size;
    scene->data = malloc(scene->size);
    assert_non_null(scene->data);
    int fd = open(scene->path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, scene->data, scene->size), scene->size);
    (void)close(fd);
}

static void fill(struct qn_broker *broker)
{
    const quern_header header = {.name = "name", .value = "value"};
    quern_error err = {0};
    for (int i = 0; i < TASKS; i++) {
        char id[24];
        char key[24];
        quern_status result = QUERN_E_INVALID;
        (void)snprintf(id, sizeof id, "task-%d", i);
        (void)snprintf(key, sizeof key, "key-%d", i);
        const struct qn_task task = {.id = id,
                                     .queue = i % 2 == 0 ? "default" : "other",
                                     .type = "type",
                                     .payload = "payload",
                                     .payload_size = 7,
                                     .retry_max = 3,
                                     .headers = &header,
                                     .header_count = 1,
                                     .unique_key = key,
                                     .unique_ms = 1000,
                                     .process_at_ms = i % 3 == 0 ? 1 : 0,
                                     .state =
                                         i % 3 == 0 ? QUERN_TASK_SCHEDULED : QUERN_TASK_PENDING};
        assert_ok(
            qn_broker_enqueue(
                broker,
                &(struct qn_enqueue){(struct qn_stamp){.session = 1, .sequence = (uint64_t)i + 1},
                                     &task, 1, &result},
                &err),
            err);
    }
}

static void scene_make(struct scene *scene)
{
    const struct qn_broker_options options = {.create = true};
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    test_dir_make(scene->dir);
    (void)snprintf(scene->path, sizeof scene->path, "%s/tasks.db", scene->dir);
    assert_ok(qn_broker_open(scene->path, &options, &broker, &err), err);
    fill(broker);
    qn_broker_close(broker);
    read_file(scene);
}

static void write_damaged(const struct scene *scene, struct qn_random *random)
{
    char *copy = malloc(scene->size);
    assert_non_null(copy);
    memcpy(copy, scene->data, scene->size);
    uint64_t count = 1 + qn_random_below(random, 20);
    for (uint64_t i = 0; i < count; i++) {
        copy[qn_random_below(random, scene->size)] = (char)qn_random_next(random);
    }
    int fd = open(scene->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, copy, scene->size), scene->size);
    (void)close(fd);
    free(copy);
}

/* A failure must say what it is. */
static void check_error(quern_status status, quern_error *err)
{
    if (status != QUERN_OK) {
        assert_int_equal(err->code, status);
        assert_true(strlen(err->text) > 0);
    }
    *err = (quern_error){0};
}

static void exchange(struct qn_broker *broker, quern_error *err)
{
    struct qn_leased *runs[ROOM] = {0};
    struct qn_queue_share shares[] = {{.name = "default", .weight = 1, .quota = ROOM / 2},
                                      {.name = "other", .weight = 1, .quota = ROOM / 2}};
    struct qn_exchange exchange = {.stamp = {.session = 2, .sequence = 1},
                                   .worker_id = "w",
                                   .lease_ms = 1000,
                                   .queues = shares,
                                   .queue_count = 2,
                                   .room = ROOM,
                                   .start_count_now = ROOM};
    struct qn_exchange_reply reply = {.runs = runs};
    check_error(qn_broker_exchange(broker, &exchange, &reply, err), err);
    struct qn_outcome outcomes[ROOM];
    enum qn_applied applied[ROOM];
    size_t count = reply.run_count;
    for (size_t i = 0; i < count; i++) {
        assert_non_null(runs[i]->task.id);
        assert_non_null(runs[i]->task.type);
        outcomes[i] = (struct qn_outcome){.run = runs[i], .kind = (enum qn_outcome_kind)(i % 4)};
    }
    exchange = (struct qn_exchange){.outcomes = outcomes, .outcome_count = count};
    reply = (struct qn_exchange_reply){.applied = applied};
    check_error(qn_broker_exchange(broker, &exchange, &reply, err), err);
    for (size_t i = 0; i < count; i++) {
        qn_leased_free(runs[i]);
    }
}

static bool take_task(const quern_task_info *info, void *user)
{
    (void)user;
    assert_non_null(quern_task_info_id(info));
    return true;
}

static void try_everything(const struct scene *scene)
{
    static const char *const queues[] = {"default", "other"};
    const struct qn_broker_options options = {.create = true};
    const quern_task_filter filter = {.limit = 100};
    const struct qn_task task = {
        .id = "new", .queue = "default", .type = "type", .state = QUERN_TASK_PENDING};
    struct qn_broker *broker = NULL;
    quern_status result = QUERN_OK;
    quern_error err = {0};
    size_t count = 0;
    int64_t due_at_ms = 0;
    quern_status status = qn_broker_open(scene->path, &options, &broker, &err);
    check_error(status, &err);
    if (status != QUERN_OK) {
        return;
    }
    check_error(
        qn_broker_enqueue(broker,
                          &(struct qn_enqueue){(struct qn_stamp){.session = 1, .sequence = 99},
                                               &task, 1, &result},
                          &err),
        &err);
    check_error(
        qn_broker_forward(broker, (struct qn_upkeep){{queues, 2}, 100}, &count, &due_at_ms, &err),
        &err);
    exchange(broker, &err);
    check_error(qn_broker_recover(broker, (struct qn_upkeep){{queues, 2}, 100}, NULL, &count, &err),
                &err);
    check_error(qn_broker_prune(broker, (struct qn_upkeep){{queues, 2}, 100}, &count, &err), &err);
    check_error(qn_broker_tasks(broker, &filter, take_task, NULL, &err), &err);
    qn_broker_close(broker);
}

static void remove_neighbours(const struct scene *scene)
{
    static const char *const endings[] = {"-wal", "-shm"};
    char path[160];
    for (size_t i = 0; i < TEST_COUNT(endings); i++) {
        (void)snprintf(path, sizeof path, "%s%s", scene->path, endings[i]);
        (void)unlink(path);
    }
}

static void damaged_file_crashes_nothing(void **state)
{
    (void)state;
    struct scene scene;
    struct qn_random random;
    qn_random_init_seed(&random, test_seed());
    scene_make(&scene);
    int rounds = test_full() ? 4000 : 150;
    for (int round = 0; round < rounds; round++) {
        remove_neighbours(&scene);
        write_damaged(&scene, &random);
        try_everything(&scene);
    }
    free(scene.data);
    test_dir_remove(scene.dir);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(damaged_file_crashes_nothing),
};
TEST_MAIN(tests)
