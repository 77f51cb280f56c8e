/* SPDX-License-Identifier: MIT */
/* test_fork.c - a broker object belongs to the process that opened it: in a fork every operation is
 * refused with a text, and neither the attempt nor the end of the child disturbs the parent. */
#include "lib_contract.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child: exit code 0 when the parent's broker refuses everything that is tried. */
static int try_everything(struct contract *c)
{
    const char *queue = "default";
    const struct qn_task task = {
        .id = "child", .queue = "default", .type = "t", .state = QUERN_TASK_PENDING};
    quern_status result = QUERN_OK;
    quern_error err = {0};
    size_t count = 0;
    int64_t due_at_ms = 0;
    bool work = false;
    struct qn_leased *run = NULL;
    struct qn_queue_share share = {.name = queue, .weight = 1, .quota = 1};
    struct qn_exchange exchange = {.worker_id = CONTRACT_WORKER,
                                   .lease_ms = CONTRACT_LEASE_MS,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = 1};
    struct qn_exchange_reply reply = {.runs = &run};
    const quern_status statuses[] = {
        qn_broker_check_fork(c->broker, &err),
        qn_broker_enqueue(c->broker, &(struct qn_enqueue){(struct qn_stamp){0}, &task, 1, &result},
                          &err),
        qn_broker_exchange(c->broker, &exchange, &reply, &err),
        qn_broker_forward(c->broker, (struct qn_upkeep){{&queue, 1}, 1}, &count, &due_at_ms, &err),
        qn_broker_recover(c->broker, (struct qn_upkeep){{&queue, 1}, 1}, NULL, &count, &err),
        qn_broker_arm(c->broker, (struct qn_names){&queue, 1}, &work, &due_at_ms, &err),
        qn_broker_pause(c->broker, queue, true, &err),
    };
    for (size_t i = 0; i < TEST_COUNT(statuses); i++) {
        if (statuses[i] != QUERN_E_CLOSED) {
            (void)fprintf(stderr, "operation %zu: %s\n", i, quern_status_name(statuses[i]));
            return 1;
        }
    }
    return strlen(err.text) > 10 ? 0 : 2;
}

static void fork_of_the_opener_is_refused(struct contract *c)
{
    int status = -1;
    contract_put_many(c, "default", "a", 3);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(try_everything(c));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(contract_queue(c, "default").size, 3);
    contract_finish(c, contract_take_id(c, "default", "a0000"), QN_DONE);
}

static void fork_may_close_what_it_inherited(struct contract *c)
{
    int status = -1;
    contract_put_many(c, "default", "a", 3);
    struct qn_leased *run = contract_take_id(c, "default", "a0000");
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        qn_broker_close(c->broker);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_APPLIED);
    contract_put(c, "default", "b");
    qn_broker_close(c->broker);
    c->broker = contract_open(c);
    assert_int_equal(contract_queue(c, "default").size, 3);
    contract_assert_counted(c, "default", 1, 0);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(fork_of_the_opener_is_refused),
    CONTRACT_TEST(fork_may_close_what_it_inherited),
};
CONTRACT_MAIN(tests)
