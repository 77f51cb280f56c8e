/* SPDX-License-Identifier: MIT */
/* test_memory_fork.c - the child of a fork does not share a database in memory with its parent.
 *
 * A program of its own, because valgrind takes for lost what a child still uses (scripts/check). */
#include "lib_sqlite.h"

#include <sys/wait.h>
#include <unistd.h>

#include "broker/inspect.h"

static bool add_size(const quern_queue_info *queue, void *user)
{
    *(uint64_t *)user += queue->size;
    return true;
}

static void child_of_a_fork_has_its_own(void **state)
{
    (void)state;
    quern_error err = {0};
    uint64_t size = 0;
    struct qn_broker *broker = lib_sqlite_open("memory:");
    assert_ok(lib_sqlite_enqueue(broker, "a", &err), err);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct qn_broker *own = NULL;
        bool ok = qn_broker_open("memory:", NULL, &own, &err) == QUERN_OK &&
                  qn_broker_queues(own, NULL, add_size, &size, &err) == QUERN_OK && size == 0 &&
                  lib_sqlite_enqueue(own, "a", &err) == QUERN_OK;
        qn_broker_close(own);
        qn_broker_close(broker);
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_ok(qn_broker_queues(broker, NULL, add_size, &size, &err), err);
    assert_int_equal(size, 1);
    qn_broker_close(broker);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(child_of_a_fork_has_its_own),
};
TEST_MAIN(tests)
