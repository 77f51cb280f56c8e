/* SPDX-License-Identifier: MIT */
/* test_sentinels.c - where sentinels are, as a URL says it; and the end of the thread that watches
 * them, while none of them answers. */
#include "redis/failover/sentinel.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib_test.h"
#include "redis/failover/supervisor.h"

#define SILENT_COUNT 20 /* each costs the thread half a second, and more */
#define STOPPED_MS 1500

static quern_status make(struct qn_sentinels *sentinels, const char *text)
{
    struct qn_url url;
    struct qn_url_params params;
    quern_error err = {0};
    const struct qn_endpoint_terms terms = {.timeout_ms = TEST_PATIENCE_MS};
    assert_ok(qn_url_parse(text, &url, &err), err);
    assert_ok(qn_url_params_read(&url, 1, &params, &err), err);
    quern_status status = qn_sentinels_init(sentinels, &url, &params, &terms, &err);
    qn_url_finish(&url);
    return status;
}

static void each_place_has_its_port(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        const char *host;
        const char *port;
    } cases[] = {
        {"redis-sentinel://a/0?master=m", "a", "26379"},
        {"redis-sentinel://a:5/0?master=m", "a", "5"},
        {"redis-sentinel://[::1]/0?master=m", "::1", "26379"},
        {"redis-sentinel://[::1]:5/0?master=m", "::1", "5"},
        {"redis-sentinel://[::1]:5,b/0?master=m", "::1", "5"},
        {"redis-sentinel://[::1],b/0?master=m", "::1", "26379"},
        {"redis-sentinel://a:65535,b/0?master=m", "a", "65535"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_sentinels sentinels;
        assert_int_equal(make(&sentinels, cases[i].url), QUERN_OK);
        assert_string_equal(sentinels.list.sentinels[0].endpoint->peer.host, cases[i].host);
        assert_string_equal(sentinels.list.sentinels[0].endpoint->peer.port, cases[i].port);
        qn_sentinels_finish(&sentinels);
    }
}

static void places_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "redis-sentinel://a:0,b/0?master=m", "redis-sentinel://a:65536,b/0?master=m",
        "redis-sentinel://a:,b/0?master=m",  "redis-sentinel://:5,b/0?master=m",
        "redis-sentinel://a,,b/0?master=m",  "redis-sentinel://[::1]x,b/0?master=m",
        "redis-sentinel://[::1,b/0?master=m"};
    for (size_t i = 0; i < TEST_COUNT(urls); i++) {
        struct qn_sentinels sentinels;
        assert_int_equal(make(&sentinels, urls[i]), QUERN_E_INVALID);
    }
}

/* A listener that accepts no connection: the kernel does, so nothing is refused or answered. */
static int listen_silently(int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)(const void *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)(void *)&address, &size), 0);
    assert_int_equal(listen(fd, 128), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static void the_watch_ends_soon_while_no_sentinel_answers(void **state)
{
    (void)state;
    char url[1024] = "redis-sentinel://";
    struct qn_sentinels sentinels;
    struct qn_failover failover;
    struct qn_supervisor supervisor;
    quern_error err = {0};
    int port = 0;
    int fd = listen_silently(&port);
    for (size_t i = 0; i < SILENT_COUNT; i++) {
        size_t at = strlen(url);
        (void)snprintf(url + at, sizeof url - at, "%s127.0.0.1:%d", i == 0 ? "" : ",", port);
    }
    size_t used = strlen(url);
    (void)snprintf(url + used, sizeof url - used, "/0?master=m");
    assert_int_equal(make(&sentinels, url), QUERN_OK);
    struct qn_endpoint *model = qn_endpoint_ref(sentinels.model);
    qn_failover_init(&failover, &model, 1);
    qn_sentinels_serve(&sentinels, &failover);
    assert_ok(qn_supervisor_start(&supervisor, &failover, &sentinels, &err), err);
    int64_t begun_ms = test_now_ms();
    qn_supervisor_stop(&supervisor);
    assert_in_range(test_now_ms() - begun_ms, 0, STOPPED_MS);
    qn_failover_finish(&failover);
    qn_sentinels_finish(&sentinels);
    (void)close(fd);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_place_has_its_port),
        cmocka_unit_test(places_that_cannot_be_are_refused),
        cmocka_unit_test(the_watch_ends_soon_while_no_sentinel_answers),
    };
    const struct test_group group = {
        .name = argv[0], .tests = tests, .test_count = TEST_COUNT(tests)};
    return test_main(argc, argv, &group);
}
