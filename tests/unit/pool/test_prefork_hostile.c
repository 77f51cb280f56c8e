/* SPDX-License-Identifier: MIT */
/* test_prefork_hostile.c - children that break the rules: the worker loses the item that ran, and
 * nothing else. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib_prefork.h"
#include "lib_test.h"
#include "pool/prefork/frame.h"
#include "pool/prefork/page.h"

/* The connection of the child, which its code should not know. */
static int find_socket(void)
{
    for (int fd = 3; fd < 64; fd++) {
        int domain = 0;
        socklen_t size = sizeof domain;
        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX) {
            return fd;
        }
    }
    _exit(90);
}

/* The first words of the page are those of its slots. */
static uint64_t *find_page(void)
{
    char line[512];
    unsigned long begin = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && begin == 0 && fgets(line, sizeof line, maps) != NULL) {
        if (strstr(line, "quern-child") != NULL) {
            begin = strtoul(line, NULL, 16);
        }
    }
    if (begin == 0) {
        _exit(91);
    }
    return (uint64_t *)begin; /* NOLINT: an address in a text */
}

static void send_bytes(const void *data, size_t size)
{
    (void)!send(find_socket(), data, size, MSG_NOSIGNAL);
}

/* A frame about the item that runs, but for what `change` adds to its sequence. */
static void send_frame(uint16_t kind, uint16_t slot, uint64_t change, uint32_t size)
{
    uint64_t word = find_page()[0];
    struct qn_frame_header header = {
        .size = size, .kind = kind, .slot = slot, .sequence = (word >> 2) + change};
    send_bytes(&header, sizeof header);
}

static void flood(void)
{
    static const char zeros[65536];
    for (;;) {
        send_bytes(zeros, sizeof zeros);
    }
}

static void wait_for_the_end(void)
{
    for (;;) {
        (void)poll(NULL, 0, -1);
    }
}

/* h: break a rule; the second letter says which. */
static void misbehave(struct qn_prefork_call *call, struct qn_bytes body, struct qn_buf *out)
{
    (void)call;
    (void)out;
    switch (((const char *)body.data)[1]) {
    case 'g':
        send_bytes("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", 37);
        break;
    case 'h':
        send_frame(QN_FRAME_RESULT, 0, 0, UINT32_MAX);
        break;
    case 'f':
        flood();
        break;
    case 'x': /* half a frame */
        send_frame(QN_FRAME_RESULT, 0, 0, 100000);
        _exit(0);
    case 's':
        send_frame(QN_FRAME_RESULT, 3, 0, 0);
        break;
    case 'S':
        send_frame(QN_FRAME_RESULT, 777, 0, 0);
        break;
    case 'q':
        send_frame(QN_FRAME_RESULT, 0, 1, 0);
        break;
    case 'd': /* two results */
        send_frame(QN_FRAME_RESULT, 0, 0, 0);
        send_frame(QN_FRAME_RESULT, 0, 0, 0);
        break;
    case 'r':
        send_frame(QN_FRAME_READY, 0, 0, 0);
        break;
    case 'k':
        send_frame(QN_FRAME_ITEM, 0, 0, 0);
        break;
    case 'u': /* refused by the op */
        send_frame(99, 0, 0, 0);
        break;
    case 'p': /* it says that it has not started */
        memset(find_page(), 0xff, 4096);
        (void)!ftruncate(4, 0);
        (void)raise(SIGKILL);
        break;
    case 'P':
        find_page()[0] ^= 3; /* QUEUED again */
        send_frame(QN_FRAME_RESULT, 0, 0, 0);
        break;
    default: /* silence, without a connection */
        (void)close(find_socket());
    }
    wait_for_the_end();
}

static void each_broken_rule_costs_one_item(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *hostile; /* "": it dies by itself */
    } cases[] = {
        {"hg", "it sent a frame that is too large"},
        {"hh", "it sent a frame that is too large"},
        {"hf", "it sent a frame for an item that it does not have"},
        {"hx", ""},
        {"hs", "it sent a frame for an item that it does not have"},
        {"hS", "it sent a frame for an item that it does not have"},
        {"hq", "it sent a frame for an item that it does not have"},
        {"hr", "it sent a frame that breaks the rules"},
        {"hk", "it sent a frame of an unknown kind"},
        {"hu", "it sent a frame that breaks the rules"},
        {"hp", ""},
        {"hP", "it sent a frame for an item that it has not started"},
        {"hc", "it has left its socket and did not end"},
    };
    struct lib_prefork pool;
    struct lib_prefork_item item;
    struct lib_prefork_item next;
    lib_prefork_init(&pool);
    pool.options.frame_size_max = (uint64_t)1 << 20;
    lib_prefork_start(&pool, misbehave);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        lib_prefork_run(&pool, &item, cases[i].text);
        assert_int_equal(item.results, 0);
        assert_int_equal(item.deaths, 1);
        assert_true(item.started);
        assert_string_equal(item.hostile, cases[i].hostile);
        lib_prefork_run(&pool, &next, "ewell");
        assert_int_equal(next.results, 1);
    }
    assert_int_equal(pool.deaths, TEST_COUNT(cases));
    lib_prefork_stop(&pool);
}

static void a_second_result_is_no_result_of_the_next_item(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item items[2] = {{.item = {.is_short = true}}, {.item = {.is_short = true}}};
    lib_prefork_init(&pool);
    pool.options.window = 2;
    lib_prefork_start(&pool, misbehave);
    lib_prefork_submit(&pool, &items[0], "hd");
    lib_prefork_submit(&pool, &items[1], "ewell");
    assert_true(lib_prefork_wait(&pool, &items[0]));
    if (!lib_prefork_wait(&pool, &items[1])) { /* it waited in the window of that child */
        assert_false(items[1].started);
    }
    lib_prefork_stop(&pool);
}

