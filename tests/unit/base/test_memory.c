/* SPDX-License-Identifier: MIT */
/* test_memory.c - blocks, arenas, slabs and buffers. The sanitizer checks that no access leaves a
 * block and that no memory leaks. */
#include <pthread.h>
#include <stdalign.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/arena.h"
#include "base/memory/slab.h"
#include "base/random.h"
#include "base/text/buf.h"
#include "lib_test.h"

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

static void empty_blocks_are_blocks_too(void **state)
{
    (void)state;
    void *block = qn_alloc(0);
    assert_non_null(block);
    block = qn_realloc(block, 0);
    assert_non_null(block);
    qn_free(block);
    block = qn_alloc_zero(0, 8);
    assert_non_null(block);
    qn_free(block);
    qn_free(NULL);
}

static void zeroed_blocks_are_zero_and_refuse_an_overflow(void **state)
{
    (void)state;
    static const char zeros[300];
    char *block = qn_alloc_zero(100, 3);
    assert_non_null(block);
    assert_memory_equal(block, zeros, sizeof zeros);
    qn_free(block);
    volatile size_t count = SIZE_MAX / 2;
    assert_null(qn_alloc_zero(count, 3));
}

static void arena_blocks_are_apart_and_aligned(void **state)
{
    (void)state;
    struct qn_arena arena = {0};
    struct qn_random random;
    unsigned char *blocks[500];
    size_t sizes[500];
    qn_random_init_seed(&random, 1);
    for (size_t i = 0; i < TEST_COUNT(blocks); i++) {
        sizes[i] = qn_random_below(&random, i % 50 == 0 ? 200000 : 300);
        blocks[i] = qn_arena_alloc(&arena, sizes[i]);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % alignof(max_align_t), 0);
        memset(blocks[i], (int)(i % 251), sizes[i]);
    }
    for (size_t i = 0; i < TEST_COUNT(blocks); i++) {
        for (size_t j = 0; j < sizes[i]; j++) {
            assert_int_equal(blocks[i][j], i % 251);
        }
    }
    qn_arena_finish(&arena);
    qn_arena_finish(&arena);
}

static void arena_refuses_absurd_sizes_and_goes_on(void **state)
{
    (void)state;
    struct qn_arena arena = {0};
    char *text = qn_arena_strdup(&arena, "kept");
    volatile size_t absurd = SIZE_MAX;
    assert_null(qn_arena_alloc(&arena, absurd));
    assert_null(qn_arena_alloc(&arena, absurd / 2 - 100));
    assert_string_equal(text, "kept");
    assert_string_equal(qn_arena_strdup(&arena, "more"), "more");
    qn_arena_finish(&arena);
}

static void arena_keeps_one_chunk_of_ordinary_size_over_a_reset(void **state)
{
    (void)state;
    struct qn_arena arena = {0};
    void *first = qn_arena_alloc(&arena, 10);
    assert_non_null(qn_arena_alloc(&arena, (size_t)1 << 20));
    qn_arena_reset(&arena);
    assert_ptr_equal(qn_arena_alloc(&arena, 10), first);
    qn_arena_finish(&arena);
    assert_non_null(qn_arena_alloc(&arena, (size_t)1 << 20));
    qn_arena_reset(&arena);
    assert_null(arena.chunk);
    qn_arena_finish(&arena);
}

static void arena_formats_and_copies(void **state)
{
    (void)state;
    struct qn_arena arena = {0};
    assert_string_equal(qn_arena_printf(&arena, "%s-%d", "task", 7), "task-7");
    char *copy = qn_arena_copy(&arena, "a\0b", 3);
    assert_memory_equal(copy, "a\0b", 3);
    assert_non_null(qn_arena_copy(&arena, NULL, 0));
    qn_arena_finish(&arena);
}

