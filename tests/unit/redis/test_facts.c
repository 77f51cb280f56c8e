/* SPDX-License-Identifier: MIT */
/* test_facts.c - the inspector's facts of a real server, and the users for which there are
 * fewer. */
#include <string.h>

#include "lib_redis.h"
#include "quern/quern.h"

static struct test_redis server;

struct facts {
    char text[4096]; /* "name=text" in lines */
};

static int stop(void **state)
{
    (void)state;
    test_redis_stop(&server);
    return 0;
}

static void keep(const char *name, const char *text, void *user)
{
    struct facts *facts = user;
    size_t used = strlen(facts->text);
    (void)snprintf(facts->text + used, sizeof facts->text - used, "%s=%s\n", name, text);
}

static void read_facts(const char *url, struct facts *facts)
{
    quern_error err = {0};
    quern_inspector *inspector = NULL;
    *facts = (struct facts){.text = "\n"};
    assert_ok(quern_inspector_open(url, NULL, &inspector, &err), err);
    assert_ok(quern_inspector_broker(inspector, keep, facts, &err), err);
    quern_inspector_free(inspector);
}

static void assert_has(const struct facts *facts, const char *line)
{
    if (strstr(facts->text, line) == NULL) {
        fail_msg("no \"%s\" in: %s", line, facts->text);
    }
}

static void the_server_and_its_memory_are_reported(void **state)
{
    (void)state;
    struct facts facts;
    char url[TEST_DIR_SIZE + 64];
    test_redis_start(&server, NULL);
    (void)snprintf(url, sizeof url, "%s?db=3", server.url);
    read_facts(url, &facts);
    assert_has(&facts, "\nbroker=redis\n");
    assert_has(&facts, "\nversion=" QUERN_VERSION "\n");
    assert_has(&facts, "\ndb=3\n");
    assert_has(&facts, "\nrole=master\n");
    assert_has(&facts, "\nreplicas=0\n");
    assert_has(&facts, "\nmemory_max=0\n");
    assert_has(&facts, "\nmemory_policy=noeviction\n");
    assert_has(&facts, "\nmemory_used=");
    assert_has(&facts, "\nmemory_peak=");
    assert_has(&facts, "\nclients=");
    assert_has(&facts, "\nredis_version=");
    assert_has(&facts, url + strlen("redis-socket"));
    assert_null(strstr(facts.text, "warning"));
    (void)test_redis_do(&server, "CONFIG SET maxmemory 100mb");
    (void)test_redis_do(&server, "CONFIG SET maxmemory-policy allkeys-lru");
    read_facts(url, &facts);
    assert_has(&facts, "\nmemory_max=104857600\n");
    assert_has(&facts, "\nwarning_memory=maxmemory-policy allkeys-lru lets the server evict");
}

static void durability_is_what_the_server_does(void **state)
{
    (void)state;
    struct facts facts;
    char url[TEST_DIR_SIZE + 64];
    test_redis_start(&server, NULL);
    (void)test_redis_do(&server, "CONFIG SET save %s", "");
    read_facts(server.url, &facts);
    assert_has(&facts, "\ndurability=D0: nothing survives a restart");
    (void)test_redis_do(&server, "CONFIG SET save %s", "3600 1");
    read_facts(server.url, &facts);
    assert_has(&facts, "\ndurability=D0: a crash loses everything since the last snapshot");
    (void)test_redis_do(&server, "CONFIG SET appendonly yes");
    read_facts(server.url, &facts);
    assert_has(&facts, "\ndurability=D1: survives a restart; up to 2 s ");
    (void)test_redis_do(&server, "CONFIG SET appendfsync always");
    read_facts(server.url, &facts);
    assert_has(&facts, "\ndurability=D2: survives power loss\n");
    (void)test_redis_do(&server, "ACL SETUSER plain on >s3cret ~* resetchannels +@all -config");
    (void)snprintf(url, sizeof url, "redis-socket://plain:s3cret@%s", server.socket_path);
    read_facts(url, &facts);
    assert_has(&facts, "\ndurability=D1: survives a restart, perhaps more");
    assert_null(strstr(facts.text, "s3cret"));
    (void)test_redis_do(&server, "ACL SETUSER plain -info");
    read_facts(url, &facts);
    assert_has(&facts, "\ndurability=not known: this user may not use INFO\n");
    assert_has(&facts, "\nwake_up=polling\nwarning_wake_up=idle workers poll every ");
    assert_has(&facts, "__redis__:invalidate: NOPERM");
    (void)test_redis_do(&server, "ACL SETUSER plain &*");
    read_facts(url, &facts);
    assert_has(&facts, "\nwake_up=tracking\n");
    assert_null(strstr(facts.text, "warning_wake_up"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_teardown(the_server_and_its_memory_are_reported, stop),
    cmocka_unit_test_teardown(durability_is_what_the_server_does, stop),
};
TEST_MAIN(tests)
