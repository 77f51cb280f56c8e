/* SPDX-License-Identifier: MIT */
/* test_connection.c - how long a large reply is waited for that stops in its middle. */
#include "redis/connection.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lib_node.h"
#include "lib_test.h"
#include "redis/open.h"

enum { PART = 3000000, STEP_MS = 500, LENIENT_MS = 20000, LATE_MS = 6000 };

static void answer(struct node *node, int fd, const redisReply *request)
{
    (void)node;
    if (strcmp(request->element[0]->str, "HELLO") == 0) {
        node_put(fd, NODE_HELLO("$10\r\nstandalone\r\n"));
        return;
    }
    char *text = malloc(PART + 32);
    assert_non_null(text);
    size_t size = (size_t)snprintf(text, 32, "$%d\r\n", 2 * PART);
    memset(text + size, 'x', PART);
    text[size + PART] = '\0';
    node_put(fd, text);
    free(text);
}

/* What has come at once would be worth 12 s of a slow link. */
static void reply_that_stops_is_not_waited_for_as_long_as_a_slow_one(void **state)
{
    (void)state;
    static const char request[] = "*1\r\n$4\r\nPING\r\n";
    static struct node node = {.answer = answer};
    struct qn_connection connection;
    struct qn_arena arena = {0};
    struct qn_endpoint *endpoint = NULL;
    struct qn_reply *reply = NULL;
    struct qn_url url;
    quern_error err = {0};
    char text[64];
    const struct qn_endpoint_terms terms = {.timeout_ms = TEST_PATIENCE_MS};
    node_start(&node);
    (void)snprintf(text, sizeof text, "redis://127.0.0.1:%d", node.port);
    assert_ok(qn_url_parse(text, &url, &err), err);
    assert_ok(qn_endpoint_new(&url, &terms, &endpoint, &err), err);
    qn_url_finish(&url);
    qn_connection_init_at(&connection, endpoint);
    int64_t end_ns = qn_clock_mono_ns() + TEST_PATIENCE_MS * QN_NS_PER_MS;
    assert_ok(qn_open_connection(&connection, end_ns, &err), err);
    assert_ok(qn_connection_send(&connection, request, sizeof request - 1, end_ns, &err), err);
    qn_connection_limit(&connection, (size_t)4 * PART);
    int64_t begun_ns = qn_clock_mono_ns();
    connection.lenient_until_mono_ns = begun_ns + LENIENT_MS * QN_NS_PER_MS;
    quern_status status =
        qn_connection_receive(&connection, &arena, begun_ns + STEP_MS * QN_NS_PER_MS, &reply, &err);
    int64_t took_ms = (qn_clock_mono_ns() - begun_ns) / QN_NS_PER_MS;
    assert_int_equal(status, QUERN_E_TIMEOUT);
    assert_in_range(took_ms, STEP_MS, LATE_MS);
    qn_connection_finish(&connection);
    qn_arena_finish(&arena);
    qn_endpoint_unref(endpoint);
    node_stop(&node);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(reply_that_stops_is_not_waited_for_as_long_as_a_slow_one),
    };
    const struct test_group group = {
        .name = argv[0], .tests = tests, .test_count = TEST_COUNT(tests)};
    return test_main(argc, argv, &group);
}