static void buffer_grows_to_its_limit_and_stays_a_string(void **state)
{
    (void)state;
    struct qn_buf buf;
    qn_buf_init(&buf, 1000);
    assert_string_equal(qn_buf_text(&buf), "");
    for (int i = 0; i < 100; i++) {
        assert_int_equal(qn_buf_append(&buf, "0123456789", 10), QUERN_OK);
        assert_int_equal(strlen(qn_buf_text(&buf)), buf.size);
    }
    assert_int_equal(buf.size, 1000);
    assert_int_equal(qn_buf_append(&buf, "x", 1), QUERN_E_FULL);
    assert_int_equal(qn_buf_printf(&buf, "%d", 1), QUERN_E_FULL);
    assert_int_equal(qn_buf_append(&buf, NULL, 0), QUERN_OK);
    assert_int_equal(buf.size, 1000);
    assert_int_equal(strlen(buf.data), 1000);
    qn_buf_finish(&buf);
    assert_string_equal(qn_buf_text(&buf), "");
}

static void refused_append_leaves_the_buffer_as_it_was(void **state)
{
    (void)state;
    struct qn_buf buf;
    qn_buf_init(&buf, 8);
    assert_int_equal(qn_buf_append_text(&buf, "abc"), QUERN_OK);
    assert_int_equal(qn_buf_append_text(&buf, "defghi"), QUERN_E_FULL);
    assert_string_equal(qn_buf_text(&buf), "abc");
    assert_int_equal(qn_buf_printf(&buf, "%s", "defgh"), QUERN_OK);
    assert_string_equal(qn_buf_text(&buf), "abcdefgh");
    qn_buf_finish(&buf);
}

static void buffer_without_limit_refuses_what_cannot_be_had(void **state)
{
    (void)state;
    struct qn_buf buf;
    qn_buf_init(&buf, SIZE_MAX);
    assert_int_equal(qn_buf_append_text(&buf, "abc"), QUERN_OK);
    volatile size_t absurd = SIZE_MAX / 2;
    assert_int_equal(qn_buf_append(&buf, "x", absurd), QUERN_E_NOMEM);
    assert_string_equal(qn_buf_text(&buf), "abc");
    qn_buf_finish(&buf);
}

static void reset_buffer_is_empty_and_keeps_its_memory(void **state)
{
    (void)state;
    struct qn_buf buf;
    qn_buf_init(&buf, 100);
    qn_buf_reset(&buf);
    assert_int_equal(qn_buf_append_text(&buf, "abc"), QUERN_OK);
    const char *data = buf.data;
    qn_buf_reset(&buf);
    assert_string_equal(qn_buf_text(&buf), "");
    assert_int_equal(qn_buf_append_text(&buf, "d"), QUERN_OK);
    assert_ptr_equal(buf.data, data);
    qn_buf_finish(&buf);
    qn_buf_finish(&buf);
}

static void blocks_of_a_slab_are_apart_aligned_and_freed_in_any_order(void **state)
{
    (void)state;
    struct qn_slab lot = {0};
    struct qn_random random;
    unsigned char *blocks[600];
    size_t sizes[TEST_COUNT(blocks)];
    qn_random_init_seed(&random, 2);
    for (size_t i = 0; i < TEST_COUNT(blocks); i++) {
        sizes[i] = qn_random_below(&random, i % 50 == 0 ? 20000 : 700);
        blocks[i] = qn_slab_alloc(i % 90 == 0 ? NULL : &lot, sizes[i]);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % alignof(max_align_t), 0);
        memset(blocks[i], (int)(i & 0xff), sizes[i]);
    }
    qn_slab_finish(&lot);
    for (size_t left = TEST_COUNT(blocks); left > 0; left--) {
        size_t i = qn_random_below(&random, left);
        for (size_t k = 0; k < sizes[i]; k++) {
            assert_int_equal(blocks[i][k], blocks[i][0]);
        }
        qn_slab_free(blocks[i]);
        blocks[i] = blocks[left - 1];
        sizes[i] = sizes[left - 1];
    }
    qn_slab_free(NULL);
}

static void block_outlives_the_others_of_its_slab(void **state)
{
    (void)state;
    struct qn_slab lot = {0};
    char *first = qn_slab_alloc(&lot, 10);
    char *second = qn_slab_alloc(&lot, 10);
    char *third = qn_slab_alloc(&lot, 10);
    assert_non_null(first);
    assert_non_null(second);
    assert_non_null(third);
    memcpy(second, "stays", 6);
    qn_slab_free(first);
    qn_slab_free(third);
    char *fourth = qn_slab_alloc(&lot, 10);
    qn_slab_finish(&lot);
    qn_slab_finish(&lot);
    qn_slab_free(fourth);
    assert_string_equal(second, "stays");
    qn_slab_free(second);
}

