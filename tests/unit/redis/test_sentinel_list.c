/* SPDX-License-Identifier: MIT */
/* test_sentinel_list.c - which sentinels are learned from others, and which are forgotten. In the
 * tables a sentinel is named by its port; those of the last test are threads of it. */
#include "redis/failover/sentinel_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lib_node.h"
#include "lib_test.h"
#include "redis/failover/sentinel.h"

#define OTHERS_MAX 40
#define FIELDS 6
#define TEXT_SIZE 512
#define SILENT_NS (QN_SENTINEL_SILENT_MS * QN_NS_PER_MS)
#define EARLY_NS QN_NS_PER_MS /* the first moment */

static void make(struct qn_sentinels *sentinels, const char *text)
{
    struct qn_url url;
    struct qn_url_params params;
    quern_error err = {0};
    const struct qn_endpoint_terms terms = {.timeout_ms = TEST_PATIENCE_MS};
    assert_ok(qn_url_parse(text, &url, &err), err);
    assert_ok(qn_url_params_read(&url, 1, &params, &err), err);
    assert_ok(qn_sentinels_init(sentinels, &url, &params, &terms, &err), err);
    qn_url_finish(&url);
}

static int compare(const void *one, const void *other)
{
    return *(const int *)one - *(const int *)other;
}

/* The ports of those that are known, in order. */
static void check_known(struct qn_sentinel_list *list, const char *expected)
{
    char text[TEXT_SIZE] = "";
    int ports[QN_SENTINELS_MAX];
    for (size_t i = 0; i < list->count; i++) {
        ports[i] = (int)strtol(list->sentinels[i].endpoint->peer.port, NULL, 10);
    }
    qsort(ports, list->count, sizeof *ports, compare);
    for (size_t i = 0; i < list->count; i++) {
        size_t at = strlen(text);
        (void)snprintf(text + at, sizeof text - at, "%s%d", i == 0 ? "" : " ", ports[i]);
    }
    assert_string_equal(text, expected);
}

/* --- Tables --------------------------------------------------------------------------- */

/* A reply to SENTINEL SENTINELS. */
struct others {
    char ports[OTHERS_MAX][8];
    struct qn_reply texts[OTHERS_MAX][FIELDS];
    struct qn_reply *fields[OTHERS_MAX][FIELDS];
    struct qn_reply entries[OTHERS_MAX];
    struct qn_reply *items[OTHERS_MAX];
    struct qn_reply reply;
};

static void put_other(struct others *others, bool is_down)
{
    size_t entry = others->reply.count++;
    const char *const words[FIELDS] = {
        "ip",    "127.0.0.1",
        "port",  others->ports[entry],
        "flags", is_down ? "s_down,sentinel,disconnected" : "sentinel"};
    for (size_t i = 0; i < FIELDS; i++) {
        others->texts[entry][i] =
            (struct qn_reply){.type = QN_REPLY_TEXT, .data = words[i], .size = strlen(words[i])};
        others->fields[entry][i] = &others->texts[entry][i];
    }
    others->entries[entry] =
        (struct qn_reply){.type = QN_REPLY_ARRAY, .items = others->fields[entry], .count = FIELDS};
    others->items[entry] = &others->entries[entry];
}

static struct qn_endpoint *find(struct qn_sentinel_list *list, const char *port)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->sentinels[i].endpoint->peer.port, port) == 0) {
            return list->sentinels[i].endpoint;
        }
    }
    fail_msg("%s is not known", port);
    return NULL;
}

/* One word of a round: "1=2,3!" - 1 lists 2 and 3, which is down; "1=" - it lists none; "1?" - it
 * refuses to; "1-" - it does not answer. */
static void play(struct qn_sentinel_list *list, char *word, int64_t now_mono_ns)
{
    static struct others others;
    size_t size = strcspn(word, "=-?");
    char verb = word[size];
    char *at = word + size + 1;
    word[size] = '\0';
    struct qn_endpoint *node = find(list, word);
    others.reply = (struct qn_reply){.type = verb == '=' ? QN_REPLY_ARRAY : QN_REPLY_ERROR,
                                     .data = "NOPERM",
                                     .items = others.items};
    for (char *port = strsep(&at, ","); port != NULL && *port != '\0'; port = strsep(&at, ",")) {
        bool is_down = strchr(port, '!') != NULL;
        (void)snprintf(others.ports[others.reply.count], sizeof others.ports[0], "%.*s",
                       (int)strcspn(port, "!"), port);
        put_other(&others, is_down);
    }
    if (verb == '-') {
        qn_sentinel_list_fail(list, node, now_mono_ns);
    } else {
        qn_sentinel_list_answer(list, node, node->peer.host, &others.reply);
    }
}

