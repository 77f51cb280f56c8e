/* SPDX-License-Identifier: MIT */
/* test_inspect.c - reading queues and tasks through the public inspector. */
#include <string.h>

#include "lib_contract.h"
#include "quern/inspector.h"

#define MINUTE_MS INT64_C(60000)
#define DAY_MS INT64_C(86400000)

/* The ids of a page, each followed by a blank. */
static void list_ids(quern_inspector *inspector, quern_task_filter filter, char out[1000])
{
    quern_task_list *list = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_tasks(inspector, &filter, &list, &err), err);
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < quern_task_list_size(list); i++) {
        used += (size_t)snprintf(out + used, 1000 - used, "%s ",
                                 quern_task_info_id(quern_task_list_at(list, i)));
        assert_true(used < 1000);
    }
    assert_null(quern_task_list_at(list, quern_task_list_size(list)));
    quern_task_list_free(list);
}

#define assert_ids(inspector, expected, ...)                                                       \
    do {                                                                                           \
        char ids_[1000];                                                                           \
        list_ids((inspector), (quern_task_filter){__VA_ARGS__}, ids_);                             \
        assert_string_equal(ids_, (expected));                                                     \
    } while (0)

/* --- Queues --------------------------------------------------------------------------------- */

static void queues_are_sorted_and_counted_by_state(struct contract *c)
{
    contract_put(c, "zebra", "z1");
    contract_finish(c, contract_start(c, "archived"), QN_ARCHIVE);
    contract_finish(c, contract_start(c, "retry"), QN_RETRY);
    contract_enqueue(c, &(quern_task){.type = "t", .id = "completed", .retention_ms = MINUTE_MS});
    contract_finish(c, contract_take_id(c, "default", "completed"), QN_DONE);
    struct qn_leased *active = contract_start(c, "active");
    contract_put(c, "default", "pending1");
    contract_put(c, "default", "pending2");
    contract_enqueue(c, &(quern_task){.type = "t", .id = "scheduled", .delay_ms = MINUTE_MS});
    contract_enqueue(c, &(quern_task){.type = "t", .id = "grouped1", .group = "g"});
    contract_enqueue(c, &(quern_task){.type = "t", .id = "grouped2", .group = "g"});
    contract_enqueue(c, &(quern_task){.type = "t", .id = "grouped3", .group = "h"});

    quern_inspector *inspector = contract_open_inspector(c);
    quern_queue_list *list = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_queues(inspector, &list, &err), err);
    assert_int_equal(quern_queue_list_size(list), 3);
    assert_string_equal(quern_queue_list_at(list, 1)->name, "other");
    assert_string_equal(quern_queue_list_at(list, 2)->name, "zebra");
    assert_null(quern_queue_list_at(list, 3));
    const quern_queue_info *queue = quern_queue_list_at(list, 0);
    assert_string_equal(queue->name, "default");
    assert_int_equal(queue->counts[QUERN_TASK_ACTIVE], 1);
    assert_int_equal(queue->counts[QUERN_TASK_PENDING], 2);
    assert_int_equal(queue->counts[QUERN_TASK_SCHEDULED], 1);
    assert_int_equal(queue->counts[QUERN_TASK_RETRY], 1);
    assert_int_equal(queue->counts[QUERN_TASK_ARCHIVED], 1);
    assert_int_equal(queue->counts[QUERN_TASK_COMPLETED], 1);
    assert_int_equal(queue->counts[QUERN_TASK_AGGREGATING], 3);
    assert_int_equal(queue->size, 10);
    assert_int_equal(queue->group_count, 2);
    assert_int_equal(queue->processed_total, 3);
    assert_int_equal(queue->failed_total, 2);
    assert_true(queue->memory_bytes == -1 || queue->memory_bytes > 0); /* where it is known */
    assert_int_equal(queue->paused_at_ms, 0);
    quern_queue_list_free(list);
    quern_inspector_free(inspector);
    qn_leased_free(active);
}

