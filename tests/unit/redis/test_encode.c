/* SPDX-License-Identifier: MIT */
/* test_encode.c - commands of any bytes are encoded for the server, one after the other. */
#include "redis/encode.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "lib_test.h"

enum { LARGE = 100000, ARG_COUNT = 300 };

/* In a block as small as promised, so that ASan sees a byte too many. */
static char *formatted(const char **args, const size_t *sizes, size_t count, size_t *ret_size)
{
    char *data = malloc(qn_encode_size_max(sizes, count));
    char *at = data;
    assert_non_null(data);
    qn_encode(&at, args, sizes, count);
    *ret_size = (size_t)(at - data);
    assert_true(*ret_size <= qn_encode_size_max(sizes, count));
    return data;
}

static void commands_of_any_bytes_stand_one_behind_the_other(void **state)
{
    (void)state;
    const char *set[] = {"SET", NULL, "a\0\r\nb"};
    const size_t set_sizes[] = {3, 0, 5};
    const char *ping[] = {"PING"};
    const size_t ping_sizes[] = {4};
    static const char wanted[] =
        "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$5\r\na\0\r\nb\r\n*1\r\n$4\r\nPING\r\n";
    size_t room = qn_encode_size_max(set_sizes, 3) + qn_encode_size_max(ping_sizes, 1);
    char *data = malloc(room);
    assert_non_null(data);
    char *at = data;
    qn_encode(&at, set, set_sizes, 3);
    qn_encode(&at, ping, ping_sizes, 1);
    assert_int_equal(at - data, sizeof wanted - 1);
    assert_true(at <= data + room);
    assert_memory_equal(data, wanted, sizeof wanted - 1);
    free(data);
}

/* Sizes of one digit and of several, around each power of ten. */
static void every_size_is_written_as_hiredis_writes_it(void **state)
{
    (void)state;
    static char bytes[LARGE + 2];
    static const size_t sizes_to_try[] = {0,     1,         9,     10,    11,    99,
                                          100,   999,       1000,  9999,  10000, 65535,
                                          65536, LARGE - 1, LARGE, 65537, 70000, LARGE + 1};
    memset(bytes, 'x', sizeof bytes);
    const char *args[ARG_COUNT];
    size_t sizes[ARG_COUNT];
    for (size_t i = 0; i < ARG_COUNT; i++) {
        args[i] = bytes;
        sizes[i] = sizes_to_try[i % (sizeof sizes_to_try / sizeof *sizes_to_try)];
    }
    static const size_t counts[] = {1, 2, 9, 10, 18, 99, 100, ARG_COUNT};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        size_t size;
        char *wanted = NULL;
        char *data = formatted(args, sizes, counts[i], &size);
        long long wanted_size = redisFormatCommandArgv(&wanted, (int)counts[i], args, sizes);
        assert_int_equal(size, wanted_size);
        assert_memory_equal(data, wanted, size);
        redisFreeCommand(wanted);
        free(data);
    }
}

static void digits_end_where_they_should(void **state)
{
    (void)state;
    static const struct {
        uint64_t number;
        const char *text;
    } cases[] = {{0, "0"},
                 {7, "7"},
                 {10, "10"},
                 {4294967296, "4294967296"},
                 {UINT64_MAX, "18446744073709551615"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char block[QN_DIGITS_MAX + 1] = {0};
        assert_string_equal(qn_encode_digits(block + QN_DIGITS_MAX, cases[i].number),
                            cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_of_any_bytes_stand_one_behind_the_other),
        cmocka_unit_test(every_size_is_written_as_hiredis_writes_it),
        cmocka_unit_test(digits_end_where_they_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
