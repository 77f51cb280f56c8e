/* SPDX-License-Identifier: MIT */
/* lib_proxy.c - the thread of a proxy: accepts, polls all links, and carries out orders of the
 * test.
 *
 * An order of the test ends the poll and is carried out before the next one, while the thread
 * waits: a socket that is closed during a poll would live on until its end. */
#include "lib_proxy.h"

#include "lib_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LINKS_MAX 512
#define BACKLOG 128
#define DELAY_MS_MAX 50
#define CRAWL_BUFFER 2048

struct proxy {
    char server[PROXY_ADDRESS_SIZE];
    char address[PROXY_ADDRESS_SIZE];
    char url[2 * PROXY_ADDRESS_SIZE + 64];
    pthread_t thread;
    int kick_fds[2];
    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t change; /* of the next three */
    bool polls;
    size_t waiting;  /* orders */
    uint64_t orders; /* so far; one makes the result of a poll void */
    bool stops;
    int listen_fd; /* -1: it refuses */
    enum proxy_state state;
    struct proxy_plan plan;
    struct proxy_links links;
    struct proxy_link *link[LINKS_MAX];
    size_t link_count;
    uint64_t number;
    struct proxy_count made[PROXY_NAMES_MAX]; /* by name: links, once they had one */
    size_t made_count;
    _Atomic size_t counts[PROXY_FAULT_COUNT + 1];
};

/* --- Addresses ---------------------------------------------------------------------- */

union address {
    struct sockaddr any;
    struct sockaddr_un un;
    struct sockaddr_in in;
};

static socklen_t read_address(const char *text, union address *out)
{
    *out = (union address){0};
    if (text[0] == '/') {
        out->un.sun_family = AF_UNIX;
        TEST_REQUIRE(strlen(text) < sizeof out->un.sun_path);
        (void)snprintf(out->un.sun_path, sizeof out->un.sun_path, "%s", text);
        return sizeof out->un;
    }
    char host[64] = "";
    const char *colon = strrchr(text, ':');
    TEST_REQUIRE(colon != NULL);
    (void)snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    out->in.sin_family = AF_INET;
    out->in.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    TEST_REQUIRE(inet_pton(AF_INET, host, &out->in.sin_addr) == 1);
    return sizeof out->in;
}

static int open_socket(const union address *address)
{
    int on = 1;
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    TEST_REQUIRE(fd >= 0);
    if (address->any.sa_family == AF_INET) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    }
    return fd;
}

/* The kernel sends single bytes on at once. */
static void do_not_collect(int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof on);
}

static int connect_to(const char *text)
{
    union address address;
    socklen_t size = read_address(text, &address);
    int fd = open_socket(&address);
    if (connect(fd, &address.any, size) != 0) {
        (void)close(fd);
        return -1;
    }
    do_not_collect(fd);
    return fd;
}

/* Listens at proxy->address, and notes the port that it got. */
static void listen_there(struct proxy *proxy)
{
    union address address;
    socklen_t size = read_address(proxy->address, &address);
    if (proxy->address[0] == '/') {
        (void)unlink(proxy->address);
    }
    proxy->listen_fd = open_socket(&address);
    TEST_REQUIRE(bind(proxy->listen_fd, &address.any, size) == 0);
    TEST_REQUIRE(listen(proxy->listen_fd, BACKLOG) == 0);
    if (proxy->address[0] != '/') {
        char host[INET_ADDRSTRLEN] = "";
        TEST_REQUIRE(getsockname(proxy->listen_fd, &address.any, &size) == 0);
        (void)inet_ntop(AF_INET, &address.in.sin_addr, host, sizeof host);
        (void)snprintf(proxy->address, sizeof proxy->address, "%s:%u", host,
                       ntohs(address.in.sin_port));
    }
}

/* --- The thread --------------------------------------------------------------------- */

