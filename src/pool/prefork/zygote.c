/* SPDX-License-Identifier: MIT */
/* zygote.c - starts a zygote, sends requests to it and reads its events.
 *
 * A request is one packet, so threads need no lock to send. Sending waits only while the socket is
 * full, which ends as soon as the zygote runs: it reads requests even when we read no events. That
 * the zygote is gone shows by its pidfd as well as by its socket, since a fork of the program could
 * hold a copy of the other end. */
#include "pool/prefork/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "pool/prefork/zygote_guard.h"
#include "pool/prefork/zygote_internal.h"
#include "pool/prefork/zygote_main.h"
#include "pool/prefork/zygote_wire.h"

/* How long a full socket is waited for, and the end of a zygote that is freed. */
enum {
    SEND_MS = 2000,
    END_MS = 8000,
    KILL_MS = 2000,
    ANOTHER_MS = 10000,
    SEND_BUFFER_SIZE = 1 << 20
};

/* ThreadSanitizer has a thread of its own, from the first other one on. */
#if defined(__SANITIZE_THREAD__)
enum { THREADS_MAX = 2 };
#else
enum { THREADS_MAX = 1 };
#endif

struct qn_zygote {
    int socket_fd;
    int pid_fd;
    int epoll_fd; /* of both */
    pid_t pid;
    bool is_gone;
    struct qn_room hello; /* of a served one */
};

static void close_fd(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* The number of links of the directory: two, and one for each thread. */
quern_status qn_zygote_check_threads(quern_error *err)
{
    struct stat tasks;
    if (stat("/proc/self/task", &tasks) != 0) {
        return qn_error_set(err, QUERN_E_UNSUPPORTED, "cannot count threads: /proc/self/task: %s",
                            strerror(errno));
    }
    if (tasks.st_nlink > THREADS_MAX + 2) {
        return qn_error_set(err, QUERN_E_THREADS,
                            "this process has %ju threads: start the zygote before them",
                            (uintmax_t)tasks.st_nlink - 2);
    }
    return QUERN_OK;
}

static bool watch(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void kill_and_reap(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
}

quern_status qn_zygote_adopt(const struct qn_zygote_process *take_process,
                             struct qn_zygote **ret_zygote, quern_error *err)
{
    quern_status status = QUERN_OK;
    const int size = SEND_BUFFER_SIZE;
    int socket_fd = take_process->socket_fd;
    int pid_fd = take_process->pid_fd > 0 ? take_process->pid_fd : pidfd_open(take_process->pid, 0);
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct qn_zygote *zygote = qn_alloc_zero(1, sizeof *zygote);
    if (zygote == NULL) {
        status = qn_error_nomem(err);
        goto fail;
    }
    (void)setsockopt(socket_fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    if (pid_fd < 0 || epoll_fd < 0 || !watch(epoll_fd, socket_fd) || !watch(epoll_fd, pid_fd)) {
        status = qn_error_set(err, QUERN_E_FULL, "cannot watch the zygote: %s", strerror(errno));
        goto fail;
    }
    *zygote = (struct qn_zygote){.socket_fd = socket_fd,
                                 .pid = take_process->pid,
                                 .pid_fd = pid_fd,
                                 .epoll_fd = epoll_fd,
                                 .hello = take_process->hello};
    *ret_zygote = zygote;
    return QUERN_OK;

fail:
    kill_and_reap(take_process->pid);
    qn_free(take_process->hello.data);
    close_fd(socket_fd);
    close_fd(pid_fd);
    close_fd(epoll_fd);
    qn_free(zygote);
    return status;
}

/* Signals are blocked across the fork, so that no handler of the program runs in the zygote. */
static pid_t fork_zygote(const struct qn_zygote_program *program, int socket_fd, int worker_fd)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    (void)fflush(stdout); /* else each child had a copy of what is still in its buffer */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(qn_zygote_main(program, socket_fd, worker_fd));
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}

quern_status qn_zygote_fork(const struct qn_zygote_program *program, struct qn_zygote **ret_zygote,
                            quern_error *err)
{
    quern_status status = qn_zygote_check_threads(err);
    if (status != QUERN_OK) {
        return status;
    }
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        return qn_error_set(err, QUERN_E_FULL, "no socket for the zygote: %s", strerror(errno));
    }
    int worker_fd = pidfd_open(getpid(), 0);
    pid_t pid = worker_fd < 0 ? -1 : fork_zygote(program, fds[1], worker_fd);
    if (pid < 0) {
        status = qn_error_set(err, QUERN_E_FULL, "no process for the zygote: %s", strerror(errno));
        close_fd(fds[0]);
    }
    close_fd(worker_fd);
    close_fd(fds[1]);
    struct qn_zygote_process process = {.socket_fd = fds[0], .pid = pid};
    return status == QUERN_OK ? qn_zygote_adopt(&process, ret_zygote, err) : status;
}

struct qn_bytes qn_zygote_hello(const struct qn_zygote *zygote)
{
    return (struct qn_bytes){.data = zygote->hello.data, .size = zygote->hello.size};
}

pid_t qn_zygote_pid(const struct qn_zygote *zygote)
{
    return zygote->pid;
}

int qn_zygote_socket(const struct qn_zygote *zygote)
{
    return zygote->socket_fd;
}

void qn_zygote_forget(struct qn_zygote *take_zygote)
{
    close_fd(take_zygote->pid_fd);
    close_fd(take_zygote->epoll_fd);
    qn_free(take_zygote->hello.data);
    qn_free(take_zygote);
}

quern_status qn_zygote_take_over(int take_socket_fd, pid_t pid, struct qn_zygote **ret_zygote,
                                 quern_error *err)
{
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
        close_fd(take_socket_fd);
        return qn_error_set(err, QUERN_E_CORRUPT, "process %d is no child of the worker", (int)pid);
    }
    const struct qn_zygote_process process = {.socket_fd = take_socket_fd, .pid = pid};
    return qn_zygote_adopt(&process, ret_zygote, err);
}

