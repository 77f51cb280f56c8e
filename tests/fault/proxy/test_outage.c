/* SPDX-License-Identifier: MIT */
/* test_outage.c - the server is away for 10 s (60 s with QUERN_TEST_FULL): workers and clients wait
 * without a busy loop, tasks flow again within a second of its return, and nothing is lost. For
 * some of them connecting is refused meanwhile; for others the link is dead, so that their attempt
 * to connect may last longer than the outage. */
#include "lib_outage.h"
#include "lib_proxy.h"

#include <stdlib.h>

enum {
    OUTAGE_MS = 10000,
    OUTAGE_MS_FULL = 60000,
    FLOWS_MS_MAX = 1000,
    CONNECT_MS = 5000, /* an attempt that began before may last that long */
    CPU_PERMILLE_MAX = 20,
    TOLERANCE = 3 /* on a busy machine, with sanitizers */
};

/* Until the server answers again; returns that moment. */
static int64_t let_outage_pass(struct outage *outage, struct proxy *const *proxies)
{
    struct test_redis *server = test_store_server();
    static const enum proxy_state states[] = {PROXY_SWALLOWS, PROXY_VANISHED};
    proxy_set_state(proxies[0], states[0]);
    proxy_set_state(proxies[1], states[1]);
    test_redis_end(server);
    outage_measure(outage);
    test_pause_ms(test_full() ? OUTAGE_MS_FULL : OUTAGE_MS);
    int64_t permille = outage_cpu_permille(outage);
    assert_in_range(permille, 0, TOLERANCE * CPU_PERMILLE_MAX);
    test_redis_launch(server);
    test_redis_await(server);
    proxy_set_state(proxies[0], PROXY_OPEN);
    proxy_set_state(proxies[1], PROXY_OPEN);
    return test_now_ms();
}

static void tasks_flow_again_soon_after_an_outage_that_cost_no_cpu(void **state)
{
    (void)state;
    struct fault_site site;
    fault_site_open(&site);
    struct outage outage = {.site = &site};
    struct proxy *proxies[] = {proxy_start_tcp_for(test_store_server(), 1),
                               proxy_start_tcp_for(test_store_server(), 1)};
    outage_add(&outage, site.url);
    outage_add(&outage, proxy_url(proxies[0]));
    outage_add(&outage, proxy_url(proxies[1]));
    int64_t answers_ms = let_outage_pass(&outage, proxies);
    for (size_t i = 0; i < outage.count; i++) {
        int64_t most_ms = FLOWS_MS_MAX + (i == 0 ? 0 : CONNECT_MS);
        int64_t flows_ms = outage_flows_ms(&outage, i, answers_ms);
        assert_in_range(flows_ms, 0, (test_full() ? 1 : TOLERANCE) * most_ms);
    }
    outage_end(&outage);
    proxy_stop(proxies[0]);
    proxy_stop(proxies[1]);
    fault_site_close(&site);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", tasks_flow_again_soon_after_an_outage_that_cost_no_cpu),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = OUTAGE_ROLES;
    const struct test_group group = {"outage", tests, TEST_COUNT(tests), roles, TEST_COUNT(roles)};
    return test_main_over_brokers(argc, argv, &group);
}