static void a_refused_result_is_a_death(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item item;
    struct lib_prefork_item next;
    lib_prefork_init(&pool);
    pool.refuse_result = true;
    lib_prefork_start(&pool, misbehave);
    lib_prefork_run(&pool, &item, "eresult");
    assert_int_equal(item.deaths, 1);
    assert_true(item.started);
    assert_string_equal(item.hostile, "it sent a result that breaks the rules");
    (void)pthread_mutex_lock(&pool.mutex);
    pool.refuse_result = false;
    (void)pthread_mutex_unlock(&pool.mutex);
    lib_prefork_run(&pool, &next, "eresult");
    assert_int_equal(next.results, 1);
    lib_prefork_stop(&pool);
}

static void a_silent_child_is_killed_with_its_item(void **state)
{
    (void)state;
    struct lib_prefork pool;
    struct lib_prefork_item pid;
    struct lib_prefork_item item = {0};
    lib_prefork_init(&pool);
    lib_prefork_start(&pool, misbehave);
    lib_prefork_run(&pool, &pid, "p");
    assert_int_equal(kill((pid_t)strtol(pid.result, NULL, 10), SIGSTOP), 0);
    lib_prefork_submit(&pool, &item, "e");
    lib_prefork_wait_begun(&pool, &item);
    assert_false(qn_prefork_take_back(pool.prefork, &item.item));
    qn_prefork_kill(pool.prefork, &item.item, 20);
    assert_false(lib_prefork_wait(&pool, &item));
    assert_false(item.started); /* it never read it */
    assert_true(item.by_us);
    lib_prefork_stop(&pool);
}

static void a_page_cannot_be_resized(void **state)
{
    (void)state;
    struct qn_page *page = NULL;
    int fd = -1;
    char text[QN_PAGE_TEXT_SIZE + 1];
    quern_error error = {0};
    assert_ok(qn_page_new(&page, &fd, &error), error);
    assert_int_not_equal(ftruncate(fd, 0), 0);
    assert_int_not_equal(ftruncate(fd, 1 << 20), 0);
    assert_int_not_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
    struct qn_page *theirs = qn_page_map(fd);
    assert_non_null(theirs);
    assert_int_equal(qn_page_cancelled(theirs, 2, 5), 0);
    qn_page_cancel(page, 2, 5, 9);
    assert_int_equal(qn_page_cancelled(theirs, 2, 5), 9);
    assert_int_equal(qn_page_cancelled(theirs, 2, 6), 0);
    /* A text that is not one, longer than the room for it. */
    struct qn_room room = qn_page_text_room(theirs);
    memset(room.data, 0xc3, room.size);
    qn_page_set_text_size(theirs, UINT32_MAX);
    qn_page_copy_text(page, QN_ROOM_OF(text));
    assert_int_equal(strncmp(text, "\xef\xbf\xbd\xef\xbf\xbd", 6), 0);
    qn_page_free(theirs);
    qn_page_free(page);
    (void)close(fd);
}

static void an_item_is_started_or_taken_back_never_both(void **state)
{
    (void)state;
    struct qn_page *page = NULL;
    int fd = -1;
    quern_error error = {0};
    assert_ok(qn_page_new(&page, &fd, &error), error);
    assert_false(qn_page_start(page, 2, 5));
    qn_page_queue(page, 2, 5);
    assert_false(qn_page_start(page, 2, 4));
    assert_true(qn_page_is_queued(page, 2, 5));
    assert_true(qn_page_start(page, 2, 5));
    assert_false(qn_page_take(page, 2, 5));
    assert_true(qn_page_is_started(page, 2, 5));
    qn_page_queue(page, 2, 6);
    assert_true(qn_page_take(page, 2, 6));
    assert_false(qn_page_start(page, 2, 6));
    assert_false(qn_page_is_started(page, 2, 6));
    qn_page_free(page);
    (void)close(fd);
}

static void a_reader_needs_no_more_memory_than_has_arrived(void **state)
{
    (void)state;
    struct qn_frame_reader reader;
    struct qn_frame_header header = {.size = 100 << 20, .kind = 9};
    struct qn_room body;
    qn_frame_reader_init(&reader, UINT32_MAX);
    struct qn_room room = qn_frame_reader_room(&reader);
    memcpy(room.data, &header, sizeof header);
    qn_frame_reader_add(&reader, sizeof header);
    assert_int_equal(qn_frame_reader_next(&reader, &header, &body), QN_FRAME_NONE);
    (void)qn_frame_reader_room(&reader);
    assert_true(reader.capacity <= 65536);
    reader.size_max = header.size - 1;
    assert_int_equal(qn_frame_reader_next(&reader, &header, &body), QN_FRAME_TOO_LARGE);
    qn_frame_reader_finish(&reader);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_page_cannot_be_resized),
    cmocka_unit_test(an_item_is_started_or_taken_back_never_both),
    cmocka_unit_test(a_reader_needs_no_more_memory_than_has_arrived),
    cmocka_unit_test(each_broken_rule_costs_one_item),
    cmocka_unit_test(a_second_result_is_no_result_of_the_next_item),
    cmocka_unit_test(a_refused_result_is_a_death),
    cmocka_unit_test(a_silent_child_is_killed_with_its_item),
};
TEST_MAIN(tests)
