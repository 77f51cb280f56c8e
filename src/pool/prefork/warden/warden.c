/* SPDX-License-Identifier: MIT */
/* warden.c - waits for the end of a zygote, and kills what that leaves.
 *
 * A zygote is a subreaper and kills at its end what the program had started before it served. Such
 * processes have no guard, so where the zygote is killed by SIGKILL they would stay. Therefore it
 * has a parent that is a subreaper, too. All that descends from the zygote becomes its child sooner
 * or later, and is killed there; guards as well, whose processes die with them. A zygote that has
 * started commands, or another zygote, leaves something behind on purpose, and says so before.
 *
 * The other way round the zygote reads the end of its descriptor when the warden is gone, and ends.
 * Only where both are killed at once something may be left.
 *
 * It blocks all signals. The worker knows the warden as its zygote: a SIGCONT is passed on, and the
 * zygote is killed when the worker asks for it (QN_ZYGOTE_GUARD_END) or is gone, also while it
 * loads, or where what it has loaded hangs at its end. */
#include "pool/prefork/warden/warden.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "pool/prefork/warden/orphans.h"
#include "pool/prefork/zygote_guard.h"
#include "pool/prefork/zygote_setup.h"

enum { EXIT_LOST = 1, ROUNDS_MAX = 100, ROUND_MS = 50, NS_PER_MS = 1000000 };

struct warden {
    pid_t worker;
    pid_t zygote;
    int link_fd;
};

static bool kill_orphan(pid_t pid, void *user)
{
    (void)user;
    return kill(pid, SIGKILL) == 0; /* not one of another user */
}

static bool may_leave(const struct warden *warden)
{
    char word = 0;
    return recv(warden->link_fd, &word, 1, MSG_DONTWAIT) == 1 && word == QN_WARDEN_LEAVE;
}

/* A process that is killed may be in the kernel for a while; its children are ours after that. */
static void kill_orphans(const sigset_t *all)
{
    for (int i = 0; i < ROUNDS_MAX && qn_orphans_visit(kill_orphan, NULL) > 0; i++) {
        const struct timespec round = {.tv_nsec = ROUND_MS * NS_PER_MS};
        if (waitpid(-1, NULL, WNOHANG) == 0) {
            (void)sigtimedwait(all, NULL, &round);
        }
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
    }
}

/* As the zygote has ended, for a worker that reads why it never served. */
_Noreturn static void end_like(int status)
{
    if (WIFEXITED(status)) {
        _exit(WEXITSTATUS(status));
    }
    int number = WTERMSIG(status);
    sigset_t none;
    sigemptyset(&none);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* one core is enough */
    (void)signal(number, SIG_DFL);
    (void)kill(getpid(), number);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    _exit(EXIT_LOST);
}

/* Reaps what has ended. True: so has the zygote. */
static bool reap(const struct warden *warden, int *ret_status)
{
    int status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == warden->zygote) {
            *ret_status = status;
            return true;
        }
    }
    return false;
}

static bool is_stopped(const struct warden *warden)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)warden->zygote, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == warden->zygote;
}

/* A SIGCONT goes to a zygote that is stopped only: it would take away the stop by which a tool
 * attaches to it, as LeakSanitizer does at its end, and that tool would wait for ever. */
_Noreturn static void watch(const struct warden *warden)
{
    int status = 0;
    bool resumes = false;
    sigset_t all;
    sigfillset(&all);
    while (!reap(warden, &status)) {
        siginfo_t info = {0};
        if (getppid() != warden->worker) {
            (void)kill(warden->zygote, SIGKILL);
        }
        if (resumes && is_stopped(warden)) {
            (void)kill(warden->zygote, SIGCONT);
            resumes = false;
        }
        int number = sigwaitinfo(&all, &info); /* SIGCHLD for a stop, too */
        resumes = resumes || number == SIGCONT;
        if (number == QN_ZYGOTE_GUARD_END && info.si_pid == warden->worker) {
            (void)kill(warden->zygote, SIGKILL);
        }
    }
    if (!may_leave(warden)) {
        kill_orphans(&all);
    }
    end_like(status);
}

static quern_status refuse(int fds[2], quern_error *err)
{
    quern_status status = qn_error_set(
        err, QUERN_E_FULL, "no process for the warden of a zygote: %s", strerror(errno));
    if (fds[0] >= 0) {
        (void)close(fds[0]);
        (void)close(fds[1]);
    }
    return status;
}

quern_status qn_warden_start(int *ret_fd, quern_error *err)
{
    int fds[2] = {-1, -1};
    sigset_t all;
    sigset_t before;
    struct warden warden = {.worker = getppid()};
    pid_t self = getpid();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
        return refuse(fds, err);
    }
    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* before the zygote has children */
    warden.zygote = fork();
    if (warden.zygote < 0) {
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        return refuse(fds, err);
    }
    if (warden.zygote > 0) {
        warden.link_fd = fds[0];
        (void)setsid(); /* what the terminal sends is for the worker */
        (void)prctl(PR_SET_NAME, "quern-warden", 0, 0, 0);
        (void)prctl(PR_SET_PDEATHSIG, SIGHUP, 0, 0, 0);
        qn_zygote_setup_close_but(fds, 1);
        watch(&warden);
    }
    (void)close(fds[0]);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != self) {
        _exit(EXIT_LOST); /* until it serves; then it reads the end of its descriptor */
    }
    *ret_fd = fds[1];
    return QUERN_OK;
}
