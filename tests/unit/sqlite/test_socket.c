/* SPDX-License-Identifier: MIT */
/* test_socket.c - the directory of sockets beside a file: workers enter it, leave it, and are
 * removed from it. */
#include "lib_sqlite.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BRIEFLY_MS 400 /* shorter than the safety net */
#define STRANGER 65534

struct scene {
    struct lib_sqlite place;
    char wake_dir[160];
};

static void scene_make(struct scene *scene)
{
    lib_sqlite_make(&scene->place);
    lib_sqlite_wake_dir(&scene->place, scene->wake_dir, sizeof scene->wake_dir);
}

static struct qn_wakeup wait_ms(struct qn_broker *broker, int64_t timeout_ms)
{
    struct qn_wakeup wakeup = {0};
    quern_error err = {0};
    assert_ok(qn_broker_wait(broker, timeout_ms, &wakeup, &err), err);
    return wakeup;
}

static void client_that_never_waits_makes_no_sockets(void **state)
{
    (void)state;
    struct scene scene;
    quern_error err = {0};
    scene_make(&scene);
    struct qn_broker *broker = lib_sqlite_open(scene.place.path);
    assert_ok(lib_sqlite_enqueue(broker, "a", &err), err);
    qn_broker_wake(broker);
    assert_int_equal(lib_sqlite_names_in(scene.wake_dir), -1);
    qn_broker_close(broker);
    lib_sqlite_remove(&scene.place);
}

