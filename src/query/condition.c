/* SPDX-License-Identifier: MIT */
/* condition.c - decides whether a task fulfils a query.
 *
 * One walk over the tree serves two questions: about a whole task, and about a place (a state of a
 * queue), of whose tasks nothing else is known; there most tests answer "maybe". The walk is as
 * deep as the tree, which the parser bounds. */
#include "query/condition.h"

#include <string.h>

#include "base/assert.h"
#include "base/memory/alloc.h"
#include "query/glob.h"

/* What is known. */
struct facts {
    const struct qn_condition *condition;
    const char *queue;
    quern_task_state state;
    const struct qn_condition_task *task; /* NULL: nothing else */
};

void qn_condition_free(struct qn_condition *condition)
{
    qn_free(condition);
}

/* --- Tests --------------------------------------------------------------------------- */

/* Whether a part of the text fits: the pattern of such a node begins and ends with a *. */
bool qn_condition_text_fits(const struct qn_condition_node *node, struct qn_bytes text)
{
    if (node->is_wild) {
        return qn_glob_fits(node->text, text);
    }
    if (node->sign == QN_SIGN_HAS) {
        return node->text.size == 0 ||
               (text.size >= node->text.size &&
                memmem(text.data, text.size, node->text.data, node->text.size) != NULL);
    }
    return text.size == node->text.size &&
           (text.size == 0 || memcmp(text.data, node->text.data, text.size) == 0);
}

static bool string_fits(const struct qn_condition_node *node, const char *text)
{
    const char *given = text == NULL ? "" : text;
    return qn_condition_text_fits(node, (struct qn_bytes){given, strlen(given)});
}

bool qn_condition_header_fits(const struct qn_condition_node *node, const quern_header *headers,
                              size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(headers[i].name, node->header) == 0 && string_fits(node, headers[i].value)) {
            return true;
        }
    }
    return false;
}

static bool number_fits(const struct qn_condition_node *node, int64_t number)
{
    switch (node->sign) {
    case QN_SIGN_EQUAL:
        return number == node->number;
    case QN_SIGN_LESS:
        return number < node->number;
    case QN_SIGN_LESS_EQUAL:
        return number <= node->number;
    case QN_SIGN_GREATER:
        return number > node->number;
    case QN_SIGN_GREATER_EQUAL:
        return number >= node->number;
    case QN_SIGN_HAS:
        break;
    }
    return false;
}

static bool since_fits(const struct qn_condition_node *node, int64_t now_ms, int64_t at_ms)
{
    return at_ms > 0 && number_fits(node, now_ms - at_ms);
}

static bool until_fits(const struct qn_condition_node *node, int64_t now_ms, int64_t at_ms)
{
    return at_ms > 0 && number_fits(node, at_ms - now_ms);
}

static bool task_fits(const struct qn_condition_node *node, const struct qn_condition_task *known)
{
    const struct qn_task *task = known->task;
    struct qn_bytes payload = {task->payload_size == 0 ? "" : task->payload, task->payload_size};
    switch (node->field) {
    case QN_FIELD_ID:
        return string_fits(node, task->id);
    case QN_FIELD_TYPE:
        return string_fits(node, task->type);
    case QN_FIELD_GROUP:
        return string_fits(node, task->group);
    case QN_FIELD_WORKER:
        return string_fits(node, known->worker);
    case QN_FIELD_ERROR:
        return string_fits(node, known->error);
    case QN_FIELD_PAYLOAD:
        return qn_condition_text_fits(node, payload);
    case QN_FIELD_TEXT:
        return qn_condition_text_fits(node, payload) || string_fits(node, known->error);
    case QN_FIELD_HEADER:
        return qn_condition_header_fits(node, task->headers, task->header_count);
    case QN_FIELD_RETRIED:
        return number_fits(node, known->retry_count);
    case QN_FIELD_CRASHES:
        return number_fits(node, known->crash_count);
    case QN_FIELD_PRIORITY:
        return number_fits(node, task->priority);
    case QN_FIELD_SIZE:
        return number_fits(node, (int64_t)task->payload_size);
    case QN_FIELD_AGE:
        return since_fits(node, known->now_ms, known->enqueued_at_ms);
    case QN_FIELD_RUNNING:
        return since_fits(node, known->now_ms, known->started_at_ms);
    case QN_FIELD_FAILED:
        return since_fits(node, known->now_ms, known->failed_at_ms);
    case QN_FIELD_ENDED:
        return since_fits(node, known->now_ms, known->ended_at_ms);
    case QN_FIELD_DUE:
        return until_fits(node, known->now_ms, known->due_at_ms);
    case QN_FIELD_QUEUE:
    case QN_FIELD_STATE:
    case QN_FIELD_NONE:
        break;
    }
    return false;
}

