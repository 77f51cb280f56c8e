/* SPDX-License-Identifier: MIT */
/* zygote_setup.c - makes a fresh fork what zygote.h promises, then runs its code.
 *
 * Its parent is its guard, which is single-threaded as the zygote is: so any function may be called
 * here, and the code of the program may allocate and lock. What fails is reported to the guard as
 * an errno, and the process has run nothing. */
#include "pool/prefork/zygote_setup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bug.h"
#include "base/memory/alloc.h"

enum { EXIT_NOT_STARTED = 127, OOM_SCORE_RAISE = 800, OOM_SCORE_MAX = 1000, FD_SCAN_MAX = 65536 };
/* Where descriptors wait until their own numbers are free. */
enum { FIRST_FREE_FD = 16, CHILD_SOCKET_FD = 3, CHILD_PAGE_FD = 4, COMMAND_FDS = 4 };
enum { COMMAND_ARGUMENTS = 4 }; /* sh -c COMMAND, and NULL */

_Noreturn static void fail(int setup_fd, int error_number)
{
    (void)!write(setup_fd, &error_number, sizeof error_number);
    _exit(EXIT_NOT_STARTED);
}

static void close_between(int first, int last)
{
    if (first > last || close_range((unsigned)first, (unsigned)last, 0) == 0) {
        return;
    }
    for (int fd = first; fd <= last && fd < FD_SCAN_MAX; fd++) {
        (void)close(fd);
    }
}

void qn_zygote_setup_close_but(int *fds, size_t count)
{
    for (size_t i = 1; i < count; i++) { /* qsort may allocate, and a fork of threads must not */
        int fd = fds[i];
        size_t at = i;
        for (; at > 0 && fds[at - 1] > fd; at--) {
            fds[at] = fds[at - 1];
        }
        fds[at] = fd;
    }
    int next = 0;
    for (size_t i = 0; i < count; i++) {
        if (fds[i] >= next) {
            close_between(next, fds[i] - 1);
            next = fds[i] + 1;
        }
    }
    close_between(next, INT32_MAX);
}

void qn_zygote_setup_signals(void)
{
    sigset_t all;
    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    for (int number = 1; number < NSIG; number++) {
        (void)signal(number, SIG_DFL); /* refused for KILL, STOP and the C library's own */
    }
}

/* So that the kernel, short of memory, kills a child and not its worker. Best effort. */
static void raise_oom_score(void)
{
    char text[16] = "";
    int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    if (read(fd, text, sizeof text - 1) > 0) {
        long score = strtol(text, NULL, 10) + OOM_SCORE_RAISE;
        int size =
            snprintf(text, sizeof text, "%ld", score < OOM_SCORE_MAX ? score : OOM_SCORE_MAX);
        (void)!pwrite(fd, text, (size_t)size, 0);
    }
    (void)close(fd);
}

/* Soft and hard; 0: none. A limit that is lower already stays. */
static int set_limit(int resource, uint64_t soft, uint64_t hard)
{
    struct rlimit limit;
    if (soft == 0) {
        return 0;
    }
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0) {
        return errno;
    }
    limit.rlim_max = hard < limit.rlim_max ? hard : limit.rlim_max;
    limit.rlim_cur = soft < limit.rlim_cur ? soft : limit.rlim_cur;
    limit.rlim_cur = limit.rlim_cur < limit.rlim_max ? limit.rlim_cur : limit.rlim_max;
    return setrlimit((__rlimit_resource_t)resource, &limit) == 0 ? 0 : errno;
}