static void sockets_are_private_and_go_with_their_owner(void **state)
{
    (void)state;
    struct scene scene;
    struct stat info;
    scene_make(&scene);
    struct qn_broker *first = lib_sqlite_open(scene.place.path);
    struct qn_broker *second = lib_sqlite_open(scene.place.path);
    lib_sqlite_arm(first);
    lib_sqlite_arm(second);
    lib_sqlite_arm(second);
    assert_int_equal(stat(scene.wake_dir, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    assert_int_equal(lib_sqlite_names_in(scene.wake_dir), 6);
    qn_broker_close(first);
    assert_int_equal(lib_sqlite_names_in(scene.wake_dir), 3);
    qn_broker_close(second);
    assert_int_equal(lib_sqlite_names_in(scene.wake_dir), 0);
    lib_sqlite_remove(&scene.place);
}

static int sleeper(int argc, char **argv)
{
    const char *queue = "default";
    bool work = false;
    int64_t due_at_ms = 0;
    struct qn_broker *broker = NULL;
    const struct qn_broker_options options = {0};
    TEST_REQUIRE(argc == 1);
    TEST_REQUIRE(qn_broker_open(argv[0], &options, &broker, NULL) == QUERN_OK);
    TEST_REQUIRE(qn_broker_arm(broker, (struct qn_names){&queue, 1}, &work, &due_at_ms, NULL) ==
                 QUERN_OK);
    test_parent_send('S');
    (void)test_parent_receive();
    return 0;
}

static void sockets_of_a_killed_process_are_removed_by_the_next_sender(void **state)
{
    (void)state;
    struct scene scene;
    quern_error err = {0};
    scene_make(&scene);
    const char *args[] = {scene.place.path, NULL};
    struct qn_broker *broker = lib_sqlite_open(scene.place.path);
    struct test_child child = test_spawn("sleeper", args);
    assert_int_equal(test_child_receive(&child), 'S');
    assert_ok(lib_sqlite_enqueue(broker, "a", &err), err);
    assert_int_equal(lib_sqlite_names_in(scene.wake_dir), 3);
    test_child_kill(&child);
    assert_int_equal(lib_sqlite_names_in(scene.wake_dir), 3);
    assert_ok(lib_sqlite_enqueue(broker, "b", &err), err);
    assert_int_equal(lib_sqlite_names_in(scene.wake_dir), 0);
    assert_ok(lib_sqlite_enqueue(broker, "c", &err), err);
    qn_broker_close(broker);
    lib_sqlite_remove(&scene.place);
}

static void sockets_that_were_removed_are_made_anew(void **state)
{
    (void)state;
    struct scene scene;
    struct qn_wakeup wakeup = {0};
    quern_error err = {0};
    scene_make(&scene);
    struct qn_broker *sleeping = lib_sqlite_open(scene.place.path);
    struct qn_broker *sender = lib_sqlite_open(scene.place.path);
    lib_sqlite_arm(sleeping);
    test_dir_remove(scene.wake_dir);
    assert_ok(qn_broker_wait(sleeping, 0, &wakeup, &err), err);
    assert_true(wakeup.work); /* what was sent meanwhile did not arrive */
    assert_int_equal(lib_sqlite_names_in(scene.wake_dir), 3);
    lib_sqlite_arm(sleeping);
    assert_ok(qn_broker_wait(sleeping, 0, &wakeup, &err), err);
    assert_false(wakeup.work);
    qn_broker_wake(sender);
    assert_ok(qn_broker_wait(sleeping, TEST_PATIENCE_MS, &wakeup, &err), err);
    assert_true(wakeup.work);
    qn_broker_close(sender);
    qn_broker_close(sleeping);
    lib_sqlite_remove(&scene.place);
}

static void full_socket_is_a_wake_up_already(void **state)
{
    (void)state;
    struct scene scene;
    scene_make(&scene);
    struct qn_broker *sleeping = lib_sqlite_open(scene.place.path);
    struct qn_broker *sender = lib_sqlite_open(scene.place.path);
    lib_sqlite_arm(sleeping);
    for (int i = 0; i < 1000; i++) {
        qn_broker_wake(sender); /* must never block */
    }
    assert_int_equal(lib_sqlite_names_in(scene.wake_dir), 3);
    assert_true(wait_ms(sleeping, BRIEFLY_MS).work);
    /* One wake-up per arm: the rest in the socket is no notice. */
    assert_false(wait_ms(sleeping, 20).work);
    lib_sqlite_arm(sleeping);
    assert_false(wait_ms(sleeping, 20).work);
    qn_broker_close(sleeping);
    qn_broker_close(sender);
    lib_sqlite_remove(&scene.place);
}

static void waiter_that_comes_later_is_noticed(void **state)
{
    (void)state;
    struct scene scene;
    scene_make(&scene);
    struct qn_broker *sender = lib_sqlite_open(scene.place.path);
    struct qn_broker *sleepers[5];
    for (size_t i = 0; i < TEST_COUNT(sleepers); i++) {
        qn_broker_wake(sender); /* has listed the directory before each of them came */
        sleepers[i] = lib_sqlite_open(scene.place.path);
        lib_sqlite_arm(sleepers[i]);
    }
    qn_broker_wake(sender);
    for (size_t i = 0; i < TEST_COUNT(sleepers); i++) {
        assert_true(wait_ms(sleepers[i], BRIEFLY_MS).work);
        qn_broker_close(sleepers[i]);
    }
    qn_broker_close(sender);
    lib_sqlite_remove(&scene.place);
}

static void file_deep_in_the_tree_can_be_waited_for(void **state)
{
    (void)state;
    struct scene scene;
    char path[512];
    scene_make(&scene);
    size_t size = (size_t)snprintf(path, sizeof path, "%s", scene.place.dir);
    for (int i = 0; i < 6; i++) { /* far beyond the 108 bytes of a socket's address */
        size += (size_t)snprintf(path + size, sizeof path - size,
                                 "/directory-with-a-rather-long-name-%d", i);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    (void)snprintf(path + size, sizeof path - size, "/tasks.db");
    struct qn_broker *sleeping = lib_sqlite_open(path);
    struct qn_broker *sender = lib_sqlite_open(path);
    lib_sqlite_arm(sleeping);
    qn_broker_wake(sender);
    assert_true(wait_ms(sleeping, BRIEFLY_MS).work);
    qn_broker_close(sleeping);
    qn_broker_close(sender);
    lib_sqlite_remove(&scene.place);
}

/* Sends bytes to the only socket whose name ends so. */
static void send_bytes(const struct scene *scene, const char *ending, const void *data, size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    DIR *directory = opendir(scene->wake_dir);
    assert_non_null(directory);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        size_t length = strlen(entry->d_name);
        if (length > 2 && strcmp(entry->d_name + length - 2, ending) == 0) {
            (void)snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%.64s",
                           dirfd(directory), entry->d_name);
        }
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(
        sendto(fd, data, size, 0, (const struct sockaddr *)(const void *)&address, sizeof address),
        size);
    (void)close(fd);
    (void)closedir(directory);
}

static void malformed_cancellations_are_ignored(void **state)
{
    (void)state;
    struct scene scene;
    char large[2000];
    scene_make(&scene);
    struct qn_broker *broker = lib_sqlite_open(scene.place.path);
    lib_sqlite_arm(broker);
    memset(large, '1', sizeof large);
    send_bytes(&scene, ".c", "", 0);
    send_bytes(&scene, ".c", "1", 1);
    send_bytes(&scene, ".c", "1queue", 6);
    send_bytes(&scene, ".c", "1queue\0id", 9);
    send_bytes(&scene, ".c", "1queue\0", 7);
    send_bytes(&scene, ".c", "1queue\0id\0more", 15);
    send_bytes(&scene, ".c", "9queue\0id", 10);
    send_bytes(&scene, ".c", large, sizeof large);
    assert_int_equal(wait_ms(broker, 20).cancel, QN_CANCEL_NONE);
    send_bytes(&scene, ".c", "2queue\0id", 10);
    struct qn_wakeup wakeup = wait_ms(broker, BRIEFLY_MS);
    assert_int_equal(wakeup.cancel, QN_CANCEL_ARCHIVE);
    assert_string_equal(wakeup.queue, "queue");
    assert_string_equal(wakeup.id, "id");
    qn_broker_close(broker);
    lib_sqlite_remove(&scene.place);
}

/* --- Clients that wait for a task ----------------------------------------------------- */

static struct qn_broker *watch(const char *path)
{
    quern_error err = {0};
    struct qn_broker *broker = lib_sqlite_open(path);
    assert_ok(lib_sqlite_enqueue(broker, "a", &err), err);
    assert_ok(qn_broker_watch(broker, "default", "a", &err), err);
    return broker;
}

static struct qn_notices await(struct qn_broker *broker, int64_t timeout_ms)
{
    struct qn_notices notices;
    quern_error err = {0};
    assert_ok(qn_broker_await(broker, timeout_ms, &notices, &err), err);
    return notices;
}

static void client_whose_directory_was_removed_makes_another(void **state)
{
    (void)state;
    struct scene scene;
    quern_error err = {0};
    scene_make(&scene);
    struct qn_broker *client = watch(scene.place.path);
    struct qn_broker *other = lib_sqlite_open(scene.place.path);
    test_dir_remove(scene.wake_dir);
    assert_true(await(client, 20).all); /* what ended meanwhile was not sent to it */
    assert_int_equal(lib_sqlite_names_in(scene.wake_dir), 2);
    assert_ok(qn_broker_operate(other, QUERN_ACTION_ARCHIVE, NULL, "a", &err), err);
    assert_int_equal(await(client, BRIEFLY_MS).count, 1);
    qn_broker_close(other);
    qn_broker_close(client);
    lib_sqlite_remove(&scene.place);
}

static void neighbour_that_sends_anything_brings_one_notice_each(void **state)
{
    (void)state;
    struct scene scene;
    char garbage[5000];
    scene_make(&scene);
    struct qn_broker *client = watch(scene.place.path);
    memset(garbage, 't', sizeof garbage);
    static const size_t sizes[] = {0, 1, 2, 8, 10, 2049 + 8, sizeof garbage};
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        send_bytes(&scene, ".e", garbage, sizes[i]);
        assert_true(await(client, BRIEFLY_MS).all);
        struct qn_notices after = await(client, 0);
        assert_true(qn_notices_empty(&after));
    }
    qn_broker_close(client);
    lib_sqlite_remove(&scene.place);
}

/* The worker of the file's owner could not use it. */
static void client_of_another_user_makes_no_directory(void **state)
{
    (void)state;
    TEST_SKIP_UNLESS_ROOT();
    struct scene scene;
    quern_error err = {0};
    scene_make(&scene);
    struct qn_broker *broker = lib_sqlite_open(scene.place.path);
    assert_ok(lib_sqlite_enqueue(broker, "a", &err), err);
    assert_int_equal(chmod(scene.place.dir, 0777), 0); /* this user could */
    assert_int_equal(seteuid(STRANGER), 0);
    quern_status status = qn_broker_watch(broker, "default", "a", &err);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(status, QUERN_E_UNSUPPORTED);
    assert_int_equal(lib_sqlite_names_in(scene.wake_dir), -1);
    assert_ok(qn_broker_watch(broker, "default", "a", &err), err); /* root does make it */
    assert_int_equal(lib_sqlite_names_in(scene.wake_dir), 2);
    qn_broker_close(broker);
    lib_sqlite_remove(&scene.place);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(client_that_never_waits_makes_no_sockets),
    cmocka_unit_test(sockets_are_private_and_go_with_their_owner),
    cmocka_unit_test(sockets_of_a_killed_process_are_removed_by_the_next_sender),
    cmocka_unit_test(sockets_that_were_removed_are_made_anew),
    cmocka_unit_test(full_socket_is_a_wake_up_already),
    cmocka_unit_test(waiter_that_comes_later_is_noticed),
    cmocka_unit_test(file_deep_in_the_tree_can_be_waited_for),
    cmocka_unit_test(malformed_cancellations_are_ignored),
    cmocka_unit_test(client_whose_directory_was_removed_makes_another),
    cmocka_unit_test(neighbour_that_sends_anything_brings_one_notice_each),
    cmocka_unit_test(client_of_another_user_makes_no_directory),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = {{.name = "sleeper", .main = sleeper}};
    const struct test_group group = {.name = "sqlite_socket",
                                     .tests = tests,
                                     .test_count = TEST_COUNT(tests),
                                     .roles = roles,
                                     .role_count = TEST_COUNT(roles)};
    return test_main(argc, argv, &group);
}
