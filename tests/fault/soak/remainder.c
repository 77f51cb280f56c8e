/* SPDX-License-Identifier: MIT */
/* remainder.c - what the broker says at the end of the soak test: how many tasks are left, which
 * are stuck, and whether an invariant is violated. */
#include "soak.h"

#include <string.h>

struct soak_remainder soak_read_remainder(const char *url)
{
    struct soak_remainder remainder = {0};
    quern_inspector *inspector = NULL;
    quern_queue_list *list = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_open(url, NULL, &inspector, &err), err);
    assert_ok(quern_inspector_queues(inspector, &list, &err), err);
    for (size_t i = 0; i < quern_queue_list_size(list); i++) {
        const quern_queue_info *queue = quern_queue_list_at(list, i);
        remainder.size += queue->size;
        remainder.archived += queue->counts[QUERN_TASK_ARCHIVED];
        remainder.open +=
            queue->size - queue->counts[QUERN_TASK_ARCHIVED] - queue->counts[QUERN_TASK_COMPLETED];
    }
    quern_queue_list_free(list);
    quern_inspector_free(inspector);
    return remainder;
}

static void show_finding(const quern_finding *finding, void *user)
{
    size_t *violated = user;
    if (finding->severity >= 2) {
        print_error("%s %s/%s: %s\n", finding->invariant, finding->queue, finding->id,
                    finding->text);
        *violated += 1;
    }
}

/* Counts tasks that never ended and yet are completed, or archived for another reason than our
 * kills. */
static size_t count_odd(quern_inspector *inspector, const bool *ends, size_t stored)
{
    size_t odd = 0;
    for (size_t i = 0; i < stored; i++) {
        quern_task_info *info = NULL;
        quern_error err = {0};
        char id[24];
        (void)snprintf(id, sizeof id, "%zu", i);
        if (ends[i] ||
            quern_inspector_task(inspector, "default", id, &info, &err) == QUERN_E_NOT_FOUND) {
            continue;
        }
        assert_non_null(info);
        quern_task_state state = quern_task_info_state(info);
        bool poison = strstr(quern_task_info_error(info), "poison") != NULL;
        if (state == QUERN_TASK_COMPLETED || (state == QUERN_TASK_ARCHIVED && !poison)) {
            print_error("task %s never ended, but is in state %d: %s\n", id, (int)state,
                        quern_task_info_error(info));
            odd++;
        }
        quern_task_info_free(info);
    }
    return odd;
}

size_t soak_check(const char *url, const bool *ends, size_t stored)
{
    quern_inspector *inspector = NULL;
    quern_error err = {0};
    size_t violated = 0;
    assert_ok(quern_inspector_open(url, NULL, &inspector, &err), err);
    assert_ok(quern_inspector_check(inspector, false, show_finding, &violated, &err), err);
    violated += count_odd(inspector, ends, stored);
    quern_inspector_free(inspector);
    return violated;
}

void soak_show_stuck(const char *url)
{
    static const int states[] = {QUERN_TASK_ACTIVE, QUERN_TASK_PENDING, QUERN_TASK_SCHEDULED,
                                 QUERN_TASK_RETRY};
    quern_inspector *inspector = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_open(url, NULL, &inspector, &err), err);
    for (size_t i = 0; i < TEST_COUNT(states); i++) {
        const quern_task_filter filter = {.state = states[i], .limit = 3};
        quern_task_list *list = NULL;
        assert_ok(quern_inspector_tasks(inspector, &filter, &list, &err), err);
        for (size_t j = 0; j < quern_task_list_size(list); j++) {
            const quern_task_info *info = quern_task_list_at(list, j);
            print_error("task %s is in state %d, at %lld, retried %lld, crashed %lld: %s\n",
                        quern_task_info_id(info), states[i],
                        (long long)quern_task_info_due_at_ms(info),
                        (long long)quern_task_info_retry_count(info),
                        (long long)quern_task_info_crash_count(info), quern_task_info_error(info));
        }
        quern_task_list_free(list);
    }
    quern_inspector_free(inspector);
}
