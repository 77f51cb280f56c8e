/* SPDX-License-Identifier: MIT */
/* test_failover.c - which of several servers the connections of a broker use, and what each error
 * of a server does to that choice. The servers lie. */
#include "redis/failover/failover.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "lib_peer.h"
#include "redis/pipeline.h"

#define DEAD "redis-socket:///nonexistent/quern.sock"

struct set {
    struct qn_failover failover;
    struct qn_channel channel;
    char events[512]; /* "F" for each failure, "S" for each switch */
    struct peer *peers[2];
};

static void note_event(const struct qn_link_event *event, void *user)
{
    struct set *set = user;
    size_t size = strlen(set->events);
    assert_true(size + 1 < sizeof set->events);
    assert_non_null(event->address);
    set->events[size] = event->kind == QN_LINK_FAILED ? 'F' : 'S';
    if (event->kind == QN_LINK_FAILED) {
        assert_true(event->attempts > 0);
        assert_int_not_equal(event->status, QUERN_OK);
        assert_true(event->text[0] != '\0');
    }
}

static void set_init(struct set *set, const char *const *urls, size_t count)
{
    struct qn_endpoint *endpoints[QN_FAILOVER_ENDPOINTS_MAX];
    const struct qn_endpoint_terms terms = {.timeout_ms = TEST_PATIENCE_MS};
    for (size_t i = 0; i < count; i++) {
        struct qn_url url;
        quern_error err = {0};
        assert_ok(qn_url_parse(urls[i], &url, &err), err);
        assert_ok(qn_endpoint_new(&url, &terms, &endpoints[i], &err), err);
        qn_url_finish(&url);
    }
    qn_failover_init(&set->failover, endpoints, count);
    set->failover.rules.on_event = note_event;
    set->failover.rules.event_user = set;
    set->events[0] = '\0';
    memset(set->events, 0, sizeof set->events);
    qn_channel_init(&set->channel, &set->failover, "");
}

static void set_finish(struct set *set)
{
    qn_channel_finish(&set->channel);
    qn_failover_finish(&set->failover);
}

/* Two servers that answer NAME with "a" and "b". */
static void pair_init(struct set *set)
{
    static const struct peer_rule names[] = {{.to = "NAME", .reply = "+a\r\n"},
                                             {.to = "NAME", .reply = "+b\r\n"}};
    const char *urls[2];
    for (size_t i = 0; i < 2; i++) {
        set->peers[i] = peer_start(NULL, "");
        peer_rules(set->peers[i], &names[i], 1);
        urls[i] = peer_url(set->peers[i]);
    }
    set_init(set, urls, 2);
}

static void pair_finish(struct set *set)
{
    set_finish(set);
    peer_stop(set->peers[0]);
    peer_stop(set->peers[1]);
}

static quern_status ask(struct set *set, const char *command, char out[32], quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_pipeline_begin(&pipeline, &set->channel, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, command);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    if (status == QUERN_OK) {
        (void)snprintf(out, 32, "%s", qn_reply_text(reply));
    }
    qn_pipeline_end(&pipeline);
    return status;
}

static void assert_server(struct set *set, const char *name)
{
    char out[32];
    quern_error err = {0};
    assert_ok(ask(set, "NAME", out, &err), err);
    assert_string_equal(out, name);
}

/* --- Errors --------------------------------------------------------------------------------- */

