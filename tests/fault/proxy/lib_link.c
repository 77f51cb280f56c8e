/* SPDX-License-Identifier: MIT */
/* lib_link.c - moves requests and replies of one client, or does to them what the plan says.
 *
 * A request is forwarded when it is complete, so that the deed can be chosen by its words, and so
 * is a reply. Messages without a request (of a subscription) are recognized and forwarded. Bytes of
 * TLS cannot be read: there a piece that the client writes counts as a request, and the next piece
 * of the server as its reply. */
#include "lib_link.h"

#include "lib_test.h"

#include <errno.h>
#include <linux/filter.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LANE_FULL ((size_t)1 << 20) /* then no more is read for it */
#define RECEIVE_SIZE ((size_t)65536)
#define SLOW_MS 1        /* between two bytes */
#define SLOW_MAX 300     /* of them in a row */
#define RATE_PARTS 50    /* of a second: in so many portions its bytes go */
#define TLS_HANDSHAKE 22 /* the first byte of a client that speaks TLS */

void proxy_vanish(int fd)
{
    struct sock_filter none[] = {{BPF_RET | BPF_K, 0, 0, 0}};
    struct sock_fprog program = {.len = 1, .filter = none};
    TEST_REQUIRE(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0);
}

void proxy_link_swallow(struct proxy_link *link, bool gone)
{
    link->swallows = true;
    if (gone) {
        proxy_vanish(link->client_fd);
    }
}

