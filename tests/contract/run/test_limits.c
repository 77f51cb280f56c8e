/* SPDX-License-Identifier: MIT */
/* test_limits.c - the smallest and the largest of everything goes through the broker unchanged. */
#include "base/text/number.h"
#include "lib_contract.h"

#include <stdlib.h>
#include <string.h>

static void assert_payload_comes_back(struct contract *c, const void *payload, size_t size)
{
    contract_enqueue(
        c, &(quern_task){.type = "t", .id = "a", .payload = payload, .payload_size = size});
    assert_int_equal(contract_inspect(c, "default", "a").payload_size, size);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_int_equal(run->task.payload_size, size);
    if (size > 0) {
        assert_memory_equal(run->task.payload, payload, size);
    }
    contract_finish(c, run, QN_DONE);
}

static void payload_of_any_size_comes_back_unchanged(struct contract *c)
{
    const size_t sizes[] = {1, 2, 255, 4096, 65537, 1 << 20};
    const size_t size_max = 1 << 20;
    unsigned char *payload = malloc(size_max);
    assert_non_null(payload);
    for (size_t i = 0; i < size_max; i++) {
        payload[i] = (unsigned char)(i % 251); /* a NUL first, and every 251 bytes */
    }
    assert_payload_comes_back(c, NULL, 0);
    assert_payload_comes_back(c, "", 0);
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        assert_payload_comes_back(c, payload, sizes[i]);
    }
    memset(payload, 0, size_max);
    assert_payload_comes_back(c, payload, size_max);
    free(payload);
}

static void batch_of_large_payloads_is_stored(struct contract *c)
{
    const size_t size = 300000;
    char *payload = calloc(1, size);
    struct qn_leased *runs[8];
    assert_non_null(payload);
    for (size_t i = 0; i < 8; i++) {
        payload[size - 1] = (char)i;
        contract_enqueue(c, &(quern_task){.type = "t", .payload = payload, .payload_size = size});
    }
    assert_int_equal(contract_lease(c, "default", 8, runs), 8);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(((const char *)runs[i]->task.payload)[size - 1], i);
        contract_finish(c, runs[i], QN_DONE);
    }
    free(payload);
}

static void longest_names_are_kept(struct contract *c)
{
    char name[QN_NAME_SIZE_MAX + 1];
    memset(name, 'n', QN_NAME_SIZE_MAX);
    name[QN_NAME_SIZE_MAX] = '\0';
    contract_enqueue(c, &(quern_task){.type = name, .id = name, .queue = name});
    struct contract_view view = contract_inspect(c, name, name);
    assert_string_equal(view.id, name);
    assert_string_equal(view.type, name);
    assert_string_equal(view.queue, name);
    struct qn_leased *run = contract_take_id(c, name, name);
    assert_string_equal(run->task.type, name);
    contract_finish(c, run, QN_DONE);
    contract_assert_counted(c, name, 1, 0);
}

static void names_are_bytes_not_patterns(struct contract *c)
{
    const char *names[] = {"100%", "a_b", "a'b", "a\"b", "a:b", "a*b", "\xc3\xa4", "a b", "--"};
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        contract_put(c, names[i], names[i]);
    }
    assert_false(contract_inspect(c, "a_b", "a:b").found);
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        contract_finish(c, contract_take_id(c, names[i], names[i]), QN_DONE);
        contract_assert_counted(c, names[i], 1, 0);
    }
}

static void all_headers_of_a_task_come_back(struct contract *c)
{
    quern_header headers[QN_HEADER_COUNT_MAX];
    char names[QN_HEADER_COUNT_MAX][8];
    char *value = malloc(QN_HEADER_VALUE_SIZE_MAX + 1);
    assert_non_null(value);
    memset(value, 'v', QN_HEADER_VALUE_SIZE_MAX);
    value[QN_HEADER_VALUE_SIZE_MAX] = '\0';
    for (size_t i = 0; i < QN_HEADER_COUNT_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "h%02zu", i);
        headers[i] = (quern_header){.name = names[i], .value = i == 7 ? value : "x"};
    }
    contract_enqueue(
        c, &(quern_task){
               .type = "t", .id = "a", .headers = headers, .header_count = QN_HEADER_COUNT_MAX});
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_int_equal(run->task.header_count, QN_HEADER_COUNT_MAX);
    for (size_t i = 0; i < QN_HEADER_COUNT_MAX; i++) {
        assert_string_equal(run->task.headers[i].name, names[i]);
        assert_string_equal(run->task.headers[i].value, headers[i].value);
    }
    contract_finish(c, run, QN_DONE);
    free(value);
}

static void longest_error_text_is_kept(struct contract *c)
{
    char *text = malloc(QN_ERROR_TEXT_SIZE_MAX + 1);
    assert_non_null(text);
    memset(text, 'e', QN_ERROR_TEXT_SIZE_MAX);
    text[QN_ERROR_TEXT_SIZE_MAX] = '\0';
    struct qn_leased *run = contract_start(c, "a");
    struct qn_outcome outcome = {.run = run, .kind = QN_ARCHIVE, .error = text};
    assert_int_equal(contract_end(c, &outcome), QN_APPLIED);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(strlen(view.error), QN_ERROR_TEXT_SIZE_MAX);
    qn_leased_free(run);
    free(text);
}

static void extreme_numbers_are_kept(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t",
                                      .id = "a",
                                      .retry_max = 1000000,
                                      .timeout_ms = QN_DURATION_MS_MAX,
                                      .deadline_at_ms = CONTRACT_NOW_MS + QN_DURATION_MS_MAX,
                                      .retention_ms = QN_DURATION_MS_MAX});
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_int_equal(run->task.retry_max, 1000000);
    assert_true(run->task.timeout_ms == QN_DURATION_MS_MAX);
    assert_true(run->task.deadline_at_ms == CONTRACT_NOW_MS + QN_DURATION_MS_MAX);
    contract_finish(c, run, QN_DONE);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_COMPLETED);
    assert_true(view.at_ms == CONTRACT_NOW_MS + QN_DURATION_MS_MAX);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(payload_of_any_size_comes_back_unchanged),
    CONTRACT_TEST(batch_of_large_payloads_is_stored),
    CONTRACT_TEST(longest_names_are_kept),
    CONTRACT_TEST(names_are_bytes_not_patterns),
    CONTRACT_TEST(all_headers_of_a_task_come_back),
    CONTRACT_TEST(longest_error_text_is_kept),
    CONTRACT_TEST(extreme_numbers_are_kept),
};
CONTRACT_MAIN(tests)
