/* SPDX-License-Identifier: MIT */
/* child.c - receives items, runs them, sends results.
 *
 * It blocks in recv until there is an item, starts it in the page, runs it, and sends its result
 * before it looks at the next one. It ends when the worker has closed its side, or is dead.
 *
 * The body of the item that runs stays where it was received. Should the item wait for an answer of
 * the worker, later bytes go to a second reader, in which answers and further items are told apart.
 *
 * SIGUSR1 says that the item may have been cancelled: the handler makes the cancel descriptor
 * readable, if the item has asked for one. The page has the truth, so a signal that comes early,
 * late or for another item does no harm. */
#include "pool/prefork/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/bug.h"
#include "base/memory/alloc.h"
#include "pool/prefork/crash.h"
#include "pool/prefork/frame.h"
#include "pool/prefork/page.h"

enum { EXIT_BROKEN = 70 };

struct qn_prefork_call {
    struct loop *loop;
    uint32_t slot;
    uint64_t sequence;
};

struct loop {
    int socket_fd;
    int statm_fd;
    pid_t zygote;
    struct qn_page *page;
    struct qn_prefork_code *code;
    struct qn_frame_reader readers[2];
    unsigned current;  /* the reader that receives */
    bool is_split;     /* the body that runs is in the other one */
    struct qn_buf out; /* a result */
};

/* A signal handler has no other way to its data. Only in children. */
static struct {
    _Atomic int fd; /* -1: not wanted */
    struct qn_page *page;
    _Atomic uint32_t slot;
    _Atomic uint64_t sequence; /* 0: no item runs */
} cancel = {.fd = -1};

static void mark_cancelled(void)
{
    const uint64_t one = 1;
    int fd = cancel.fd;
    uint64_t sequence = cancel.sequence;
    if (fd >= 0 && sequence != 0 && qn_page_cancelled(cancel.page, cancel.slot, sequence) != 0) {
        (void)!write(fd, &one, sizeof one);
    }
}

static void on_cancel(int number)
{
    (void)number;
    int saved = errno;
    mark_cancelled();
    errno = saved;
}

uint32_t qn_prefork_call_cancelled(const struct qn_prefork_call *call)
{
    return qn_page_cancelled(call->loop->page, call->slot, call->sequence);
}

int qn_prefork_call_cancel_fd(struct qn_prefork_call *call)
{
    (void)call;
    if (cancel.fd < 0) {
        int none = -1;
        int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (fd >= 0 && !atomic_compare_exchange_strong(&cancel.fd, &none, fd)) {
            (void)close(fd); /* another thread of the handler was faster */
        }
        mark_cancelled(); /* the signal may have come before there was a descriptor */
    }
    return cancel.fd;
}

/* Blocks until all is sent. */
static bool send_frame(struct loop *loop, const struct qn_frame_header *header, const void *body)
{
    union {
        const void *given;
        void *taken;
    } view = {.given = body}; /* sendmsg does not change it */
    struct qn_frame_header head = *header;
    struct iovec parts[2] = {{&head, sizeof head}, {view.taken, header->size}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = header->size > 0 ? 2 : 1};
    while (message.msg_iovlen > 0) {
        ssize_t count = sendmsg(loop->socket_fd, &message, MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            return false;
        }
        size_t left = (size_t)count;
        while (message.msg_iovlen > 0 && left >= message.msg_iov->iov_len) {
            left -= message.msg_iov->iov_len;
            message.msg_iov++;
            message.msg_iovlen--;
        }
        if (message.msg_iovlen > 0) {
            message.msg_iov->iov_base = (char *)message.msg_iov->iov_base + left;
            message.msg_iov->iov_len -= left;
        }
    }
    return true;
}

bool qn_prefork_call_send(struct qn_prefork_call *call, uint16_t kind, struct qn_bytes body)
{
    const struct qn_frame_header header = {.size = (uint32_t)body.size,
                                           .kind = kind,
                                           .slot = (uint16_t)call->slot,
                                           .sequence = call->sequence};
    return body.size <= UINT32_MAX && send_frame(call->loop, &header, body.data);
}

/* Waits in poll: one that waits in recv is woken whenever the worker reads what it has sent. */
static ssize_t receive(const struct loop *loop, struct qn_room room)
{
    struct pollfd readable = {.fd = loop->socket_fd, .events = POLLIN};
    for (;;) {
        ssize_t count = recv(loop->socket_fd, room.data, room.size, MSG_DONTWAIT);
        if (count >= 0 || (errno != EAGAIN && errno != EINTR)) {
            return count;
        }
        (void)poll(&readable, 1, -1);
    }
}