static void each_error_has_its_reaction(void **state)
{
    (void)state;
    static const struct {
        const char *error;
        quern_status status;
        const char *next;    /* the server that answers afterwards */
        uint64_t reconnects; /* of the connection */
    } cases[] = {
        {"-READONLY You can't write against a read only replica.\r\n", QUERN_E_BUSY, "b", 1},
        {"-LOADING Redis is loading the dataset in memory\r\n", QUERN_E_BUSY, "b", 1},
        {"-MASTERDOWN Link with MASTER is down\r\n", QUERN_E_BUSY, "b", 1},
        {"-ERR Error running script (call to f_x): @user_script:3: @user_script: 3: -READONLY You "
         "can't write against a read only replica.\r\n",
         QUERN_E_BUSY, "b", 1},
        {"-CLUSTERDOWN Hash slot not served\r\n", QUERN_E_BUSY, "a", 0},
        {"-TRYAGAIN Multiple keys request during rehashing of slot\r\n", QUERN_E_BUSY, "a", 0},
        {"-NOREPLICAS Not enough good replicas to write.\r\n", QUERN_E_BUSY, "a", 0},
        {"-BUSY Redis is busy running a script.\r\n", QUERN_E_BUSY, "a", 0},
        {"-OOM command not allowed when used memory > 'maxmemory'.\r\n", QUERN_E_FULL, "a", 0},
        {"-MISCONF Redis is configured to save RDB snapshots\r\n", QUERN_E_FULL, "a", 0},
        {"-NOAUTH Authentication required.\r\n", QUERN_E_DENIED, "a", 1},
        {"-NOPERM this user has no permissions\r\n", QUERN_E_BROKER, "a", 0},
        {"-WRONGTYPE Operation against a key\r\n", QUERN_E_CORRUPT, "a", 0},
    };
    static const char *const commands[] = {"GET", "EVALSHA", "SADD", "PUBLISH", "CLIENT"};
    for (size_t i = 0; i < TEST_COUNT(cases) * TEST_COUNT(commands); i++) {
        const char *command = commands[i % TEST_COUNT(commands)];
        size_t at = i / TEST_COUNT(commands);
        const struct peer_rule rules[] = {{.to = "NAME", .reply = "+a\r\n"},
                                          {.to = command, .reply = cases[at].error}};
        struct set set;
        char out[32];
        quern_error err = {0};
        pair_init(&set);
        assert_server(&set, "a");
        peer_rules(set.peers[0], rules, 2);
        assert_int_equal(ask(&set, command, out, &err), cases[at].status);
        assert_server(&set, cases[at].next);
        assert_int_equal(set.channel.connection.opened_count, 1 + cases[at].reconnects);
        assert_string_equal(set.events, cases[at].next[0] == 'b' ? "S" : "");
        pair_finish(&set);
    }
}

#define HELLO(role)                                                                                \
    "*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:2\r\n" \
    "$2\r\nid\r\n:3\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n" role                     \
    "$7\r\nmodules\r\n*0\r\n"

static void a_replica_is_not_used(void **state)
{
    (void)state;
    static const struct peer_rule replica = {.to = "HELLO", .reply = HELLO("$7\r\nreplica\r\n")};
    struct set set;
    char out[32];
    quern_error err = {0};
    pair_init(&set);
    peer_rules(set.peers[0], &replica, 1);
    assert_server(&set, "b");
    assert_string_equal(set.events, "F");
    peer_rules(set.peers[1], &replica, 1);
    qn_connection_close(&set.channel.connection);
    assert_int_equal(ask(&set, "NAME", out, &err), QUERN_E_BUSY);
    assert_non_null(strstr(err.text, "none of 2 servers"));
    assert_non_null(strstr(err.text, "replica"));
    assert_string_equal(set.events, "FFF");
    pair_finish(&set);
}

/* Names the first endpoint once, and then always the other one. */
struct source {
    struct qn_failover *failover;
    struct qn_endpoint *other; /* a reference; NULL: it has been given */
    size_t asked;
};

static quern_status name_another_master(void *user, int64_t deadline_mono_ns, quern_error *err)
{
    (void)deadline_mono_ns;
    (void)err;
    struct source *source = user;
    source->asked++;
    if (source->asked == 1) {
        source->failover->doubted = false;
    } else if (source->other != NULL) {
        qn_failover_set(source->failover, source->other);
        source->other = NULL;
    }
    return QUERN_OK;
}

#define HUNDRED                                                                                    \
    "0123456789012345678901234567890123456789012345678901234567890123456789"                       \
    "012345678901234567890123456789"

/* As one that was frozen, and goes on: until sentinels reach it, it takes itself for the master.
 * The command goes to the new one. */
