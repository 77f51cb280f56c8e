/* SPDX-License-Identifier: MIT */
/* test_end_message.c - the message on ended tasks, and what others might send instead. */
#include "broker/sqlite/wake/end_message.h"
#include "lib_test.h"

#include <string.h>

static struct qn_notices decode(const void *data, size_t size)
{
    struct qn_notices notices;
    qn_notices_clear(&notices);
    qn_end_message_decode((struct qn_bytes){data, size}, &notices);
    return notices;
}

static void message_names_each_task(void **state)
{
    (void)state;
    unsigned char message[QN_END_MESSAGE_SIZE_MAX];
    struct qn_notices ends;
    qn_notices_clear(&ends);
    for (uint64_t i = 0; i < QN_NOTICES_MAX; i++) {
        qn_notices_add(&ends, UINT64_C(0x8182838485868700) + i);
        size_t size = qn_end_message_encode(&ends, message);
        assert_int_equal(size, 1 + 8 * (i + 1));
        struct qn_notices notices = decode(message, size);
        assert_false(notices.all);
        assert_int_equal(notices.count, i + 1);
        assert_memory_equal(notices.tasks, ends.tasks, (size_t)(i + 1) * sizeof ends.tasks[0]);
    }
}

static void too_many_ends_are_a_message_of_one_byte(void **state)
{
    (void)state;
    unsigned char message[QN_END_MESSAGE_SIZE_MAX];
    struct qn_notices ends;
    qn_notices_clear(&ends);
    for (uint64_t i = 0; i <= QN_NOTICES_MAX; i++) {
        qn_notices_add(&ends, i);
    }
    assert_int_equal(qn_end_message_encode(&ends, message), 1);
    assert_int_equal(message[0], 'e');
    assert_true(decode(message, 1).all);
}

/* What the file says (docs/protocol/sqlite.md), byte by byte. */
static void message_has_the_documented_form(void **state)
{
    (void)state;
    static const unsigned char expected[] = {'t', 0xe2, 0x6d, 0x5a, 0xa7, 0x9c, 0x57, 0x16, 0x08};
    unsigned char message[QN_END_MESSAGE_SIZE_MAX];
    struct qn_notices ends;
    qn_notices_clear(&ends);
    qn_notices_add(&ends, qn_notices_task("default", "a"));
    assert_int_equal(qn_end_message_encode(&ends, message), sizeof expected);
    assert_memory_equal(message, expected, sizeof expected);
}

static void any_other_message_means_all(void **state)
{
    (void)state;
    unsigned char message[QN_END_MESSAGE_SIZE_MAX + 8];
    memset(message, 't', sizeof message);
    static const size_t sizes[] = {
        0, 1, 2, 8, 10, 16, QN_END_MESSAGE_SIZE_MAX - 1, QN_END_MESSAGE_SIZE_MAX + 8, 1 << 20};
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        struct qn_notices notices = decode(message, sizes[i]);
        assert_true(notices.all);
        assert_int_equal(notices.count, 0);
    }
    for (int first = 0; first < 256; first++) {
        message[0] = (unsigned char)first;
        assert_int_equal(decode(message, 9).all, first != 't');
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(message_names_each_task),
    cmocka_unit_test(too_many_ends_are_a_message_of_one_byte),
    cmocka_unit_test(message_has_the_documented_form),
    cmocka_unit_test(any_other_message_means_all),
};
TEST_MAIN(tests)