static void latency_is_the_wait_of_the_oldest_pending_task(struct contract *c)
{
    assert_int_equal(contract_queue(c, "default").latency_ms, 0);
    contract_enqueue(c, &(quern_task){.type = "t", .id = "late", .delay_ms = MINUTE_MS});
    contract_advance(c, MINUTE_MS + 500);
    assert_int_equal(contract_queue(c, "default").latency_ms, 0);
    int64_t next_due_at_ms = 0;
    assert_int_equal(contract_forward(c, "default", &next_due_at_ms), 1);
    assert_int_equal(contract_queue(c, "default").latency_ms, 500);
    contract_put(c, "default", "young");
    contract_advance(c, 1000);
    assert_int_equal(contract_queue(c, "default").latency_ms, 1500);
}

static void suspects_count_as_pending(struct contract *c)
{
    contract_finish(c, contract_start(c, "suspect"), QN_CRASH);
    contract_put(c, "default", "plain");
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 2);
    contract_advance(c, 700);
    assert_int_equal(contract_queue(c, "default").latency_ms, 700);
    quern_inspector *inspector = contract_open_inspector(c);
    assert_ids(inspector, "suspect plain ", .state = QUERN_TASK_PENDING);
    quern_inspector_free(inspector);
}

static void history_is_by_day_with_today_first(struct contract *c)
{
    contract_finish(c, contract_start(c, "a"), QN_DONE);
    contract_finish(c, contract_start(c, "b"), QN_ARCHIVE);
    contract_advance(c, 2 * DAY_MS);
    contract_finish(c, contract_start(c, "d"), QN_DONE);
    quern_inspector *inspector = contract_open_inspector(c);
    quern_error err = {0};
    quern_day days[4];
    assert_ok(quern_inspector_history(inspector, "default", 4, days, &err), err);
    assert_string_equal(days[0].date, "2027-01-17");
    assert_string_equal(days[1].date, "2027-01-16");
    assert_string_equal(days[2].date, "2027-01-15");
    assert_string_equal(days[3].date, "2027-01-14");
    assert_int_equal(days[0].processed, 1);
    assert_int_equal(days[0].failed, 0);
    assert_int_equal(days[1].processed, 0);
    assert_int_equal(days[2].processed, 2);
    assert_int_equal(days[2].failed, 1);
    assert_int_equal(days[3].processed, 0);
    assert_int_equal(contract_queue(c, "default").processed_today, 1);
    assert_int_equal(contract_queue(c, "default").processed_total, 3);
    assert_int_equal(quern_inspector_history(inspector, "none", 4, days, &err), QUERN_E_NOT_FOUND);
    assert_int_equal(quern_inspector_history(inspector, "default", 0, days, &err), QUERN_E_INVALID);
    assert_int_equal(quern_inspector_history(inspector, "default", 91, days, &err),
                     QUERN_E_INVALID);
    quern_inspector_free(inspector);
}

/* --- Pages ---------------------------------------------------------------------------------- */

static void pages_run_through_queues_and_states_in_order(struct contract *c)
{
    contract_put(c, "other", "o1");
    struct qn_leased *active = contract_start(c, "active");
    contract_put(c, "default", "p1");
    contract_put(c, "default", "p2");
    contract_enqueue(c, &(quern_task){.type = "t", .id = "s2", .delay_ms = 2 * MINUTE_MS});
    contract_enqueue(c, &(quern_task){.type = "t", .id = "s1", .delay_ms = MINUTE_MS});
    contract_enqueue(c, &(quern_task){.type = "t", .id = "g1", .group = "g"});
    quern_inspector *inspector = contract_open_inspector(c);
    const char *all = "active p1 p2 s1 s2 g1 o1 ";
    assert_ids(inspector, all, .queue = NULL);
    char pages[1000] = "";
    for (uint64_t offset = 0; offset < 8; offset += 2) {
        char page[1000];
        list_ids(inspector, (quern_task_filter){.offset = offset, .limit = 2}, page);
        size_t used = strlen(pages);
        (void)snprintf(pages + used, sizeof pages - used, "%s", page);
    }
    assert_string_equal(pages, all);
    assert_ids(inspector, "p2 s1 s2 ", .offset = 2, .limit = 3);
    assert_ids(inspector, "", .offset = 7);
    assert_ids(inspector, "", .offset = UINT64_MAX);
    assert_ids(inspector, "o1 ", .queue = "other");
    assert_ids(inspector, "", .queue = "none");
    assert_ids(inspector, "s1 s2 ", .state = QUERN_TASK_SCHEDULED);
    quern_inspector_free(inspector);
    qn_leased_free(active);
}

