/* SPDX-License-Identifier: MIT */
/* test_search.c - searches by a query: the answer of the evaluator on every broker, in pages and
 * steps of any size, and actions on what was found. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/text/buf.h"
#include "broker/search/search.h"
#include "lib_contract.h"
#include "quern/search.h"

#define MINUTE_MS INT64_C(60000)
#define IDS_MAX 6000

/* --- Tasks -------------------------------------------------------------------------------- */

/* Ends runs that were leased as an outcome says. */
static void run_and_end(struct contract *c, const char *queue, const char *prefix, size_t count,
                        enum qn_outcome_kind kind)
{
    static const char *const types[] = {"mail:welcome", "mail:digest", "sms"};
    for (size_t i = 0; i < count; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "%s%zu", prefix, i);
        const quern_header header = {.name = "user", .value = i % 2 == 0 ? "ann" : "bob*"};
        contract_enqueue(c, &(quern_task){.type = types[i % 3],
                                          .id = id,
                                          .queue = queue,
                                          .payload = "a\0b route",
                                          .payload_size = i % 4 == 0 ? 0 : i % 9 + 1,
                                          .headers = &header,
                                          .header_count = i % 3 == 0 ? 0 : 1,
                                          .retention_ms = MINUTE_MS * (int64_t)(1 + i % 3)});
        struct qn_leased *run = contract_take_id(c, queue, id);
        contract_finish(c, run, kind);
        contract_advance(c, i % 2 == 0 ? 700 : 0);
    }
}

/* Tasks in all states of both queues; returns the runs of those that are active. */
static void make_tasks(struct contract *c, struct qn_leased *runs[2])
{
    static const char *const queues[] = {"default", "other"};
    for (size_t i = 0; i < 2; i++) {
        char id[32];
        run_and_end(c, queues[i], "arch", 7, QN_ARCHIVE);
        run_and_end(c, queues[i], "retry", 6, QN_RETRY);
        run_and_end(c, queues[i], "done", 5, QN_DONE);
        (void)snprintf(id, sizeof id, "crash%zu", i);
        contract_enqueue(c, &(quern_task){.type = "sms", .id = id, .queue = queues[i]});
        contract_finish(c, contract_take_id(c, queues[i], id), QN_CRASH);
        (void)snprintf(id, sizeof id, "active%zu", i);
        contract_finish(c, contract_take(c, queues[i]), QN_CRASH);
        contract_enqueue(c, &(quern_task){.type = "mail:x", .id = id, .queue = queues[i]});
        runs[i] = contract_take_id(c, queues[i], id);
        contract_put_many(c, queues[i], "p", 9);
        for (size_t j = 0; j < 5; j++) {
            (void)snprintf(id, sizeof id, "sched%zu", j);
            contract_enqueue(c, &(quern_task){.type = "sms",
                                              .id = id,
                                              .queue = queues[i],
                                              .delay_ms = MINUTE_MS * (int64_t)(j / 2 + 1)});
            (void)snprintf(id, sizeof id, "group%zu", j);
            contract_enqueue(c, &(quern_task){.type = "sms",
                                              .id = id,
                                              .queue = queues[i],
                                              .group = j % 2 == 0 ? "g" : "h"});
        }
    }
}

/* --- What is expected -------------------------------------------------------------------- */

struct ids {
    char *items[IDS_MAX];
    size_t count;
};

static void add_id(struct ids *ids, const quern_task_info *info)
{
    struct qn_buf text;
    qn_buf_init(&text, 1000);
    assert_int_equal(
        qn_buf_printf(&text, "%s/%s", quern_task_info_queue(info), quern_task_info_id(info)),
        QUERN_OK);
    assert_true(ids->count < IDS_MAX);
    ids->items[ids->count++] = strdup(qn_buf_text(&text));
    qn_buf_finish(&text);
}

