/* SPDX-License-Identifier: MIT */
/* launcher.c - a thread reads what the zygote reports, and gives it to the command that it is of.
 *
 * Happy path: a record is in the list before its request is sent, STARTED brings its process, ENDED
 * its status; then its descriptor becomes readable for the thread that waits for it. No thread
 * waits for STARTED: a signal that comes before it is kept until then. Failures: a refusal is an
 * end with an errno. When the zygote is gone all its commands are, too: their guards kill them. So
 * each of them ends as lost, and later ones are refused. */
#include "pool/exec/launcher.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/list.h"
#include "base/thread.h"

enum { EVENTS_MAX = 64 }; /* at a time: others need the mutex, too */

struct qn_launcher {
    struct qn_zygote *zygote;
    pthread_t thread;
    int stop_fd;
    int cgroup_fd;           /* constant from the first command on; 0: none */
    pthread_mutex_t mutex;   /* guards all below, and the records */
    struct qn_list launched; /* those that have not ended */
    size_t references;
    uint64_t last_number;
    bool is_gone;
    qn_launcher_gone *gone; /* NULL: it need not be reported */
    void *user;
};

struct qn_launched {
    struct qn_list node; /* alone: it has ended */
    struct qn_launcher *launcher;
    uint64_t number;
    int end_fd;
    pid_t pid;  /* 0: not started */
    int pid_fd; /* -1: none */
    int due_signal;
    bool has_ended;
    struct qn_launch_end end;
};

