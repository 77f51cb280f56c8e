/* SPDX-License-Identifier: MIT */
/* zygote_guard.c - starts one process, waits for its end, and leaves nothing of it behind.
 *
 * The kernel sends the signal of a parent's death only to the one process that requested it, not to
 * what that one has started. So each child has a guard: it gets the signal when the zygote dies, by
 * whatever cause, and kills the child with its group. It is a subreaper: a process that left the
 * group, and lost its parent, becomes the guard's, who kills it, too, when the child has ended. A
 * command may leave a daemon behind if it has a session of its own: that is how a command says that
 * something must stay.
 *
 * It has a process group of its own, all signals blocked and but one descriptor, its socket to the
 * zygote. Killed itself, by SIGKILL, it takes the child along, and the zygote kills the group. */
#include "pool/prefork/zygote_guard.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bug.h"
#include "pool/prefork/warden/orphans.h"

enum { EXIT_LOST = 1 };

struct guard {
    int socket_fd;
    pid_t zygote;
    pid_t pid; /* what it guards; a group leader */
    bool is_command;
};

/* The zygote reads all the time, or it is gone. */
static void send_packet(const struct guard *guard, const struct qn_zygote_packet *packet, int fd)
{
    struct qn_zygote_fds fds = {.items = {fd}, .count = fd >= 0 ? 1 : 0};
    struct qn_bytes bytes = {.data = packet, .size = sizeof *packet};
    while (qn_zygote_wire_send(guard->socket_fd, bytes, &fds) == EAGAIN &&
           getppid() == guard->zygote) {
        struct pollfd writable = {.fd = guard->socket_fd, .events = POLLOUT};
        (void)poll(&writable, 1, 10);
        (void)poll(NULL, 0, 1); /* writable, but too many descriptors are on their way */
    }
}

_Noreturn static void refuse(const struct guard *guard, int error_number)
{
    struct qn_zygote_packet packet = {.kind = QN_ZYGOTE_REFUSED, .error_number = error_number};
    send_packet(guard, &packet, -1);
    _exit(0);
}

static bool kill_orphan(pid_t orphan, void *user)
{
    const struct guard *guard = user;
    bool must_die = orphan != guard->pid && (!guard->is_command || getsid(orphan) == getsid(0));
    return must_die && kill(orphan, SIGKILL) == 0; /* not one of another user */
}

/* And reaps it, so that its own children become ours. */
static bool end_orphan(pid_t orphan, void *user)
{
    return kill_orphan(orphan, user) && waitpid(orphan, NULL, 0) == orphan;
}

/* Its group goes before its number can be another's; then what had left the group. */
_Noreturn static void clear_away(struct guard *guard, bool report)
{
    struct qn_zygote_packet packet = {
        .kind = QN_ZYGOTE_ENDED, .pid = guard->pid, .status = SIGKILL};
    bool stays = QN_BUG(GROUP_STAYS);
    (void)kill(stays ? guard->pid : -guard->pid, SIGKILL);
    (void)kill(guard->pid, SIGKILL); /* it may have joined another group */
    (void)wait4(guard->pid, &packet.status, 0, &packet.usage);
    size_t left = stays ? 0 : qn_orphans_visit(kill_orphan, guard);
    if (report) {
        send_packet(guard, &packet, -1);
    }
    while (left > 0) {
        left = qn_orphans_visit(end_orphan, guard);
    }
    _exit(0);
}

/* Reaps orphans that ended; true: what we guard has ended, and is a zombie. */
static bool has_ended(const struct guard *guard)
{
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
            return true; /* it is no child of ours any more: that cannot be */
        }
        if (info.si_pid == 0 || info.si_pid == guard->pid) {
            return info.si_pid != 0;
        }
        (void)waitpid(info.si_pid, NULL, 0);
    }
}

/* All signals are blocked, so that none is lost between two looks. */
_Noreturn static void watch(struct guard *guard)
{
    sigset_t all;
    sigfillset(&all);
    for (;;) {
        if (getppid() != guard->zygote) {
            clear_away(guard, false);
        }
        if (has_ended(guard)) {
            clear_away(guard, true);
        }
        siginfo_t info = {0};
        int number = sigwaitinfo(&all, &info);
        if (number == QN_ZYGOTE_GUARD_END && info.si_pid == guard->zygote) {
            clear_away(guard, false);
        }
    }
}

/* Lets it go on, and waits: 0 when its own code runs, else the errno of its set-up. */
static int await_setup(const struct guard *guard, int setup_fd)
{
    int error_number = 0;
    ssize_t size = -1;
    (void)!send(setup_fd, "", 1, MSG_NOSIGNAL);
    do {
        size = read(setup_fd, &error_number, sizeof error_number);
    } while (size < 0 && errno == EINTR);
    if (size == (ssize_t)sizeof error_number) {
        return error_number;
    }
    return guard->is_command ? 0 : ECHILD; /* a child that ended before its code */
}

/* It waits for us until it can be watched: so what is refused has run nothing. */
static void start_process(struct guard *guard, const struct qn_zygote_start *start)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        refuse(guard, errno);
    }
    pid_t parent = getpid();
    guard->pid = fork();
    if (guard->pid == 0) {
        (void)close(fds[0]);
        qn_zygote_setup_run(start, fds[1], parent);
    }
    if (guard->pid < 0) {
        refuse(guard, errno);
    }
    int kept[] = {guard->socket_fd, fds[0]};
    qn_zygote_setup_close_but(kept, 2);
    int pid_fd = pidfd_open(guard->pid, 0); /* not reaped yet, so it is this one */
    int error_number = pid_fd < 0 ? errno : await_setup(guard, fds[0]);
    (void)close(fds[0]);
    if (error_number != 0) {
        (void)waitpid(guard->pid, NULL, 0);
        refuse(guard, error_number);
    }
    struct qn_zygote_packet packet = {.kind = QN_ZYGOTE_STARTED, .pid = guard->pid};
    send_packet(guard, &packet, pid_fd);
    (void)close(pid_fd);
}

void qn_zygote_guard_run(const struct qn_zygote_start *start, int socket_fd, pid_t zygote)
{
    struct guard guard = {.socket_fd = socket_fd,
                          .zygote = zygote,
                          .is_command = start->request.kind == QN_ZYGOTE_START_COMMAND};
    (void)setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGHUP, 0, 0, 0) != 0 || getppid() != zygote) {
        _exit(EXIT_LOST);
    }
    (void)prctl(PR_SET_NAME, "quern-guard", 0, 0, 0);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    start_process(&guard, start);
    watch(&guard);
}