static void a_master_that_is_replaced_while_it_greets_is_not_used(void **state)
{
    (void)state;
    static const struct peer_rule slow[] = {
        {.to = "HELLO",
         .reply = "*14\r\n$6\r\nserver\r\n$400\r\n" HUNDRED HUNDRED HUNDRED HUNDRED "\r\n$7\r\n"
                  "version\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:3\r\n$4\r\nmode\r\n"
                  "$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n",
         .manner = PEER_TRICKLE},
        {.to = "NAME", .reply = "+a\r\n"}};
    struct set set;
    pair_init(&set);
    peer_rules(set.peers[0], slow, TEST_COUNT(slow));
    struct source source = {.failover = &set.failover,
                            .other = qn_endpoint_ref(set.failover.endpoints[1])};
    qn_failover_ask(&set.failover, name_another_master, &source);
    assert_server(&set, "b");
    assert_int_equal(source.asked, 2);
    pair_finish(&set);
}

static void a_refused_login_is_reported_and_no_other_server_is_tried(void **state)
{
    (void)state;
    static const struct peer_rule denied = {.to = "HELLO",
                                            .reply = "-WRONGPASS invalid username-password\r\n"};
    struct set set;
    char out[32];
    quern_error err = {0};
    pair_init(&set);
    peer_rules(set.peers[0], &denied, 1);
    assert_int_equal(ask(&set, "NAME", out, &err), QUERN_E_DENIED);
    assert_string_equal(set.events, "F");
    pair_finish(&set);
}

/* --- The choice ----------------------------------------------------------------------------- */

static void a_dead_server_is_left_at_once_and_only_a_whole_cycle_fails(void **state)
{
    (void)state;
    struct set set;
    char out[32];
    quern_error err = {0};
    static const struct peer_rule name = {.to = "NAME", .reply = "+live\r\n"};
    struct peer *peer = peer_start(NULL, "");
    const char *const urls[] = {DEAD, DEAD "2", peer_url(peer)};
    const char *const dead[] = {DEAD, DEAD "2"};
    peer_rules(peer, &name, 1);
    set_init(&set, urls, 3);
    assert_server(&set, "live");
    assert_string_equal(set.events, "FF");
    set_finish(&set);
    set_init(&set, dead, 2);
    assert_int_equal(ask(&set, "NAME", out, &err), QUERN_E_CONNECT);
    assert_string_equal(set.events, "FF");
    assert_true(qn_failover_is_preferred(&set.failover));
    set_finish(&set);
    peer_stop(peer);
}

static void a_shuffled_cycle_tries_each_server_once(void **state)
{
    (void)state;
    struct qn_endpoint *seen[4] = {NULL};
    const char *const urls[] = {DEAD "0", DEAD "1", DEAD "2", DEAD "3"};
    struct set set;
    set_init(&set, urls, 4);
    set.failover.rules.strategy = QN_FAILOVER_SHUFFLE;
    for (size_t cycle = 0; cycle < 20; cycle++) {
        for (size_t i = 0; i < 4; i++) {
            const quern_error error = {QUERN_E_CONNECT, "down"};
            struct qn_server_choice choice = qn_failover_current(&set.failover);
            seen[i] = choice.endpoint;
            for (size_t k = 0; k < i; k++) {
                assert_ptr_not_equal(seen[k], seen[i]);
            }
            qn_failover_fail(&set.failover, &choice, &error);
            qn_endpoint_unref(choice.endpoint);
        }
    }
    set_finish(&set);
}

static size_t choose_last(size_t count, size_t current, void *user)
{
    (void)current;
    (void)user;
    return count - 1;
}

static void a_callback_chooses_the_next_server(void **state)
{
    (void)state;
    static const struct peer_rule name = {.to = "NAME", .reply = "+last\r\n"};
    struct peer *peer = peer_start(NULL, "");
    const char *const urls[] = {DEAD "0", DEAD "1", DEAD "2", peer_url(peer)};
    struct set set;
    peer_rules(peer, &name, 1);
    set_init(&set, urls, 4);
    set.failover.rules.choose = choose_last;
    assert_server(&set, "last");
    assert_string_equal(set.events, "F");
    set_finish(&set);
    peer_stop(peer);
}

