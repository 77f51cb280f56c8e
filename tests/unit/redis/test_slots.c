/* SPDX-License-Identifier: MIT */
/* test_slots.c - slots of keys, errors of a cluster, and the reply to CLUSTER SLOTS. */
#include <stdlib.h>
#include <string.h>

#include "lib_test.h"
#include "redis/cluster/slots.h"

static struct qn_reply text_of(const char *text)
{
    return (struct qn_reply){.type = QN_REPLY_TEXT, .data = text, .size = strlen(text)};
}

static struct qn_reply number_of(int64_t number)
{
    return (struct qn_reply){.type = QN_REPLY_INT, .data = "", .integer = number};
}

static void keys_lie_where_redis_puts_them(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint16_t slot; /* of CLUSTER KEYSLOT */
    } cases[] = {
        {"", 0},
        {"123456789", 12739},
        {"foo", 12182},
        {"bar", 5061},
        {"{foo}", 12182},
        {"asynq:{foo}:pending", 12182},
        {"asynq:{foo}:t:{bar}", 12182},
        {"asynq:{default}:", 5718},
        {"asynq:queues", 3477},
        {"foo{}{bar}", 8363},
        {"foo{{bar}}zap", 4015},
        {"foo{bar}{zap}", 5061},
        {"foo{bar", 15278},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_int_equal(qn_slots_of(cases[i].key, strlen(cases[i].key)), cases[i].slot);
    }
    assert_int_equal(qn_slots_of("a\0b", 3) == qn_slots_of("a", 1), false);
}

static void errors_say_what_to_do(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        enum qn_slot_advice advice;
        const char *host;
        const char *port;
    } cases[] = {
        {"MOVED 3999 127.0.0.1:6381", QN_SLOT_MOVED, "127.0.0.1", "6381"},
        {"MOVED 3999 ::1:6381", QN_SLOT_MOVED, "::1", "6381"},
        {"MOVED 3999 [::1]:6381", QN_SLOT_MOVED, "::1", "6381"},
        {"MOVED 3999 :6381", QN_SLOT_MOVED, "", "6381"},
        {"MOVED 3999 node-3.example:1", QN_SLOT_MOVED, "node-3.example", "1"},
        {"MOVED 3999", QN_SLOT_BAD, NULL, NULL},
        {"MOVED ", QN_SLOT_BAD, NULL, NULL},
        {"MOVED 3999 host", QN_SLOT_BAD, NULL, NULL},
        {"MOVED 3999 host:", QN_SLOT_BAD, NULL, NULL},
        {"MOVED 3999 host:0", QN_SLOT_BAD, NULL, NULL},
        {"MOVED 3999 host:65536", QN_SLOT_BAD, NULL, NULL},
        {"MOVED 3999 host:123456", QN_SLOT_BAD, NULL, NULL},
        {"MOVED 3999 ?:6381", QN_SLOT_BAD, NULL, NULL},
        {"MOVED 3999 a b:6381", QN_SLOT_BAD, NULL, NULL},
        {"MOVED 3999 [::1:6381", QN_SLOT_BAD, NULL, NULL},
        {"MOVED 3999 [::1]x:6381", QN_SLOT_BAD, NULL, NULL},
        {"ASK 3999 127.0.0.1:6381", QN_SLOT_WAIT, NULL, NULL},
        {"TRYAGAIN Multiple keys request during rehashing of slot", QN_SLOT_WAIT, NULL, NULL},
        {"CLUSTERDOWN Hash slot not served", QN_SLOT_WAIT, NULL, NULL},
        {"LOADING Redis is loading the dataset in memory", QN_SLOT_WAIT, NULL, NULL},
        {"ERR Script attempted to access a non local key in a cluster node script: 1", QN_SLOT_WAIT,
         NULL, NULL},
        {"ERR unknown command", QN_SLOT_FINE, NULL, NULL},
        {"MOVEDX 3999 127.0.0.1:6381", QN_SLOT_FINE, NULL, NULL},
        {"ASKING", QN_SLOT_FINE, NULL, NULL},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_slot_place place = {.host = "unset"};
        struct qn_reply reply = text_of(cases[i].words);
        reply.type = QN_REPLY_ERROR;
        assert_int_equal(qn_slots_advice(&reply, &place), cases[i].advice);
        if (cases[i].host != NULL) {
            assert_string_equal(place.host, cases[i].host);
            assert_string_equal(place.port, cases[i].port);
        }
    }
    struct qn_slot_place place;
    struct qn_reply text = text_of("MOVED 1 a:1");
    assert_int_equal(qn_slots_advice(&text, &place), QN_SLOT_FINE);
}

