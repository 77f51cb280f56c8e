/* SPDX-License-Identifier: MIT */
/* zygote_main.c - forks a guard for each request, and passes on what the guards report.
 *
 * Requests, guards and the worker are in one epoll. The zygote is in a session of its own and
 * blocks all signals: what the terminal sends to the worker does not reach it, and a SIGTERM to all
 * processes of a service leaves it to the worker to end. SIGCHLD comes by a signalfd.
 *
 * A record exists from the request to its last packet. When the worker does not read, packets stay
 * in their records (each has room for both of its own), and requests are read all the same: so a
 * worker that sends before it reads does not block for ever.
 *
 * Guards do the killing. At the end each gets QN_ZYGOTE_GUARD_END, and we wait for them; killed by
 * SIGKILL, the zygote leaves it to the kernel to signal them. A guard that was killed itself took
 * its process along: that one is ours then, as we are a subreaper, and the group is killed here.
 *
 * Processes that the program had started before it began to serve, as a shared object may while it
 * is loaded, live as long as the zygote, which kills them at its end; where it is killed itself,
 * its warden does, if it has one. */
#include "pool/prefork/zygote_main.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory/alloc.h"
#include "base/memory/list.h"
#include "pool/prefork/crash.h"
#include "pool/prefork/warden/orphans.h"
#include "pool/prefork/warden/warden.h"
#include "pool/prefork/zygote_guard.h"
#include "pool/prefork/zygote_wire.h"

enum { EVENTS_MAX = 64, RETRY_MS = 5, END_MS = 5000, EXIT_BROKEN = 1 };

struct record {
    struct qn_list node;
    pid_t guard;   /* 0: reaped */
    int socket_fd; /* to the guard; -1: closed */
    int pid_fd;    /* until STARTED is sent; -1: none */
    uint64_t number;
    pid_t pid;    /* 0: not started */
    bool is_over; /* its last packet is known */
    bool first_due, last_due;
    struct qn_zygote_packet first, last; /* STARTED; REFUSED or ENDED */
};

struct zygote {
    const struct qn_zygote_program *program;
    int socket_fd;
    int worker_fd;
    int warden_fd; /* 0: it has none */
    int signal_fd;
    int epoll_fd;
    pid_t self;
    struct qn_list records;
    pid_t other_pid; /* of the zygote of commands, if it was forked here and lives */
    bool had_commands;
    bool is_blocked; /* the worker does not read: packets are due */
    bool must_end;
};

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

/* False: it must be tried again. */
static bool send_packet(struct zygote *zygote, const struct qn_zygote_packet *packet, int fd)
{
    struct qn_zygote_fds fds = {.items = {fd}, .count = fd >= 0 ? 1 : 0};
    struct qn_bytes bytes = {.data = packet, .size = sizeof *packet};
    int error_number = qn_zygote_wire_send(zygote->socket_fd, bytes, &fds);
    if (error_number == EAGAIN || error_number == ENOBUFS || error_number == ENOMEM) {
        zygote->is_blocked = true;
        return false;
    }
    zygote->must_end = zygote->must_end || error_number != 0;
    return true;
}

/* A fork that has not closed its copy yet would keep a closed socket in the epoll. */
static void close_guard(struct zygote *zygote, struct record *record)
{
    if (record->socket_fd >= 0) {
        (void)epoll_ctl(zygote->epoll_fd, EPOLL_CTL_DEL, record->socket_fd, NULL);
        close_fd(&record->socket_fd);
    }
}

static void forget(struct zygote *zygote, struct record *record)
{
    qn_list_remove(&record->node);
    close_guard(zygote, record);
    close_fd(&record->pid_fd);
    qn_free(record);
}

/* Sends what is due of it, and frees it after its end. */
static void flush(struct zygote *zygote, struct record *record)
{
    if (record->first_due && !zygote->is_blocked &&
        send_packet(zygote, &record->first, record->pid_fd)) {
        record->first_due = false;
        close_fd(&record->pid_fd);
    }
    if (record->last_due && !record->first_due && !zygote->is_blocked &&
        send_packet(zygote, &record->last, -1)) {
        record->last_due = false;
    }
    if (record->is_over && !record->last_due && record->guard == 0) {
        forget(zygote, record);
    }
}

