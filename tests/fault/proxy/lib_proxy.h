/* SPDX-License-Identifier: MIT */
/* lib_proxy.h - stands between clients and a redis-server, reads where requests and replies begin
 * and end, and does to them what a test, or dice with a seed, choose: cuts before, in and after
 * them, resets, delays, dribble, errors in place of replies, and links that crawl, or stay open
 * while nothing gets through. A thread of the test program; the program fault_proxy (proxy.c) is
 * the same for tests in other languages, and by hand.
 *
 * Each deed is a line in the log. TLS passes through: it is cut, delayed and swallowed by the
 * pieces in which it comes. */
#ifndef TESTS_FAULT_PROXY_LIB_PROXY_H
#define TESTS_FAULT_PROXY_LIB_PROXY_H

#include "lib_plan.h"
#include "lib_redis.h"

#define PROXY_ADDRESS_SIZE 128

struct proxy_options {
    const char *server; /* "127.0.0.1:6379", or the path of a Unix socket */
    const char *listen; /* the same; port 0: any that is free */
    uint64_t seed;
    FILE *log; /* NULL: none */
};

struct proxy;
/* It does nothing to requests until it is asked to. */
struct proxy *proxy_start(const struct proxy_options *options);
void proxy_stop(struct proxy *proxy);
/* Where it listens, as in the options. */
const char *proxy_address(const struct proxy *proxy);

/* For the server of a test, by its Unix socket. */
struct proxy *proxy_start_for(const struct test_redis *redis, uint64_t seed);
/* The same, but its clients come by TCP; by TLS, to the server's own port for that, if it has
 * one. */
struct proxy *proxy_start_tcp_for(const struct test_redis *redis, uint64_t seed);
/* Its URL, for the user of test_worker_user. */
const char *proxy_url(const struct proxy *proxy);
/* From now on each deed is logged to stdout, which CTest shows when the test fails. */
void proxy_log(struct proxy *proxy);

/* All of these hold for requests that come afterwards. */

/* About this many of 1 000 writes of clients meet one of these faults (a set), until there were so
 * many of them; 0: as many as come. */
void proxy_dice(struct proxy *proxy, unsigned permille, uint32_t faults, size_t count);
/* About this many of 1 000 writes are cut in one of the four ways; 0: none. */
void proxy_cut(struct proxy *proxy, unsigned permille);
/* A delay by the dice is at most this long; 50 ms until it is set. */
void proxy_delay_max(struct proxy *proxy, int64_t ms);
/* From now on each link crawls so; links that open then have small buffers, too, so that a client
 * notices how little is taken. */
void proxy_crawl(struct proxy *proxy, struct proxy_rates rates);
/* Replaces all rules, and counts from 0 again; copied, but for their texts. count 0: none. */
void proxy_rules(struct proxy *proxy, const struct proxy_rule *rules, size_t count);

enum proxy_state {
    PROXY_OPEN,
    PROXY_REFUSES,  /* all links are cut, and nothing listens: ECONNREFUSED */
    PROXY_SWALLOWS, /* links and new connections stay open, and nothing gets through */
    PROXY_VANISHED  /* the same, but even the kernel answers no packet (TCP) */
};
/* Links that were swallowed stay so when it opens again. */
void proxy_set_state(struct proxy *proxy, enum proxy_state state);
/* The same to the present links whose name has this part (NULL: all) and to no others; PROXY_OPEN
 * does nothing. Returns how many there were. */
size_t proxy_break_links(struct proxy *proxy, const char *by, enum proxy_state state);

/* How often it did this. */
size_t proxy_count(const struct proxy *proxy, enum proxy_fault fault);
/* All faults. */
size_t proxy_count_all(const struct proxy *proxy);
/* The requests that have matched this rule, also those that it left alone. */
size_t proxy_matches(struct proxy *proxy, size_t rule);
/* Of the latest request that this rule did something to, or nothing by PROXY_NOTHING; 0: none yet.
 */
struct proxy_sizes proxy_sizes(struct proxy *proxy, size_t rule);
/* Links with a part of this name (NULL: all) that were opened since the start and named themselves;
 * open: those that nothing has happened to yet. */
size_t proxy_links_made(struct proxy *proxy, const char *by);
size_t proxy_links_open(struct proxy *proxy, const char *by);

#endif
