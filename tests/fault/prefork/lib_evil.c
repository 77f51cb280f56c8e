/* SPDX-License-Identifier: MIT */
/* lib_evil.c - see lib_evil.h. */
#include "lib_evil.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "pool/prefork/frame.h"
#include "pool/prefork/page.h"
#include "worker/prefork/wire.h"

enum { PAGE_SIZE = 4096, SLOT_STATE = 3, STARTED = 2, FRAME_LARGE = 32 << 20 };

/* The stream to the worker, which a handler should not know. */
static int find_socket(void)
{
    for (int fd = 3; fd < 64; fd++) {
        int domain = 0;
        int type = 0;
        socklen_t size = sizeof domain;
        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
            getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM) {
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
    (void)fclose(maps);
    return (uint64_t *)begin; /* NOLINT: an address in a text */
}

/* Of the run that is in it: the newest one that has started. */
static struct qn_frame_header own_header(uint16_t kind, uint32_t size)
{
    const uint64_t *words = find_page();
    struct qn_frame_header header = {.size = size, .kind = kind};
    for (int slot = 0; slot < QN_PAGE_SLOTS; slot++) {
        if ((words[slot] & SLOT_STATE) == STARTED && words[slot] >> 2 > header.sequence) {
            header.slot = (uint16_t)slot;
            header.sequence = words[slot] >> 2;
        }
    }
    return header;
}

static void send_bytes(const void *data, size_t size)
{
    size_t sent = 0;
    int fd = find_socket();
    while (sent < size) {
        ssize_t count = send(fd, (const char *)data + sent, size - sent, MSG_NOSIGNAL);
        if (count <= 0) {
            return;
        }
        sent += (size_t)count;
    }
}

static void send_frame(const struct qn_frame_header *header, struct qn_bytes body)
{
    send_bytes(header, sizeof *header);
    send_bytes(body.data, body.size);
}

/* What a child sends when its handler has returned. */
static void send_end(struct qn_frame_header header, int outcome)
{
    static struct quern_run run;
    struct qn_buf body;
    qn_buf_init(&body, UINT32_MAX);
    run = (struct quern_run){.outcome = outcome, .again_in_ms = -1, .again_at_ms = -1};
    header.kind = QN_FRAME_RESULT;
    if (qn_wire_put_end(&body, &run)) {
        header.size = (uint32_t)body.size;
        send_frame(&header, (struct qn_bytes){body.data, body.size});
    }
    qn_buf_finish(&body);
}

static void stay(void)
{
    for (;;) {
        (void)poll(NULL, 0, -1);
    }
}

/* --- Frames ------------------------------------------------------------------------------- */

static void send_garbage(void)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n";
    send_bytes(text, sizeof text - 1);
    stay();
}

static void send_huge(void)
{
    struct qn_frame_header header = own_header(QN_FRAME_RESULT, UINT32_MAX);
    send_bytes(&header, sizeof header);
    stay();
}

static void send_negative(void)
{
    struct qn_frame_header header = own_header(QN_FRAME_RESULT, (uint32_t)INT32_MIN);
    send_bytes(&header, sizeof header);
    stay();
}

static void send_empty(void)
{
    struct qn_frame_header header = own_header(QN_FRAME_RESULT, 0);
    send_bytes(&header, sizeof header);
    stay();
}

static void send_nothing_but_zeros(void)
{
    static const struct qn_frame_header header;
    send_bytes(&header, sizeof header);
    stay();
}

static void send_half(void)
{
    struct qn_frame_header header = own_header(QN_FRAME_RESULT, 100000);
    send_frame(&header, (struct qn_bytes){&header, sizeof header});
    stay();
}

static void leave_in_the_middle(void)
{
    struct qn_frame_header header = own_header(QN_FRAME_RESULT, 100000);
    send_frame(&header, (struct qn_bytes){&header, sizeof header});
    _exit(0);
}

static void leave_in_a_header(void)
{
    struct qn_frame_header header = own_header(QN_FRAME_RESULT, 8);
    send_bytes(&header, sizeof header / 2);
    _exit(7);
}

/* As large as a frame may be. */
static void send_large_and_half(void)
{
    static const char zeros[65536];
    struct qn_frame_header header = own_header(QN_WIRE_RESULT, FRAME_LARGE);
    send_bytes(&header, sizeof header);
    for (size_t sent = 0; sent < FRAME_LARGE / 2; sent += sizeof zeros) {
        send_bytes(zeros, sizeof zeros);
    }
    stay();
}

static void flood(void)
{
    static const char zeros[65536];
    for (;;) {
        send_bytes(zeros, sizeof zeros);
    }
}

