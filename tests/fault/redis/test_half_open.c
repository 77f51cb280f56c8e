/* SPDX-License-Identifier: MIT */
/* test_half_open.c - links that stay open while the peer is silently gone: a middlebox that has
 * forgotten the connection still acknowledges what is sent (swallowed), a cut cable does not
 * (vanished). Worker and client notice it within 10 s on each of their connections, also on idle
 * ones, and go on by new ones. */
#include "lib_proxy.h"
#include "lib_worker.h"

#include <string.h>

#define NOTICED_MS_MAX 10000

/* A worker, and a client of its own, behind a proxy. */
struct site {
    struct rig *rig;
    struct proxy *proxy;
    enum proxy_state state; /* the way in which the links fail */
    struct rig_worker worker;
    quern_client *client;
    pthread_t thread;
    char id[16];
    int64_t broken_ms;
    int64_t stored_ms; /* by the client, after the failure */
    quern_status status;
    quern_error error;
};

static const char *const roles[] = {"quern-pump", "quern-leases",  "quern-keeper",
                                    "quern-rest", "quern-tracked", "quern-listener"};

static const char *state_name(const struct site *site)
{
    return site->state == PROXY_VANISHED ? "vanished" : "swallowed";
}

static int64_t noticed_max_ms(void)
{
    return test_full() ? NOTICED_MS_MAX : 3 * NOTICED_MS_MAX;
}

static bool has_all_links(void *user)
{
    struct site *site = user;
    bool all = true;
    for (size_t i = 0; i < TEST_COUNT(roles); i++) {
        all = all && proxy_links_open(site->proxy, roles[i]) > 0;
    }
    return all;
}

static void put(quern_client *client, const char *id)
{
    quern_error err = {0};
    const quern_task task = {.type = "t", .id = id, .payload = "done", .payload_size = 4};
    assert_ok(quern_client_enqueue(client, &task, NULL, &err), err);
}

/* Idle, with all connections open and used at least once. */
static void open_site(struct site *site, struct rig *rig, enum proxy_state state, const char *id)
{
    quern_error err = {0};
    *site = (struct site){.rig = rig, .state = state};
    (void)snprintf(site->id, sizeof site->id, "%s", id);
    site->proxy = proxy_start_tcp_for(test_store_server(), test_seed());
    rig->url = proxy_url(site->proxy);
    rig_start(rig, &site->worker, NULL);
    assert_ok(quern_client_open(proxy_url(site->proxy), NULL, &site->client, &err), err);
    put(site->client, state == PROXY_VANISHED ? "v" : "s");
    assert_true(test_until(has_all_links, site));
}

static void close_site(struct site *site)
{
    quern_client_free(site->client);
    rig_stop(&site->worker);
    proxy_stop(site->proxy);
}

static void *enqueue_one(void *user)
{
    struct site *site = user;
    const quern_task task = {.type = "t", .id = site->id, .payload = "done", .payload_size = 4};
    site->status = quern_client_enqueue(site->client, &task, NULL, &site->error);
    site->stored_ms = test_now_ms();
    return NULL;
}

static void break_links(struct site *site)
{
    site->broken_ms = test_now_ms();
    assert_true(proxy_break_links(site->proxy, NULL, site->state) >= TEST_COUNT(roles));
}

/* Each role that has a new link is noted with the time. */
static bool note_new_links(struct site *site, const size_t *before, int64_t *noticed_ms)
{
    bool all = true;
    for (size_t i = 0; i < TEST_COUNT(roles); i++) {
        if (noticed_ms[i] == 0 && proxy_links_made(site->proxy, roles[i]) > before[i]) {
            noticed_ms[i] = test_now_ms() - site->broken_ms;
            print_message("%s: %s after %lld ms\n", state_name(site), roles[i],
                          (long long)noticed_ms[i]);
        }
        all = all && noticed_ms[i] != 0;
    }
    return all;
}

static void idle_worker_replaces_all_its_half_open_links(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    static struct site sites[2];
    size_t before[2][TEST_COUNT(roles)];
    int64_t noticed_ms[2][TEST_COUNT(roles)] = {{0}};
    open_site(&sites[0], rig, PROXY_SWALLOWS, "a");
    open_site(&sites[1], rig, PROXY_VANISHED, "b");
    rig_wait_reports(rig, 2);
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < TEST_COUNT(roles); k++) {
            before[i][k] = proxy_links_made(sites[i].proxy, roles[k]);
        }
        break_links(&sites[i]);
    }
    int64_t end_ms = test_now_ms() + 40000;
    bool all = false;
    while (!all && test_now_ms() < end_ms) {
        all = note_new_links(&sites[0], before[0], noticed_ms[0]);
        all = note_new_links(&sites[1], before[1], noticed_ms[1]) && all;
        test_pause_ms(10);
    }
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < TEST_COUNT(roles); k++) {
            assert_in_range(noticed_ms[i][k], 1, noticed_max_ms());
        }
        close_site(&sites[i]);
    }
    rig_free(rig);
}

/* The worker learns of both tasks by links that are dead, too. */
static void client_stores_its_next_task_by_a_new_link_and_the_worker_runs_it(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    static struct site sites[2];
    open_site(&sites[0], rig, PROXY_SWALLOWS, "a");
    open_site(&sites[1], rig, PROXY_VANISHED, "b");
    rig_wait_reports(rig, 2);
    for (size_t i = 0; i < 2; i++) {
        break_links(&sites[i]);
        assert_int_equal(pthread_create(&sites[i].thread, NULL, enqueue_one, &sites[i]), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(sites[i].thread, NULL), 0);
        assert_ok(sites[i].status, sites[i].error);
        int64_t stored_ms = sites[i].stored_ms - sites[i].broken_ms;
        print_message("%s: stored after %lld ms\n", state_name(&sites[i]), (long long)stored_ms);
        assert_in_range(stored_ms, 0, noticed_max_ms());
    }
    rig_wait_reports(rig, 4);
    int64_t ran_ms = test_now_ms() - sites[0].broken_ms;
    print_message("both ran after %lld ms\n", (long long)ran_ms);
    assert_in_range(ran_ms, 0, noticed_max_ms());
    for (size_t i = 0; i < 2; i++) {
        close_site(&sites[i]);
    }
    assert_int_equal(rig->start_count, 4);
    assert_int_equal(rig_queue(rig, "default").processed_total, 4);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", idle_worker_replaces_all_its_half_open_links),
    TEST_ONLY_OVER("redis", client_stores_its_next_task_by_a_new_link_and_the_worker_runs_it),
};
TEST_MAIN_OVER_BROKERS(tests)
