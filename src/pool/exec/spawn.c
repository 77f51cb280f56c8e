/* SPDX-License-Identifier: MIT */
/* spawn.c - fork and exec of a shell command from a program with many threads.
 *
 * All allocations (the environment, the pipes) happen before the fork; between fork and exec there
 * are only async-signal-safe calls, because another thread may have held any lock at that moment.
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
#include "pool/exec/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/random.h"

enum { PROGRESS_FILENO = 3, FIRST_FREE_FD, FD_SCAN_MAX = 65536, EXIT_NOT_FOUND = 127 };

struct ends {
    int child; /* becomes 0, 1, 2 or 3 */
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

static bool is_setting(const char *entry)
{
    return strchr(entry, '=') != NULL;
}

/* By a variable of its name, or removed by an entry without "=". */
static bool is_replaced(const char *variable, const char *const *environment)
{
    for (size_t i = 0; environment != NULL && environment[i] != NULL; i++) {
        const char *entry = environment[i];
        if (is_setting(entry) ? same_name(variable, entry)
                              : strncmp(variable, entry, strlen(entry)) == 0) {
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
        if (is_setting(environment[i])) {
            merged[size++] = environment[i];
        }
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

/* The data that parent and child share. */
struct plan {
    struct ends ends[FIRST_FREE_FD];
    int end_count; /* how many of them the shell gets */
    struct qn_spawn_mark mark;
    struct qn_exec_limits limits;
    int fd_max;
    char *const *arguments;
    char *const *environment;
};

/* `stderr_fd` may still be another descriptor than 2. */
_Noreturn static void report_not_started(const struct plan *plan, int stderr_fd, int code)
{
    char text[sizeof plan->mark + sizeof code];
    memcpy(text, &plan->mark, sizeof plan->mark);
    memcpy(text + sizeof plan->mark, &code, sizeof code);
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
    for (int i = 0; i < plan->end_count; i++) {
        if (dup2(plan->ends[i].child, i) < 0) {
            _exit(EXIT_NOT_FOUND);
        }
    }
    close_from(plan->end_count, plan->fd_max);
    reset_signals();
    if (!set_limits(&plan->limits)) {
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
        report_not_started(plan, plan->ends[STDERR_FILENO].child, errno);
    }
    close_from(0, plan->fd_max); /* the ends of the pipes are the shell's alone */
    guard_shell(parent, shell);
}

/* execve does not change the strings of argv and envp, although its prototype allows that. */
static pid_t fork_command(const struct plan *given, const char *command, const char **environment)
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
    struct plan plan = *given;
    plan.fd_max = open_max > 0 && open_max < FD_SCAN_MAX ? (int)open_max : FD_SCAN_MAX;
    plan.arguments = arguments.given;
    plan.environment = variables.given;
    pid_t parent = getpid();
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        become_guard(&plan, parent);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid > 0) {
        (void)setpgid(pid, pid); /* so that the group exists for us at once */
    }
    return pid;
}

static quern_status start(const struct plan *plan, const char *command, const char **environment,
                          struct qn_spawned *spawned, quern_error *err)
{
    spawned->pid = fork_command(plan, command, environment);
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
    (void)kill(spawned->pid, SIGUSR1); /* go */
    return QUERN_OK;
}

quern_status qn_spawn(const struct qn_spawn_request *request, struct qn_spawned *ret_spawned,
                      quern_error *err)
{
    struct plan plan = {.ends = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}},
                        .end_count = request->with_progress ? PROGRESS_FILENO + 1 : PROGRESS_FILENO,
                        .limits = request->limits};
    struct ends *ends = plan.ends;
    struct qn_spawned spawned = {.pid = -1, .pid_fd = -1};
    struct qn_random random;
    qn_random_init(&random);
    plan.mark = (struct qn_spawn_mark){{qn_random_next(&random), qn_random_next(&random)}};
    spawned.mark = plan.mark;
    const char **merged = merge_environment(request->environment);
    if (merged == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = QUERN_OK;
    for (int i = 0; i < plan.end_count && status == QUERN_OK; i++) {
        status = open_pipe(&ends[i], i == STDIN_FILENO, err);
    }
    if (status == QUERN_OK) {
        status = start(&plan, request->command, merged, &spawned, err);
    }
    qn_free(merged);
    for (int i = 0; i < plan.end_count; i++) {
        close_fd(&ends[i].child);
    }
    if (status != QUERN_OK) {
        goto fail;
    }
    spawned.stdin_fd = ends[STDIN_FILENO].ours;
    spawned.stdout_fd = ends[STDOUT_FILENO].ours;
    spawned.stderr_fd = ends[STDERR_FILENO].ours;
    spawned.progress_fd = ends[PROGRESS_FILENO].ours;
    *ret_spawned = spawned;
    return QUERN_OK;

fail:
    for (int i = 0; i < plan.end_count; i++) {
        close_fd(&ends[i].ours);
    }
    return status;
}

/* The errno with which the shell was not started; 0: it ran. */
static int errno_of_start(const struct qn_spawned *child, const struct qn_buf *stderr_text)
{
    int code = 0;
    if (stderr_text->size != QN_SPAWN_REPORT_SIZE ||
        memcmp(stderr_text->data, &child->mark, sizeof child->mark) != 0) {
        return 0;
    }
    memcpy(&code, stderr_text->data + sizeof child->mark, sizeof code);
    return code;
}

/* All but E2BIG may be over in a moment. */
quern_status qn_spawn_refusal(const struct qn_spawned *spawned, const struct qn_buf *stderr_text,
                              quern_error *err)
{
    int code = errno_of_start(spawned, stderr_text);
    if (code == 0) {
        return QUERN_OK;
    }
    if (code == E2BIG) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "the command and its environment are too large for the system: "
                            "shorten the worker's environment, the command or the task's headers, "
                            "or allow more (ulimit -s)");
    }
    return qn_error_set(err, QUERN_E_FULL, "no process for a command: %s", strerror(code));
}
