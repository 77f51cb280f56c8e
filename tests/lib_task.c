/* SPDX-License-Identifier: MIT */
/* lib_task.c - a task as brokers take it. */
#include "lib_task.h"

#include "base/text/number.h"
#include "broker/command/command.h"
#include "broker/edit/edit.h"
#include "broker/move/move.h"
#include "broker/standing/standing.h"
#include "lib_round.h"

struct qn_task test_task(const char *id)
{
    return (struct qn_task){.id = id,
                            .queue = "default",
                            .type = "t",
                            .retry_max = 25,
                            .timeout_ms = 60000,
                            .state = QUERN_TASK_PENDING};
}

static bool keep_task(const quern_task_info *info, void *user)
{
    quern_task_info **copy = user;
    *copy = qn_task_info_copy(info);
    return false;
}

static bool is_moment(int64_t at_ms)
{
    return at_ms >= 0 && at_ms <= QN_MOMENT_MS_MAX;
}

/* One task of an unknown state, and as if it had been found in each state. */
static void edit_in(struct test_round *round, quern_task_state state)
{
    const quern_task_edit edit = {.payload = "", .retry_max = 9, .timeout_ms = 1};
    const struct qn_edit_item item = {.id = "t0"};
    const struct qn_edit_list list = {
        .edit = &edit, .queue = "default", .state = state, .items = &item, .count = 1};
    struct qn_edit_answer answer;
    (void)!qn_broker_edit(round->broker, &list, &answer, NULL);
}

/* To another queue, and what moved back, as the rest of the round is about the first one. */
static void move_in(struct test_round *round, quern_task_state state)
{
    static const struct qn_found found[] = {{"t1", ""}, {"none", ""}};
    struct qn_move_list list = {
        .queue = "default", .to = "other", .state = state, .items = found, .count = 2};
    struct qn_move_answer answers[2];
    (void)!qn_broker_move(round->broker, &list, answers, NULL);
    list = (struct qn_move_list){.queue = "other", .to = "default", .items = found, .count = 2};
    (void)!qn_broker_move(round->broker, &list, answers, NULL);
}

void test_round_stand(struct test_round *round)
{
    edit_in(round, (quern_task_state)0);
    move_in(round, (quern_task_state)0);
    for (int state = QUERN_TASK_ACTIVE; state <= QUERN_TASK_AGGREGATING; state++) {
        const quern_task_filter filter = {.queue = "default", .state = state, .limit = 1};
        struct qn_standing standing;
        quern_task_info *copy = NULL;
        quern_error err;
        edit_in(round, (quern_task_state)state);
        move_in(round, (quern_task_state)state);
        (void)!qn_broker_tasks(round->broker, &filter, keep_task, &copy, &err);
        bool is_known =
            copy != NULL && qn_broker_standing(round->broker, copy, &standing, &err) == QUERN_OK;
        if (is_known && !(is_moment(standing.solo_until_ms) && is_moment(standing.solo_rest_ms) &&
                          is_moment(standing.seen_at_ms) && standing.ahead >= -1 &&
                          standing.ahead <= QN_STANDING_AHEAD_MAX)) {
            round->strange = "standing";
            round->number = standing.ahead;
        }
        quern_task_info_free(copy);
    }
    struct qn_found_worker worker;
    (void)!qn_broker_find_worker(round->broker, round->worker_id, &worker, NULL);
    (void)!qn_broker_command(round->broker, "1 w1 0000000000000001 quiet 0", NULL);
}