/* Reads what there is; waits while there is nothing. */
static bool receive_more(struct loop *loop, struct qn_frame_reader *reader)
{
    struct qn_room room = qn_frame_reader_room(reader);
    if (room.data == NULL) {
        return false;
    }
    ssize_t count = receive(loop, room);
    if (count <= 0 || getppid() != loop->zygote) {
        return false;
    }
    qn_frame_reader_add(reader, (size_t)count);
    return true;
}

/* Leaves the body that runs where it is: the rest of its reader goes to the other one. */
static bool split(struct loop *loop)
{
    struct qn_frame_reader *from = &loop->readers[loop->current];
    struct qn_frame_reader *to = &loop->readers[1 - loop->current];
    while (from->begin < from->end) {
        struct qn_room room = qn_frame_reader_room(to);
        if (room.data == NULL) {
            return false;
        }
        size_t left = from->end - from->begin;
        size_t size = left < room.size ? left : room.size;
        memcpy(room.data, from->data + from->begin, size);
        qn_frame_reader_add(to, size);
        from->begin += size;
    }
    loop->current = 1 - loop->current;
    loop->is_split = true;
    return true;
}

/* Takes the frame in [at, at + size) out of the middle of a reader. */
static void cut(struct qn_frame_reader *reader, size_t at, size_t size)
{
    memmove(reader->data + at, reader->data + at + size, reader->end - at - size);
    reader->end -= size;
}

/* Looks for an answer among the frames that have come; those of other items stay. False: there is
 * none yet. */
static bool find_answer(const struct qn_prefork_call *call, struct qn_frame_reader *reader,
                        uint16_t kind, struct qn_buf *out)
{
    struct qn_frame_header header;
    size_t at = reader->begin;
    while (reader->end - at >= sizeof header) {
        memcpy(&header, reader->data + at, sizeof header);
        size_t size = sizeof header + header.size;
        if (reader->end - at < size) {
            return false;
        }
        if (header.sequence == call->sequence && header.kind != QN_FRAME_ITEM) {
            bool found =
                header.kind == kind &&
                qn_buf_append(out, reader->data + at + sizeof header, header.size) == QUERN_OK;
            cut(reader, at, size);
            if (found) {
                return true;
            }
        } else {
            at += size;
        }
    }
    return false;
}

bool qn_prefork_call_receive(struct qn_prefork_call *call, uint16_t kind, struct qn_buf *out)
{
    struct loop *loop = call->loop;
    if (!loop->is_split && !split(loop)) {
        return false;
    }
    struct qn_frame_reader *reader = &loop->readers[loop->current];
    while (!find_answer(call, reader, kind, out)) {
        if (!receive_more(loop, reader)) {
            return false;
        }
    }
    return true;
}

/* The second of two steps: only soft limits, so that they can be lifted again. */
static void limit(int resource, uint64_t amount, struct rlimit *ret_before, bool *ret_set)
{
    struct rlimit wanted;
    if (amount == 0 || getrlimit((__rlimit_resource_t)resource, ret_before) != 0) {
        return;
    }
    wanted = *ret_before;
    if (amount < wanted.rlim_cur) {
        wanted.rlim_cur = amount;
    }
    *ret_set = setrlimit((__rlimit_resource_t)resource, &wanted) == 0;
}

