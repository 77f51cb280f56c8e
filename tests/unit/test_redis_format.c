/* SPDX-License-Identifier: MIT */
/* test_redis_format.c - commands of any bytes become what the server reads, one behind the other.
 */
#include "broker/redis/format.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lib_test.h"

static void commands_of_any_bytes_stand_one_behind_the_other(void **state)
{
    (void)state;
    const char *set[] = {"SET", "", "a\0\r\nb"};
    const size_t set_sizes[] = {3, 0, 5};
    const char *ping[] = {"PING"};
    const size_t ping_sizes[] = {4};
    static const char wanted[] =
        "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$5\r\na\0\r\nb\r\n*1\r\n$4\r\nPING\r\n";
    size_t room = qn_format_size_max(set_sizes, 3) + qn_format_size_max(ping_sizes, 1);
    char *data = malloc(room);
    assert_non_null(data);
    char *at = data;
    assert_true(qn_format(&at, set, set_sizes, 3, false));
    assert_true(qn_format(&at, ping, ping_sizes, 1, true));
    assert_int_equal(at - data, sizeof wanted - 1);
    assert_true(at <= data + room);
    assert_memory_equal(data, wanted, sizeof wanted - 1);
    free(data);
}

/* Their bytes are not even looked at: there are none. */
static void what_hiredis_cannot_count_is_refused(void **state)
{
    (void)state;
    const char *args[] = {"SET", "x", "y"};
    const size_t sizes[] = {3, INT_MAX, (size_t)INT_MAX + 8};
    char *at = NULL;
    assert_false(qn_format(&at, args, sizes, 2, false));
    assert_false(qn_format(&at, args, sizes, 3, false));
    assert_null(at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_of_any_bytes_stand_one_behind_the_other),
        cmocka_unit_test(what_hiredis_cannot_count_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