/* Each of them is as it should be. */
static void flood_with_progress(void)
{
    struct qn_buf body;
    qn_buf_init(&body, UINT32_MAX);
    TEST_REQUIRE(qn_wire_put_progress(&body, 50, "half"));
    struct qn_frame_header header = own_header(QN_WIRE_PROGRESS, (uint32_t)body.size);
    for (;;) {
        send_frame(&header, (struct qn_bytes){body.data, body.size});
    }
}

static void flood_stderr(void)
{
    static char lines[4096];
    memset(lines, 'x', sizeof lines);
    for (;;) {
        (void)!write(STDERR_FILENO, lines, sizeof lines);
    }
}

static void ready_again(void)
{
    struct qn_frame_header header = own_header(QN_FRAME_READY, 0);
    send_bytes(&header, sizeof header);
    stay();
}

static void send_of_the_worker(void)
{
    struct qn_frame_header header = own_header(QN_FRAME_ITEM, 0);
    send_bytes(&header, sizeof header);
    stay();
}

static void send_outcome_77(void)
{
    send_end(own_header(QN_FRAME_RESULT, 0), 77);
    stay();
}

/* --- Other runs --------------------------------------------------------------------------- */

static void answer_the_next(void)
{
    struct qn_frame_header header = own_header(QN_FRAME_RESULT, 0);
    header.slot = (uint16_t)((header.slot + 1) % QN_PAGE_SLOTS);
    header.sequence++;
    send_end(header, QUERN_DONE);
    stay();
}

/* Of those that run elsewhere, or have run. */
static void answer_all(void)
{
    struct qn_frame_header header = own_header(QN_FRAME_RESULT, 0);
    uint64_t own = header.sequence;
    for (uint64_t other = 1; other < own + 100; other++) {
        header.sequence = other == own ? 0 : other;
        send_end(header, QUERN_DONE);
    }
    stay();
}

static void answer_no_run(void)
{
    struct qn_frame_header header = own_header(QN_FRAME_RESULT, 0);
    header.slot = 777;
    header.sequence = UINT64_MAX;
    send_end(header, QUERN_DONE);
    stay();
}

/* The second one would be the result of the run that comes next. */
static void answer_twice(void)
{
    struct qn_frame_header header = own_header(QN_FRAME_RESULT, 0);
    send_end(header, QUERN_DONE);
    send_end(header, QUERN_DONE);
    stay();
}

/* All that wait in its window have started, it says, and are done. */
static void claim_its_window(void)
{
    uint64_t *words = find_page();
    struct qn_frame_header header = own_header(QN_FRAME_RESULT, 0);
    struct qn_frame_header others[QN_PAGE_SLOTS];
    size_t count = 0;
    for (int slot = 0; slot < QN_PAGE_SLOTS; slot++) {
        if (slot != header.slot && words[slot] != 0) {
            words[slot] = (words[slot] & ~(uint64_t)SLOT_STATE) | STARTED;
            others[count++] =
                (struct qn_frame_header){.slot = (uint16_t)slot, .sequence = words[slot] >> 2};
        }
    }
    for (size_t i = 0; i < count; i++) {
        send_end(others[i], QUERN_DONE);
    }
    if (count == 0) {
        answer_no_run();
    }
    stay();
}

/* --- The page ----------------------------------------------------------------------------- */

static void scribble(void)
{
    memset(find_page(), 0xff, PAGE_SIZE);
    (void)raise(SIGKILL);
}

static void scribble_and_answer(void)
{
    struct qn_frame_header header = own_header(QN_FRAME_RESULT, 0);
    uint64_t *page = find_page();
    for (size_t i = 0; i < PAGE_SIZE / sizeof *page; i++) {
        page[i] = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15);
    }
    send_end(header, QUERN_DONE);
    stay();
}

/* For ever: a reader must not look twice at what it has checked. */
static void scribble_and_die(void)
{
    volatile uint64_t *page = find_page();
    pid_t self = getpid();
    if (fork() == 0) {
        test_pause_ms(20);
        (void)kill(self, SIGKILL);
        _exit(0);
    }
    for (uint64_t word = 1;; word = word * 5 + 1) {
        for (size_t i = 0; i < PAGE_SIZE / sizeof *page; i++) {
            page[i] = word + i;
        }
    }
}

/* --- Descriptors, silence ----------------------------------------------------------------- */

static void send_descriptors(void)
{
    enum { COUNT = 200 };
    int fds[COUNT];
    struct qn_buf body;
    char control[CMSG_SPACE(sizeof fds)];
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < COUNT; i++) {
        fds[i] = null_fd;
    }
    qn_buf_init(&body, UINT32_MAX);
    struct qn_frame_header header = own_header(QN_WIRE_PROGRESS, 0);
    if (!qn_wire_put_progress(&body, 50, "half")) {
        _exit(92);
    }
    header.size = (uint32_t)body.size;
    struct iovec parts[] = {{&header, sizeof header}, {body.data, body.size}};
    memset(control, 0, sizeof control);
    struct msghdr message = {.msg_iov = parts,
                             .msg_iovlen = 2,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *first = CMSG_FIRSTHDR(&message);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(first), fds, sizeof fds);
    for (int i = 0; i < 20; i++) {
        (void)sendmsg(find_socket(), &message, MSG_NOSIGNAL);
    }
    _exit(3);
}