void proxy_link_free(struct proxy_link *link)
{
    if (link->resets) {
        const struct linger reset = {.l_onoff = 1, .l_linger = 0};
        (void)setsockopt(link->client_fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    }
    (void)close(link->client_fd);
    if (link->server_fd >= 0) {
        (void)close(link->server_fd);
    }
    resp_free(&link->from_client);
    resp_free(&link->from_server);
    resp_free(&link->to_client.bytes);
    resp_free(&link->to_server.bytes);
    free(link->flights);
    free(link);
}

/* --- The log ------------------------------------------------------------------------ */

static void describe(const struct resp_bytes *request, char *out, size_t size)
{
    size_t sizes[2] = {0};
    const char *words[2] = {resp_word(request, 0, &sizes[0]), resp_word(request, 1, &sizes[1])};
    bool secret = words[0] == NULL || words[1] == NULL || resp_word_is(request, 0, "HELLO") ||
                  resp_word_is(request, 0, "AUTH");
    (void)snprintf(out, size, "%.*s %.*s", words[0] == NULL ? 0 : (int)sizes[0],
                   words[0] == NULL ? "" : words[0], secret || sizes[1] > 40 ? 0 : (int)sizes[1],
                   secret ? "" : words[1]);
}

/* at: the byte of a cut; SIZE_MAX: it is none. */
static void note(struct proxy_links *links, const struct proxy_link *link,
                 const struct proxy_flight *flight, size_t at)
{
    enum proxy_fault fault = flight->deed.fault;
    atomic_fetch_add(&links->counts[fault], 1);
    if (links->log == NULL) {
        return;
    }
    (void)fprintf(links->log, "proxy %8.3f %s #%llu request %llu %s: %s",
                  (double)(test_now_ms() - links->began_ms) / 1000,
                  link->name[0] == '\0' ? "?" : link->name, (unsigned long long)link->number,
                  (unsigned long long)link->requests, flight->words, proxy_fault_name(fault));
    if (at != SIZE_MAX) {
        (void)fprintf(links->log, " at byte %zu", at);
    }
    if (fault == PROXY_DELAY) {
        (void)fprintf(links->log, " of %lld ms", (long long)flight->deed.ms);
    }
    if (fault == PROXY_ERROR) {
        (void)fprintf(links->log, " %s", flight->deed.error);
    }
    (void)fputc('\n', links->log);
    (void)fflush(links->log);
}

/* --- Deeds -------------------------------------------------------------------------- */

static void end(struct proxy_link *link, bool reset)
{
    link->ends = true;
    link->resets = reset;
}

static void send_slowly(struct proxy_lane *lane, const char *data, size_t size)
{
    lane->slow = size < SLOW_MAX ? size : SLOW_MAX;
    resp_add(&lane->bytes, data, size);
}

static void keep_flight(struct proxy_link *link, const struct proxy_flight *flight)
{
    if (link->flight_count == link->flight_room) {
        link->flight_room = link->flight_room * 2 + 16;
        link->flights = realloc(link->flights, link->flight_room * sizeof *link->flights);
        TEST_REQUIRE(link->flights != NULL);
    }
    link->flights[link->flight_count++] = *flight;
}

static void drop_flight(struct proxy_link *link)
{
    memmove(link->flights, link->flights + 1, --link->flight_count * sizeof *link->flights);
}

/* Errors that stand in for the next replies. */
static void answer_errors(struct proxy_links *links, struct proxy_link *link)
{
    while (!link->ends && link->flight_count > 0 && link->flights[0].deed.fault == PROXY_ERROR) {
        const struct proxy_flight *flight = &link->flights[0];
        note(links, link, flight, SIZE_MAX);
        resp_add(&link->to_client.bytes, "-", 1);
        resp_add(&link->to_client.bytes, flight->deed.error, strlen(flight->deed.error));
        resp_add(&link->to_client.bytes, "\r\n", 2);
        link->ends = flight->deed.hang_up;
        drop_flight(link);
    }
}

/* The first `size` bytes of from_client are a request. */
static void take_request(struct proxy_links *links, struct proxy_link *link,
                         const struct proxy_flight *flight, size_t size)
{
    const char *data = link->from_client.data;
    size_t at = SIZE_MAX;
    switch (flight->deed.fault) {
    case PROXY_CUT_BEFORE:
    case PROXY_RESET_BEFORE:
        note(links, link, flight, at);
        end(link, flight->deed.fault == PROXY_RESET_BEFORE);
        return;
    case PROXY_CUT_REQUEST:
        at = proxy_deed_at(&flight->deed, size);
        note(links, link, flight, at);
        resp_add(&link->to_server.bytes, data, at);
        end(link, false);
        return;
    case PROXY_HALF_OPEN_BEFORE:
        note(links, link, flight, at);
        link->swallows = true;
        return;
    case PROXY_DRIBBLE:
        note(links, link, flight, at);
        send_slowly(&link->to_server, data, size);
        break;
    case PROXY_ERROR:
        break;
    case PROXY_CUT_AFTER:
    case PROXY_CUT_REPLY:
    case PROXY_RESET_AFTER:
    case PROXY_HALF_OPEN_AFTER:
    case PROXY_DELAY:
    case PROXY_NOTHING:
        resp_add(&link->to_server.bytes, data, size);
    }
    keep_flight(link, flight);
    answer_errors(links, link);
}

/* The first `size` bytes of from_server are the reply to the oldest request. */
static void take_reply(struct proxy_links *links, struct proxy_link *link, size_t size)
{
    const char *data = link->from_server.data;
    struct proxy_flight *flight = &link->flights[0];
    struct proxy_lane *lane = &link->to_client;
    size_t at = SIZE_MAX;
    if (flight->deed.rule < PROXY_RULES_MAX) {
        links->plan->sizes[flight->deed.rule].reply = size;
    }
    switch (flight->deed.fault) {
    case PROXY_CUT_AFTER:
    case PROXY_RESET_AFTER:
        note(links, link, flight, at);
        end(link, flight->deed.fault == PROXY_RESET_AFTER);
        return;
    case PROXY_CUT_REPLY:
        at = proxy_deed_at(&flight->deed, size);
        note(links, link, flight, at);
        resp_add(&lane->bytes, data, at);
        end(link, false);
        return;
    case PROXY_HALF_OPEN_AFTER:
        note(links, link, flight, at);
        link->swallows = true;
        return;
    case PROXY_DELAY:
        note(links, link, flight, at);
        lane->not_before_ms = test_now_ms() + flight->deed.ms;
        resp_add(&lane->bytes, data, size);
        break;
    case PROXY_DRIBBLE:
        send_slowly(lane, data, size);
        break;
    case PROXY_CUT_BEFORE:
    case PROXY_CUT_REQUEST:
    case PROXY_RESET_BEFORE:
    case PROXY_HALF_OPEN_BEFORE:
    case PROXY_ERROR:
    case PROXY_NOTHING:
        resp_add(&lane->bytes, data, size);
    }
    if (--flight->replies == 0) {
        drop_flight(link);
        answer_errors(links, link);
    }
}

/* --- Requests ----------------------------------------------------------------------- */

/* HELLO ... SETNAME name, CLIENT SETNAME name. */
static void learn_name(struct proxy_link *link)
{
    const struct resp_bytes *in = &link->from_client;
    size_t size = 0;
    const char *name = NULL;
    for (size_t i = 1; name == NULL && i < 7; i++) {
        if (resp_word_is(in, i, "SETNAME")) {
            name = resp_word(in, i + 1, &size);
        }
    }
    if (name != NULL && (resp_word_is(in, 0, "HELLO") || resp_word_is(in, 0, "CLIENT"))) {
        (void)snprintf(link->name, sizeof link->name, "%.*s", (int)size, name);
    }
}

static size_t size_of_request(struct proxy_link *link)
{
    return link->is_tls ? link->from_client.size : resp_end(&link->client_scan, &link->from_client);
}

/* How many complete requests have come. */
static size_t count_requests(const struct proxy_link *link)
{
    if (link->is_tls) {
        return link->from_client.size > 0 ? 1 : 0;
    }
    size_t count = 0;
    struct resp_bytes rest = link->from_client;
    struct resp_scan scan = link->client_scan;
    for (size_t size = resp_end(&scan, &rest); size > 0; size = resp_end(&scan, &rest)) {
        rest.data += size;
        rest.size -= size;
        scan = (struct resp_scan){0};
        count++;
    }
    return count;
}

static void take_requests(struct proxy_links *links, struct proxy_link *link)
{
    size_t count = count_requests(link);
    size_t victim = SIZE_MAX;
    struct proxy_deed rolled = {.fault = PROXY_NOTHING};
    if (count > 0) {
        learn_name(link);
        rolled = proxy_plan_roll(links->plan, link->name, count, &victim);
    }
    for (size_t i = 0; i < count && !link->ends && !link->swallows; i++) {
        struct proxy_flight flight = {.replies = 1};
        size_t size = size_of_request(link);
        learn_name(link);
        describe(&link->from_client, flight.words, sizeof flight.words);
        if (resp_word_is(&link->from_client, 0, "SUBSCRIBE")) {
            flight.replies = strtoul(link->from_client.data + 1, NULL, 10) - 1;
        }
        flight.deed = proxy_plan_rule(links->plan, link->name, &link->from_client);
        if (flight.deed.fault == PROXY_NOTHING && i == victim) {
            flight.deed = rolled;
        }
        if (link->is_tls && flight.deed.fault == PROXY_ERROR) {
            flight.deed.fault = PROXY_NOTHING;
        }
        link->requests++;
        if (flight.deed.rule < PROXY_RULES_MAX) {
            links->plan->sizes[flight.deed.rule].request = size;
        }
        take_request(links, link, &flight, size);
        resp_drop(&link->from_client, size);
        link->client_scan = (struct resp_scan){0};
    }
}

/* --- Replies ------------------------------------------------------------------------ */

static bool is_message(const struct proxy_link *link)
{
    return link->flight_count == 0 || link->from_server.data[0] == '>' ||
           resp_word_is(&link->from_server, 0, "message");
}

static void take_replies(struct proxy_links *links, struct proxy_link *link)
{
    while (link->from_server.size > 0 && !link->ends && !link->swallows) {
        size_t size = link->is_tls ? link->from_server.size
                                   : resp_end(&link->server_scan, &link->from_server);
        if (size == 0) {
            return;
        }
        if (is_message(link)) {
            resp_add(&link->to_client.bytes, link->from_server.data, size);
        } else {
            take_reply(links, link, size);
        }
        resp_drop(&link->from_server, size);
        link->server_scan = (struct resp_scan){0};
    }
}

/* --- Sockets ------------------------------------------------------------------------ */

static bool is_due(const struct proxy_lane *lane)
{
    return lane->bytes.size > 0 && test_now_ms() >= lane->not_before_ms;
}

/* How many of `size` bytes may go at once at this rate. */
static size_t portion_of(unsigned rate, size_t size)
{
    size_t portion = rate < RATE_PARTS ? 1 : rate / RATE_PARTS;
    return rate == 0 || size < portion ? size : portion;
}

/* When the next ones may go. */
static int64_t next_portion_ms(unsigned rate, size_t size)
{
    return rate == 0 ? 0 : test_now_ms() + ((int64_t)size * 1000 + rate - 1) / rate;
}

/* False: that end is gone. */
static bool flush(struct proxy_lane *lane, int fd, unsigned rate)
{
    while (is_due(lane)) {
        size_t size = lane->slow > 0 ? 1 : portion_of(rate, lane->bytes.size);
        ssize_t sent = send(fd, lane->bytes.data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        resp_drop(&lane->bytes, (size_t)sent);
        if (lane->slow > 0) {
            lane->slow--;
            lane->not_before_ms = test_now_ms() + SLOW_MS;
        } else if (rate > 0) {
            lane->not_before_ms = next_portion_ms(rate, (size_t)sent);
        }
    }
    return true;
}

static struct pollfd events_of(int fd, const struct proxy_lane *out, const struct proxy_lane *in)
{
    short events = in->bytes.size < LANE_FULL ? POLLIN : 0;
    events = (short)(events | (is_due(out) ? POLLOUT : 0));
    return (struct pollfd){.fd = fd, .events = events};
}

void proxy_link_events(const struct proxy_link *link, struct pollfd fds[2], int64_t *wake_ms)
{
    const struct proxy_lane *lanes[] = {&link->to_client, &link->to_server};
    fds[0] = events_of(link->client_fd, &link->to_client, &link->to_server);
    fds[1] = events_of(link->server_fd, &link->to_server, &link->to_client);
    if (test_now_ms() < link->take_not_before_ms) {
        fds[0].events = (short)(fds[0].events & ~POLLIN);
        *wake_ms = link->take_not_before_ms < *wake_ms ? link->take_not_before_ms : *wake_ms;
    }
    for (size_t i = 0; i < 2; i++) {
        if (lanes[i]->bytes.size > 0 && lanes[i]->not_before_ms < *wake_ms && !is_due(lanes[i])) {
            *wake_ms = lanes[i]->not_before_ms;
        }
    }
}

/* False: that end has closed. */
static bool receive(struct resp_bytes *bytes, const struct pollfd *fd, size_t size_max)
{
    if ((fd->revents & ~POLLOUT) == 0) {
        return true;
    }
    ssize_t size = resp_receive_some(bytes, fd->fd, MSG_DONTWAIT, size_max);
    return size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR));
}

