/* SPDX-License-Identifier: MIT */
/* lib_unique.c - storing unique tasks, and the answers with the ids of holders. */
#include "lib_unique.h"

#include <stdio.h>

const quern_task unique_keyed = {.type = "u",
                                 .payload = "old",
                                 .payload_size = 3,
                                 .unique_ms = UNIQUE_HOUR_MS,
                                 .unique_key = "k"};

void unique_store(struct contract *c, struct qn_stamp stamp, const quern_task *tasks, size_t count,
                  struct unique_answer *answers)
{
    static struct qn_task prepared[UNIQUE_BATCH];
    static quern_status results[UNIQUE_BATCH];
    static const char *holders[UNIQUE_BATCH];
    struct qn_arena arena = {0};
    quern_error err = {0};
    const struct qn_task_terms terms = contract_terms(c);
    for (size_t i = 0; i < count; i++) {
        assert_ok(qn_task_prepare(&tasks[i], &terms, &arena, &prepared[i], &err), err);
        holders[i] = "not set";
    }
    const struct qn_enqueue enqueue = {.stamp = stamp,
                                       .tasks = prepared,
                                       .count = count,
                                       .results = results,
                                       .holders = holders,
                                       .arena = &arena};
    assert_ok(qn_broker_enqueue(c->broker, &enqueue, &err), err);
    for (size_t i = 0; i < count; i++) {
        answers[i] = (struct unique_answer){.status = results[i]};
        (void)snprintf(answers[i].holder, sizeof answers[i].holder, "%s",
                       holders[i] == NULL ? "" : holders[i]);
    }
    qn_arena_finish(&arena);
}

struct unique_answer unique_try(struct contract *c, const quern_task *task)
{
    struct unique_answer answer;
    unique_store(c, (struct qn_stamp){c->session, ++c->sequence}, task, 1, &answer);
    return answer;
}

struct unique_answer unique_try_policy(struct contract *c, const char *id, int32_t policy)
{
    quern_task task = unique_keyed;
    task.id = id;
    task.payload = "new";
    task.on_duplicate = policy;
    return unique_try(c, &task);
}

void unique_assert(struct unique_answer answer, quern_status status, const char *holder)
{
    assert_int_equal(answer.status, status);
    assert_string_equal(answer.holder, holder);
}

void unique_put_holder(struct contract *c, int32_t until)
{
    quern_task task = unique_keyed;
    task.id = "holder";
    task.unique_until = until;
    unique_assert(unique_try(c, &task), QUERN_OK, "");
}

quern_status unique_again(struct contract *c)
{
    return contract_try(c, &unique_keyed);
}

void unique_assert_payload(struct contract *c, const char *id, const char *payload)
{
    struct qn_leased *run = contract_take_id(c, "default", id);
    assert_int_equal(run->task.payload_size, 3);
    assert_memory_equal(run->task.payload, payload, 3);
    contract_finish(c, run, QN_DONE);
}