static void archived_and_completed_are_listed_newest_first(struct contract *c)
{
    static const char *const ids[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++) {
        contract_enqueue(c, &(quern_task){.type = "t",
                                          .id = ids[i],
                                          .queue = "other",
                                          .retention_ms = 10 * MINUTE_MS - (int64_t)i * 5000});
        contract_finish(c, contract_take_id(c, "other", ids[i]), QN_DONE);
        contract_finish(c, contract_start(c, ids[i]), QN_ARCHIVE);
        contract_advance(c, 1000);
    }
    quern_inspector *inspector = contract_open_inspector(c);
    assert_ids(inspector, "c b a ", .state = QUERN_TASK_ARCHIVED);
    /* By the moment of completion, though the retention of the later ones ends earlier. */
    assert_ids(inspector, "c b a ", .state = QUERN_TASK_COMPLETED);
    quern_inspector_free(inspector);
}

static void filters_narrow_and_combine(struct contract *c)
{
    contract_finish(c, contract_start(c, "failed"), QN_RETRY); /* error "broken" */
    contract_enqueue(
        c, &(quern_task){
               .type = "image:resize", .id = "r", .payload = "a\0needle%", .payload_size = 9});
    contract_enqueue(c, &(quern_task){.type = "image:crop", .id = "c", .group = "g"});
    contract_enqueue(c, &(quern_task){.type = "imagination", .id = "i", .group = "h"});
    contract_enqueue(c, &(quern_task){.type = "image:resize", .queue = "other", .id = "o"});
    quern_inspector *inspector = contract_open_inspector(c);
    assert_ids(inspector, "r o ", .type = "image:resize");
    assert_ids(inspector, "r c o ", .type = "image:*");
    assert_ids(inspector, "r failed c i o ", .type = "*");
    assert_ids(inspector, "", .type = "image:");
    assert_ids(inspector, "c ", .group = "g");
    assert_ids(inspector, "r ", .text = "needle");
    assert_ids(inspector, "r ", .text = "%");
    assert_ids(inspector, "failed ", .text = "roke");
    assert_ids(inspector, "", .text = "NEEDLE");
    assert_ids(inspector, "r failed c i o ", .text = "");
    assert_ids(inspector, "i ", .id = "i");
    assert_ids(inspector, "o ", .type = "image:*", .queue = "other");
    assert_ids(inspector, "", .type = "image:*", .id = "i");
    assert_ids(inspector, "", .id = "i", .state = QUERN_TASK_PENDING);
    assert_ids(inspector, "c ", .type = "image:*", .state = QUERN_TASK_AGGREGATING, .offset = 0);
    assert_ids(inspector, "o ", .type = "image:*", .offset = 2);
    quern_inspector_free(inspector);
}

