/* SPDX-License-Identifier: MIT */
/* lib_task.c - a task as brokers take it. */
#include "lib_task.h"

#include "base/text/number.h"
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

void test_round_stand(struct test_round *round)
{
    for (int state = QUERN_TASK_ACTIVE; state <= QUERN_TASK_AGGREGATING; state++) {
        const quern_task_filter filter = {.queue = "default", .state = state, .limit = 1};
        struct qn_standing standing;
        quern_task_info *copy = NULL;
        quern_error err;
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
}