static bool await(int fd, short what, int timeout_ms)
{
    struct pollfd ready = {.fd = fd, .events = what};
    int count = -1;
    do {
        count = poll(&ready, 1, timeout_ms);
    } while (count < 0 && errno == EINTR);
    return count > 0;
}

void qn_zygote_free(struct qn_zygote *zygote)
{
    if (zygote == NULL) {
        return;
    }
    (void)shutdown(zygote->socket_fd, SHUT_RDWR);              /* it kills all, then it ends */
    (void)pidfd_send_signal(zygote->pid_fd, SIGCONT, NULL, 0); /* it may have been stopped */
    if (!await(zygote->pid_fd, POLLIN, END_MS)) {
        /* A warden kills it and what it leaves; one without a warden blocks this signal. */
        (void)pidfd_send_signal(zygote->pid_fd, QN_ZYGOTE_GUARD_END, NULL, 0);
        (void)await(zygote->pid_fd, POLLIN, KILL_MS);
        (void)pidfd_send_signal(zygote->pid_fd, SIGKILL, NULL, 0);
    }
    siginfo_t info = {0};
    (void)waitid(P_PIDFD, (id_t)zygote->pid_fd, &info, WEXITED);
    close_fd(zygote->socket_fd);
    close_fd(zygote->pid_fd);
    close_fd(zygote->epoll_fd);
    qn_free(zygote->hello.data);
    qn_free(zygote);
}

/* Adds a descriptor of the request. -1: there is none. Slots come in ascending order. */
static void add_fd(struct qn_zygote_request *request, struct qn_zygote_fds *fds, unsigned slot,
                   int fd)
{
    if (fd >= 0) {
        request->slots |= 1U << slot;
        fds->items[fds->count++] = fd;
    }
}

static void set_limits(struct qn_zygote_request *request, const struct qn_zygote_limits *limits)
{
    request->address_space_bytes = limits->address_space_bytes;
    request->cpu_s = limits->cpu_s;
    request->no_new_privs = limits->no_new_privs ? 1 : 0;
}

static quern_status send_request(struct qn_zygote *zygote, const struct qn_zygote_request *request,
                                 const struct qn_zygote_fds *fds, quern_error *err)
{
    struct qn_bytes bytes = {.data = request, .size = sizeof *request};
    int64_t until_ns = 0;
    int error_number = qn_zygote_wire_send(zygote->socket_fd, bytes, fds);
    while (error_number == EAGAIN && (until_ns == 0 || qn_clock_mono_ns() < until_ns)) {
        if (until_ns == 0) {
            until_ns = qn_clock_mono_ns() + SEND_MS * QN_NS_PER_MS;
        }
        (void)await(zygote->socket_fd, POLLOUT, SEND_MS);
        (void)poll(NULL, 0, 1); /* too many descriptors on their way: no event says when it ends */
        error_number = qn_zygote_wire_send(zygote->socket_fd, bytes, fds);
    }
    switch (error_number) {
    case 0:
        return QUERN_OK;
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
        return qn_error_set(err, QUERN_E_CLOSED, "the zygote has ended");
    default:
        return qn_error_set(err, QUERN_E_FULL, "cannot send to the zygote: %s",
                            strerror(error_number));
    }
}