static bool receive_from_client(const struct proxy_links *links, struct proxy_link *link,
                                const struct pollfd *fd)
{
    unsigned rate = link->swallows ? 0 : links->plan->rates.taken;
    size_t before = link->from_client.size;
    bool lives = receive(&link->from_client, fd, portion_of(rate, RECEIVE_SIZE));
    if (rate > 0 && link->from_client.size > before) {
        link->take_not_before_ms = next_portion_ms(rate, link->from_client.size - before);
    }
    return lives;
}

bool proxy_link_serve(struct proxy_links *links, struct proxy_link *link,
                      const struct pollfd fds[2])
{
    if (!receive_from_client(links, link, &fds[0])) {
        return false;
    }
    bool has_server = receive(&link->from_server, &fds[1], RECEIVE_SIZE);
    if (link->swallows) {
        resp_drop(&link->from_client, link->from_client.size);
        resp_drop(&link->from_server, link->from_server.size);
        if (!has_server) {
            (void)close(link->server_fd);
            link->server_fd = -1;
        }
        return true;
    }
    if (link->requests == 0) {
        link->is_tls = link->from_client.size > 0 && link->from_client.data[0] == TLS_HANDSHAKE;
        (void)snprintf(link->name, sizeof link->name, "%s", link->is_tls ? "tls" : link->name);
    }
    if ((fds[0].revents & ~POLLOUT) != 0) {
        take_requests(links, link);
    }
    take_replies(links, link);
    if (!has_server) {
        end(link, false);
    }
    if (link->resets || !flush(&link->to_client, link->client_fd, links->plan->rates.given) ||
        !flush(&link->to_server, link->server_fd, 0)) {
        return false;
    }
    return !link->ends || link->to_client.bytes.size + link->to_server.bytes.size > 0;
}