static void accept_link(struct proxy *proxy)
{
    int client_fd = accept4(proxy->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (client_fd < 0) {
        return;
    }
    int server_fd = proxy->state == PROXY_OPEN ? connect_to(proxy->server) : -1;
    bool refused = proxy->state == PROXY_OPEN && server_fd < 0;
    if (refused || proxy->link_count == LINKS_MAX) {
        (void)close(client_fd);
        return;
    }
    do_not_collect(client_fd);
    if (proxy->plan.rates.taken > 0) {
        int size = CRAWL_BUFFER;
        (void)setsockopt(client_fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    }
    struct proxy_link *link = calloc(1, sizeof *link);
    TEST_REQUIRE(link != NULL);
    link->client_fd = client_fd;
    link->server_fd = server_fd;
    link->number = ++proxy->number;
    proxy->link[proxy->link_count++] = link;
    if (proxy->state != PROXY_OPEN) {
        proxy_link_swallow(link, proxy->state == PROXY_VANISHED && proxy->address[0] != '/');
    }
}

static void remove_link(struct proxy *proxy, size_t index)
{
    proxy_link_free(proxy->link[index]);
    proxy->link[index] = proxy->link[--proxy->link_count];
}

static void note_name(struct proxy *proxy, const char *name)
{
    size_t i = 0;
    while (i < proxy->made_count && strcmp(proxy->made[i].name, name) != 0) {
        i++;
    }
    if (i == proxy->made_count && i < PROXY_NAMES_MAX - 1) {
        (void)snprintf(proxy->made[i].name, PROXY_NAME_SIZE, "%s", name);
        proxy->made_count++;
    }
    proxy->made[i].writes++;
}

/* A round over the links that were polled, the last first, as it replaces one that is removed. */
static void serve(struct proxy *proxy, const struct pollfd *fds, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        struct proxy_link *link = proxy->link[i];
        bool unnamed = link->name[0] == '\0';
        bool lives = proxy_link_serve(&proxy->links, link, fds + 2 * i);
        if (unnamed && link->name[0] != '\0') {
            note_name(proxy, link->name);
        }
        if (!lives) {
            remove_link(proxy, i);
        }
    }
}

/* Takes the mutex after a poll, when no order is left. */
static void let_orders_pass(struct proxy *proxy, bool kicked)
{
    char bytes[64];
    ssize_t got = kicked ? read(proxy->kick_fds[0], bytes, sizeof bytes) : 0;
    (void)got;
    pthread_mutex_lock(&proxy->mutex);
    proxy->polls = false;
    pthread_cond_broadcast(&proxy->change);
    while (proxy->waiting > 0) {
        pthread_cond_wait(&proxy->change, &proxy->mutex);
    }
}

static void *run(void *argument)
{
    struct proxy *proxy = argument;
    static const size_t first = 2;
    struct pollfd *fds = calloc(first + 2 * (size_t)LINKS_MAX, sizeof *fds);
    TEST_REQUIRE(fds != NULL);
    pthread_mutex_lock(&proxy->mutex);
    while (!proxy->stops) {
        int64_t wake_ms = INT64_MAX;
        size_t count = proxy->link_count;
        uint64_t orders = proxy->orders;
        fds[0] = (struct pollfd){.fd = proxy->kick_fds[0], .events = POLLIN};
        fds[1] = (struct pollfd){.fd = proxy->listen_fd, .events = POLLIN};
        for (size_t i = 0; i < count; i++) {
            proxy_link_events(proxy->link[i], fds + first + 2 * i, &wake_ms);
        }
        proxy->polls = true;
        pthread_mutex_unlock(&proxy->mutex);
        int64_t left_ms = wake_ms == INT64_MAX ? -1 : wake_ms - test_now_ms();
        (void)poll(fds, first + 2 * count, wake_ms != INT64_MAX && left_ms < 0 ? 0 : (int)left_ms);
        let_orders_pass(proxy, fds[0].revents != 0);
        if (proxy->orders == orders) { /* else what was polled may be gone */
            serve(proxy, fds + first, count);
            if (fds[1].revents != 0) {
                accept_link(proxy);
            }
        }
    }
    pthread_mutex_unlock(&proxy->mutex);
    free(fds);
    return NULL;
}

/* Changes what the thread works on: from begin to finish it waits. */
static void begin(struct proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->waiting++;
    proxy->orders++;
    ssize_t sent = write(proxy->kick_fds[1], "", 1);
    (void)sent;
    while (proxy->polls) {
        pthread_cond_wait(&proxy->change, &proxy->mutex);
    }
}

static void finish(struct proxy *proxy)
{
    proxy->waiting--;
    pthread_cond_broadcast(&proxy->change);
    pthread_mutex_unlock(&proxy->mutex);
}

/* --- Start and stop ----------------------------------------------------------------- */

struct proxy *proxy_start(const struct proxy_options *options)
{
    struct proxy *proxy = calloc(1, sizeof *proxy);
    TEST_REQUIRE(proxy != NULL);
    (void)snprintf(proxy->server, sizeof proxy->server, "%s", options->server);
    (void)snprintf(proxy->address, sizeof proxy->address, "%s", options->listen);
    proxy->plan.seed = options->seed;
    proxy->plan.delay_ms_max = DELAY_MS_MAX;
    proxy->links = (struct proxy_links){.plan = &proxy->plan,
                                        .counts = proxy->counts,
                                        .log = options->log,
                                        .began_ms = test_now_ms()};
    listen_there(proxy);
    TEST_REQUIRE(pipe(proxy->kick_fds) == 0);
    TEST_REQUIRE(pthread_mutex_init(&proxy->mutex, NULL) == 0);
    TEST_REQUIRE(pthread_cond_init(&proxy->change, NULL) == 0);
    TEST_REQUIRE(pthread_create(&proxy->thread, NULL, run, proxy) == 0);
    return proxy;
}

static void stop_listening(struct proxy *proxy)
{
    if (proxy->listen_fd >= 0) {
        (void)close(proxy->listen_fd);
        proxy->listen_fd = -1;
    }
    if (proxy->address[0] == '/') {
        (void)unlink(proxy->address);
    }
}

void proxy_stop(struct proxy *proxy)
{
    begin(proxy);
    proxy->stops = true;
    finish(proxy);
    TEST_REQUIRE(pthread_join(proxy->thread, NULL) == 0);
    while (proxy->link_count > 0) {
        remove_link(proxy, 0);
    }
    stop_listening(proxy);
    (void)close(proxy->kick_fds[0]);
    (void)close(proxy->kick_fds[1]);
    (void)pthread_cond_destroy(&proxy->change);
    (void)pthread_mutex_destroy(&proxy->mutex);
    free(proxy);
}

const char *proxy_address(const struct proxy *proxy)
{
    return proxy->address;
}

struct proxy *proxy_start_for(const struct test_redis *redis, uint64_t seed)
{
    char listen_at[PROXY_ADDRESS_SIZE];
    (void)snprintf(listen_at, sizeof listen_at, "%s/proxy.sock", redis->dir);
    struct proxy *proxy = proxy_start(
        &(struct proxy_options){.server = redis->socket_path, .listen = listen_at, .seed = seed});
    (void)snprintf(proxy->url, sizeof proxy->url, "redis-socket://worker:secret@%s",
                   proxy->address);
    return proxy;
}

struct proxy *proxy_start_tcp_for(const struct test_redis *redis, uint64_t seed)
{
    char server[PROXY_ADDRESS_SIZE];
    bool is_tls = redis->options.tls;
    (void)snprintf(server, sizeof server, "127.0.0.1:%d", redis->tls_port);
    struct proxy *proxy = proxy_start(&(struct proxy_options){
        .server = is_tls ? server : redis->socket_path, .listen = "127.0.0.1:0", .seed = seed});
    (void)snprintf(proxy->url, sizeof proxy->url, "%s://worker:secret@%s%s%s%s",
                   is_tls ? "rediss" : "redis", proxy->address, is_tls ? "?ca=" : "",
                   is_tls ? redis->dir : "", is_tls ? "/ca.pem" : "");
    return proxy;
}

const char *proxy_url(const struct proxy *proxy)
{
    return proxy->url;
}

/* --- Orders ------------------------------------------------------------------------- */

void proxy_log(struct proxy *proxy)
{
    begin(proxy);
    proxy->links.log = stdout;
    finish(proxy);
}

void proxy_dice(struct proxy *proxy, unsigned permille, uint32_t faults, size_t count)
{
    begin(proxy);
    proxy->plan.permille = permille;
    proxy->plan.faults = faults;
    proxy->plan.faults_left = count == 0 ? SIZE_MAX : count;
    finish(proxy);
}

void proxy_cut(struct proxy *proxy, unsigned permille)
{
    proxy_dice(proxy, permille, PROXY_CUTS, 0);
}

void proxy_delay_max(struct proxy *proxy, int64_t ms)
{
    begin(proxy);
    proxy->plan.delay_ms_max = ms;
    finish(proxy);
}

void proxy_crawl(struct proxy *proxy, struct proxy_rates rates)
{
    begin(proxy);
    proxy->plan.rates = rates;
    finish(proxy);
}

void proxy_rules(struct proxy *proxy, const struct proxy_rule *rules, size_t count)
{
    TEST_REQUIRE(count <= PROXY_RULES_MAX);
    begin(proxy);
    for (size_t i = 0; i < count; i++) {
        proxy->plan.rules[i] = rules[i];
        proxy->plan.seen[i] = 0;
        proxy->plan.sizes[i] = (struct proxy_sizes){0};
    }
    proxy->plan.rule_count = count;
    finish(proxy);
}

static bool is_by(const char *name, const char *by)
{
    return by == NULL || strstr(name, by) != NULL;
}

/* With the mutex held. */
static size_t break_links(struct proxy *proxy, const char *by, enum proxy_state state)
{
    size_t count = 0;
    for (size_t i = proxy->link_count; state != PROXY_OPEN && i-- > 0;) {
        struct proxy_link *link = proxy->link[i];
        if (!is_by(link->name, by) || link->swallows) {
            continue;
        }
        count++;
        if (state == PROXY_REFUSES) {
            remove_link(proxy, i);
        } else {
            proxy_link_swallow(link, state == PROXY_VANISHED && proxy->address[0] != '/');
        }
    }
    return count;
}

size_t proxy_break_links(struct proxy *proxy, const char *by, enum proxy_state state)
{
    begin(proxy);
    size_t count = break_links(proxy, by, state);
    finish(proxy);
    return count;
}

void proxy_set_state(struct proxy *proxy, enum proxy_state state)
{
    begin(proxy);
    proxy->state = state;
    (void)break_links(proxy, NULL, state);
    stop_listening(proxy);
    if (state != PROXY_REFUSES) {
        listen_there(proxy);
    }
    if (state == PROXY_VANISHED && proxy->address[0] != '/') {
        proxy_vanish(proxy->listen_fd);
    }
    finish(proxy);
}

/* --- Counts ------------------------------------------------------------------------- */

size_t proxy_count(const struct proxy *proxy, enum proxy_fault fault)
{
    return atomic_load(&proxy->counts[fault]);
}

size_t proxy_count_all(const struct proxy *proxy)
{
    size_t count = 0;
    for (int fault = 0; fault < PROXY_FAULT_COUNT; fault++) {
        count += atomic_load(&proxy->counts[fault]);
    }
    return count;
}

size_t proxy_matches(struct proxy *proxy, size_t rule)
{
    pthread_mutex_lock(&proxy->mutex);
    size_t count = proxy->plan.seen[rule];
    pthread_mutex_unlock(&proxy->mutex);
    return count;
}

struct proxy_sizes proxy_sizes(struct proxy *proxy, size_t rule)
{
    pthread_mutex_lock(&proxy->mutex);
    struct proxy_sizes sizes = proxy->plan.sizes[rule];
    pthread_mutex_unlock(&proxy->mutex);
    return sizes;
}

size_t proxy_links_made(struct proxy *proxy, const char *by)
{
    size_t count = 0;
    pthread_mutex_lock(&proxy->mutex);
    for (size_t i = 0; i < proxy->made_count; i++) {
        count += is_by(proxy->made[i].name, by) ? proxy->made[i].writes : 0;
    }
    pthread_mutex_unlock(&proxy->mutex);
    return count;
}

size_t proxy_links_open(struct proxy *proxy, const char *by)
{
    size_t count = 0;
    pthread_mutex_lock(&proxy->mutex);
    for (size_t i = 0; i < proxy->link_count; i++) {
        const struct proxy_link *link = proxy->link[i];
        count += is_by(link->name, by) && !link->swallows && !link->ends ? 1 : 0;
    }
    pthread_mutex_unlock(&proxy->mutex);
    return count;
}