static void page_without_limit_has_thirty_tasks(struct contract *c)
{
    contract_put_many(c, "default", "t", 40);
    quern_inspector *inspector = contract_open_inspector(c);
    quern_task_list *list = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_tasks(inspector, NULL, &list, &err), err);
    assert_int_equal(quern_task_list_size(list), 30);
    assert_string_equal(quern_task_info_id(quern_task_list_at(list, 29)), "t0029");
    quern_task_list_free(list);
    quern_task_filter filter = {.limit = 10001};
    assert_int_equal(quern_inspector_tasks(inspector, &filter, &list, &err), QUERN_E_INVALID);
    filter = (quern_task_filter){.reserved = 1};
    assert_int_equal(quern_inspector_tasks(inspector, &filter, &list, &err), QUERN_E_INVALID);
    filter = (quern_task_filter){.state = 8};
    assert_int_equal(quern_inspector_tasks(inspector, &filter, &list, &err), QUERN_E_INVALID);
    quern_inspector_free(inspector);
}

static void payload_and_result_have_a_nul_behind_them(struct contract *c)
{
    contract_enqueue(
        c, &(quern_task){
               .type = "t", .id = "a", .payload = QUERN_TEXT("abc"), .retention_ms = MINUTE_MS});
    quern_error err = {0};
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_string_equal(run->task.payload, "abc");
    assert_ok(qn_broker_write_result(c->broker, run, (struct qn_bytes){"\0r", 2}, &err), err);
    quern_inspector *inspector = contract_open_inspector(c);
    quern_task_info *info = NULL;
    assert_ok(quern_inspector_task(inspector, "default", "a", &info, &err), err);
    size_t size = 0;
    assert_string_equal(quern_task_info_payload(info, &size), "abc");
    assert_int_equal(size, 3);
    assert_memory_equal(quern_task_info_result(info, &size), "\0r\0", 3);
    assert_int_equal(size, 2);
    quern_task_info_free(info);
    quern_inspector_free(inspector);
    qn_leased_free(run);
}

static void task_shows_all_that_was_enqueued(struct contract *c)
{
    const quern_header headers[] = {{"trace", "42"}, {"empty", NULL}};
    contract_enqueue(c, &(quern_task){.type = "image:resize",
                                      .id = "a",
                                      .payload = "\0pay",
                                      .payload_size = 4,
                                      .retry_max = 3,
                                      .timeout_ms = 5000,
                                      .deadline_at_ms = CONTRACT_NOW_MS + MINUTE_MS,
                                      .retention_ms = MINUTE_MS,
                                      .headers = headers,
                                      .header_count = 2});
    quern_inspector *inspector = contract_open_inspector(c);
    quern_task_info *info = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_task(inspector, "default", "a", &info, &err), err);
    assert_string_equal(quern_task_info_queue(info), "default");
    assert_string_equal(quern_task_info_type(info), "image:resize");
    assert_int_equal(quern_task_info_state(info), QUERN_TASK_PENDING);
    size_t size = 0;
    assert_memory_equal(quern_task_info_payload(info, &size), "\0pay", 4);
    assert_int_equal(size, 4);
    assert_null(quern_task_info_result(info, NULL));
    assert_int_equal(quern_task_info_header_count(info), 2);
    assert_string_equal(quern_task_info_headers(info)[0].value, "42");
    assert_string_equal(quern_task_info_headers(info)[1].name, "empty");
    assert_int_equal(quern_task_info_retry_max(info), 3);
    assert_int_equal(quern_task_info_timeout_ms(info), 5000);
    assert_int_equal(quern_task_info_deadline_at_ms(info), CONTRACT_NOW_MS + MINUTE_MS);
    assert_int_equal(quern_task_info_retention_ms(info), MINUTE_MS);
    assert_int_equal(quern_task_info_enqueued_at_ms(info), CONTRACT_NOW_MS);
    assert_int_equal(quern_task_info_due_at_ms(info), 0);
    assert_int_equal(quern_task_info_progress(info), -1);
    assert_int_equal(quern_task_info_fence(info), 0);
    assert_int_equal(quern_task_info_cause(info), QUERN_CAUSE_NONE);
    quern_task_info_free(info);
    quern_inspector_free(inspector);
}

