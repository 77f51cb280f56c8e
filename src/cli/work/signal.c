/* SPDX-License-Identifier: MIT */
/* signal.c - passes signals to the worker.
 *
 * A handler has no argument, so the worker it controls is a static of the program. It is set before
 * the handlers are installed and cleared when it ends; the functions of the worker that are called
 * are async-signal-safe. Until then the signals that end the program are blocked, also where its
 * parent had blocked them; one that comes meanwhile stops the worker as soon as there is one. The
 * handlers of signals that end nothing stay until the process is gone:
 * without them USR1 would kill it, and TSTP stop it. HUP and QUIT that were ignored when the
 * program was started (nohup) stay ignored. */
#include "cli/work/signal.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "cli/cli.h"

static quern_worker *_Atomic steered;

/* With --on-hup reload. */
static struct {
    sem_t asked;
    atomic_bool ended;
    pthread_t thread;
    bool runs;
} reload;

/* Only if there is a worker; errno is restored. */
static void apply_to_worker(void (*act)(quern_worker *worker))
{
    int saved = errno;
    quern_worker *worker = atomic_load(&steered);
    if (worker != NULL) {
        act(worker);
    }
    errno = saved;
}

static void on_stop(int number)
{
    (void)number;
    apply_to_worker(quern_worker_stop);
}

static void on_quiet(int number)
{
    (void)number;
    apply_to_worker(quern_worker_quiet);
}

static void on_resume(int number)
{
    (void)number;
    apply_to_worker(quern_worker_resume);
}

static void on_log_runs(int number)
{
    (void)number;
    apply_to_worker(quern_worker_log_runs);
}

static void on_reload(int number)
{
    (void)number;
    int saved = errno;
    (void)sem_post(&reload.asked);
    errno = saved;
}

/* A line of the log in its format, which a signal handler could not write. */
static void *report_reloads(void *user)
{
    struct qn_work_log *log = user;
    for (;;) {
        while (sem_wait(&reload.asked) != 0) {
        }
        if (atomic_load(&reload.ended)) {
            return NULL;
        }
        qn_work_log_message(QUERN_LOG_INFO,
                            "nothing to reload; restart the worker to change its options", log);
    }
}

static const struct {
    int number;
    void (*handler)(int);
    bool unless_ignored;
} signals[] = {
    {SIGTERM, on_stop, false},     {SIGINT, on_stop, false},   {SIGHUP, on_stop, true},
    {SIGQUIT, on_stop, true},      {SIGTSTP, on_quiet, false}, {SIGCONT, on_resume, false},
    {SIGUSR1, on_log_runs, false}, {SIGPIPE, SIG_IGN, false},
};

static bool is_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

static void install(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

/* The thread takes no signals: those that end the program are waited for by another one. */
void qn_work_signal_reload_on_hup(struct qn_work_log *log)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)sem_init(&reload.asked, 0, 0);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    reload.runs = pthread_create(&reload.thread, NULL, report_reloads, log) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    install(SIGHUP, on_reload); /* without a thread it is only ignored */
    sigset_t hup;
    (void)sigemptyset(&hup);
    (void)sigaddset(&hup, SIGHUP);
    (void)pthread_sigmask(SIG_UNBLOCK, &hup, NULL);
}

void qn_work_signal_reload_end(void)
{
    if (reload.runs) {
        atomic_store(&reload.ended, true);
        (void)sem_post(&reload.asked);
        (void)pthread_join(reload.thread, NULL);
    }
}

/* Handlers, which do nothing without a worker, not SIG_IGN: commands would inherit that. */
void qn_work_signal_hold(void)
{
    sigset_t ends;
    qn_work_signal_ends(&ends);
    (void)pthread_sigmask(SIG_BLOCK, &ends, NULL);
    install(SIGTSTP, on_quiet);
    install(SIGCONT, on_resume);
    install(SIGUSR1, on_log_runs);
}

void qn_work_signal_start(quern_worker *worker)
{
    struct sigaction now;
    bool reloads = sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == on_reload;
    atomic_store(&steered, worker);
    for (size_t i = 0; i < QN_COUNT_OF(signals); i++) {
        int number = signals[i].number;
        bool kept = number == SIGHUP && reloads;
        if (!kept && (!signals[i].unless_ignored || !is_ignored(number))) {
            install(number, signals[i].handler);
        }
    }
    qn_work_signal_release();
}

void qn_work_signal_release(void)
{
    sigset_t ends;
    (void)sigemptyset(&ends);
    for (size_t i = 0; i < QN_COUNT_OF(signals); i++) {
        if (signals[i].handler == on_stop) {
            (void)sigaddset(&ends, signals[i].number);
        }
    }
    (void)pthread_sigmask(SIG_UNBLOCK, &ends, NULL);
}

void qn_work_signal_stop(void)
{
    for (size_t i = 0; i < QN_COUNT_OF(signals); i++) {
        int number = signals[i].number;
        if (signals[i].handler == on_stop && !is_ignored(number)) {
            install(number, SIG_DFL);
        }
    }
    atomic_store(&steered, NULL);
}

void qn_work_signal_ends(sigset_t *ret_set)
{
    (void)sigemptyset(ret_set);
    (void)sigaddset(ret_set, SIGTERM);
    (void)sigaddset(ret_set, SIGINT);
    (void)sigaddset(ret_set, SIGQUIT);
    struct sigaction now;
    if (sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_DFL) {
        (void)sigaddset(ret_set, SIGHUP);
    }
}