static int compare_ids(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static void sort_ids(struct ids *ids)
{
    qsort(ids->items, ids->count, sizeof ids->items[0], compare_ids);
}

static void free_ids(struct ids *ids)
{
    for (size_t i = 0; i < ids->count; i++) {
        free(ids->items[i]);
    }
    ids->count = 0;
}

struct evaluation {
    struct qn_condition *condition;
    int64_t now_ms;
    struct ids *ids;
};

static bool evaluate(const quern_task_info *info, void *user)
{
    struct evaluation *evaluation = user;
    if (qn_search_fits(evaluation->condition, info, evaluation->now_ms)) {
        add_id(evaluation->ids, info);
    }
    return true;
}

/* By listing everything and asking the evaluator. */
static void expect_ids(struct contract *c, const char *match, struct ids *ids)
{
    quern_error err = {0};
    struct evaluation evaluation = {.now_ms = qn_clock_wall_ms(&c->clock), .ids = ids};
    assert_ok(qn_condition_parse(match, &evaluation.condition, &err), err);
    const quern_task_filter all = {.limit = 10000};
    assert_ok(qn_broker_tasks(c->broker, &all, evaluate, &evaluation, &err), err);
    qn_condition_free(evaluation.condition);
    sort_ids(ids);
}

/* By searching, page by page. Returns the number of pages. */
static size_t search_ids(quern_inspector *inspector, quern_search search, struct ids *ids)
{
    quern_error err = {0};
    size_t pages = 0;
    uint64_t searched = 0;
    char *cursor = NULL;
    do {
        quern_task_list *list = NULL;
        search.cursor = cursor;
        assert_ok(quern_inspector_search(inspector, &search, &list, &err), err);
        free(cursor);
        for (size_t i = 0; i < quern_task_list_size(list); i++) {
            add_id(ids, quern_task_list_at(list, i));
        }
        const char *next = quern_task_list_cursor(list);
        cursor = next == NULL ? NULL : strdup(next);
        if (search.scan_max != 0) {
            assert_true(quern_task_list_searched(list) - searched <= search.scan_max);
        }
        searched = quern_task_list_searched(list);
        assert_true(searched <= quern_task_list_total(list));
        assert_true(cursor != NULL || searched == quern_task_list_total(list));
        quern_task_list_free(list);
        assert_true(++pages <= IDS_MAX);
    } while (cursor != NULL);
    sort_ids(ids);
    return pages;
}

static void compare_answers(const char *match, struct ids *wanted, struct ids *found)
{
    for (size_t i = 0; i < wanted->count || i < found->count; i++) {
        const char *left = i < wanted->count ? wanted->items[i] : "(none)";
        const char *right = i < found->count ? found->items[i] : "(none)";
        if (strcmp(left, right) != 0) {
            fail_msg("%s: the evaluator has %s, the search %s", match, left, right);
        }
    }
}

/* --- Random queries ---------------------------------------------------------------------- */

static const char *const tests_of_random[] = {
    "id = arch1",
    "id ~ 1",
    "type = mail:*",
    "type = sms",
    "type != mail:digest",
    "queue = default",
    "queue ~ oth",
    "state = archived",
    "state != pending",
    "state = retry",
    "state = completed",
    "state = aggregating",
    "group = g",
    "group = ''",
    "worker = worker-1",
    "worker ~ w",
    "error ~ roke",
    "error = ''",
    "error = b*n",
    "payload ~ rou",
    "payload = a?b*",
    "payload = ''",
    "text ~ o",
    "header.user = ann",
    "header.user = *\\*",
    "header.none = *",
    "header.user ~ b",
    "retried = 1",
    "retried < 1",
    "crashes >= 1",
    "priority = 0",
    "size >= 5",
    "size = 0",
    "age > 3s",
    "age <= 2s",
    "running >= 0",
    "failed < 4s",
    "ended > 2s",
    "ended <= 1m",
    "due < 90s",
    "due >= 1m",
    "due != 2m",
    "id = p000?",
    "type ~ '*'",
};

static void write_random(struct qn_buf *out, struct qn_random *random, int depth)
{
    uint64_t choice = qn_random_below(random, 8);
    if (depth == 0 || choice < 3) {
        const char *test = tests_of_random[qn_random_below(random, TEST_COUNT(tests_of_random))];
        assert_int_equal(qn_buf_append_text(out, test), QUERN_OK);
        return;
    }
    assert_int_equal(qn_buf_append_text(out, choice == 3 ? "not (" : "("), QUERN_OK);
    write_random(out, random, depth - 1);
    if (choice > 3) {
        assert_int_equal(qn_buf_append_text(out, choice < 6 ? " and " : " or "), QUERN_OK);
        write_random(out, random, depth - 1);
    }
    assert_int_equal(qn_buf_append_text(out, ")"), QUERN_OK);
}

static void search_gives_the_answer_of_the_evaluator(struct contract *c)
{
    struct qn_leased *runs[2];
    make_tasks(c, runs);
    quern_inspector *inspector = contract_open_inspector(c);
    struct qn_random random;
    qn_random_init_seed(&random, 20261124);
    for (size_t i = 0; i < TEST_COUNT(tests_of_random) + 50; i++) {
        static const uint64_t limits[] = {1, 3, 30, 10000};
        struct qn_buf match;
        struct ids wanted = {.count = 0};
        struct ids found = {.count = 0};
        qn_buf_init(&match, QN_CONDITION_SIZE_MAX);
        if (i < TEST_COUNT(tests_of_random)) {
            assert_int_equal(qn_buf_append_text(&match, tests_of_random[i]), QUERN_OK);
        } else {
            write_random(&match, &random, 3);
        }
        expect_ids(c, qn_buf_text(&match), &wanted);
        const quern_search search = {.match = qn_buf_text(&match),
                                     .limit = limits[qn_random_below(&random, 4)],
                                     .scan_max = i % 3 == 0 ? 7 : 0};
        (void)search_ids(inspector, search, &found);
        compare_answers(search.match, &wanted, &found);
        free_ids(&wanted);
        free_ids(&found);
        qn_buf_finish(&match);
    }
    quern_inspector_free(inspector);
    qn_leased_free(runs[0]);
    qn_leased_free(runs[1]);
}

/* --- Pages -------------------------------------------------------------------------------- */

static void search_of_1_12_and_5000_tasks_finds_each_once(struct contract *c)
{
    static const size_t counts[] = {1, 12, 5000};
    quern_inspector *inspector = contract_open_inspector(c);
    struct ids *found = calloc(1, sizeof *found);
    for (size_t i = 0; i < TEST_COUNT(counts); i++) {
        char queue[16];
        char match[64];
        (void)snprintf(queue, sizeof queue, "q%zu", i);
        (void)snprintf(match, sizeof match, "queue = %s and id ~ a", queue);
        contract_put_many(c, queue, "a", counts[i]);
        size_t pages = search_ids(
            inspector, (quern_search){.match = match, .limit = 10000, .scan_max = 1000}, found);
        assert_int_equal(pages, counts[i] == 5000 ? 6 : 1);
        assert_int_equal(found->count, counts[i]);
        for (size_t j = 1; j < found->count; j++) {
            assert_string_not_equal(found->items[j - 1], found->items[j]);
        }
        free_ids(found);
        assert_int_equal(search_ids(inspector,
                                    (quern_search){.match = "id ~ a",
                                                   .queue = queue,
                                                   .limit = 1000,
                                                   .state = QUERN_TASK_PENDING},
                                    found),
                         counts[i] == 5000 ? 6 : 1);
        assert_int_equal(found->count, counts[i]);
        free_ids(found);
    }
    free(found);
    quern_inspector_free(inspector);
}

static void pending_tasks_are_found_in_their_order(struct contract *c)
{
    contract_put_many(c, "default", "a", 50);
    quern_inspector *inspector = contract_open_inspector(c);
    quern_error err = {0};
    quern_task_list *list = NULL;
    const quern_search search = {.match = "id ~ a", .limit = 3};
    assert_ok(quern_inspector_search(inspector, &search, &list, &err), err);
    assert_int_equal(quern_task_list_size(list), 3);
    assert_string_equal(quern_task_info_id(quern_task_list_at(list, 0)), "a0000");
    assert_string_equal(quern_task_info_id(quern_task_list_at(list, 2)), "a0002");
    assert_int_equal(quern_task_list_searched(list), 3);
    assert_int_equal(quern_task_list_total(list), 50);
    assert_non_null(quern_task_list_cursor(list));
    quern_task_list_free(list);
    quern_inspector_free(inspector);
}

static quern_status search_by(quern_inspector *inspector, const quern_search *search,
                              quern_error *err)
{
    quern_task_list *list = NULL;
    quern_status status = quern_inspector_search(inspector, search, &list, err);
    quern_task_list_free(list);
    return status;
}

static void cursor_of_another_search_is_refused(struct contract *c)
{
    contract_put_many(c, "default", "a", 5);
    quern_inspector *inspector = contract_open_inspector(c);
    quern_error err = {0};
    quern_task_list *list = NULL;
    quern_search search = {.match = "id ~ a", .limit = 2};
    assert_ok(quern_inspector_search(inspector, &search, &list, &err), err);
    char *cursor = strdup(quern_task_list_cursor(list));
    quern_task_list_free(list);
    search.cursor = cursor;
    assert_int_equal(search_by(inspector, &search, &err), QUERN_OK);
    search.match = "id ~ 0";
    assert_int_equal(search_by(inspector, &search, &err), QUERN_E_INVALID);
    assert_non_null(strstr(err.text, "another search"));
    static const char *const wrong[] = {"",
                                        "x",
                                        "1.2.3",
                                        "1.9.0.0.0.0.0.1.1.default",
                                        "-1.-1.-1.-1.-1.-1.-1.-1.-1.default",
                                        "99999999999999999999.2.0.0.0.0.0.1.1.q"};
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        search.cursor = wrong[i];
        assert_int_equal(search_by(inspector, &search, &err), QUERN_E_INVALID);
    }
    free(cursor);
    search = (quern_search){.match = "stat = x"};
    assert_int_equal(search_by(inspector, &search, &err), QUERN_E_INVALID);
    assert_non_null(strstr(err.text, "column 1"));
    quern_inspector_free(inspector);
}