/* As an operator's program would put it back. */
static void enqueue_copy(struct contract *c, const quern_task_info *info, const char *id)
{
    size_t size = 0;
    const void *payload = quern_task_info_payload(info, &size);
    contract_enqueue(c, &(quern_task){.type = quern_task_info_type(info),
                                      .payload = payload,
                                      .payload_size = size,
                                      .id = id,
                                      .queue = quern_task_info_queue(info),
                                      .process_at_ms = quern_task_info_due_at_ms(info),
                                      .group = quern_task_info_group(info),
                                      .headers = quern_task_info_headers(info),
                                      .header_count = quern_task_info_header_count(info),
                                      .retry = quern_task_info_retry(info),
                                      .retry_max = quern_task_info_retry_max(info),
                                      .timeout_ms = quern_task_info_timeout_ms(info),
                                      .deadline_at_ms = quern_task_info_deadline_at_ms(info),
                                      .retention_ms = quern_task_info_retention_ms(info)});
}

/* The fields that have no default. */
static void assert_same(const quern_task_info *info, const quern_task *given)
{
    size_t size = 0;
    const void *payload = quern_task_info_payload(info, &size);
    quern_retry_policy retry = quern_task_info_retry(info);
    assert_int_equal(size, given->payload_size);
    assert_memory_equal(payload, size > 0 ? given->payload : "", size);
    assert_string_equal(quern_task_info_queue(info),
                        given->queue == NULL ? "default" : given->queue);
    assert_string_equal(quern_task_info_group(info), given->group == NULL ? "" : given->group);
    assert_int_equal(quern_task_info_due_at_ms(info), given->process_at_ms);
    assert_int_equal(quern_task_info_header_count(info), given->header_count);
    assert_memory_equal(&retry, &given->retry, sizeof retry);
}

static void copied_info_enqueues_the_same_task(struct contract *c)
{
    const int64_t deadline_at_ms = CONTRACT_NOW_MS + MINUTE_MS;
    const quern_header headers[] = {{"user", "42"}, {"empty", NULL}};
    const struct {
        quern_task given;
        int64_t retry_max;
        int64_t timeout_ms;
    } rows[] = {
        {{.id = "all"}, 25, 30 * MINUTE_MS},
        {{.id = "some", .retry_max = 7, .timeout_ms = 1500}, 7, 1500},
        {{.id = "none", .retry_max = QUERN_RETRY_NEVER, .timeout_ms = QUERN_TIMEOUT_NEVER},
         QUERN_RETRY_NEVER,
         QUERN_TIMEOUT_NEVER},
        {{.id = "late", .deadline_at_ms = deadline_at_ms}, 25, QUERN_TIMEOUT_NEVER},
        {{.id = "whole",
          .queue = "other",
          .payload = QUERN_TEXT("a\0b"),
          .process_at_ms = CONTRACT_NOW_MS + MINUTE_MS,
          .headers = headers,
          .header_count = 2,
          .retry = QUERN_BACKOFF_EXPONENTIAL(200, 5000)},
         25,
         30 * MINUTE_MS},
        {{.id = "grouped", .group = "g", .retry = QUERN_BACKOFF_FIXED(700)}, 25, 30 * MINUTE_MS},
    };
    quern_inspector *inspector = contract_open_inspector(c);
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        quern_task given = rows[i].given;
        given.type = "t";
        contract_enqueue(c, &given);
        const char *id = given.id;
        for (int copies = 0; copies < 2; copies++) {
            quern_task_info *info = NULL;
            quern_error err = {0};
            assert_ok(quern_inspector_task(inspector, NULL, id, &info, &err), err);
            assert_int_equal(quern_task_info_retry_max(info), rows[i].retry_max);
            assert_int_equal(quern_task_info_timeout_ms(info), rows[i].timeout_ms);
            assert_int_equal(quern_task_info_deadline_at_ms(info), given.deadline_at_ms);
            assert_same(info, &given);
            id = "copy";
            if (copies == 0) {
                enqueue_copy(c, info, id);
            }
            quern_task_info_free(info);
        }
        quern_error err = {0};
        assert_ok(quern_inspector_act(inspector, QUERN_ACTION_DELETE, NULL, id, &err), err);
    }
    quern_inspector_free(inspector);
}

