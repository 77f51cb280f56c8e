/* SPDX-License-Identifier: MIT */
/* signal.c - passes signals to the worker.
 *
 * A handler has no argument, so the worker it controls is a static of the program. It is set before
 * the handlers are installed and cleared when it ends; the functions of the worker that are called
 * are async-signal-safe. The handlers of signals that end nothing stay until the process is gone:
 * without them USR1 and USR2 would kill it, and TSTP stop it. HUP and QUIT that were ignored when
 * the program was started (nohup) stay ignored.
 *
 * Until there is a worker the signals that end the program are blocked, also where its parent had
 * blocked them, and a thread waits for them: a broker that does not answer may keep the main thread
 * for seconds. The first signal stops the worker if it starts within START_MS; after that, or by
 * another signal, the process ends: nothing runs yet. */
#include "cli/work/signal.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "worker/hand_over/hand_over.h"

#define START_MS 500
#define CONTINUE_MS 5000     /* of a worker that goes on: its children end with the process */
#define SIGNAL_OVER SIGRTMIN /* ends the thread; sent to no other */

static quern_worker *_Atomic steered;

/* What a signal asks for, and a thread does. */
static struct {
    bool (*reload)(quern_worker *worker, void *user); /* NULL: HUP does not reload */
    bool (*check)(void *user);                        /* NULL: USR2 does not restart */
    void *user;
    pthread_mutex_t mutex; /* held while `steered` is used, and where it becomes NULL */
    sem_t asked;
    atomic_bool reload_asked;
    atomic_bool restart_asked;
    atomic_bool ended;
    pthread_t thread;
    bool is_ready;
    bool runs;
} service = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Until there is a worker. */
static struct {
    pthread_t thread;
    bool runs;
    bool continues;
    bool stopped; /* a signal came; read when the thread has ended */
} early;

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

static void ask_service(atomic_bool *what)
{
    int saved = errno;
    atomic_store(what, true);
    (void)sem_post(&service.asked);
    errno = saved;
}

static void on_reload(int number)
{
    (void)number;
    ask_service(&service.reload_asked);
}

/* Nothing without a service: replay has none. */
static void on_restart(int number)
{
    (void)number;
    if (service.is_ready) {
        ask_service(&service.restart_asked);
    }
}

/* Whether it takes a restart. */
static bool reload(void)
{
    (void)pthread_mutex_lock(&service.mutex);
    bool must_restart = service.reload(atomic_load(&steered), service.user);
    (void)pthread_mutex_unlock(&service.mutex);
    return must_restart;
}

/* Else there is no worker, or it is about to end in this way. */
static bool may_restart(void)
{
    (void)pthread_mutex_lock(&service.mutex);
    const quern_worker *worker = atomic_load(&steered);
    bool may = worker != NULL && !qn_hand_over_is_under_way(worker);
    (void)pthread_mutex_unlock(&service.mutex);
    return may;
}

/* The check takes a while, in which the worker may end. */
static void restart(void)
{
    if (!may_restart() || !service.check(service.user)) {
        return;
    }
    (void)pthread_mutex_lock(&service.mutex);
    quern_worker *worker = atomic_load(&steered);
    if (worker != NULL) {
        qn_hand_over_ask(worker);
    }
    (void)pthread_mutex_unlock(&service.mutex);
}

/* A signal handler could neither write to the log nor start a process. */
static void *serve(void *user)
{
    (void)user;
    for (;;) {
        while (sem_wait(&service.asked) != 0) {
        }
        if (atomic_load(&service.ended)) {
            return NULL;
        }
        bool must_restart =
            service.reload != NULL && atomic_exchange(&service.reload_asked, false) && reload();
        must_restart = atomic_exchange(&service.restart_asked, false) || must_restart;
        if (service.check != NULL && must_restart) {
            restart();
        }
    }
}

static const struct {
    int number;
    void (*handler)(int);
    bool unless_ignored;
} signals[] = {
    {SIGTERM, on_stop, false},     {SIGINT, on_stop, false},     {SIGHUP, on_stop, true},
    {SIGQUIT, on_stop, true},      {SIGTSTP, on_quiet, false},   {SIGCONT, on_resume, false},
    {SIGUSR1, on_log_runs, false}, {SIGUSR2, on_restart, false}, {SIGPIPE, SIG_IGN, false},
};