static void play_round(struct qn_sentinel_list *list, const char *words, int64_t now_mono_ns)
{
    char text[TEXT_SIZE];
    char *at = text;
    (void)snprintf(text, sizeof text, "%s", words);
    qn_sentinel_list_begin(list);
    for (char *word = strsep(&at, " "); word != NULL; word = strsep(&at, " ")) {
        play(list, word, now_mono_ns);
    }
    qn_sentinel_list_end(list, now_mono_ns);
}

/* Two rounds; the second one comes `later_ms` after the first, and `known` are those that are known
 * after it. The URL names 1. */
static void sentinels_that_are_gone_are_forgotten(void **state)
{
    (void)state;
    static const struct {
        const char *first;
        const char *second;
        int64_t later_ms;
        const char *known;
    } cases[] = {
        /* in no list any more */
        {"1=2,3", "1=2 2=1 3-", 1, "1 2"},
        {"1=2,3", "1=2 2=1 3=1,2", 1, "1 2"}, /* it runs, but on its own */
        {"1=2,3", "1= 2= 3=", 1, "1"},
        {"1=2,3", "1= 2- 3-", 1, "1 2 3"},      /* was 1 just reset? */
        {"1=2,3", "1- 2= 3=2", 1, "1 2 3"},     /* was 2? */
        {"1=2,3", "1? 2? 3?", 1, "1 2 3"},      /* none lists any */
        {"1=2,3", "1=2! 2=1 3-", 1, "1 2"},     /* that of 2 is still a list */
        {"1=2,3", "1=2,3! 2=1 3-", 1, "1 2 3"}, /* not in one, but in the other */
        /* silent */
        {"1=2,3", "1=2,3! 2=1,3! 3-", QN_SENTINEL_SILENT_MS, "1 2 3"}, /* a first failure */
        {"1=2,3", "1- 2- 3-", 1, "1 2 3"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_sentinels sentinels;
        make(&sentinels, "redis-sentinel://127.0.0.1:1/0?master=m");
        play_round(&sentinels.list, cases[i].first, EARLY_NS);
        check_known(&sentinels.list, "1 2 3");
        play_round(&sentinels.list, cases[i].second, EARLY_NS + cases[i].later_ms * QN_NS_PER_MS);
        check_known(&sentinels.list, cases[i].known);
        qn_sentinels_finish(&sentinels);
    }
}

static void one_that_is_silent_for_a_minute_is_forgotten(void **state)
{
    (void)state;
    static const struct {
        const char *before; /* again and again, for almost a minute */
        const char *last;
        const char *known;
    } cases[] = {
        {"1=2,3! 2=1,3! 3-", "1=2,3! 2=1,3! 3-", "1 2"},
        {"1=2,3! 2- 3-", "1=2!,3! 2- 3-", "1"},
        {"1=2,3! 2=1,3! 3-", "1=2,3 2=1,3! 3-", "1 2 3"},     /* for 1 it is up */
        {"1=2,3! 2=1,3! 3-", "1=2,3! 2=1,3! 3=1,2", "1 2 3"}, /* it is back */
        {"1- 2- 3-", "1- 2- 3-", "1 2 3"},                    /* it may be us */
        {"1- 2=1!,3 3=1!,2", "1- 2=1!,3 3=1!,2", "1 2 3"},    /* the URL names it */
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_sentinels sentinels;
        make(&sentinels, "redis-sentinel://127.0.0.1:1/0?master=m");
        play_round(&sentinels.list, "1=2,3", EARLY_NS);
        play_round(&sentinels.list, cases[i].before, EARLY_NS);
        play_round(&sentinels.list, cases[i].before, EARLY_NS + SILENT_NS - 1);
        check_known(&sentinels.list, "1 2 3");
        play_round(&sentinels.list, cases[i].last, EARLY_NS + SILENT_NS);
        check_known(&sentinels.list, cases[i].known);
        qn_sentinels_finish(&sentinels);
    }
}

static void one_that_failed_in_between_has_its_minute_again(void **state)
{
    (void)state;
    struct qn_sentinels sentinels;
    make(&sentinels, "redis-sentinel://127.0.0.1:1/0?master=m");
    play_round(&sentinels.list, "1=2", EARLY_NS);
    play_round(&sentinels.list, "1=2! 2-", EARLY_NS);
    play_round(&sentinels.list, "1=2 2=1", EARLY_NS + SILENT_NS / 2);
    play_round(&sentinels.list, "1=2! 2-", EARLY_NS + SILENT_NS / 2 + 1);
    play_round(&sentinels.list, "1=2! 2-", EARLY_NS + SILENT_NS);
    check_known(&sentinels.list, "1 2");
    play_round(&sentinels.list, "1=2! 2-", EARLY_NS + 2 * SILENT_NS);
    check_known(&sentinels.list, "1");
    play_round(&sentinels.list, "1=2!", EARLY_NS + 2 * SILENT_NS); /* is not learned while down */
    check_known(&sentinels.list, "1");
    play_round(&sentinels.list, "1=2", EARLY_NS + 2 * SILENT_NS);
    check_known(&sentinels.list, "1 2");
    qn_sentinels_finish(&sentinels);
}

/* Hosts are replaced again and again: those that are gone leave room for new ones. */
static void any_number_of_replacements_fits(void **state)
{
    (void)state;
    struct qn_sentinels sentinels;
    make(&sentinels, "redis-sentinel://127.0.0.1:1/0?master=m");
    char before[16] = "1=2";
    play_round(&sentinels.list, before, EARLY_NS);
    for (int port = 2; port < 3 * QN_SENTINELS_MAX; port++) {
        char after[64];
        char known[32];
        int64_t now_mono_ns = EARLY_NS + port * SILENT_NS;
        (void)snprintf(after, sizeof after, "1=%d!,%d %d-", port, port + 1, port);
        play_round(&sentinels.list, after, now_mono_ns);
        (void)snprintf(after, sizeof after, "1=%d!,%d %d- %d=1", port, port + 1, port, port + 1);
        play_round(&sentinels.list, after, now_mono_ns + SILENT_NS - 1);
        (void)snprintf(known, sizeof known, "1 %d %d", port, port + 1);
        check_known(&sentinels.list, known);
        play_round(&sentinels.list, after, now_mono_ns + SILENT_NS);
        (void)snprintf(known, sizeof known, "1 %d", port + 1);
        check_known(&sentinels.list, known);
    }
    qn_sentinels_finish(&sentinels);
}

/* --- Sentinels that answer ------------------------------------------------------------ */

enum { NODES = 3 };
static struct node nodes[NODES];
static _Atomic bool last_is_listed = true;

static void put_others(const struct node *node, int fd)
{
    char text[TEXT_SIZE];
    size_t count =
        atomic_load(&last_is_listed) || node == &nodes[NODES - 1] ? NODES - 1 : NODES - 2;
    (void)snprintf(text, sizeof text, "*%zu\r\n", count);
    for (size_t i = 0; i < NODES; i++) {
        char port[8];
        int size = snprintf(port, sizeof port, "%d", nodes[i].port);
        if (&nodes[i] != node && (i < NODES - 1 || atomic_load(&last_is_listed))) {
            size_t at = strlen(text);
            (void)snprintf(text + at, sizeof text - at,
                           "*4\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n$4\r\nport\r\n$%d\r\n%s\r\n", size,
                           port);
        }
    }
    node_put(fd, text);
}

static void answer(struct node *node, int fd, const redisReply *request)
{
    const char *name = request->element[0]->str;
    const char *verb = request->elements > 1 ? request->element[1]->str : "";
    if (strcmp(name, "HELLO") == 0) {
        node_put(fd, NODE_HELLO("$8\r\nsentinel\r\n"));
    } else if (strcmp(verb, "GET-MASTER-ADDR-BY-NAME") == 0) {
        node_put(fd, "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n");
    } else if (strcmp(verb, "MASTER") == 0) {
        node_put(fd, "*2\r\n$12\r\nconfig-epoch\r\n$1\r\n1\r\n");
    } else {
        put_others(node, fd);
    }
}

static void each_time_that_they_are_asked_the_list_is_looked_through(void **state)
{
    (void)state;
    char url[64];
    struct qn_sentinels sentinels;
    struct qn_failover failover;
    quern_error err = {0};
    for (size_t i = 0; i < NODES; i++) {
        nodes[i].answer = answer;
        node_start(&nodes[i]);
    }
    (void)snprintf(url, sizeof url, "redis-sentinel://127.0.0.1:%d/0?master=m", nodes[0].port);
    make(&sentinels, url);
    struct qn_endpoint *model = qn_endpoint_ref(sentinels.model);
    qn_failover_init(&failover, &model, 1);
    qn_sentinels_serve(&sentinels, &failover);
    int64_t deadline_mono_ns = qn_clock_mono_ns() + TEST_PATIENCE_MS * QN_NS_PER_MS;
    assert_ok(qn_sentinels_find(&sentinels, deadline_mono_ns, &err), err);
    assert_int_equal(qn_sentinel_list_count(&sentinels.list), NODES);
    atomic_store(&last_is_listed, false);
    assert_ok(qn_sentinels_find(&sentinels, deadline_mono_ns, &err), err);
    assert_int_equal(qn_sentinel_list_count(&sentinels.list), NODES - 1);
    atomic_store(&last_is_listed, true);
    assert_ok(qn_sentinels_find(&sentinels, deadline_mono_ns, &err), err);
    assert_int_equal(qn_sentinel_list_count(&sentinels.list), NODES);
    qn_failover_finish(&failover);
    qn_sentinels_finish(&sentinels);
    for (size_t i = 0; i < NODES; i++) {
        node_stop(&nodes[i]);
    }
}

/* The URL has their host, their lists have the address. */
static void one_with_two_names_is_asked_once(void **state)
{
    (void)state;
    char url[120];
    struct qn_sentinels sentinels;
    struct qn_failover failover;
    quern_error err = {0};
    for (size_t i = 0; i < NODES; i++) {
        nodes[i] = (struct node){.answer = answer};
        node_start(&nodes[i]);
    }
    (void)snprintf(url, sizeof url,
                   "redis-sentinel://localhost:%d,localhost:%d,localhost:%d/0"
                   "?master=m",
                   nodes[0].port, nodes[1].port, nodes[2].port);
    make(&sentinels, url);
    struct qn_endpoint *model = qn_endpoint_ref(sentinels.model);
    qn_failover_init(&failover, &model, 1);
    qn_sentinels_serve(&sentinels, &failover);
    int64_t deadline_mono_ns = qn_clock_mono_ns() + TEST_PATIENCE_MS * QN_NS_PER_MS;
    for (size_t round = 1; round <= 3; round++) {
        assert_ok(qn_sentinels_find(&sentinels, deadline_mono_ns, &err), err);
        assert_int_equal(qn_sentinel_list_count(&sentinels.list), NODES);
        for (size_t i = 0; i < NODES; i++) {
            assert_int_equal(atomic_load(&nodes[i].link_count), round);
        }
    }
    qn_failover_finish(&failover);
    qn_sentinels_finish(&sentinels);
    for (size_t i = 0; i < NODES; i++) {
        node_stop(&nodes[i]);
    }
}

static void check_asked(struct qn_sentinel_list *list, const char *host)
{
    assert_int_equal(qn_sentinel_list_count(list), 2);
    for (size_t i = 0; i < 2; i++) {
        struct qn_endpoint *node = qn_sentinel_list_at(list, i);
        assert_non_null(node);
        assert_string_equal(node->peer.host, host);
        qn_endpoint_unref(node);
    }
    assert_null(qn_sentinel_list_at(list, 2));
}

/* All that are asked now fail. */
static void fail_all(struct qn_sentinel_list *list)
{
    struct qn_endpoint *asked[] = {qn_sentinel_list_at(list, 0), qn_sentinel_list_at(list, 1)};
    qn_sentinel_list_begin(list);
    for (size_t i = 0; i < TEST_COUNT(asked); i++) {
        qn_sentinel_list_fail(list, asked[i], EARLY_NS);
        qn_endpoint_unref(asked[i]);
    }
    qn_sentinel_list_end(list, EARLY_NS);
}

/* The service that resolves names is gone, and comes back. */
static void one_whose_host_cannot_be_resolved_is_asked_by_its_address(void **state)
{
    (void)state;
    static struct others others;
    struct qn_sentinels sentinels;
    make(&sentinels, "redis-sentinel://host:1,host:2/0?master=m");
    struct qn_sentinel_list *list = &sentinels.list;
    others.reply = (struct qn_reply){.type = QN_REPLY_ARRAY, .items = others.items};
    for (size_t i = 0; i < 2; i++) {
        others.ports[i][0] = (char)('1' + i);
        put_other(&others, false);
    }
    for (int round = 1; round <= 3; round++) {
        qn_sentinel_list_begin(list);
        for (size_t i = 0; i < 2; i++) {
            struct qn_endpoint *node = qn_sentinel_list_at(list, i);
            qn_sentinel_list_answer(list, node, "127.0.0.1", &others.reply);
            qn_endpoint_unref(node);
        }
        qn_sentinel_list_end(list, EARLY_NS);
    }
    check_asked(list, "host");
    fail_all(list);
    check_asked(list, "127.0.0.1");
    fail_all(list);
    check_asked(list, "host");
    qn_sentinels_finish(&sentinels);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentinels_that_are_gone_are_forgotten),
        cmocka_unit_test(one_that_is_silent_for_a_minute_is_forgotten),
        cmocka_unit_test(one_that_failed_in_between_has_its_minute_again),
        cmocka_unit_test(any_number_of_replacements_fits),
        cmocka_unit_test(each_time_that_they_are_asked_the_list_is_looked_through),
        cmocka_unit_test(one_with_two_names_is_asked_once),
        cmocka_unit_test(one_whose_host_cannot_be_resolved_is_asked_by_its_address),
    };
    const struct test_group group = {
        .name = argv[0], .tests = tests, .test_count = TEST_COUNT(tests)};
    return test_main(argc, argv, &group);
}
