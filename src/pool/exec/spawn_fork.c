/* SPDX-License-Identifier: MIT */
/* spawn_fork.c - fork and exec of a shell command from a program with many threads.
 *
 * All allocations happen before the fork; between fork and exec there are only async-signal-safe
 * calls, because another thread may have held any lock at that moment.
 * Signals are blocked across the fork, so that no handler of the program can run in the child.
 *
 * Between us and the shell there is a guard, which leads the process group. A shell forks for its
 * commands, but the kernel sends the signal of our death only to the one process that requested it.
 * So the guard requests it, and kills the whole group when we die, even by kill -9. Otherwise it
 * only waits, and ends as the shell ended. It ignores signals to the group. A SIGTERM that we send
 * to the guard it passes on to the group, and to a shell that left the group: so no SIGTERM arrives
 * before there is a shell.
 *
 * A guard that gets no process for the shell reports that on stderr, behind a random mark that no
 * command can know. So does the child when the kernel has no memory for the shell, or its arguments
 * and environment are too large.
 *
 * The shell starts with default signal dispositions, an empty mask and no descriptor but 0, 1, 2
 * and, where progress is wanted, 3. If /bin/sh cannot be run it exits with 127, as a shell does for
 * a missing command. */
#include "pool/exec/spawn_fork.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

/* Without the functions of pthread_atfork, which are the program's and may do anything. The threads
 * of ThreadSanitizer have locks of their own, which only fork knows. */
#if defined(__SANITIZE_THREAD__)
#define FORK fork
#else
#define FORK _Fork
#endif

enum { FD_SCAN_MAX = 65536, EXIT_NOT_FOUND = 127, EXIT_LOST = 255 };

/* In the child: async-signal-safe calls only from here on. */
static void close_from(int first, int fd_max)
{
    if (close_range((unsigned)first, ~0U, 0) == 0) {
        return;
    }
    for (int fd = first; fd < fd_max; fd++) {
        (void)close(fd);
    }
}