/* --- Actions ------------------------------------------------------------------------------ */

static quern_matching act_on(quern_inspector *inspector, quern_action action, const char *match)
{
    quern_error err = {0};
    quern_matching counted;
    quern_matching result;
    const quern_search search = {.match = match};
    assert_ok(quern_inspector_count_matching(inspector, action, &search, &counted, &err), err);
    assert_ok(quern_inspector_act_matching(inspector, action, &search, &result, &err), err);
    assert_int_equal(result.matched, result.done + result.changed + result.refused);
    assert_int_equal(counted.matched, result.matched);
    assert_int_equal(counted.done, result.done + result.changed);
    assert_int_equal(counted.refused, result.refused);
    return result;
}

static void action_changes_what_matches_and_counts_it(struct contract *c)
{
    struct qn_leased *runs[2];
    make_tasks(c, runs);
    quern_inspector *inspector = contract_open_inspector(c);
    quern_matching result = act_on(inspector, QUERN_ACTION_RUN, "state = archived and type = sms");
    assert_int_equal(result.done, 4);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ARCHIVED), 5);
    result = act_on(inspector, QUERN_ACTION_ARCHIVE, "id ~ arch and type = mail:*");
    assert_int_equal(result.refused, 10);
    assert_int_equal(result.done, 0);
    result = act_on(inspector, QUERN_ACTION_DELETE, "queue = other");
    assert_int_equal(result.refused, 1); /* the active one */
    assert_int_equal(contract_count(c, "other", QUERN_TASK_ACTIVE), 1);
    assert_int_equal(contract_queue(c, "other").size, 1);
    result = act_on(inspector, QUERN_ACTION_CANCEL_RETRY, "state = active");
    assert_int_equal(result.done, 2);
    quern_matching again = {0};
    quern_error err = {0};
    assert_ok(quern_inspector_act_matching(inspector, QUERN_ACTION_CANCEL_RETRY,
                                           &(quern_search){.match = "state = active"}, &again,
                                           &err),
              err);
    assert_int_equal(again.changed, 2);
    quern_inspector_free(inspector);
    qn_leased_free(runs[0]);
    qn_leased_free(runs[1]);
}