static enum qn_condition_answer answer_of(bool fits)
{
    return fits ? QN_ANSWER_YES : QN_ANSWER_NO;
}

static enum qn_condition_answer test(const struct qn_condition_node *node,
                                     const struct facts *facts)
{
    if (node->field == QN_FIELD_QUEUE) {
        return answer_of(string_fits(node, facts->queue));
    }
    if (node->field == QN_FIELD_STATE) {
        return answer_of((int64_t)facts->state == node->number);
    }
    return facts->task == NULL ? QN_ANSWER_MAYBE : answer_of(task_fits(node, facts->task));
}

/* --- The tree ------------------------------------------------------------------------ */

static enum qn_condition_answer answer(const struct facts *facts, size_t at)
{
    const struct qn_condition_node *node = &facts->condition->nodes[at];
    if (node->kind == QN_CONDITION_TEST) {
        return test(node, facts);
    }
    if (node->kind == QN_CONDITION_NOT) {
        enum qn_condition_answer inner = answer(facts, node->first);
        return inner == QN_ANSWER_MAYBE ? inner : answer_of(inner == QN_ANSWER_NO);
    }
    /* One child decides alone: a "no" an and, a "yes" an or. */
    enum qn_condition_answer deciding = answer_of(node->kind == QN_CONDITION_OR);
    enum qn_condition_answer all = answer_of(node->kind == QN_CONDITION_AND);
    for (size_t child = node->first;; child = facts->condition->nodes[child].next) {
        enum qn_condition_answer one = answer(facts, child);
        if (one == deciding) {
            return one;
        }
        all = one == QN_ANSWER_MAYBE ? one : all;
        if (facts->condition->nodes[child].next == 0) {
            return all;
        }
    }
}

bool qn_condition_fits(const struct qn_condition *condition, const struct qn_condition_task *task)
{
    const struct facts facts = {.condition = condition,
                                .queue = task->task->queue,
                                .state = task->task->state,
                                .task = task};
    return condition->count == 0 || answer(&facts, condition->count - 1) == QN_ANSWER_YES;
}

enum qn_condition_answer qn_condition_node_place(const struct qn_condition *condition, size_t node,
                                                 const char *queue, quern_task_state state)
{
    const struct facts facts = {.condition = condition, .queue = queue, .state = state};
    QN_ASSERT(node < condition->count);
    return answer(&facts, node);
}

enum qn_condition_answer qn_condition_place(const struct qn_condition *condition, const char *queue,
                                            quern_task_state state)
{
    return condition->count == 0
               ? QN_ANSWER_YES
               : qn_condition_node_place(condition, condition->count - 1, queue, state);
}

static const char *id_of(const struct qn_condition_node *node)
{
    bool is_it = node->kind == QN_CONDITION_TEST && node->field == QN_FIELD_ID &&
                 node->sign == QN_SIGN_EQUAL && !node->is_wild && node->text.size > 0;
    return is_it ? node->text.data : NULL;
}

const char *qn_condition_id(const struct qn_condition *condition)
{
    if (condition->count == 0) {
        return NULL;
    }
    const struct qn_condition_node *root = &condition->nodes[condition->count - 1];
    const char *id = id_of(root);
    if (root->kind != QN_CONDITION_AND) {
        return id;
    }
    for (size_t child = root->first; id == NULL; child = condition->nodes[child].next) {
        id = id_of(&condition->nodes[child]);
        if (condition->nodes[child].next == 0) {
            break;
        }
    }
    return id;
}
