/* SPDX-License-Identifier: MIT */
/* until_signal.c - an activity that SIGINT and SIGTERM stop, for programs without a handler.
 *
 * Both signals are blocked in the calling thread, so that they stay pending until a
 * thread reads them from a descriptor; it calls `stop` for each. When the activity has
 * ended, end_fd ends that thread; signals that arrived too late for it are discarded, because they
 * would kill the program once the mask is restored.
 *
 * A signal to a process can be read only once. Where several of them run, the thread that reads it
 * stops all of them, so the process keeps a list of them. */
#include "pool/until_signal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/thread.h"

struct reader {
    struct reader *next; /* guarded by list_mutex */
    const struct qn_until_signal *activity;
    pthread_t thread;
    int signal_fd;
    int end_fd;
};

static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct reader *list; /* guarded by list_mutex, as the next one */
static pid_t list_pid;      /* whose list it is: a child of a fork has none of these */

static void enter_list(struct reader *reader)
{
    pthread_mutex_lock(&list_mutex);
    if (list_pid != getpid()) {
        list = NULL;
        list_pid = getpid();
    }
    reader->next = list;
    list = reader;
    pthread_mutex_unlock(&list_mutex);
}

static void leave_list(const struct reader *reader)
{
    pthread_mutex_lock(&list_mutex);
    struct reader **link = &list;
    while (*link != reader) {
        link = &(*link)->next;
    }
    *link = reader->next;
    pthread_mutex_unlock(&list_mutex);
}

static void stop_all(void)
{
    pthread_mutex_lock(&list_mutex);
    for (const struct reader *at = list; at != NULL; at = at->next) {
        at->activity->stop(at->activity->object);
    }
    pthread_mutex_unlock(&list_mutex);
}

static bool take_signal(const struct reader *reader)
{
    struct signalfd_siginfo info;
    return read(reader->signal_fd, &info, sizeof info) == (ssize_t)sizeof info;
}

static void *read_signals(void *user)
{
    const struct reader *reader = user;
    struct pollfd fds[] = {{.fd = reader->signal_fd, .events = POLLIN},
                           {.fd = reader->end_fd, .events = POLLIN}};
    while (fds[1].revents == 0) {
        if (poll(fds, 2, -1) < 0) {
            fds[1].revents = 0; /* interrupted */
        } else if (fds[0].revents != 0 && take_signal(reader)) {
            stop_all();
        }
    }
    return NULL;
}

static quern_status start_reader(struct reader *reader, const sigset_t *signals, quern_error *err)
{
    quern_status status = QUERN_OK;
    reader->signal_fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (reader->signal_fd == -1) {
        return qn_error_set(err, QUERN_E_FULL, "signalfd: %s", strerror(errno));
    }
    reader->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (reader->end_fd == -1) {
        status = qn_error_set(err, QUERN_E_FULL, "eventfd: %s", strerror(errno));
        goto fail_signal_fd;
    }
    enter_list(reader);
    status = qn_thread_start(&reader->thread, "quern-signals", read_signals, reader, err);
    if (status != QUERN_OK) {
        goto fail_list;
    }
    return QUERN_OK;

fail_list:
    leave_list(reader);
    (void)close(reader->end_fd);
fail_signal_fd:
    (void)close(reader->signal_fd);
    return status;
}

static void end_reader(struct reader *reader)
{
    (void)eventfd_write(reader->end_fd, 1);
    (void)pthread_join(reader->thread, NULL);
    leave_list(reader);
    while (take_signal(reader)) {
        stop_all(); /* the others cannot read it any more */
    }
    (void)close(reader->end_fd);
    (void)close(reader->signal_fd);
}

quern_status qn_until_signal_run(const struct qn_until_signal *activity, quern_error *err)
{
    sigset_t signals;
    sigset_t before;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    struct reader reader = {.activity = activity};
    (void)pthread_sigmask(SIG_BLOCK, &signals, &before);
    quern_status status = start_reader(&reader, &signals, err);
    if (status == QUERN_OK) {
        status = activity->run(activity->object, err);
        end_reader(&reader);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}