/* HUP only reloads, or the signal was ignored when the program was started. */
static bool is_kept(size_t i)
{
    struct sigaction now;
    return sigaction(signals[i].number, NULL, &now) == 0 &&
           (now.sa_handler == on_reload ||
            (signals[i].unless_ignored && now.sa_handler == SIG_IGN));
}

static void list_ends(sigset_t *ret_set)
{
    (void)sigemptyset(ret_set);
    for (size_t i = 0; i < QN_COUNT_OF(signals); i++) {
        if (signals[i].handler == on_stop && !is_kept(i)) {
            (void)sigaddset(ret_set, signals[i].number);
        }
    }
}

static void install(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

/* The thread takes no signals: its handlers run on another one. */
static bool start_thread(pthread_t *ret_thread, void *(*run)(void *user), void *user)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool runs = pthread_create(ret_thread, NULL, run, user) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return runs;
}

static void unblock(int number)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, number);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void qn_work_signal_serve(const struct qn_work_signal_service *calls, void *user)
{
    service.reload = calls->reload;
    service.check = calls->check;
    service.user = user;
    atomic_store(&service.ended, false);
    (void)sem_init(&service.asked, 0, 0);
    service.is_ready = true;
    service.runs = start_thread(&service.thread, serve, NULL);
    if (calls->reload != NULL) {
        install(SIGHUP, on_reload); /* without a thread it is only ignored */
        unblock(SIGHUP);
    }
}

void qn_work_signal_serve_end(void)
{
    if (service.runs) {
        atomic_store(&service.ended, true);
        (void)sem_post(&service.asked);
        (void)pthread_join(service.thread, NULL);
        service.runs = false;
    }
}

/* Handlers, which do nothing without a worker, not SIG_IGN: commands would inherit that. */
void qn_work_signal_hold(void)
{
    sigset_t ends;
    list_ends(&ends);
    (void)pthread_sigmask(SIG_BLOCK, &ends, NULL);
    install(SIGTSTP, on_quiet);
    install(SIGCONT, on_resume);
    install(SIGUSR1, on_log_runs);
    install(SIGUSR2, on_restart);
}

static void set_mask(int how)
{
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < QN_COUNT_OF(signals); i++) {
        (void)sigaddset(&set, signals[i].number);
    }
    (void)pthread_sigmask(how, &set, NULL);
}

void qn_work_signal_block(void)
{
    set_mask(SIG_BLOCK);
}

static void *end_without_worker(void *user)
{
    struct qn_cli *cli = user;
    const int64_t wait_ms = early.continues ? CONTINUE_MS : START_MS;
    const struct timespec start = {.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000L};
    sigset_t set;
    int number = -1;
    list_ends(&set);
    (void)sigaddset(&set, SIGNAL_OVER);
    while (number < 0) {
        number = sigwaitinfo(&set, NULL);
    }
    early.stopped = number != SIGNAL_OVER;
    if (!early.stopped || sigtimedwait(&set, NULL, &start) == SIGNAL_OVER) {
        return NULL;
    }
    qn_cli_message(cli, "ended before the worker started");
    (void)fflush(stdout);
    _exit(QN_EXIT_OK);
}

/* Without a thread they stay blocked until there is a worker. */
void qn_work_signal_end_early(struct qn_cli *cli, bool continues)
{
    early.continues = continues;
    early.runs = start_thread(&early.thread, end_without_worker, cli);
}

void qn_work_signal_start(quern_worker *worker)
{
    atomic_store(&steered, worker);
    for (size_t i = 0; i < QN_COUNT_OF(signals); i++) {
        if (!is_kept(i)) {
            install(signals[i].number, signals[i].handler);
        }
    }
    qn_work_signal_release();
    set_mask(SIG_UNBLOCK);
    if (early.stopped) {
        early.stopped = false;
        quern_worker_stop(worker);
    }
}

void qn_work_signal_release(void)
{
    if (early.runs) {
        (void)pthread_kill(early.thread, SIGNAL_OVER);
        (void)pthread_join(early.thread, NULL);
        early.runs = false;
    }
    sigset_t ends;
    list_ends(&ends);
    (void)pthread_sigmask(SIG_UNBLOCK, &ends, NULL);
}

void qn_work_signal_stop(void)
{
    for (size_t i = 0; i < QN_COUNT_OF(signals); i++) {
        if (signals[i].handler == on_stop && !is_kept(i)) {
            install(signals[i].number, SIG_DFL);
        }
    }
    (void)pthread_mutex_lock(&service.mutex);
    atomic_store(&steered, NULL);
    (void)pthread_mutex_unlock(&service.mutex);
}
