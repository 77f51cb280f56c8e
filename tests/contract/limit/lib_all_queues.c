/* SPDX-License-Identifier: MIT */
/* lib_all_queues.c - the steps. */
#include "lib_all_queues.h"

#include <string.h>

/* Shorter than QN_SAFETY_NET_MS, which would find the work without any wake-up. */
#define BRIEFLY_MS 400

void all_set(struct contract *c, quern_limit_scope scope, const char *name, const char *text)
{
    quern_status status = contract_try_limit(c, QUERN_ALL_QUEUES, scope, name, text);
    if (status == QUERN_E_UNSUPPORTED && test_store_is(&c->store, "cluster")) {
        skip(); /* no node sees all queues */
    }
    assert_int_equal(status, QUERN_OK);
}

quern_status all_remove(struct contract *c, quern_limit_scope scope, const char *name)
{
    const struct qn_limit_owner owner = {QUERN_ALL_QUEUES, scope, name};
    return qn_broker_remove_limit(c->broker, &owner, NULL);
}

void all_put(struct contract *c, const char *queue, const char *id, const char *type,
             const char *key)
{
    contract_enqueue(c, &(quern_task){.queue = queue, .type = type, .id = id, .limit_key = key});
}

size_t all_lease(struct contract *c, const char *queue, struct qn_leased **runs, const char *ids)
{
    char got[1024] = "";
    size_t count = contract_lease(c, queue, 8, runs);
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(got);
        (void)snprintf(got + used, sizeof got - used, "%s%s", used > 0 ? " " : "",
                       runs[i]->task.id);
    }
    assert_string_equal(got, ids);
    return count;
}

void all_done(struct contract *c, struct qn_leased *run)
{
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_APPLIED);
}

struct found {
    char lines[512];
};

static bool on_limit(const quern_limit *limit, void *user)
{
    struct found *found = user;
    size_t used = strlen(found->lines);
    (void)snprintf(found->lines + used, sizeof found->lines - used, "%s/%d/%s %lld/%lld;",
                   limit->queue, (int)limit->scope, limit->name, (long long)limit->used,
                   (long long)limit->count);
    return true;
}

void all_assert_listed(struct contract *c, const char *queue, const char *lines)
{
    struct found found = {""};
    quern_error err = {0};
    assert_ok(qn_broker_limits(c->broker, queue, on_limit, &found, &err), err);
    assert_string_equal(found.lines, lines);
}

void all_assert_end_is_noticed(struct contract *c)
{
    const char *const queue = "other";
    struct qn_wakeup wakeup = {0};
    struct qn_leased *runs[8];
    bool work = false;
    int64_t due_at_ms = 0;
    quern_error err = {0};
    all_put(c, "default", "a", "t", "k");
    all_put(c, "other", "b", "t", "k");
    assert_int_equal(all_lease(c, "default", runs, "a"), 1);
    assert_int_equal(all_lease(c, "other", runs + 1, ""), 0);
    struct qn_broker *sleeper = contract_open(c);
    for (int i = 0; i < 2; i++) { /* the first wait takes what came before */
        assert_ok(qn_broker_arm(sleeper, (struct qn_names){&queue, 1}, &work, &due_at_ms, &err),
                  err);
        if (i == 1) {
            all_done(c, runs[0]);
        }
        wakeup = (struct qn_wakeup){0};
        assert_ok(qn_broker_wait(sleeper, i == 0 ? 1 : BRIEFLY_MS, &wakeup, &err), err);
    }
    /* On Redis other queues send no wake-ups: there it looks again at that moment. */
    assert_true(wakeup.work ||
                (due_at_ms > 0 && due_at_ms - qn_clock_wall_ms(&c->clock) <= BRIEFLY_MS));
    qn_broker_close(sleeper);
}
