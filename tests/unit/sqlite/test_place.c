/* SPDX-License-Identifier: MIT */
/* test_place.c - the owners of the file and of those beside it, and the users who may write to
 * them. Tests with files of other users are skipped unless root runs them. */
#include "lib_sqlite.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STRANGER 65534

/* With a file that holds tables; opens nothing. */
static void make_place(struct lib_sqlite *place)
{
    lib_sqlite_make(place);
    qn_broker_close(lib_sqlite_open(place->path));
}

static void assert_refused(const char *url, const char *text)
{
    quern_error err = {0};
    assert_int_equal(lib_sqlite_refused(url, true, &err), QUERN_E_CONNECT);
    if (strstr(err.text, text) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, text);
    }
}

static struct qn_broker *open_trusting(const struct lib_sqlite *place)
{
    char url[TEST_DIR_SIZE + 64];
    (void)snprintf(url, sizeof url, "sqlite://%s?trust_owner=1", place->path);
    return lib_sqlite_open(url);
}

static void file_of_another_user_is_refused_unless_trusted(void **state)
{
    (void)state;
    struct lib_sqlite place;
    TEST_SKIP_UNLESS_ROOT();
    make_place(&place);
    assert_int_equal(chown(place.path, STRANGER, (gid_t)-1), 0);
    assert_refused(place.path, "belongs to another user (uid 65534; this process runs as 0)");
    qn_broker_close(open_trusting(&place));
    lib_sqlite_remove(&place);
}

static void what_every_user_may_write_is_refused_unless_trusted(void **state)
{
    (void)state;
    struct lib_sqlite place;
    make_place(&place);
    assert_int_equal(chmod(place.path, 0666), 0);
    assert_refused(place.path, "tasks.db: every user may write to it");
    qn_broker_close(open_trusting(&place));
    assert_int_equal(chmod(place.path, 0600), 0);
    assert_int_equal(chmod(place.dir, 0777), 0);
    assert_refused(place.path, "every user may write to the directory ");
    qn_broker_close(open_trusting(&place));
    assert_int_equal(chmod(place.dir, 01777), 0); /* as /tmp */
    qn_broker_close(lib_sqlite_open(place.path));
    lib_sqlite_remove(&place);
}

static void keep_warning(const char *name, const char *text, void *user)
{
    if (strcmp(name, "warning") == 0) {
        (void)snprintf(user, 200, "%s", text);
    }
}

static void file_of_a_group_is_allowed_and_reported(void **state)
{
    (void)state;
    struct lib_sqlite place;
    char warning[200] = "";
    quern_error err = {0};
    make_place(&place);
    struct qn_broker *broker = lib_sqlite_open(place.path);
    assert_ok(qn_broker_server_info(broker, keep_warning, warning, &err), err);
    assert_string_equal(warning, "");
    assert_int_equal(chmod(place.path, 0660), 0);
    assert_ok(qn_broker_server_info(broker, keep_warning, warning, &err), err);
    assert_non_null(strstr(warning, "may write to the database"));
    assert_int_equal(chmod(place.path, 0600), 0);
    assert_int_equal(chmod(place.dir, 0770), 0);
    assert_ok(qn_broker_server_info(broker, keep_warning, warning, &err), err);
    assert_non_null(strstr(warning, "the directory of the database"));
    assert_int_equal(chmod(place.dir, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(place.dir, STRANGER, (gid_t)-1), 0);
        assert_ok(qn_broker_server_info(broker, keep_warning, warning, &err), err);
        assert_non_null(strstr(warning, "the directory of the database belongs to another user"));
        assert_int_equal(chown(place.dir, 0, (gid_t)-1), 0);
    }
    qn_broker_close(broker);
    qn_broker_close(lib_sqlite_open(place.path));
    lib_sqlite_remove(&place);
}

static void pipes_in_the_place_of_files_are_refused(void **state)
{
    (void)state;
    static const char *const suffixes[] = {"-wal", "-shm", "-journal", ""};
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        struct lib_sqlite place;
        char name[TEST_DIR_SIZE + 32];
        lib_sqlite_make(&place);
        (void)snprintf(name, sizeof name, "%s%s", place.path, suffixes[i]);
        assert_int_equal(mkfifo(name, 0600), 0);
        assert_refused(place.path, "not a regular file");
        lib_sqlite_remove(&place);
    }
}