static void failures_of_an_older_choice_change_nothing(void **state)
{
    (void)state;
    const char *const urls[] = {DEAD "0", DEAD "1", DEAD "2"};
    const quern_error error = {QUERN_E_CONNECT, "down"};
    struct set set;
    set_init(&set, urls, 3);
    struct qn_server_choice old = qn_failover_current(&set.failover);
    qn_failover_fail(&set.failover, &old, &error);
    struct qn_server_choice now = qn_failover_current(&set.failover);
    qn_failover_fail(&set.failover, &old, &error);
    qn_failover_doubt(&set.failover, old.generation);
    assert_true(qn_failover_is_current(&set.failover, now.generation));
    assert_ptr_not_equal(old.endpoint, now.endpoint);
    qn_endpoint_unref(old.endpoint);
    qn_endpoint_unref(now.endpoint);
    set_finish(&set);
}

/* --- A switch ------------------------------------------------------------------------------- */

static void *switch_away(void *user)
{
    struct set *set = user;
    while (peer_answered(set->peers[0]) < 1) { /* the request that is never answered is there */
        (void)sched_yield();
    }
    qn_failover_switch_to(&set->failover, 1);
    return NULL;
}

static void a_switch_ends_a_wait_in_progress_and_older_connections(void **state)
{
    (void)state;
    static const struct peer_rule silent[] = {{.to = "SLOW", .manner = PEER_SILENT, .reply = ""}};
    struct set set;
    char out[32];
    quern_error err = {0};
    pthread_t thread;
    pair_init(&set);
    assert_server(&set, "a");
    peer_stop(set.peers[0]); /* its counter of answers begins at zero again */
    set.peers[0] = peer_start(NULL, "");
    set_finish(&set);
    const char *const urls[] = {peer_url(set.peers[0]), peer_url(set.peers[1])};
    set_init(&set, urls, 2);
    peer_rules(set.peers[0], silent, 1);
    assert_int_equal(pthread_create(&thread, NULL, switch_away, &set), 0);
    assert_int_equal(ask(&set, "SLOW", out, &err), QUERN_E_CONNECT);
    assert_non_null(strstr(err.text, "another server was chosen"));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_server(&set, "b");
    qn_failover_switch_to(&set.failover, 0);
    static const struct peer_rule again = {.to = "NAME", .reply = "+a again\r\n"};
    peer_rules(set.peers[0], &again, 1);
    assert_server(&set, "a again");
    pair_finish(&set);
}

/* --- Silence -------------------------------------------------------------------------------- */

#define SHORT_MS 600 /* a little more than a link under suspicion is given */

/* The other connection, on which the server is asked whether it lives, gets no answer, either. */
static void a_search_for_the_server_ends_with_the_time_of_the_command(void **state)
{
    (void)state;
    static const struct peer_rule silent[] = {{.to = "SLOW", .manner = PEER_SILENT, .reply = ""},
                                              {.to = "HELLO", .manner = PEER_SILENT, .reply = ""}};
    struct set set;
    quern_error err = {0};
    struct qn_pipeline pipeline;
    pair_init(&set);
    assert_server(&set, "a");
    peer_rules(set.peers[0], silent, TEST_COUNT(silent));
    qn_failover_note_lost_link(&set.failover);
    int64_t begun_ms = test_now_ms();
    qn_pipeline_begin(&pipeline, &set.channel, QN_PIPELINE_READS);
    pipeline.timeout_ms = SHORT_MS;
    qn_pipeline_command(&pipeline, "SLOW");
    assert_int_equal(qn_pipeline_run(&pipeline, &err), QUERN_E_TIMEOUT);
    qn_pipeline_end(&pipeline);
    assert_in_range(test_now_ms() - begun_ms, SHORT_MS, 3 * SHORT_MS);
    pair_finish(&set);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_error_has_its_reaction),
    cmocka_unit_test(a_replica_is_not_used),
    cmocka_unit_test(a_master_that_is_replaced_while_it_greets_is_not_used),
    cmocka_unit_test(a_refused_login_is_reported_and_no_other_server_is_tried),
    cmocka_unit_test(a_dead_server_is_left_at_once_and_only_a_whole_cycle_fails),
    cmocka_unit_test(a_shuffled_cycle_tries_each_server_once),
    cmocka_unit_test(a_callback_chooses_the_next_server),
    cmocka_unit_test(failures_of_an_older_choice_change_nothing),
    cmocka_unit_test(a_switch_ends_a_wait_in_progress_and_older_connections),
    cmocka_unit_test(a_search_for_the_server_ends_with_the_time_of_the_command),
};
TEST_MAIN(tests)
