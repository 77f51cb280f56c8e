/* SPDX-License-Identifier: MIT */
/* lib_client.h - a client on a new file for each test, and a hook in its broker's enqueue.
 *
 * The hook is called between the client and the real broker: it counts the transactions, delays
 * them, loses their replies or refuses them, and notes the stamps. */
#ifndef TESTS_UNIT_LIB_CLIENT_H
#define TESTS_UNIT_LIB_CLIENT_H

#include "lib_test.h"

#include <stdatomic.h>

#include "broker/inspect.h"
#include "client/client.h"

/* The hook for one call of the broker. Returns the status for the client; calls client_pass_on for
 * the real operation. `turn` counts from 0. */
typedef quern_status (*client_trick)(size_t turn, const struct qn_enqueue *enqueue,
                                     quern_error *err);

struct client_test {
    char dir[TEST_DIR_SIZE];
    char url[TEST_DIR_SIZE + 16];
    struct quern_clock clock; /* stands still at CLIENT_NOW_MS */
    quern_client *client;
};
#define CLIENT_NOW_MS INT64_C(1800000000000)

/* cmocka's setup and teardown; *state is a struct client_test. */
int client_setup(void **state);
int client_teardown(void **state);
#define CLIENT_TEST(function)                                                                      \
    cmocka_unit_test_setup_teardown(function, client_setup, client_teardown)

/* Replaces the client by one with these options (the clock is filled in). */
void client_reopen(struct client_test *t, const quern_client_options *options);
/* Installs the hook; trick may be NULL: it only counts. */
void client_hook(struct client_test *t, client_trick trick);
/* The same, and the broker is treated as one that is reached over a network. */
void client_hook_remote(struct client_test *t, client_trick trick);
size_t client_turns(void); /* calls of the broker since client_hook */
struct qn_stamp client_stamp(size_t turn);
size_t client_count(size_t turn); /* tasks in that call; at most 4096 turns are noted */
quern_status client_pass_on(const struct qn_enqueue *enqueue, quern_error *err);

/* The stored task, to be freed; NULL when there is none. queue NULL: any. */
quern_task_info *client_find(struct client_test *t, const char *queue, const char *id);
/* All tasks of the file. */
size_t client_stored(struct client_test *t);
/* Asserts that this many tasks are pending in "default", in this order of payloads ("0", "1", ...).
 */
void client_assert_order(struct client_test *t, size_t count);

#endif