quern_status qn_zygote_start_child(struct qn_zygote *zygote, uint64_t number,
                                   const struct qn_zygote_ends *ends,
                                   const struct qn_zygote_limits *limits, quern_error *err)
{
    struct qn_zygote_request request = {.kind = QN_ZYGOTE_START_CHILD, .number = number};
    struct qn_zygote_fds fds = {.count = 0};
    set_limits(&request, limits);
    add_fd(&request, &fds, QN_ZYGOTE_SOCKET, ends->socket_fd);
    add_fd(&request, &fds, QN_ZYGOTE_PAGE, ends->page_fd);
    add_fd(&request, &fds, QN_ZYGOTE_STDERR, ends->stderr_fd);
    add_fd(&request, &fds, QN_ZYGOTE_CGROUP, limits->cgroup_fd > 0 ? limits->cgroup_fd : -1);
    return send_request(zygote, &request, &fds, err);
}

/* The first event of a zygote that was asked for one thing only. */
static quern_status await_another(struct qn_zygote *zygote, struct qn_zygote_event *ret_event,
                                  quern_error *err)
{
    int64_t until_ns = qn_clock_mono_ns() + ANOTHER_MS * QN_NS_PER_MS;
    while (!qn_zygote_next_event(zygote, ret_event)) {
        int64_t left_ns = until_ns - qn_clock_mono_ns();
        if (zygote->is_gone || left_ns <= 0) {
            return qn_error_set(err, zygote->is_gone ? QUERN_E_CLOSED : QUERN_E_TIMEOUT,
                                "the zygote did not fork one for commands");
        }
        (void)await(zygote->epoll_fd, POLLIN, (int)(left_ns / QN_NS_PER_MS) + 1);
    }
    switch (ret_event->kind) {
    case QN_ZYGOTE_STARTED:
        return ret_event->pid_fd >= 0
                   ? QUERN_OK
                   : qn_error_set(err, QUERN_E_FULL, "no descriptor for the zygote of commands");
    case QN_ZYGOTE_REFUSED:
        return qn_error_set(err, QUERN_E_FULL, "no process for the zygote of commands: %s",
                            strerror(ret_event->error_number));
    case QN_ZYGOTE_ENDED:
    case QN_ZYGOTE_GONE:
        break;
    }
    return qn_error_set(err, QUERN_E_CLOSED, "the zygote has ended");
}

quern_status qn_zygote_fork_another(struct qn_zygote *zygote, struct qn_zygote **ret_zygote,
                                    quern_error *err)
{
    struct qn_zygote_request request = {.kind = QN_ZYGOTE_FORK_ANOTHER};
    struct qn_zygote_fds fds = {.count = 0};
    struct qn_zygote_event event = {.pid_fd = -1};
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return qn_error_set(err, QUERN_E_FULL, "no socket for the zygote: %s", strerror(errno));
    }
    add_fd(&request, &fds, QN_ZYGOTE_SOCKET, ends[1]);
    quern_status status = send_request(zygote, &request, &fds, err);
    close_fd(ends[1]);
    status = status == QUERN_OK ? await_another(zygote, &event, err) : status;
    if (status != QUERN_OK) {
        close_fd(ends[0]); /* if there is one, it ends */
        return status;
    }
    const struct qn_zygote_process process = {
        .socket_fd = ends[0], .pid = event.pid, .pid_fd = event.pid_fd};
    return qn_zygote_adopt(&process, ret_zygote, err);
}

/* The command and its environment, each string with its NUL; NULL: out of memory. */
static char *join_strings(const struct qn_zygote_command *command,
                          struct qn_zygote_request *request)
{
    for (const char *text = command->command; text != NULL;
         text = command->environment[request->text_count++]) {
        request->text_size += strlen(text) + 1;
    }
    char *block = qn_alloc(request->text_size);
    char *next = block;
    const char *text = command->command;
    for (size_t i = 0; block != NULL && text != NULL; i++) {
        size_t size = strlen(text) + 1;
        memcpy(next, text, size);
        next += size;
        text = command->environment[i];
    }
    return block;
}