static void task_is_searched_in_all_queues_unless_it_is_in_several(struct contract *c)
{
    contract_put(c, "default", "one");
    contract_put(c, "default", "both");
    contract_put(c, "other", "both");
    quern_inspector *inspector = contract_open_inspector(c);
    quern_task_info *info = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_task(inspector, NULL, "one", &info, &err), err);
    assert_string_equal(quern_task_info_queue(info), "default");
    quern_task_info_free(info);
    assert_int_equal(quern_inspector_task(inspector, NULL, "none", &info, &err), QUERN_E_NOT_FOUND);
    assert_int_equal(quern_inspector_task(inspector, "other", "one", &info, &err),
                     QUERN_E_NOT_FOUND);
    assert_int_equal(quern_inspector_task(inspector, NULL, "both", &info, &err), QUERN_E_STATE);
    assert_non_null(strstr(err.text, "other"));
    assert_int_equal(quern_inspector_task(inspector, NULL, NULL, &info, &err), QUERN_E_INVALID);
    quern_inspector_free(inspector);
}

static void active_task_shows_its_worker_until_its_lease_is_over(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    quern_inspector *inspector = contract_open_inspector(c);
    quern_task_info *info = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_task(inspector, NULL, "a", &info, &err), err);
    assert_string_equal(quern_task_info_worker(info), CONTRACT_WORKER);
    assert_int_equal(quern_task_info_started_at_ms(info), CONTRACT_NOW_MS);
    assert_int_not_equal(quern_task_info_fence(info), 0);
    assert_false(quern_task_info_orphaned(info));
    quern_task_info_free(info);
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    assert_ok(quern_inspector_task(inspector, NULL, "a", &info, &err), err);
    assert_true(quern_task_info_orphaned(info));
    quern_task_info_free(info);
    quern_inspector_free(inspector);
    qn_leased_free(run);
}

static bool note_name(const quern_queue_info *queue, void *user)
{
    char *names = user;
    size_t size = strlen(names);
    (void)snprintf(names + size, 100 - size, "%s=%llu ", queue->name,
                   (unsigned long long)queue->counts[QUERN_TASK_PENDING]);
    return true;
}

static void named_queues_are_listed_alone(struct contract *c)
{
    static const char *const wanted[] = {"other"};
    char names[100] = "";
    quern_error err = {0};
    contract_put(c, "default", "a");
    contract_put(c, "other", "b");
    contract_put(c, "third", "c");
    assert_ok(qn_broker_queues(c->broker, &(struct qn_names){wanted, 1}, note_name, names, &err),
              err);
    assert_string_equal(names, "other=1 ");
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(named_queues_are_listed_alone),
    CONTRACT_TEST(queues_are_sorted_and_counted_by_state),
    CONTRACT_TEST(latency_is_the_wait_of_the_oldest_pending_task),
    CONTRACT_TEST(suspects_count_as_pending),
    CONTRACT_TEST(history_is_by_day_with_today_first),
    CONTRACT_TEST(pages_run_through_queues_and_states_in_order),
    CONTRACT_TEST(archived_and_completed_are_listed_newest_first),
    CONTRACT_TEST(filters_narrow_and_combine),
    CONTRACT_TEST(page_without_limit_has_thirty_tasks),
    CONTRACT_TEST(payload_and_result_have_a_nul_behind_them),
    CONTRACT_TEST(task_shows_all_that_was_enqueued),
    CONTRACT_TEST(copied_info_enqueues_the_same_task),
    CONTRACT_TEST(task_is_searched_in_all_queues_unless_it_is_in_several),
    CONTRACT_TEST(active_task_shows_its_worker_until_its_lease_is_over),
};
CONTRACT_MAIN(tests)