static void close_socket(void)
{
    (void)close(find_socket());
    stay();
}

static void be_silent(void)
{
    (void)shutdown(find_socket(), SHUT_WR);
    (void)signal(SIGTERM, SIG_IGN);
    stay();
}

static void stop(void)
{
    (void)raise(SIGSTOP);
    stay();
}

#define NOT_ITS_OWN "it sent a frame for an item that it does not have"
#define NOT_STARTED "it sent a frame for an item that it has not started"
#define TOO_LARGE "it sent a frame that is too large"
#define BAD_RESULT "it sent a result that breaks the rules"
#define TIMED_OUT "timeout of 300ms"
#define LEFT "it has left its socket and did not end"

const struct evil_way evil_ways[] = {
    {"garbage", EVIL_CHARGED, TOO_LARGE},
    {"huge", EVIL_CHARGED, TOO_LARGE},
    {"negative", EVIL_CHARGED, TOO_LARGE},
    {"empty", EVIL_CHARGED, BAD_RESULT},
    {"zeros", EVIL_CHARGED, NOT_ITS_OWN},
    {"half", EVIL_TIMEOUT, TIMED_OUT, .is_slow = true},
    {"leave-in-frame", EVIL_CHARGED, "exit status 0"},
    {"leave-in-header", EVIL_CHARGED, "exit status 7"},
    {"large-half", EVIL_TIMEOUT, TIMED_OUT, .is_slow = true},
    {"flood", EVIL_CHARGED, NOT_ITS_OWN},
    {"flood-progress", EVIL_TIMEOUT, TIMED_OUT, .is_slow = true},
    {"flood-stderr", EVIL_TIMEOUT, TIMED_OUT, .is_slow = true},
    {"ready", EVIL_CHARGED, "it sent a frame that breaks the rules"},
    {"item", EVIL_CHARGED, "it sent a frame of an unknown kind"},
    {"outcome", EVIL_CHARGED, BAD_RESULT},
    {"next", EVIL_CHARGED, NOT_ITS_OWN},
    {"all", EVIL_CHARGED, NOT_ITS_OWN},
    {"none", EVIL_CHARGED, NOT_ITS_OWN},
    {"twice", EVIL_DONE, NULL},
    {"window", EVIL_CHARGED, NOT_ITS_OWN},
    {"scribble", EVIL_CHARGED, "signal 9 (SIGKILL)"},
    {"scribble-answer", EVIL_CHARGED, NOT_STARTED},
    {"scribble-die", EVIL_CHARGED, "signal 9 (SIGKILL)"},
    {"descriptors", EVIL_CHARGED, "exit status 3"},
    {"close", EVIL_CHARGED, LEFT, .is_slow = true},
    {"silent", EVIL_CHARGED, LEFT, .is_slow = true},
    {"stop", EVIL_TIMEOUT, TIMED_OUT, .is_slow = true},
};
const size_t evil_way_count = TEST_COUNT(evil_ways);

static void (*const acts[])(void) = {send_garbage,
                                     send_huge,
                                     send_negative,
                                     send_empty,
                                     send_nothing_but_zeros,
                                     send_half,
                                     leave_in_the_middle,
                                     leave_in_a_header,
                                     send_large_and_half,
                                     flood,
                                     flood_with_progress,
                                     flood_stderr,
                                     ready_again,
                                     send_of_the_worker,
                                     send_outcome_77,
                                     answer_the_next,
                                     answer_all,
                                     answer_no_run,
                                     answer_twice,
                                     claim_its_window,
                                     scribble,
                                     scribble_and_answer,
                                     scribble_and_die,
                                     send_descriptors,
                                     close_socket,
                                     be_silent,
                                     stop};
_Static_assert(TEST_COUNT(acts) == TEST_COUNT(evil_ways), "one for each");

quern_outcome evil_handler(quern_run *run, const quern_task *task, void *user)
{
    struct rig *rig = user;
    if (quern_run_crash_count(run) > 0 ||
        (task->payload_size == 4 && memcmp(task->payload, "done", 4) == 0)) {
        return QUERN_DONE;
    }
    while (strcmp(task->type, EVIL_LATER) == 0 && !atomic_load(&rig->gate)) {
        test_pause_ms(1);
    }
    for (size_t i = 0; i < evil_way_count; i++) {
        if (strlen(evil_ways[i].name) == task->payload_size &&
            memcmp(evil_ways[i].name, task->payload, task->payload_size) == 0) {
            acts[i]();
        }
    }
    return quern_run_fail(run, QUERN_ARCHIVE, "no such way");
}