/* A file that the zygote maps; it can trust the size because of the seals. */
static quern_status store_text(const struct qn_zygote_command *command,
                               struct qn_zygote_request *request, int *ret_fd, quern_error *err)
{
    char *block = join_strings(command, request);
    if (block == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = QUERN_OK;
    size_t size = 0;
    int fd = memfd_create("quern-command", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    while (fd >= 0 && size < request->text_size) {
        ssize_t count = write(fd, block + size, request->text_size - size);
        if (count <= 0) {
            break;
        }
        size += (size_t)count;
    }
    if (fd < 0 || size < request->text_size ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
        status = qn_error_set(err, QUERN_E_FULL, "no room for a command: %s", strerror(errno));
        close_fd(fd);
    }
    qn_free(block);
    if (status == QUERN_OK) {
        *ret_fd = fd;
    }
    return status;
}

quern_status qn_zygote_start_command(struct qn_zygote *zygote, uint64_t number,
                                     const struct qn_zygote_command *command, quern_error *err)
{
    struct qn_zygote_request request = {.kind = QN_ZYGOTE_START_COMMAND, .number = number};
    struct qn_zygote_fds fds = {.count = 0};
    int text_fd = -1;
    quern_status status = store_text(command, &request, &text_fd, err);
    if (status != QUERN_OK) {
        return status;
    }
    set_limits(&request, &command->limits);
    for (unsigned i = 0; i < sizeof command->fds / sizeof *command->fds; i++) {
        add_fd(&request, &fds, QN_ZYGOTE_STDIO + i, command->fds[i]);
    }
    add_fd(&request, &fds, QN_ZYGOTE_CGROUP,
           command->limits.cgroup_fd > 0 ? command->limits.cgroup_fd : -1);
    add_fd(&request, &fds, QN_ZYGOTE_TEXT, text_fd);
    status = send_request(zygote, &request, &fds, err);
    close_fd(text_fd);
    return status;
}

void qn_zygote_kill(pid_t pid, int pid_fd, int signal_number)
{
    enum { TO_ITS_GROUP = 1 << 2 }; /* PIDFD_SIGNAL_PROCESS_GROUP, since Linux 6.9 */
    bool has_ended = pid_fd >= 0 && await(pid_fd, POLLIN, 0);
    if (pid <= 1 || has_ended) {
        return; /* its guard has killed its group */
    }
    if (pid_fd < 0 || pidfd_send_signal(pid_fd, signal_number, NULL, TO_ITS_GROUP) != 0) {
        (void)kill(-pid, signal_number);
    }
    if (pid_fd >= 0 && getpgid(pid) != pid) { /* it left its group */
        (void)pidfd_send_signal(pid_fd, signal_number, NULL, 0);
    }
}

int qn_zygote_fd(const struct qn_zygote *zygote)
{
    return zygote->epoll_fd;
}

/* Afterwards the descriptor stays silent. */
static void end(struct qn_zygote *zygote)
{
    zygote->is_gone = true;
    (void)epoll_ctl(zygote->epoll_fd, EPOLL_CTL_DEL, zygote->socket_fd, NULL);
    (void)epoll_ctl(zygote->epoll_fd, EPOLL_CTL_DEL, zygote->pid_fd, NULL);
}

void qn_zygote_refuse(struct qn_zygote *zygote)
{
    (void)shutdown(zygote->socket_fd, SHUT_RDWR); /* what breaks the rules has to end */
    end(zygote);
}

bool qn_zygote_next_event(struct qn_zygote *zygote, struct qn_zygote_event *ret_event)
{
    struct qn_zygote_packet packet = {.pid = 0}; /* one without its descriptors may be short */
    struct qn_zygote_fds fds = {.count = 0};
    if (zygote->is_gone) {
        return false;
    }
    bool has_ended = await(zygote->pid_fd, POLLIN, 0); /* before we look for its last packet */
    ssize_t size = qn_zygote_wire_receive(zygote->socket_fd, QN_ROOM_OF(packet), &fds);
    if (size == -EAGAIN && !has_ended) {
        return false;
    }
    bool is_without_fd = size == -EMFILE; /* we have no descriptor free: the rest is there */
    if (is_without_fd) {
        size = (ssize_t)sizeof packet;
    }
    if (size <= 0 ||
        !qn_zygote_wire_is_packet(&packet, (size_t)size, fds.count + (is_without_fd ? 1 : 0))) {
        bool is_broken = size > 0 || size == -EBADMSG;
        qn_zygote_wire_close(&fds);
        qn_zygote_refuse(zygote);
        *ret_event = (struct qn_zygote_event){
            .kind = QN_ZYGOTE_GONE, .pid_fd = -1, .error_number = is_broken ? EPROTO : 0};
        return true;
    }
    *ret_event = (struct qn_zygote_event){.kind = (enum qn_zygote_event_kind)packet.kind,
                                          .number = packet.number,
                                          .pid = packet.pid,
                                          .pid_fd = fds.count > 0 ? fds.items[0] : -1,
                                          .error_number = packet.error_number,
                                          .status = packet.status,
                                          .usage = packet.usage};
    return true;
}