static void slab_whose_blocks_are_all_freed_goes_on(void **state)
{
    (void)state;
    struct qn_slab lot = {0};
    for (size_t i = 0; i < 1000; i++) {
        char *block = qn_slab_alloc(&lot, 100);
        assert_non_null(block);
        memset(block, 1, 100);
        qn_slab_free(block);
    }
    volatile size_t absurd = SIZE_MAX - 8;
    assert_null(qn_slab_alloc(&lot, absurd));
    assert_null(qn_slab_alloc(&lot, absurd / 4));
    void *empty = qn_slab_alloc(&lot, 0);
    assert_non_null(empty);
    qn_slab_free(empty);
    qn_slab_finish(&lot);
}

#ifdef __SANITIZE_ADDRESS__
int __asan_address_is_poisoned(void const volatile *address);

static void sanitizer_knows_which_bytes_are_a_block(void **state)
{
    (void)state;
    struct qn_slab lot = {0};
    char *first = qn_slab_alloc(&lot, 24);
    char *second = qn_slab_alloc(&lot, 24);
    assert_false(__asan_address_is_poisoned(first));
    assert_false(__asan_address_is_poisoned(first + 23));
    assert_true(__asan_address_is_poisoned(first + 24));
    assert_true(__asan_address_is_poisoned(second + 24));
    qn_slab_free(first);
    assert_true(__asan_address_is_poisoned(first));
    assert_false(__asan_address_is_poisoned(second));
    qn_slab_finish(&lot);
    qn_slab_free(second);
}
#endif

/* Every other block, so that the threads share each chunk. */
static void *free_half(void *blocks)
{
    void **block = blocks;
    for (size_t i = 0; i < 500; i++) {
        qn_slab_free(block[2 * i]);
    }
    return NULL;
}

static void blocks_are_freed_by_any_thread_while_more_are_made(void **state)
{
    (void)state;
    struct qn_slab lot = {0};
    pthread_t threads[2];
    static void *blocks[1000];
    for (size_t i = 0; i < TEST_COUNT(blocks); i++) {
        blocks[i] = qn_slab_alloc(&lot, 200);
        assert_non_null(blocks[i]);
        memset(blocks[i], 1, 200);
    }
    assert_int_equal(pthread_create(&threads[0], NULL, free_half, blocks), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, free_half, blocks + 1), 0);
    void *more[100];
    for (size_t i = 0; i < TEST_COUNT(more); i++) {
        more[i] = qn_slab_alloc(&lot, 200);
    }
    qn_slab_finish(&lot);
    for (size_t i = 0; i < TEST_COUNT(more); i++) {
        qn_slab_free(more[i]);
    }
    (void)pthread_join(threads[0], NULL);
    (void)pthread_join(threads[1], NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(empty_blocks_are_blocks_too),
    cmocka_unit_test(zeroed_blocks_are_zero_and_refuse_an_overflow),
    cmocka_unit_test(arena_blocks_are_apart_and_aligned),
    cmocka_unit_test(arena_refuses_absurd_sizes_and_goes_on),
    cmocka_unit_test(arena_keeps_one_chunk_of_ordinary_size_over_a_reset),
    cmocka_unit_test(arena_formats_and_copies),
    cmocka_unit_test(blocks_of_a_slab_are_apart_aligned_and_freed_in_any_order),
    cmocka_unit_test(block_outlives_the_others_of_its_slab),
    cmocka_unit_test(slab_whose_blocks_are_all_freed_goes_on),
#ifdef __SANITIZE_ADDRESS__
    cmocka_unit_test(sanitizer_knows_which_bytes_are_a_block),
#endif
    cmocka_unit_test(blocks_are_freed_by_any_thread_while_more_are_made),
    cmocka_unit_test(buffer_grows_to_its_limit_and_stays_a_string),
    cmocka_unit_test(refused_append_leaves_the_buffer_as_it_was),
    cmocka_unit_test(buffer_without_limit_refuses_what_cannot_be_had),
    cmocka_unit_test(reset_buffer_is_empty_and_keeps_its_memory),
};

TEST_MAIN(tests)
