/* SPDX-License-Identifier: MIT */
/* test_checkpoint.c - the WAL is moved into the database while the file is in use, and does not
 * grow without end. */
#include "lib_client.h"

#include <stdlib.h>
#include <sys/stat.h>

#define PAYLOAD_SIZE ((size_t)1 << 20)
#define ROUND_TASKS 20 /* 20 MB; a checkpoint is due after 16 MB */

static off_t size_of(const char *path, const char *suffix)
{
    char name[TEST_DIR_SIZE + 32];
    (void)snprintf(name, sizeof name, "%s%s", path, suffix);
    struct stat info;
    return stat(name, &info) == 0 ? info.st_size : 0;
}

struct place {
    struct client_test *t;
    off_t wanted;
};

static bool database_has_grown(void *user)
{
    const struct place *place = user;
    return size_of(place->t->url, "") >= place->wanted;
}

static void a_long_wal_is_moved_and_begins_anew(void **state)
{
    struct client_test *t = *state;
    char *payload = calloc(1, PAYLOAD_SIZE);
    assert_non_null(payload);
    const quern_task task = {.type = "t", .payload = payload, .payload_size = PAYLOAD_SIZE};
    off_t round_size = (off_t)ROUND_TASKS * (off_t)PAYLOAD_SIZE;
    quern_error err = {0};
    for (int round = 1; round <= 4; round++) {
        for (int i = 0; i < ROUND_TASKS; i++) {
            assert_ok(quern_client_enqueue(t->client, &task, NULL, &err), err);
        }
        /* Pages written after the latest checkpoint stay until the next one. */
        struct place place = {t, (round - 1) * round_size + (off_t)PAYLOAD_SIZE};
        assert_true(test_until(database_has_grown, &place));
    }
    assert_true(size_of(t->url, "-wal") < 3 * round_size);
    assert_int_equal(client_stored(t), 4 * ROUND_TASKS);
    free(payload);
}

static const struct CMUnitTest tests[] = {
    CLIENT_TEST(a_long_wal_is_moved_and_begins_anew),
};
TEST_MAIN(tests)
