/* SPDX-License-Identifier: MIT */
/* test_vec.c - arrays that grow: their items stay, and one that cannot grow is unchanged. */
#include "base/memory/vec.h"

#include "base/memory/alloc.h"
#include "lib_test.h"

#define COUNT 1000

/* Absurd sizes are asked for on purpose; the sanitizers shall answer as malloc does. */
QUERN_API const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}
QUERN_API const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static void array_grows_and_keeps_its_items(void **state)
{
    (void)state;
    int *items = NULL;
    size_t capacity = 0;
    for (size_t i = 0; i < COUNT; i++) {
        items = qn_vec_grow(items, i, &capacity, sizeof *items);
        assert_non_null(items);
        assert_true(capacity > i);
        items[i] = (int)i;
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(items[i], (int)i);
    }
    assert_true(capacity < 4 * (size_t)COUNT);
    qn_free(items);
}

static void array_in_an_arena_grows_and_keeps_its_items(void **state)
{
    (void)state;
    struct qn_arena arena = {0};
    int *items = NULL;
    size_t capacity = 0;
    for (size_t i = 0; i < COUNT; i++) {
        items = qn_vec_grow_in(&arena, items, i, &capacity, sizeof *items);
        assert_non_null(items);
        items[i] = (int)i;
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(items[i], (int)i);
    }
    qn_arena_finish(&arena);
}

static void array_with_room_stays_where_it_is(void **state)
{
    (void)state;
    size_t capacity = 0;
    char *items = qn_vec_grow(NULL, 0, &capacity, 1);
    assert_non_null(items);
    size_t before = capacity;
    assert_true(qn_vec_grow(items, capacity - 1, &capacity, 1) == items);
    assert_int_equal(capacity, before);
    qn_free(items);
}

static void array_that_cannot_grow_is_left_alone(void **state)
{
    (void)state;
    struct qn_arena arena = {0};
    int item = 1;
    size_t capacity = SIZE_MAX / 2;
    assert_null(qn_vec_grow(&item, capacity, &capacity, sizeof item));
    assert_null(qn_vec_grow_in(&arena, &item, capacity, &capacity, sizeof item));
    assert_true(capacity == SIZE_MAX / 2);
    qn_arena_finish(&arena);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(array_grows_and_keeps_its_items),
    cmocka_unit_test(array_in_an_arena_grows_and_keeps_its_items),
    cmocka_unit_test(array_with_room_stays_where_it_is),
    cmocka_unit_test(array_that_cannot_grow_is_left_alone),
};

TEST_MAIN(tests)