static void action_on_5000_tasks_changes_each_once(struct contract *c)
{
    contract_put_many(c, "default", "a", 5000);
    contract_put_many(c, "default", "b", 500);
    quern_inspector *inspector = contract_open_inspector(c);
    assert_int_equal(act_on(inspector, QUERN_ACTION_ARCHIVE, "id = a*").done, 5000);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ARCHIVED), 5000);
    assert_int_equal(act_on(inspector, QUERN_ACTION_RUN, "id = a???1").done, 500);
    assert_int_equal(act_on(inspector, QUERN_ACTION_DELETE, "state = archived and id ~ a").done,
                     4500);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 1000);
    quern_inspector_free(inspector);
}

static void task_that_left_its_state_is_skipped(struct contract *c)
{
    contract_put_many(c, "default", "a", 3);
    struct qn_leased *run = contract_take_id(c, "default", "a0000");
    static const struct qn_found found[] = {{"a0000", ""}, {"a0001", ""}, {"gone", ""}};
    const struct qn_found_list list = {.action = QUERN_ACTION_DELETE,
                                       .queue = "default",
                                       .state = QUERN_TASK_PENDING,
                                       .items = found,
                                       .count = 3,
                                       .rank_max = 3};
    quern_error err = {0};
    size_t done = 0;
    assert_ok(qn_broker_search_act(c->broker, &list, &done, &err), err);
    assert_int_equal(done, 1);
    assert_int_equal(contract_state(c, "default", "a0000"), QUERN_TASK_ACTIVE);
    assert_int_equal(contract_state(c, "default", "a0001"), 0);
    assert_int_equal(contract_state(c, "default", "a0002"), QUERN_TASK_PENDING);
    qn_leased_free(run);
}

static void unique_lock_goes_with_a_task_that_is_deleted(struct contract *c)
{
    const quern_task task = {.type = "t", .id = "a", .unique_ms = MINUTE_MS};
    contract_enqueue(c, &task);
    quern_inspector *inspector = contract_open_inspector(c);
    assert_int_equal(act_on(inspector, QUERN_ACTION_DELETE, "type = t and age < 1m").done, 1);
    assert_int_equal(contract_try(c, &task), QUERN_OK);
    quern_inspector_free(inspector);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(search_gives_the_answer_of_the_evaluator),
    CONTRACT_TEST(search_of_1_12_and_5000_tasks_finds_each_once),
    CONTRACT_TEST(pending_tasks_are_found_in_their_order),
    CONTRACT_TEST(cursor_of_another_search_is_refused),
    CONTRACT_TEST(action_changes_what_matches_and_counts_it),
    CONTRACT_TEST(action_on_5000_tasks_changes_each_once),
    CONTRACT_TEST(task_that_left_its_state_is_skipped),
    CONTRACT_TEST(unique_lock_goes_with_a_task_that_is_deleted),
};
CONTRACT_MAIN(tests)
