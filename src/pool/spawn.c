/* SPDX-License-Identifier: MIT */
/* spawn.c - fork and exec of a shell command from a program with many threads.
 *
 * Everything that allocates (the environment, the pipes) happens before the fork; between fork and
 * exec there are only async-signal-safe calls, because another thread may have held any lock at
 * that moment. Signals are blocked across the fork, so that no handler of the program can run in
 * the child.
 *
 * Between us and the shell stands a guard, which leads the process group. A shell forks for its
 * commands, and the death signal of the kernel reaches only the one process that asked for it: so
 * the guard asks, and kills the whole group when we die, be it by kill -9. Else it only waits, and
 * ends as the shell ended. It ignores what the group is sent. A SIGTERM that we send to the guard
 * it hands to the group, and to a shell that left the group: so none comes before there is a shell.
 *
 * The shell starts with default signal dispositions, an empty mask and no descriptor but 0, 1 and
 * 2. If /bin/sh cannot be run it exits with 127, as a shell does for a missing command. */
#include "pool/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

enum { FIRST_FREE_FD = 3, FD_SCAN_MAX = 65536, EXIT_NOT_FOUND = 127 };

struct ends {
    int child; /* becomes 0, 1 or 2 */
    int ours;
};

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

/* A program may have closed its stdin: then pipe() hands out 0, which the child would overwrite. */
static int move_up(int fd)
{
    if (fd < 0 || fd >= FIRST_FREE_FD) {
        return fd;
    }
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
    (void)close(fd);
    return moved;
}

static quern_status open_pipe(struct ends *ends, bool child_reads, quern_error *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return qn_error_set(err, QUERN_E_FULL, "no pipe for a command: %s", strerror(errno));
    }
    int reader = move_up(fds[0]);
    int writer = move_up(fds[1]);
    ends->child = child_reads ? reader : writer;
    ends->ours = child_reads ? writer : reader;
    if (reader < 0 || writer < 0) {
        return qn_error_set(err, QUERN_E_FULL, "no descriptor for a command: %s", strerror(errno));
    }
    int flags = fcntl(ends->ours, F_GETFL);
    if (flags < 0 || fcntl(ends->ours, F_SETFL, flags | O_NONBLOCK) != 0) {
        return qn_error_set(err, QUERN_E_FULL, "cannot set up a pipe: %s", strerror(errno));
    }
    return QUERN_OK;
}

static bool same_name(const char *a, const char *b)
{
    size_t length = strcspn(a, "=");
    return strncmp(a, b, length + 1) == 0;
}

static bool is_replaced(const char *variable, const char *const *environment)
{
    for (size_t i = 0; environment != NULL && environment[i] != NULL; i++) {
        if (same_name(variable, environment[i])) {
            return true;
        }
    }
    return false;
}

/* One block of pointers to borrowed strings; NULL when memory is out. */
static const char **merge_environment(const char *const *environment)
{
    size_t count = 0;
    for (size_t i = 0; environ != NULL && environ[i] != NULL; i++) {
        count++;
    }
    for (size_t i = 0; environment != NULL && environment[i] != NULL; i++) {
        count++;
    }
    const char **merged = qn_alloc_zero(count + 1, sizeof *merged);
    if (merged == NULL) {
        return NULL;
    }
    size_t size = 0;
    for (size_t i = 0; environ != NULL && environ[i] != NULL && size < count; i++) {
        if (!is_replaced(environ[i], environment)) {
            merged[size++] = environ[i];
        }
    }
    for (size_t i = 0; environment != NULL && environment[i] != NULL && size < count; i++) {
        merged[size++] = environment[i];
    }
    return merged;
}

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

_Noreturn static void become_shell(const struct ends *ends, pid_t guard, int fd_max,
                                   char *const *arguments, char *const *environment)
{
    die_with(guard, SIGKILL);
    for (int i = 0; i < FIRST_FREE_FD; i++) {
        if (dup2(ends[i].child, i) < 0) {
            _exit(EXIT_NOT_FOUND);
        }
    }
    close_from(FIRST_FREE_FD, fd_max);
    reset_signals();
    (void)execve("/bin/sh", arguments, environment);
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

_Noreturn static void become_guard(const struct ends *ends, pid_t parent, int fd_max,
                                   char *const *arguments, char *const *environment)
{
    (void)setpgid(0, 0);
    die_with(parent, SIGHUP);
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, it would throw the exit code away */
    pid_t guard = getpid();
    pid_t shell = _Fork();
    if (shell == 0) {
        become_shell(ends, guard, fd_max, arguments, environment);
    }
    if (shell < 0) {
        _exit(EXIT_NOT_FOUND);
    }
    close_from(0, fd_max); /* the ends of the pipes are the shell's alone */
    guard_shell(parent, shell);
}

/* The strings of argv and envp are not changed by execve, whatever its prototype says. */
static pid_t fork_command(const struct ends *ends, const char *command, const char **environment)
{
    union {
        const char *borrowed[4];
        char *given[4];
    } arguments = {.borrowed = {"sh", "-c", command, NULL}};
    union {
        const char **borrowed;
        char **given;
    } variables = {.borrowed = environment};
    long open_max = sysconf(_SC_OPEN_MAX);
    int fd_max = open_max > 0 && open_max < FD_SCAN_MAX ? (int)open_max : FD_SCAN_MAX;
    pid_t parent = getpid();
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        become_guard(ends, parent, fd_max, arguments.given, variables.given);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid > 0) {
        (void)setpgid(pid, pid); /* so that the group exists for us at once */
    }
    return pid;
}

static quern_status start(struct ends *ends, const char *command, const char **environment,
                          struct qn_spawned *spawned, quern_error *err)
{
    spawned->pid = fork_command(ends, command, environment);
    if (spawned->pid < 0) {
        return qn_error_set(err, QUERN_E_FULL, "no process for a command: %s", strerror(errno));
    }
    spawned->pid_fd = pidfd_open(spawned->pid, 0); /* its number cannot be reused: not reaped yet */
    if (spawned->pid_fd < 0) {
        quern_status status =
            qn_error_set(err, QUERN_E_FULL, "cannot watch a command: %s", strerror(errno));
        (void)kill(-spawned->pid, SIGKILL);
        (void)waitpid(spawned->pid, NULL, 0);
        return status;
    }
    return QUERN_OK;
}

quern_status qn_spawn(const char *command, const char *const *environment,
                      struct qn_spawned *ret_spawned, quern_error *err)
{
    struct ends ends[3] = {{-1, -1}, {-1, -1}, {-1, -1}};
    struct qn_spawned spawned = {.pid = -1, .pid_fd = -1};
    const char **merged = merge_environment(environment);
    if (merged == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = QUERN_OK;
    for (int i = 0; i < 3 && status == QUERN_OK; i++) {
        status = open_pipe(&ends[i], i == STDIN_FILENO, err);
    }
    if (status == QUERN_OK) {
        status = start(ends, command, merged, &spawned, err);
    }
    qn_free(merged);
    for (int i = 0; i < 3; i++) {
        close_fd(&ends[i].child);
    }
    if (status != QUERN_OK) {
        goto fail;
    }
    spawned.input = ends[STDIN_FILENO].ours;
    spawned.output = ends[STDOUT_FILENO].ours;
    spawned.failure = ends[STDERR_FILENO].ours;
    *ret_spawned = spawned;
    return QUERN_OK;

fail:
    for (int i = 0; i < 3; i++) {
        close_fd(&ends[i].ours);
    }
    return status;
}
