/* SPDX-License-Identifier: MIT */
/* test_orders.c - lines by which a command decides about its task. */
#include "worker/exec/orders.h"

#include <string.h>

#include "lib_test.h"

static bool take(struct qn_orders *orders, const char *line)
{
    return qn_orders_take(orders, line, strlen(line));
}

static void orders_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        enum qn_order order;
        int64_t delay_ms;
        const char *class_name;
    } cases[] = {
        {"retry-in=30s", QN_ORDER_RETRY_IN, 30000, ""},
        {"retry-in=0s", QN_ORDER_RETRY_IN, 0, ""},
        {"snooze=5m", QN_ORDER_SNOOZE, 300000, ""},
        {"snooze=1.5h", QN_ORDER_SNOOZE, 5400000, ""},
        {"no-retry=bad-address", QN_ORDER_NO_RETRY, 0, "bad-address"},
        {"error-class=net/timeout:2_x", QN_ORDER_NONE, 0, "net/timeout:2_x"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_orders orders = {0};
        assert_true(take(&orders, cases[i].line));
        assert_int_equal(orders.order, cases[i].order);
        assert_int_equal(orders.delay_ms, cases[i].delay_ms);
        assert_string_equal(orders.class_name, cases[i].class_name);
        assert_string_equal(orders.wrong, "");
    }
}

static void other_lines_are_none(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",           "50",           "retry-in",          "snooze",
        "retry in=3", "Snooze=3s",    "reading snooze=3s", "no-retry",
        "class",      "50% snooze=3s"};
    for (size_t i = 0; i < TEST_COUNT(lines); i++) {
        struct qn_orders orders = {0};
        assert_false(take(&orders, lines[i]));
        assert_int_equal(orders.order, QN_ORDER_NONE);
        assert_string_equal(orders.wrong, "");
    }
}

static void wrong_orders_are_kept_and_change_nothing(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "retry-in=",
        "retry-in=-3s",
        "retry-in=-1",
        "retry-in=999999999h",
        "retry-in=99999999999999999999999s",
        "snooze=",
        "snooze=NaN",
        "snooze=1e9h",
        "retry-in=soon",
        "snooze=3x",
        "snooze= 3s",
        "snooze=3s now",
        "no-retry=",
        "no-retry=two words",
        "no-retry=\xff",
        "error-class=",
        "error-class=01234567890123456789012345678901234567890123456789012345678901234",
        "snooze=0000000000000000000000000000000000000000000000000003s"};
    for (size_t i = 0; i < TEST_COUNT(lines); i++) {
        struct qn_orders orders = {.order = QN_ORDER_SNOOZE, .delay_ms = 7, .class_name = "old"};
        assert_true(take(&orders, lines[i]));
        assert_int_equal(orders.order, QN_ORDER_SNOOZE);
        assert_int_equal(orders.delay_ms, 7);
        assert_string_equal(orders.class_name, "old");
        assert_true(orders.wrong[0] != '\0');
        assert_true(take(&orders, "snooze=another wrong one"));
        assert_null(strstr(orders.wrong, "another"));
    }
    struct qn_orders orders = {0};
    assert_true(qn_orders_take(&orders, "snooze=3s\0", 10)); /* a NUL is no end */
    assert_int_equal(orders.order, QN_ORDER_NONE);
}

static void the_last_order_counts_with_the_exit_code(void **state)
{
    (void)state;
    static const struct {
        const char *lines[2];
        int codes[4]; /* of exit 0, 65, 75, 1 */
    } cases[] = {
        {{"error-class=a", "error-class=b"}, {QUERN_DONE, QUERN_ARCHIVE, QUERN_RETRY, QUERN_RETRY}},
        {{"snooze=1s", "retry-in=1s"}, {QUERN_DONE, QUERN_ARCHIVE, QUERN_RETRY, QUERN_RETRY}},
        {{"no-retry=a", "snooze=1s"}, {QUERN_SNOOZE, QUERN_ARCHIVE, QUERN_SNOOZE, QUERN_SNOOZE}},
        {{"snooze=1s", "no-retry=a"}, {QUERN_DONE, QUERN_ARCHIVE, QUERN_ARCHIVE, QUERN_ARCHIVE}},
    };
    static const int codes[] = {0, 65, 75, 1};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_orders orders = {0};
        assert_true(take(&orders, cases[i].lines[0]));
        assert_true(take(&orders, cases[i].lines[1]));
        for (size_t k = 0; k < TEST_COUNT(codes); k++) {
            assert_int_equal(qn_orders_decide(&orders, codes[k]), cases[i].codes[k]);
        }
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(orders_are_read),
    cmocka_unit_test(other_lines_are_none),
    cmocka_unit_test(wrong_orders_are_kept_and_change_nothing),
    cmocka_unit_test(the_last_order_counts_with_the_exit_code),
};
TEST_MAIN(tests)