static void flush_all(struct zygote *zygote)
{
    struct qn_list *next = NULL;
    zygote->is_blocked = false;
    for (struct qn_list *node = zygote->records.next; node != &zygote->records; node = next) {
        next = node->next;
        flush(zygote, QN_CONTAINER_OF(node, struct record, node));
    }
}

static void end_record(struct record *record, const struct qn_zygote_packet *packet)
{
    record->is_over = true;
    record->last_due = true;
    record->last = *packet;
    record->last.number = record->number;
}

static void take_packet(struct record *record, const struct qn_zygote_packet *packet, int fd)
{
    if (packet->kind == QN_ZYGOTE_STARTED && record->pid == 0) {
        record->pid = packet->pid;
        record->pid_fd = fd;
        record->first = *packet;
        record->first.number = record->number;
        record->first_due = true;
        return;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (packet->kind != QN_ZYGOTE_STARTED && !record->is_over) {
        end_record(record, packet);
    }
}

/* Reads all that its guard has sent. One that cannot report has to end. */
static void read_guard(struct zygote *zygote, struct record *record)
{
    while (record->socket_fd >= 0) {
        struct qn_zygote_packet packet;
        struct qn_zygote_fds fds = {.count = 0};
        ssize_t size = qn_zygote_wire_receive(record->socket_fd, QN_ROOM_OF(packet), &fds);
        if (size == -EAGAIN) {
            return;
        }
        if (size <= 0 || !qn_zygote_wire_is_packet(&packet, (size_t)size, fds.count)) {
            qn_zygote_wire_close(&fds);
            close_guard(zygote, record);
            if (size != 0 && record->guard > 0) {
                (void)kill(record->guard, QN_ZYGOTE_GUARD_END);
            }
            return;
        }
        take_packet(record, &packet, fds.count > 0 ? fds.items[0] : -1);
    }
}

/* The guard is reaped: what it did not report is reported by us. */
static void end_guard(struct zygote *zygote, struct record *record)
{
    siginfo_t info = {0};
    read_guard(zygote, record);
    close_guard(zygote, record);
    record->guard = 0;
    if (record->is_over) {
        flush(zygote, record);
        return;
    }
    if (record->pid == 0) {
        end_record(record,
                   &(struct qn_zygote_packet){.kind = QN_ZYGOTE_REFUSED, .error_number = ECHILD});
    } else if (waitid(P_PID, (id_t)record->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
        (void)kill(-record->pid, SIGKILL); /* ours now, and dying; its end follows */
        (void)kill(record->pid, SIGKILL);
    } else {
        end_record(record, &(struct qn_zygote_packet){
                               .kind = QN_ZYGOTE_ENDED, .pid = record->pid, .status = SIGKILL});
    }
    flush(zygote, record);
}

static struct record *find(struct zygote *zygote, pid_t pid, bool *ret_is_guard)
{
    for (struct qn_list *node = zygote->records.next; node != &zygote->records; node = node->next) {
        struct record *record = QN_CONTAINER_OF(node, struct record, node);
        if (record->guard == pid || (record->guard == 0 && record->pid == pid)) {
            *ret_is_guard = record->guard == pid;
            return record;
        }
    }
    return NULL;
}

static void reap(struct zygote *zygote)
{
    struct signalfd_siginfo signals[8];
    (void)!read(zygote->signal_fd, signals, sizeof signals);
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
            return;
        }
        bool is_guard = false;
        struct record *record = find(zygote, info.si_pid, &is_guard);
        struct qn_zygote_packet packet = {.kind = QN_ZYGOTE_ENDED, .pid = info.si_pid};
        if (record != NULL && !is_guard) {
            (void)kill(-info.si_pid, SIGKILL);
        }
        (void)wait4(info.si_pid, &packet.status, 0, &packet.usage);
        zygote->other_pid = info.si_pid == zygote->other_pid ? 0 : zygote->other_pid;
        if (record != NULL && is_guard) {
            end_guard(zygote, record);
        } else if (record != NULL && !record->is_over) {
            end_record(record, &packet);
            flush(zygote, record);
        }
    }
}

/* Forks the guard; 0 or an errno. */
static int start_guard(struct zygote *zygote, struct record *record,
                       const struct qn_zygote_start *start)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        return errno;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = record};
    if (epoll_ctl(zygote->epoll_fd, EPOLL_CTL_ADD, fds[0], &event) != 0) {
        int error_number = errno;
        (void)close(fds[0]);
        (void)close(fds[1]);
        return error_number;
    }
    record->socket_fd = fds[0];
    record->guard = fork();
    if (record->guard == 0) {
        qn_zygote_guard_run(start, fds[1], zygote->self);
    }
    int error_number = record->guard < 0 ? errno : 0;
    record->guard = record->guard < 0 ? 0 : record->guard;
    (void)close(fds[1]);
    return error_number;
}