static uint64_t used_cpu_ms(void)
{
    struct rusage usage = {0};
    (void)getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

static void run_limited(struct qn_prefork_call *call, const struct qn_frame_settings *settings,
                        struct qn_bytes body)
{
    struct loop *loop = call->loop;
    struct rlimit space;
    struct rlimit cpu;
    bool space_set = false;
    bool cpu_set = false;
    uint64_t used_ms = QN_BUG(CPU_OF_LIFE) ? 0 : used_cpu_ms();
    uint64_t cpu_s = settings->cpu_ms == 0 ? 0 : (used_ms + settings->cpu_ms + 999) / 1000;
    limit(RLIMIT_AS, settings->address_space_bytes, &space, &space_set);
    limit(RLIMIT_CPU, cpu_s, &cpu, &cpu_set);
    loop->code->run(call, body, &loop->out, loop->code->user);
    if (space_set && !QN_BUG(LIMITS_STAY)) {
        (void)setrlimit(RLIMIT_AS, &space);
    }
    if (cpu_set && !QN_BUG(LIMITS_STAY)) {
        (void)setrlimit(RLIMIT_CPU, &cpu);
    }
}

static bool is_large(const struct loop *loop, uint64_t rss_max)
{
    char text[128];
    unsigned long long resident = 0;
    if (rss_max == 0 || loop->statm_fd < 0) {
        return false;
    }
    ssize_t size = pread(loop->statm_fd, text, sizeof text - 1, 0);
    text[size > 0 ? size : 0] = '\0';
    return sscanf(text, "%*u %llu", &resident) == 1 &&
           (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE) > rss_max;
}

static void watch_cancel(const struct qn_prefork_call *call)
{
    cancel.slot = call->slot;
    cancel.sequence = call->sequence;
}

static void forget_cancel(void)
{
    uint64_t count;
    cancel.sequence = 0;
    if (cancel.fd >= 0) {
        (void)!read(cancel.fd, &count, sizeof count);
    }
}

static bool run_item(struct loop *loop, const struct qn_frame_header *header,
                     struct qn_room received)
{
    struct qn_prefork_call call = {loop, header->slot, header->sequence};
    struct qn_frame_settings settings;
    if (header->slot >= QN_PAGE_SLOTS || received.size < sizeof settings) {
        return false;
    }
    memcpy(&settings, received.data, sizeof settings);
    char *body = (char *)received.data + sizeof settings;
    size_t size = received.size - sizeof settings;
    if (!qn_page_start(loop->page, call.slot, call.sequence) && !QN_BUG(TAKEN_IS_RUN)) {
        return true; /* the worker took it back */
    }
    char behind = body[size];
    body[size] = '\0';
    qn_buf_reset(&loop->out);
    watch_cancel(&call);
    run_limited(&call, &settings, (struct qn_bytes){body, size});
    forget_cancel();
    body[size] = behind;
    bool is_last = is_large(loop, settings.rss_max);
    const struct qn_frame_header result = {.size = (uint32_t)loop->out.size,
                                           .kind = is_last ? QN_FRAME_RESULT_LAST : QN_FRAME_RESULT,
                                           .slot = (uint16_t)call.slot,
                                           .sequence = call.sequence};
    return send_frame(loop, &result, loop->out.data) && !is_last;
}

/* Runs what has come. False: the child ends: the worker is gone, or the child is too large. */
static bool run_received(struct loop *loop)
{
    struct qn_frame_header header;
    struct qn_room body;
    for (;;) {
        struct qn_frame_reader *reader = &loop->readers[loop->current];
        enum qn_frame_found found = qn_frame_reader_next(reader, &header, &body);
        if (found != QN_FRAME_FOUND) {
            return found == QN_FRAME_NONE;
        }
        /* Any other frame is an answer that its item did not wait for. */
        if (header.kind == QN_FRAME_ITEM && !run_item(loop, &header, body)) {
            return false;
        }
        if (loop->is_split) {
            qn_frame_reader_finish(reader);
            loop->is_split = false;
        }
    }
}

static void handle_cancel(struct loop *loop)
{
    struct sigaction action = {.sa_handler = on_cancel, .sa_flags = SA_RESTART};
    cancel.page = loop->page;
    cancel.sequence = 0;
    (void)sigaction(SIGUSR1, &action, NULL);
}

int qn_prefork_child_main(const struct qn_zygote_ends *ends, void *user)
{
    struct loop loop = {.socket_fd = ends->socket_fd,
                        .statm_fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC),
                        .zygote = getppid(),
                        .page = qn_page_map(ends->page_fd),
                        .code = user};
    static const struct qn_frame_header ready = {.kind = QN_FRAME_READY};
    if (loop.page == NULL) {
        return EXIT_BROKEN;
    }
    qn_frame_reader_init(&loop.readers[0], UINT32_MAX); /* the worker is trusted */
    qn_frame_reader_init(&loop.readers[1], UINT32_MAX);
    qn_buf_init(&loop.out, UINT32_MAX);
    handle_cancel(&loop);
    qn_crash_handle(loop.page);
    if (loop.code->start != NULL) {
        loop.code->start(loop.code->user);
    }
    bool alive = send_frame(&loop, &ready, NULL);
    while (alive && receive_more(&loop, &loop.readers[loop.current])) {
        alive = run_received(&loop);
    }
    qn_frame_reader_finish(&loop.readers[0]);
    qn_frame_reader_finish(&loop.readers[1]);
    qn_buf_finish(&loop.out);
    qn_page_free(loop.page);
    return 0;
}