static void a_place_may_do_without_a_port(void **state)
{
    (void)state;
    struct qn_slot_place place;
    assert_true(qn_slots_place("host", 4, "6379", &place));
    assert_string_equal(place.port, "6379");
    assert_true(qn_slots_place("[::1]", 5, "6379", &place));
    assert_string_equal(place.host, "::1");
    char longest[QN_SLOT_HOST_SIZE + 1];
    memset(longest, 'h', sizeof longest);
    assert_true(qn_slots_place(longest, QN_SLOT_HOST_SIZE - 1, "1", &place));
    assert_false(qn_slots_place(longest, QN_SLOT_HOST_SIZE, "1", &place));
}

/* A range with one master: {first, last, {host, port}}. */
struct range {
    struct qn_reply numbers[2];
    struct qn_reply place[2];
    struct qn_reply *place_items[2];
    struct qn_reply master;
    struct qn_reply *items[3];
    struct qn_reply reply;
};

static struct qn_reply *make_range(struct range *range, int64_t first, int64_t last,
                                   const char *host, int64_t port)
{
    range->numbers[0] = number_of(first);
    range->numbers[1] = number_of(last);
    range->place[0] =
        host == NULL ? (struct qn_reply){.type = QN_REPLY_NIL, .data = ""} : text_of(host);
    range->place[1] = number_of(port);
    range->place_items[0] = &range->place[0];
    range->place_items[1] = &range->place[1];
    range->master = (struct qn_reply){
        .type = QN_REPLY_ARRAY, .data = "", .items = range->place_items, .count = 2};
    range->items[0] = &range->numbers[0];
    range->items[1] = &range->numbers[1];
    range->items[2] = &range->master;
    range->reply =
        (struct qn_reply){.type = QN_REPLY_ARRAY, .data = "", .items = range->items, .count = 3};
    return &range->reply;
}

/* Numbers by the port. */
static int number_by_port(const struct qn_slot_place *place, void *user)
{
    int *calls = user;
    ++*calls;
    return (int)strtol(place->port, NULL, 10) - 7000;
}

static const char *read_two(struct range *first, struct range *second, int16_t *owners)
{
    int calls = 0;
    struct qn_reply *items[] = {&first->reply, &second->reply};
    struct qn_reply reply = {.type = QN_REPLY_ARRAY, .data = "", .items = items, .count = 2};
    return qn_slots_read(&reply, owners, number_by_port, &calls);
}

static void a_map_is_read(void **state)
{
    (void)state;
    int16_t owners[QN_SLOT_COUNT];
    struct range one;
    struct range two;
    (void)make_range(&one, 0, 99, "a", 7000);
    (void)make_range(&two, 200, 16383, NULL, 7005);
    assert_null(read_two(&one, &two, owners));
    assert_int_equal(owners[0], 0);
    assert_int_equal(owners[99], 0);
    assert_int_equal(owners[100], -1);
    assert_int_equal(owners[199], -1);
    assert_int_equal(owners[200], 5);
    assert_int_equal(owners[16383], 5);
    (void)make_range(&two, 200, 300, "?", 7005); /* it does not know its own name */
    assert_null(read_two(&one, &two, owners));
    assert_int_equal(owners[200], -1);
}

static void a_lie_is_found(void **state)
{
    (void)state;
    static const struct {
        int64_t first;
        int64_t last;
        const char *host;
        int64_t port;
    } cases[] = {
        {-1, 5, "a", 7000},
        {5, 4, "a", 7000},
        {0, 16384, "a", 7000},
        {0, 5, "a b", 7000},
        {0, 5, "a", 0},
        {0, 5, "a", 65536},
        {0, 5, "a", -7000},
        {0, 5, "a\n", 7000},
        {100, 150, "a", 7000},
        {0, 5, "a", 65535}, /* its number is beyond the last one */
        {INT64_MIN, INT64_MAX, "a", 7000},
    };
    int16_t owners[QN_SLOT_COUNT];
    struct range good;
    struct range bad;
    (void)make_range(&good, 100, 200, "b", 7001);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        (void)make_range(&bad, cases[i].first, cases[i].last, cases[i].host, cases[i].port);
        assert_non_null(read_two(&good, &bad, owners));
    }
    int calls = 0;
    struct qn_reply nil = {.type = QN_REPLY_NIL, .data = ""};
    assert_non_null(qn_slots_read(&nil, owners, number_by_port, &calls));
    struct qn_reply *items[] = {&nil};
    struct qn_reply reply = {.type = QN_REPLY_ARRAY, .data = "", .items = items, .count = 1};
    assert_non_null(qn_slots_read(&reply, owners, number_by_port, &calls));
    reply.count = QN_SLOT_COUNT + 1; /* not looked at */
    assert_non_null(qn_slots_read(&reply, owners, number_by_port, &calls));
    assert_int_equal(calls, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_lie_where_redis_puts_them),
        cmocka_unit_test(errors_say_what_to_do),
        cmocka_unit_test(a_place_may_do_without_a_port),
        cmocka_unit_test(a_map_is_read),
        cmocka_unit_test(a_lie_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