static int join_cgroup(int cgroup_fd)
{
    if (cgroup_fd < 0 || QN_BUG(CGROUP_IGNORED)) {
        return 0;
    }
    int fd = openat(cgroup_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    int error_number = write(fd, "0", 1) == 1 ? 0 : errno;
    (void)close(fd);
    return error_number;
}

static int set_limits(const struct qn_zygote_start *start)
{
    const struct qn_zygote_request *request = &start->request;
    int error_number = join_cgroup(qn_zygote_wire_fd(request, &start->fds, QN_ZYGOTE_CGROUP));
    if (error_number == 0) {
        error_number = set_limit(RLIMIT_CPU, request->cpu_s, request->cpu_s + 1);
    }
    if (error_number == 0 && request->no_new_privs != 0 &&
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        error_number = errno;
    }
    if (error_number == 0) { /* the last one: from here on memory may be out */
        error_number =
            set_limit(RLIMIT_AS, request->address_space_bytes, request->address_space_bytes);
    }
    return error_number;
}

/* Moves the descriptors to the numbers 0 .. count - 1 (-1: that number stays closed) and closes all
 * others, but for setup_fd, which is moved out of their way. */
static int place_fds(int *fds, int count, int *setup_fd)
{
    *setup_fd = fcntl(*setup_fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
    if (*setup_fd < 0) {
        return errno;
    }
    for (int i = 0; i < count; i++) {
        if (fds[i] >= 0 && (fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FIRST_FREE_FD)) < 0) {
            return errno;
        }
    }
    int kept[COMMAND_FDS + 4] = {*setup_fd};
    for (int i = 0; i < count; i++) {
        (void)close(i);
        if (fds[i] >= 0 && dup2(fds[i], i) < 0) {
            return errno;
        }
        kept[i + 1] = fds[i] >= 0 ? i : -1;
    }
    qn_zygote_setup_close_but(kept, (size_t)count + 1);
    return 0;
}

static void open_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The strings of a command, sealed against shrinking; NULL and errno if they are not what the
 * request says. One block: the arguments of the shell, then the environment. */
static const char **map_command(const struct qn_zygote_start *start, int fd)
{
    const struct qn_zygote_request *request = &start->request;
    const int seals = F_SEAL_SHRINK | F_SEAL_WRITE;
    struct stat info;
    errno = EBADMSG;
    if (fstat(fd, &info) != 0 || (uint64_t)info.st_size != request->text_size ||
        (fcntl(fd, F_GET_SEALS) & seals) != seals) {
        return NULL;
    }
    const char *text = mmap(NULL, request->text_size, PROT_READ, MAP_PRIVATE, fd, 0);
    const char **strings =
        qn_alloc_zero((size_t)request->text_count + COMMAND_ARGUMENTS + 1, sizeof *strings);
    if (text == MAP_FAILED || strings == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    const char *end = text + request->text_size;
    const char **next = strings;
    *next++ = "sh";
    *next++ = "-c";
    for (uint32_t i = 0; i < request->text_count; i++) {
        const char *zero = memchr(text, '\0', (size_t)(end - text));
        if (zero == NULL) {
            errno = EBADMSG;
            return NULL;
        }
        *next++ = text;
        if (i == 0) {
            *next++ = NULL;
        }
        text = zero + 1;
    }
    return strings;
}

_Noreturn static void run_command(const struct qn_zygote_start *start, int setup_fd)
{
    const struct qn_zygote_request *request = &start->request;
    int fds[COMMAND_FDS];
    int own_fd = setup_fd;
    union { /* execve does not change the strings, although its prototype allows that */
        const char **borrowed;
        char **given;
    } strings = {.borrowed =
                     map_command(start, qn_zygote_wire_fd(request, &start->fds, QN_ZYGOTE_TEXT))};
    int error_number = strings.borrowed == NULL ? errno : set_limits(start);
    for (unsigned i = 0; i < COMMAND_FDS; i++) {
        fds[i] = qn_zygote_wire_fd(request, &start->fds, QN_ZYGOTE_STDIO + i);
    }
    if (error_number == 0) {
        error_number = place_fds(fds, COMMAND_FDS, &own_fd);
    }
    if (error_number == 0) {
        open_signals();
        (void)execve("/bin/sh", strings.given, strings.given + COMMAND_ARGUMENTS);
        error_number = errno;
    }
    fail(own_fd >= 0 ? own_fd : setup_fd, error_number);
}

_Noreturn static void run_child(const struct qn_zygote_start *start, int setup_fd)
{
    const struct qn_zygote_request *request = &start->request;
    int fds[] = {open("/dev/null", O_RDONLY | O_CLOEXEC), STDOUT_FILENO,
                 qn_zygote_wire_fd(request, &start->fds, QN_ZYGOTE_STDERR),
                 qn_zygote_wire_fd(request, &start->fds, QN_ZYGOTE_SOCKET),
                 qn_zygote_wire_fd(request, &start->fds, QN_ZYGOTE_PAGE)};
    int own_fd = setup_fd;
    int error_number = fds[0] < 0 ? errno : set_limits(start); /* needs the cgroup */
    if (error_number == 0) {
        error_number = place_fds(fds, (int)(sizeof fds / sizeof *fds), &own_fd);
    }
    if (error_number != 0) {
        fail(own_fd >= 0 ? own_fd : setup_fd, error_number);
    }
    (void)fcntl(CHILD_SOCKET_FD, F_SETFD, FD_CLOEXEC); /* for what the program executes */
    (void)fcntl(CHILD_PAGE_FD, F_SETFD, FD_CLOEXEC);
    (void)prctl(PR_SET_NAME, "quern-child", 0, 0, 0);
    struct qn_zygote_ends ends = {
        .socket_fd = CHILD_SOCKET_FD, .page_fd = CHILD_PAGE_FD, .stderr_fd = STDERR_FILENO};
    open_signals();
    (void)!write(own_fd, &error_number, sizeof error_number);
    (void)close(own_fd);
    _exit(start->program->run_child(&ends, start->program->user));
}

void qn_zygote_setup_run(const struct qn_zygote_start *start, int setup_fd, pid_t parent)
{
    if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) {
        fail(setup_fd, errno);
    }
    if (getppid() != parent) {
        _exit(EXIT_NOT_STARTED); /* it died before that: no signal would come */
    }
    char go = 0;
    if (read(setup_fd, &go, 1) != 1) {
        _exit(EXIT_NOT_STARTED);
    }
    raise_oom_score();
    if (start->request.kind == QN_ZYGOTE_START_COMMAND) {
        run_command(start, setup_fd);
    }
    run_child(start, setup_fd);
}
