/* SPDX-License-Identifier: MIT */
/* test_hash.c - FNV-1a against its published values, and parts that do not run together. */
#include "base/text/hash.h"

#include <string.h>

#include "lib_test.h"

static uint64_t of(const char *text)
{
    return qn_hash_bytes(QN_HASH_START, text, strlen(text));
}

static void hash_is_fnv_1a_of_64_bits(void **state)
{
    (void)state;
    assert_true(of("") == UINT64_C(0xcbf29ce484222325));
    assert_true(of("a") == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(of("foobar") == UINT64_C(0x85944171f73967e8));
    assert_true(qn_hash_bytes(of("foo"), "bar", 3) == of("foobar"));
}

static void parts_do_not_run_together(void **state)
{
    (void)state;
    uint64_t first = qn_hash_part(qn_hash_part(QN_HASH_START, "ab", 2), "c", 1);
    uint64_t second = qn_hash_part(qn_hash_part(QN_HASH_START, "a", 1), "bc", 2);
    assert_true(first != second);
    assert_true(qn_hash_part(QN_HASH_START, "", 0) != QN_HASH_START);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(hash_is_fnv_1a_of_64_bits),
    cmocka_unit_test(parts_do_not_run_together),
};

TEST_MAIN(tests)