static void reset_signals(void)
{
    for (int number = 1; number < NSIG; number++) {
        (void)signal(number, SIG_DFL); /* refused for KILL, STOP and the C library's own */
    }
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Dies if `parent` is dead already: then the request came too late, and no signal would come. */
static void die_with(pid_t parent, int number)
{
    if (prctl(PR_SET_PDEATHSIG, number) != 0 || getppid() != parent) {
        _exit(EXIT_NOT_FOUND);
    }
}

/* The data that parent and child share. */
struct plan {
    struct qn_spawn_fork request;
    int fd_max;
    char *const *arguments;
    char *const *environment;
};

/* `stderr_fd` may still be another descriptor than 2. */
_Noreturn static void report_not_started(const struct plan *plan, int stderr_fd, int code)
{
    char text[sizeof plan->request.mark + sizeof code];
    memcpy(text, &plan->request.mark, sizeof plan->request.mark);
    memcpy(text + sizeof plan->request.mark, &code, sizeof code);
    (void)!write(stderr_fd, text, sizeof text);
    _exit(EXIT_NOT_FOUND);
}

/* Never above a limit that we have ourselves. */
static bool lower_limit(__rlimit_resource_t which, uint64_t soft, uint64_t hard)
{
    struct rlimit limit;
    if (getrlimit(which, &limit) != 0) {
        return false;
    }
    limit.rlim_max = hard < limit.rlim_max ? hard : limit.rlim_max;
    limit.rlim_cur = soft < limit.rlim_max ? soft : limit.rlim_max;
    return setrlimit(which, &limit) == 0;
}

static bool set_limits(const struct qn_exec_limits *limits)
{
    uint64_t memory = limits->address_space_bytes;
    uint64_t cpu_s = limits->cpu_s;
    return (memory == 0 || lower_limit(RLIMIT_AS, memory, memory)) &&
           (cpu_s == 0 || lower_limit(RLIMIT_CPU, cpu_s, cpu_s + 1)) &&
           (!limits->no_new_privs || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
}

_Noreturn static void become_shell(const struct plan *plan, pid_t guard)
{
    die_with(guard, SIGKILL);
    for (int i = 0; i < plan->request.fd_count; i++) {
        if (dup2(plan->request.fds[i], i) < 0) {
            _exit(EXIT_NOT_FOUND);
        }
    }
    close_from(plan->request.fd_count, plan->fd_max);
    reset_signals();
    if (!set_limits(&plan->request.limits)) {
        report_not_started(plan, STDERR_FILENO, errno);
    }
    (void)execve("/bin/sh", plan->arguments, plan->environment);
    if (errno == E2BIG || errno == ENOMEM || errno == EAGAIN || errno == ENFILE) {
        report_not_started(plan, STDERR_FILENO, errno);
    }
    _exit(EXIT_NOT_FOUND);
}

_Noreturn static void end_like(int code)
{
    if (WIFEXITED(code)) {
        _exit(WEXITSTATUS(code));
    }
    (void)prctl(PR_SET_DUMPABLE, 0); /* one core is enough */
    reset_signals();
    (void)kill(getpid(), WTERMSIG(code));
    _exit(EXIT_NOT_FOUND);
}

/* All signals are blocked, so that none is lost between two looks. */
_Noreturn static void guard_shell(pid_t parent, pid_t shell)
{
    sigset_t all;
    sigfillset(&all);
    for (;;) {
        siginfo_t info = {0};
        int number = sigwaitinfo(&all, &info);
        if (getppid() != parent) {
            (void)kill(0, SIGKILL); /* the group, and with it ourselves */
        }
        if (number == SIGTERM && info.si_pid == parent) {
            (void)kill(0, SIGTERM);
            if (getpgid(shell) != getpgrp()) {
                (void)kill(shell, SIGTERM);
            }
        }
        int code = 0;
        if (waitpid(shell, &code, WNOHANG) == shell) {
            end_like(code);
        }
    }
}

/* Waits until the parent can watch us: else it would have to kill a command that has begun. */
static void await_go(pid_t parent)
{
    sigset_t all;
    siginfo_t info = {0};
    sigfillset(&all);
    int number = 0;
    while (number != SIGUSR1 || info.si_pid != parent) {
        number = sigwaitinfo(&all, &info);
        if (getppid() != parent) {
            _exit(EXIT_NOT_FOUND);
        }
    }
}

_Noreturn static void become_guard(const struct plan *plan, pid_t parent)
{
    (void)setpgid(0, 0);
    die_with(parent, SIGHUP);
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, it would throw the exit code away */
    await_go(parent);
    pid_t guard = getpid();
    pid_t shell = _Fork();
    if (shell == 0) {
        become_shell(plan, guard);
    }
    if (shell < 0) {
        report_not_started(plan, plan->request.fds[STDERR_FILENO], errno);
    }
    close_from(0, plan->fd_max); /* the ends of the pipes are the shell's alone */
    guard_shell(parent, shell);
}

/* execve does not change the strings of argv and envp, although its prototype allows that. */
static pid_t fork_command(const struct qn_spawn_fork *request)
{
    union {
        const char *borrowed[4];
        char *given[4];
    } arguments = {.borrowed = {"sh", "-c", request->command, NULL}};
    union {
        const char **borrowed;
        char **given;
    } variables = {.borrowed = request->environment};
    long open_max = sysconf(_SC_OPEN_MAX);
    const struct plan plan = {
        .request = *request,
        .fd_max = open_max > 0 && open_max < FD_SCAN_MAX ? (int)open_max : FD_SCAN_MAX,
        .arguments = arguments.given,
        .environment = variables.given,
    };
    pid_t parent = getpid();
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = FORK();
    if (pid == 0) {
        become_guard(&plan, parent);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid > 0) {
        (void)setpgid(pid, pid); /* so that the group exists for us at once */
    }
    return pid;
}

quern_status qn_spawn_fork(const struct qn_spawn_fork *request, pid_t *ret_pid, int *ret_pid_fd,
                           quern_error *err)
{
    pid_t pid = fork_command(request);
    if (pid < 0) {
        return qn_error_set(err, QUERN_E_FULL, "no process for a command: %s", strerror(errno));
    }
    int pid_fd = pidfd_open(pid, 0); /* its number cannot be reused: not reaped yet */
    if (pid_fd < 0) {
        quern_status status =
            qn_error_set(err, QUERN_E_FULL, "cannot watch a command: %s", strerror(errno));
        (void)kill(-pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        return status;
    }
    (void)kill(pid, SIGUSR1); /* go */
    *ret_pid = pid;
    *ret_pid_fd = pid_fd;
    return QUERN_OK;
}

void qn_spawn_fork_signal(pid_t pid, int number)
{
    if (number == SIGKILL) {
        (void)kill(-pid, SIGKILL);
    }
    (void)kill(pid, number); /* its guard passes a SIGTERM on; a shell that left dies with it */
}

void qn_spawn_fork_reap(pid_t pid, int *ret_status, struct rusage *ret_usage)
{
    int status = 0;
    pid_t got;
    (void)kill(-pid, SIGKILL); /* the rest of its group */
    do {
        got = wait4(pid, &status, 0, ret_usage);
    } while (got < 0 && errno == EINTR);
    /* A program that ignores SIGCHLD has thrown the exit code away. */
    *ret_status = got < 0 ? EXIT_LOST << 8 : status;
}
