/* SPDX-License-Identifier: MIT */
/* lib_plan.c - rules and dice. A rule is asked for every request, in the order of the rules; the
 * dice fall once for each write of a client, since a pipeline of twenty commands would otherwise
 * hardly ever get through. */
#include "lib_plan.h"

#include "lib_test.h"

#include <string.h>

#include "base/random.h"
#include "base/text/hash.h"

static const char *const names[PROXY_FAULT_COUNT] = {
    [PROXY_CUT_BEFORE] = "cut-before",
    [PROXY_CUT_REQUEST] = "cut-request",
    [PROXY_CUT_AFTER] = "cut-after",
    [PROXY_CUT_REPLY] = "cut-reply",
    [PROXY_RESET_BEFORE] = "reset-before",
    [PROXY_RESET_AFTER] = "reset-after",
    [PROXY_HALF_OPEN_BEFORE] = "half-open-before",
    [PROXY_HALF_OPEN_AFTER] = "half-open-after",
    [PROXY_DELAY] = "delay",
    [PROXY_DRIBBLE] = "dribble",
    [PROXY_ERROR] = "error",
};

const struct proxy_error proxy_errors[] = {
    {"LOADING", "LOADING Redis is loading the dataset in memory"},
    {"BUSY", "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN "
             "NOSAVE."},
    {"READONLY", "READONLY You can't write against a read only replica."},
    {"MASTERDOWN", "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to "
                   "'no'."},
    {"CLUSTERDOWN", "CLUSTERDOWN The cluster is down"},
    {"TRYAGAIN", "TRYAGAIN Multiple keys request during rehashing of slot"},
    {"NOREPLICAS", "NOREPLICAS Not enough good replicas to write."},
    {"MAXCLIENTS", "ERR max number of clients reached"},
    {"OOM", "OOM command not allowed when used memory > 'maxmemory'."},
    {"MISCONF", "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to "
                "persist to disk."},
    {"UNKILLABLE", "UNKILLABLE Sorry the script already executed write commands against the "
                   "dataset."},
    {"NOAUTH", "NOAUTH Authentication required."},
    {"WRONGPASS", "WRONGPASS invalid username-password pair or user is disabled."},
    {"NOPERM", "NOPERM this user has no permissions to run the 'evalsha' command"},
    {"NOSCRIPT", "NOSCRIPT No matching script. Please use EVAL."},
    {"MOVED", "MOVED 3999 127.0.0.1:1"},
    {"ASK", "ASK 3999 127.0.0.1:1"},
};
const size_t proxy_error_count = TEST_COUNT(proxy_errors);

const char *proxy_fault_name(enum proxy_fault fault)
{
    return fault < PROXY_FAULT_COUNT ? names[fault] : "nothing";
}

enum proxy_fault proxy_fault_of(const char *name, size_t size)
{
    int fault = 0;
    while (fault < PROXY_FAULT_COUNT &&
           (strlen(names[fault]) != size || memcmp(names[fault], name, size) != 0)) {
        fault++;
    }
    return (enum proxy_fault)fault;
}

const char *proxy_error_text(const char *name)
{
    for (size_t i = 0; i < proxy_error_count; i++) {
        if (strcmp(proxy_errors[i].name, name) == 0) {
            return proxy_errors[i].text;
        }
    }
    return NULL;
}

static bool matches(const struct proxy_rule *rule, const char *name,
                    const struct resp_bytes *request)
{
    return (rule->by == NULL || strstr(name, rule->by) != NULL) &&
           (rule->to == NULL || resp_word_is(request, 0, rule->to) ||
            resp_word_is(request, 1, rule->to));
}

static int64_t delay_of(const struct proxy_plan *plan, const struct proxy_rule *rule, size_t index)
{
    struct qn_random random;
    qn_random_init_seed(&random, plan->seed + index);
    uint64_t spread = rule->varies ? (uint64_t)rule->ms / 4 : 0;
    return rule->ms - (int64_t)qn_random_below(&random, spread + 1);
}

struct proxy_deed proxy_plan_rule(struct proxy_plan *plan, const char *name,
                                  const struct resp_bytes *request)
{
    for (size_t i = 0; i < plan->rule_count; i++) {
        const struct proxy_rule *rule = &plan->rules[i];
        if (!matches(rule, name, request)) {
            continue;
        }
        size_t index = plan->seen[i]++;
        if (index >= rule->skip && (rule->count == 0 || index - rule->skip < rule->count)) {
            return (struct proxy_deed){.rule = i,
                                       .fault = rule->fault,
                                       .error = rule->error,
                                       .at = rule->at,
                                       .hang_up = rule->hang_up,
                                       .ms = delay_of(plan, rule, index)};
        }
    }
    return (struct proxy_deed){.fault = PROXY_NOTHING, .rule = PROXY_RULES_MAX};
}

/* How many writes there were on connections of this name; counts one more. */
static uint64_t count_write(struct proxy_plan *plan, const char *name)
{
    size_t i = 0;
    while (i < plan->name_count && strcmp(plan->counts[i].name, name) != 0) {
        i++;
    }
    if (i == plan->name_count && i < PROXY_NAMES_MAX - 1) {
        (void)snprintf(plan->counts[i].name, PROXY_NAME_SIZE, "%s", name);
        plan->name_count++;
    }
    return plan->counts[i].writes++; /* names beyond the last place share it */
}

static enum proxy_fault choose(struct qn_random *random, uint32_t faults)
{
    size_t index = qn_random_below(random, (uint64_t)__builtin_popcount(faults));
    int fault = 0;
    while ((faults & PROXY_BIT(fault)) == 0 || index-- > 0) {
        fault++;
    }
    return (enum proxy_fault)fault;
}

struct proxy_deed proxy_plan_roll(struct proxy_plan *plan, const char *name, size_t requests,
                                  size_t *ret_victim)
{
    struct qn_random random;
    uint64_t hash = qn_hash_part(QN_HASH_START, name, strlen(name));
    qn_random_init_seed(&random,
                        plan->seed ^ hash ^ (count_write(plan, name) * 0x9e3779b97f4a7c15U));
    if (plan->faults == 0 || plan->faults_left == 0 ||
        qn_random_below(&random, 1000) >= plan->permille) {
        return (struct proxy_deed){.fault = PROXY_NOTHING};
    }
    plan->faults_left--;
    *ret_victim = qn_random_below(&random, requests);
    return (struct proxy_deed){
        .rule = PROXY_RULES_MAX,
        .fault = choose(&random, plan->faults),
        .error = proxy_errors[qn_random_below(&random, 6)].text, /* those that pass */
        .part = 1 + (uint32_t)qn_random_below(&random, UINT32_MAX - 1),
        .ms = 1 + (int64_t)qn_random_below(&random, (uint64_t)plan->delay_ms_max + 1)};
}

size_t proxy_deed_at(const struct proxy_deed *deed, size_t size)
{
    size_t at = deed->part == 0 ? deed->at : (size_t)((uint64_t)deed->part * size >> 32);
    return at < size ? at : size - 1;
}
