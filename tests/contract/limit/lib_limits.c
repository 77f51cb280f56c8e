/* SPDX-License-Identifier: MIT */
/* lib_limits.c - the steps of the contract tests of limits. */
#include "lib_limits.h"

#include <string.h>

#include "broker/limit/limit.h"

#define QUEUE "default"
#define RUNS_MAX 1024

static struct qn_leased *held[RUNS_MAX];
static size_t held_count;

void limits_begin(struct contract *c)
{
    held_count = 0;
    contract_need_limits(c);
}

void limits_finish(void)
{
    for (size_t i = 0; i < held_count; i++) {
        qn_leased_free(held[i]);
    }
    held_count = 0;
}

void limits_set(struct contract *c, quern_limit_scope scope, const char *name, const char *text)
{
    contract_limit(c, QUEUE, scope, name, text);
}

void limits_remove(struct contract *c, quern_limit_scope scope, const char *name)
{
    quern_error err = {0};
    const struct qn_limit_owner owner = {.queue = QUEUE, .scope = scope, .name = name};
    assert_ok(qn_broker_remove_limit(c->broker, &owner, &err), err);
}

void limits_put(struct contract *c, const char *id, const char *type, const char *key)
{
    contract_enqueue(c,
                     &(quern_task){.type = type != NULL ? type : "t", .id = id, .limit_key = key});
}

void limits_lease(struct contract *c, uint32_t room, const char *ids)
{
    struct qn_leased *runs[QN_BATCH_MAX];
    char got[4096] = "";
    size_t count = contract_lease(c, QUEUE, room, runs);
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(got);
        (void)snprintf(got + used, sizeof got - used, "%s%s", used > 0 ? " " : "",
                       runs[i]->task.id);
        assert_true(held_count < RUNS_MAX);
        held[held_count++] = runs[i];
    }
    assert_string_equal(got, ids);
}

static struct qn_leased *take_held(const char *id)
{
    for (size_t i = 0; i < held_count; i++) {
        if (strcmp(held[i]->task.id, id) == 0) {
            struct qn_leased *run = held[i];
            held[i] = held[--held_count];
            return run;
        }
    }
    fail_msg("%s was not leased", id);
    return NULL;
}

void limits_end(struct contract *c, const char *id, enum qn_outcome_kind kind)
{
    assert_true(contract_finish(c, take_held(id), kind) != QN_STALE);
}

void limits_done(struct contract *c, const char *id)
{
    limits_end(c, id, QN_DONE);
}

void limits_give_back(struct contract *c, const char *id)
{
    struct qn_leased *run = take_held(id);
    const struct qn_outcome outcome = {
        .run = run, .kind = QN_GIVE_BACK, .cause = QUERN_CAUSE_GIVEN_BACK};
    assert_int_equal(contract_end(c, &outcome), QN_APPLIED);
    qn_leased_free(run);
}

struct search {
    quern_limit_scope scope;
    const char *name;
    bool rate;
    int64_t used;
};

static bool on_limit(const quern_limit *limit, void *user)
{
    struct search *search = user;
    bool rate = limit->period_ms > 0;
    if ((quern_limit_scope)limit->scope == search->scope && rate == search->rate &&
        strcmp(limit->name, search->name) == 0) {
        search->used = limit->used;
    }
    return true;
}

int64_t limits_used(struct contract *c, quern_limit_scope scope, const char *name, bool rate)
{
    quern_error err = {0};
    struct search search = {.scope = scope, .name = name, .rate = rate, .used = -1};
    assert_ok(qn_broker_limits(c->broker, QUEUE, on_limit, &search, &err), err);
    return search.used;
}