static void close_fd(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* --- What the zygote reports ------------------------------------------------------------ */

/* With mutex held, as all of this part. */
static struct qn_launched *find(struct qn_launcher *launcher, uint64_t number)
{
    for (struct qn_list *node = launcher->launched.next; node != &launcher->launched;
         node = node->next) {
        struct qn_launched *launched = QN_CONTAINER_OF(node, struct qn_launched, node);
        if (launched->number == number) {
            return launched;
        }
    }
    return NULL;
}

static void end(struct qn_launched *launched, const struct qn_launch_end *end)
{
    const uint64_t one = 1;
    qn_list_remove(&launched->node);
    launched->end = *end;
    launched->has_ended = true;
    (void)!write(launched->end_fd, &one, sizeof one);
}

/* First it is reported: who waits for a command then knows what its end means. */
static void lose_all(struct qn_launcher *launcher)
{
    char why[64];
    launcher->is_gone = true;
    if (launcher->gone != NULL) {
        (void)snprintf(why, sizeof why, "the zygote of commands (process %d) has ended",
                       (int)qn_zygote_pid(launcher->zygote));
        launcher->gone(why, launcher->user);
    }
    while (!qn_list_empty(&launcher->launched)) {
        end(QN_CONTAINER_OF(launcher->launched.next, struct qn_launched, node),
            &(struct qn_launch_end){.status = SIGKILL, .is_lost = true});
    }
}

static void take_event(struct qn_launcher *launcher, const struct qn_zygote_event *event)
{
    struct qn_launched *launched = find(launcher, event->number);
    if (event->kind == QN_ZYGOTE_GONE) {
        lose_all(launcher);
    } else if (launched == NULL) {
        close_fd(event->pid_fd); /* a number that we do not know: not acted upon */
    } else if (event->kind == QN_ZYGOTE_STARTED) {
        close_fd(launched->pid_fd);
        launched->pid = event->pid;
        launched->pid_fd = event->pid_fd;
        if (launched->due_signal != 0) {
            qn_zygote_kill(launched->pid, launched->pid_fd, launched->due_signal);
        }
    } else if (event->kind == QN_ZYGOTE_REFUSED) {
        end(launched, &(struct qn_launch_end){
                          .error_number = event->error_number != 0 ? event->error_number : EIO});
    } else {
        end(launched, &(struct qn_launch_end){.status = event->status, .usage = event->usage});
    }
}

static void *read_events(void *argument)
{
    struct qn_launcher *launcher = argument;
    struct pollfd fds[] = {{.fd = qn_zygote_fd(launcher->zygote), .events = POLLIN},
                           {.fd = launcher->stop_fd, .events = POLLIN}};
    while (fds[1].revents == 0) {
        struct qn_zygote_event event = {.pid_fd = -1};
        if (poll(fds, 2, -1) < 0) {
            fds[1].revents = 0;
            continue; /* interrupted, or out of kernel memory: again */
        }
        (void)pthread_mutex_lock(&launcher->mutex);
        for (int i = 0; i < EVENTS_MAX && qn_zygote_next_event(launcher->zygote, &event); i++) {
            take_event(launcher, &event);
            event = (struct qn_zygote_event){.pid_fd = -1};
        }
        (void)pthread_mutex_unlock(&launcher->mutex);
    }
    return NULL;
}

/* --- The launcher ------------------------------------------------------------------------- */

/* Without threads. */
static void dismantle(struct qn_launcher *launcher)
{
    qn_zygote_free(launcher->zygote);
    close_fd(launcher->stop_fd);
    (void)pthread_mutex_destroy(&launcher->mutex);
    qn_free(launcher);
}

quern_status qn_launcher_new(struct qn_zygote *take_zygote, qn_launcher_gone *gone, void *user,
                             struct qn_launcher **ret_launcher, quern_error *err)
{
    struct qn_launcher *launcher = qn_alloc_zero(1, sizeof *launcher);
    if (launcher == NULL) {
        qn_zygote_free(take_zygote);
        return qn_error_nomem(err);
    }
    launcher->zygote = take_zygote;
    launcher->references = 1;
    launcher->gone = gone;
    launcher->user = user;
    qn_list_init(&launcher->launched);
    (void)pthread_mutex_init(&launcher->mutex, NULL);
    launcher->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    quern_status status =
        launcher->stop_fd >= 0
            ? qn_thread_start(&launcher->thread, "quern-commands", read_events, launcher, err)
            : qn_error_set(err, QUERN_E_FULL, "no descriptor for commands: %s", strerror(errno));
    if (status != QUERN_OK) {
        dismantle(launcher);
        return status;
    }
    *ret_launcher = launcher;
    return QUERN_OK;
}

static void drop_reference(struct qn_launcher *launcher)
{
    const uint64_t one = 1;
    (void)pthread_mutex_lock(&launcher->mutex);
    bool is_last = --launcher->references == 0;
    (void)pthread_mutex_unlock(&launcher->mutex);
    if (is_last) {
        (void)!write(launcher->stop_fd, &one, sizeof one);
        (void)pthread_join(launcher->thread, NULL);
        dismantle(launcher);
    }
}

void qn_launcher_release(struct qn_launcher *launcher)
{
    if (launcher != NULL) {
        (void)pthread_mutex_lock(&launcher->mutex);
        launcher->gone = NULL;
        (void)pthread_mutex_unlock(&launcher->mutex);
        drop_reference(launcher);
    }
}

/* --- One command -------------------------------------------------------------------------- */

static struct qn_launched *new_launched(struct qn_launcher *launcher, quern_error *err)
{
    struct qn_launched *launched = qn_alloc_zero(1, sizeof *launched);
    if (launched == NULL) {
        (void)qn_error_nomem(err);
        return NULL;
    }
    launched->launcher = launcher;
    launched->pid_fd = -1;
    launched->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (launched->end_fd < 0) {
        (void)qn_error_set(err, QUERN_E_FULL, "no descriptor for a command: %s", strerror(errno));
        qn_free(launched);
        return NULL;
    }
    return launched;
}

static void free_launched(struct qn_launched *launched)
{
    struct qn_launcher *launcher = launched->launcher;
    close_fd(launched->end_fd);
    close_fd(launched->pid_fd);
    qn_free(launched);
    drop_reference(launcher);
}

void qn_launcher_set_cgroup(struct qn_launcher *launcher, int cgroup_fd)
{
    launcher->cgroup_fd = cgroup_fd;
}

int qn_launcher_cgroup(const struct qn_launcher *launcher)
{
    return launcher != NULL ? launcher->cgroup_fd : 0;
}

/* It is in the list before its request is sent: its end may be reported before that returns. */
quern_status qn_launcher_start(struct qn_launcher *launcher,
                               const struct qn_zygote_command *command,
                               struct qn_launched **ret_launched, quern_error *err)
{
    quern_error error;
    struct qn_zygote_command own = *command;
    own.limits.cgroup_fd = launcher->cgroup_fd;
    struct qn_launched *launched = new_launched(launcher, &error);
    if (launched == NULL) {
        return qn_error_set(err, error.code, "%s", error.text);
    }
    (void)pthread_mutex_lock(&launcher->mutex);
    launcher->references++;
    launched->number = ++launcher->last_number;
    bool is_gone = launcher->is_gone;
    launched->has_ended = is_gone;
    if (is_gone) {
        qn_list_init(&launched->node);
    } else {
        qn_list_append(&launcher->launched, &launched->node);
    }
    (void)pthread_mutex_unlock(&launcher->mutex);
    quern_status status =
        is_gone ? qn_error_set(err, QUERN_E_CLOSED, "the zygote of commands has ended")
                : qn_zygote_start_command(launcher->zygote, launched->number, &own, err);
    if (status != QUERN_OK) {
        (void)pthread_mutex_lock(&launcher->mutex);
        if (!launched->has_ended) {
            qn_list_remove(&launched->node);
        }
        (void)pthread_mutex_unlock(&launcher->mutex);
        free_launched(launched);
        return status;
    }
    *ret_launched = launched;
    return QUERN_OK;
}

int qn_launcher_fd(const struct qn_launched *launched)
{
    return launched->end_fd;
}

void qn_launcher_signal(struct qn_launched *launched, int number)
{
    (void)pthread_mutex_lock(&launched->launcher->mutex);
    if (!launched->has_ended && launched->pid != 0) {
        qn_zygote_kill(launched->pid, launched->pid_fd, number);
    } else if (launched->due_signal != SIGKILL) {
        launched->due_signal = number;
    }
    (void)pthread_mutex_unlock(&launched->launcher->mutex);
}

pid_t qn_launcher_pid(struct qn_launched *launched)
{
    (void)pthread_mutex_lock(&launched->launcher->mutex);
    pid_t pid = launched->has_ended ? 0 : launched->pid;
    (void)pthread_mutex_unlock(&launched->launcher->mutex);
    return pid;
}

void qn_launcher_finish(struct qn_launched *take_launched, struct qn_launch_end *ret_end)
{
    struct pollfd ended = {.fd = take_launched->end_fd, .events = POLLIN};
    while (poll(&ended, 1, -1) <= 0) {
    }
    (void)pthread_mutex_lock(&take_launched->launcher->mutex);
    *ret_end = take_launched->end;
    (void)pthread_mutex_unlock(&take_launched->launcher->mutex);
    free_launched(take_launched);
}