/* What stays is there on purpose. */
static void announce_leaving(const struct zygote *zygote)
{
    const char word = QN_WARDEN_LEAVE;
    if (zygote->warden_fd > 0) {
        (void)!send(zygote->warden_fd, &word, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

static void start(struct zygote *zygote, struct qn_zygote_start *start, int error_number)
{
    struct record *record = qn_alloc_zero(1, sizeof *record);
    struct qn_zygote_packet refusal = {
        .kind = QN_ZYGOTE_REFUSED, .number = start->request.number, .error_number = ENOMEM};
    if (record == NULL) {
        /* With no room for the answer either the worker would wait for ever. */
        zygote->must_end = !send_packet(zygote, &refusal, -1) || zygote->must_end;
        return;
    }
    record->number = start->request.number;
    if (start->request.kind == QN_ZYGOTE_START_COMMAND && !zygote->had_commands) {
        zygote->had_commands = true;
        announce_leaving(zygote);
    }
    record->socket_fd = record->pid_fd = -1;
    qn_list_append(&zygote->records, &record->node);
    if (error_number == 0) {
        error_number = start_guard(zygote, record, start);
    }
    if (error_number != 0) {
        close_guard(zygote, record);
        refusal.error_number = error_number;
        end_record(record, &refusal);
        flush(zygote, record);
    }
}

/* No record: the other zygote reports to the worker, and ends with it, by itself. That is asked for
 * before anything else, so there is room for the answer. */
static void fork_another(struct zygote *zygote, const struct qn_zygote_start *start)
{
    int socket_fd = qn_zygote_wire_fd(&start->request, &start->fds, QN_ZYGOTE_SOCKET);
    struct qn_zygote_packet packet = {.kind = QN_ZYGOTE_STARTED, .number = start->request.number};
    announce_leaving(zygote);
    packet.pid = fork();
    if (packet.pid == 0) {
        struct qn_zygote_program program = *zygote->program;
        program.warden_fd = 0;
        _exit(qn_zygote_main(&program, socket_fd, zygote->worker_fd));
    }
    zygote->other_pid = packet.pid;
    int pid_fd = packet.pid > 0 ? pidfd_open(packet.pid, 0) : -1;
    if (pid_fd < 0) {
        packet.kind = QN_ZYGOTE_REFUSED;
        packet.error_number = errno;
        packet.pid = 0;
    }
    zygote->must_end = !send_packet(zygote, &packet, pid_fd) || zygote->must_end;
    close_fd(&pid_fd);
}

static void read_requests(struct zygote *zygote)
{
    while (!zygote->must_end) {
        struct qn_zygote_start request = {.program = zygote->program};
        ssize_t size =
            qn_zygote_wire_receive(zygote->socket_fd, QN_ROOM_OF(request.request), &request.fds);
        if (size == -EAGAIN) {
            return;
        }
        if (size == -EMFILE) {
            start(zygote, &request, EMFILE);
        } else if (size > 0 &&
                   qn_zygote_wire_is_request(&request.request, (size_t)size, request.fds.count)) {
            if (request.request.kind == QN_ZYGOTE_FORK_ANOTHER) {
                fork_another(zygote, &request);
            } else {
                start(zygote, &request, 0);
            }
        } else {
            zygote->must_end = true; /* the worker is gone, or is none of ours */
        }
        qn_zygote_wire_close(&request.fds);
    }
}

/* Everything dies; bounded, as a process may be stuck in the kernel. */
static void end_all(struct zygote *zygote)
{
    int64_t until_ns = qn_clock_mono_ns() + END_MS * QN_NS_PER_MS;
    for (struct qn_list *node = zygote->records.next; node != &zygote->records; node = node->next) {
        struct record *record = QN_CONTAINER_OF(node, struct record, node);
        if (record->guard > 0) {
            (void)kill(record->guard, QN_ZYGOTE_GUARD_END);
        }
    }
    zygote->is_blocked = true; /* the worker gets no more */
    while (!qn_list_empty(&zygote->records) && qn_clock_mono_ns() < until_ns) {
        struct pollfd ended = {.fd = zygote->signal_fd, .events = POLLIN};
        bool has_guards = false;
        (void)poll(&ended, 1, 100);
        reap(zygote);
        for (struct qn_list *node = zygote->records.next; node != &zygote->records;
             node = node->next) {
            struct record *record = QN_CONTAINER_OF(node, struct record, node);
            has_guards = has_guards || record->guard > 0 || !record->is_over;
        }
        if (!has_guards) {
            break;
        }
    }
    while (!qn_list_empty(&zygote->records)) { /* of packets that were not sent */
        forget(zygote, QN_CONTAINER_OF(zygote->records.next, struct record, node));
    }
}

/* Guards have ended, so a child is what the program had started before it served, or what lost its
 * parent. */
static bool kill_stray(pid_t pid, void *user)
{
    const struct zygote *zygote = user;
    return pid != zygote->other_pid && kill(pid, SIGKILL) == 0;
}

/* Their own children are ours then. Commands may leave something behind, so a zygote that has
 * started one leaves all of it alone. */
static void kill_strays(struct zygote *zygote)
{
    int64_t until_ns = qn_clock_mono_ns() + END_MS * QN_NS_PER_MS;
    while (!zygote->had_commands && qn_orphans_visit(kill_stray, zygote) > 0 &&
           qn_clock_mono_ns() < until_ns) {
        struct pollfd ended = {.fd = zygote->signal_fd, .events = POLLIN};
        (void)poll(&ended, 1, 100);
        reap(zygote);
    }
}

static void handle(struct zygote *zygote, const struct epoll_event *event)
{
    if (event->data.ptr == &zygote->socket_fd) {
        read_requests(zygote);
    } else if (event->data.ptr == &zygote->worker_fd || event->data.ptr == &zygote->warden_fd) {
        zygote->must_end = true; /* it has ended */
    } else if (event->data.ptr != &zygote->signal_fd) {
        struct record *record = event->data.ptr;
        read_guard(zygote, record);
        flush(zygote, record);
    }
}

/* Children are reaped after all events of one look: only that frees records. */
static void serve(struct zygote *zygote)
{
    while (!zygote->must_end) {
        struct epoll_event events[EVENTS_MAX];
        int count =
            epoll_wait(zygote->epoll_fd, events, EVENTS_MAX, zygote->is_blocked ? RETRY_MS : -1);
        if (zygote->is_blocked) {
            flush_all(zygote);
        }
        bool must_reap = false;
        for (int i = 0; i < count; i++) {
            must_reap = must_reap || events[i].data.ptr == &zygote->signal_fd;
            handle(zygote, &events[i]);
        }
        if (must_reap) {
            reap(zygote);
        }
    }
}

static bool watch(struct zygote *zygote, int *fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = fd};
    return *fd >= 0 && epoll_ctl(zygote->epoll_fd, EPOLL_CTL_ADD, *fd, &event) == 0;
}

/* A missing one would be the number of the next descriptor that is opened. */
static void open_standard_fds(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO) {
        (void)fcntl(fd, F_SETFD, 0);
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

int qn_zygote_main(const struct qn_zygote_program *program, int socket_fd, int worker_fd)
{
    struct zygote zygote = {.program = program,
                            .socket_fd = socket_fd,
                            .worker_fd = worker_fd,
                            .warden_fd = program->warden_fd,
                            .self = getpid()};
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    (void)setsid();
    (void)prctl(PR_SET_NAME, "quern-zygote", 0, 0, 0);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    (void)prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
    qn_zygote_setup_signals();
    open_standard_fds();
    if (program->run_child != NULL) {
        qn_crash_prepare();
    }
    int kept[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO,
                  socket_fd,    worker_fd,     program->warden_fd};
    qn_zygote_setup_close_but(kept, sizeof kept / sizeof *kept);
    qn_list_init(&zygote.records);
    zygote.signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    zygote.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (zygote.epoll_fd < 0 || !watch(&zygote, &zygote.socket_fd) ||
        !watch(&zygote, &zygote.worker_fd) || !watch(&zygote, &zygote.signal_fd) ||
        (zygote.warden_fd > 0 && !watch(&zygote, &zygote.warden_fd))) {
        return EXIT_BROKEN;
    }
    serve(&zygote);
    end_all(&zygote);
    kill_strays(&zygote);
    return 0;
}
