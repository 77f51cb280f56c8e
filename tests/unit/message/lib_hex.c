/* SPDX-License-Identifier: MIT */
/* lib_hex.c - bytes written as hexadecimal digits. */
#include "lib_hex.h"

#include <string.h>

#include "base/memory/alloc.h"
#include "lib_test.h"

struct qn_arena arena;
quern_error err;

struct qn_bytes test_from_hex(struct qn_arena *memory, const char *hex)
{
    size_t size = strlen(hex) / 2;
    unsigned char *data = qn_arena_alloc(memory, size);
    assert_non_null(data);
    for (size_t i = 0; i < size; i++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        data[i] = (unsigned char)byte;
    }
    return (struct qn_bytes){.data = data, .size = size};
}

void test_assert_hex(struct qn_bytes bytes, const char *hex)
{
    char *text = qn_alloc_zero(2 * bytes.size + 1, 1);
    assert_non_null(text);
    for (size_t i = 0; i < bytes.size; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", ((const unsigned char *)bytes.data)[i]);
    }
    assert_string_equal(text, hex);
    qn_free(text);
}

int hex_start(void **state)
{
    (void)state;
    arena = (struct qn_arena){0};
    err = (quern_error){0};
    return 0;
}

int hex_finish(void **state)
{
    (void)state;
    qn_arena_finish(&arena);
    return 0;
}