/* All that lies in the directory of sockets has this owner and no right for others. */
static void assert_private(const struct lib_sqlite *place, uid_t owner, int count)
{
    char path[TEST_DIR_SIZE + 32];
    struct stat info;
    lib_sqlite_wake_dir(place, path, sizeof path);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    assert_int_equal(info.st_uid, owner);
    assert_int_equal(lib_sqlite_names_in(path), count);
    DIR *directory = opendir(path);
    assert_non_null(directory);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        assert_int_equal(fstatat(dirfd(directory), entry->d_name, &info, AT_SYMLINK_NOFOLLOW), 0);
        if (S_ISSOCK(info.st_mode)) {
            assert_int_equal(info.st_mode & 07777, 0600);
            assert_int_equal(info.st_uid, owner);
        }
    }
    (void)closedir(directory);
}

static void sockets_are_private_whatever_the_umask(void **state)
{
    (void)state;
    static const mode_t masks[] = {0, 022, 0777};
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        struct lib_sqlite place;
        make_place(&place);
        struct qn_broker *broker = lib_sqlite_open(place.path);
        mode_t before = umask(masks[i]);
        lib_sqlite_arm(broker);
        (void)umask(before);
        assert_private(&place, geteuid(), 3);
        qn_broker_close(broker);
        lib_sqlite_remove(&place);
    }
}

static void root_leaves_sockets_that_the_owner_of_the_file_can_use(void **state)
{
    (void)state;
    struct lib_sqlite place;
    TEST_SKIP_UNLESS_ROOT();
    make_place(&place);
    assert_int_equal(chown(place.path, STRANGER, (gid_t)-1), 0);
    struct qn_broker *broker = open_trusting(&place);
    lib_sqlite_arm(broker);
    assert_private(&place, STRANGER, 3);
    qn_broker_close(broker);
    lib_sqlite_remove(&place);
}

static void worker_beside_sockets_of_another_user_finds_its_work_all_the_same(void **state)
{
    (void)state;
    struct lib_sqlite place;
    char path[TEST_DIR_SIZE + 32];
    quern_error err = {0};
    struct qn_wakeup wakeup = {0};
    bool work = false;
    int64_t due_at_ms = 0;
    const char *queue = "default";
    TEST_SKIP_UNLESS_ROOT();
    make_place(&place);
    lib_sqlite_wake_dir(&place, path, sizeof path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chown(path, STRANGER, (gid_t)-1), 0);
    struct qn_broker *broker = lib_sqlite_open(place.path);
    assert_int_equal(qn_broker_arm(broker, (struct qn_names){&queue, 1}, &work, &due_at_ms, &err),
                     QUERN_E_CONNECT);
    assert_non_null(strstr(err.text, "belongs to another user"));
    qn_broker_close(broker);
    broker = open_trusting(&place);
    struct qn_broker *sender = lib_sqlite_open(place.path);
    lib_sqlite_arm(broker);
    assert_ok(lib_sqlite_enqueue(sender, "a", &err), err);
    assert_ok(qn_broker_wait(broker, 20000, &wakeup, &err), err);
    assert_true(wakeup.work);
    assert_int_equal(lib_sqlite_names_in(path), 0);
    qn_broker_close(sender);
    qn_broker_close(broker);
    lib_sqlite_remove(&place);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(file_of_another_user_is_refused_unless_trusted),
    cmocka_unit_test(what_every_user_may_write_is_refused_unless_trusted),
    cmocka_unit_test(file_of_a_group_is_allowed_and_reported),
    cmocka_unit_test(pipes_in_the_place_of_files_are_refused),
    cmocka_unit_test(sockets_are_private_whatever_the_umask),
    cmocka_unit_test(root_leaves_sockets_that_the_owner_of_the_file_can_use),
    cmocka_unit_test(worker_beside_sockets_of_another_user_finds_its_work_all_the_same),
};
TEST_MAIN(tests)
