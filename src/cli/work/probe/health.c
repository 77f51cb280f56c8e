/* SPDX-License-Identifier: MIT */
/* health.c - /livez, /readyz, /startupz and /metrics of a worker, and its reports to the service
 * manager.
 *
 * One thread does both, since both say the same. It asks the worker (quern_worker_get_health, which
 * waits for no thread that hangs) under a mutex, within which the worker is not freed. Until there
 * is a worker the process waits for its broker: it is live, and not ready.
 *
 * The service manager gets a sign of life only while the worker is live. It is told that the start
 * is complete when the worker has its record at the broker, or after a while without one: a broker
 * that is away is no failure of the start, as it is none later on. */
#include "cli/work/probe/health.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory/alloc.h"
#include "base/text/moment.h"
#include "base/thread.h"
#include "cli/memory.h"
#include "cli/supervise/notify.h"
#include "cli/supervise/place.h"
#include "cli/supervise/server.h"
#include "quern/metrics.h"
#include "worker/hand_over/hand_over.h"

#define FD_VARIABLE "QUERN_TAKE_OVER_HEALTH"
#define TICK_MS 500        /* of reports */
#define START_WAIT_MS 5000 /* for the broker, until the start is complete without it */
#define MS_PER_US 1000
#define ANSWER_S_MAX 3

/* As the service manager knows it. */
enum phase { PHASE_STARTS, PHASE_RUNS, PHASE_RELOADS, PHASE_STOPS };

struct qn_work_health {
    struct qn_place place;
    int listen_fd; /* -1: none */
    int wake_fd;
    bool runs;
    pthread_t thread;
    struct qn_server *server;
    int64_t begun_mono_ns;
    pthread_mutex_t mutex; /* guards the worker, and that it is not freed */
    quern_worker *worker;
    bool ends;
    bool stops;            /* the thread */
    bool is_up;            /* the manager was told that the worker runs */
    bool owes_ready;       /* but not that it has reloaded: there was no room */
    enum phase phase;      /* the rest is the thread's */
    int64_t alive_mono_ns; /* its latest sign of life */
    char status[256];
};

/* What is known now. */
struct view {
    quern_worker_health health;
    bool has_worker;
    bool ends;
    bool hands_over;
};

static struct view look(struct qn_work_health *own)
{
    struct view view = {.health.live = true, .health.exchange_age_ms = -1};
    const quern_worker_check starts = {
        .name = "started",
        .for_ms = (qn_clock_mono_ns() - own->begun_mono_ns) / QN_NS_PER_MS,
        .detail = "waits for the broker",
    };
    view.health.checks[view.health.check_count++] = starts; /* until there is a worker */
    (void)pthread_mutex_lock(&own->mutex);
    view.ends = own->ends;
    view.has_worker = own->worker != NULL;
    if (view.has_worker) {
        quern_worker_get_health(own->worker, &view.health);
        view.hands_over = qn_hand_over_is_under_way(own->worker);
    }
    (void)pthread_mutex_unlock(&own->mutex);
    return view;
}

static const quern_worker_check *find_check(const struct view *view, const char *name)
{
    for (size_t i = 0; i < view->health.check_count; i++) {
        if (strcmp(view->health.checks[i].name, name) == 0) {
            return &view->health.checks[i];
        }
    }
    return NULL;
}

/* --- Pages ------------------------------------------------------------------------------- */

enum page { PAGE_LIVE, PAGE_READY, PAGE_START };
static const struct {
    const char *path;
    enum page page;
} pages[] = {{"/livez", PAGE_LIVE}, {"/readyz", PAGE_READY}, {"/startupz", PAGE_START}};

static bool is_ok(const struct view *view, enum page page)
{
    switch (page) {
    case PAGE_LIVE:
        return view->health.live;
    case PAGE_READY:
        return view->health.ready;
    case PAGE_START:
        return view->health.started;
    }
    return false;
}

static bool is_on_page(const quern_worker_check *check, enum page page)
{
    switch (page) {
    case PAGE_LIVE:
        return strcmp(check->name, "threads") == 0 || strcmp(check->name, "fetch") == 0;
    case PAGE_READY:
        return true;
    case PAGE_START:
        return strcmp(check->name, "started") == 0;
    }
    return false;
}

static json_t *check_json(const quern_worker_check *check)
{
    char since[64];
    qn_moment_format(qn_clock_wall_ms(qn_clock_system()) - check->for_ms, since, sizeof since);
    return json_pack("{s:s,s:b,s:s,s:I,s:s}", "name", check->name, "ok", check->ok, "since", since,
                     "for_ms", (json_int_t)check->for_ms, "detail", check->detail);
}

static void fill_page(struct qn_work_health *own, enum page which, struct qn_server_page *page)
{
    struct view view = look(own);
    page->ok = is_ok(&view, which);
    json_t *checks = json_array();
    for (size_t i = 0; i < view.health.check_count; i++) {
        if (is_on_page(&view.health.checks[i], which)) {
            (void)json_array_append_new(checks, check_json(&view.health.checks[i]));
        }
    }
    json_t *body = json_pack("{s:b,s:I,s:o}", "ok", page->ok, "exchange_age_ms",
                             (json_int_t)view.health.exchange_age_ms, "checks", checks);
    page->body = body == NULL ? NULL : json_dumps(body, JSON_COMPACT);
    page->size = page->body == NULL ? 0 : strlen(page->body);
    page->free_body = free;
    page->content_type = "application/json";
    json_decref(body);
}

static void free_metrics(void *body)
{
    quern_metrics_free(body);
}

/* Until there is a worker only the process has any. */
static void fill_metrics(struct qn_work_health *own, const char *accept,
                         struct qn_server_page *page)
{
    quern_metrics_format format = quern_metrics_accept(accept);
    const quern_metrics_options options = {.format = (int32_t)format, .process = true};
    quern_error err;
    (void)pthread_mutex_lock(&own->mutex);
    quern_status status =
        own->worker == NULL
            ? quern_metrics_process(&options, &page->body, &page->size, &err)
            : quern_metrics_worker(own->worker, &options, &page->body, &page->size, &err);
    (void)pthread_mutex_unlock(&own->mutex);
    page->ok = status == QUERN_OK; /* else there is no memory, and no answer */
    page->free_body = free_metrics;
    page->content_type = quern_metrics_content_type(format);
}

static bool answer(const struct qn_server_request *request, struct qn_server_page *ret_page,
                   void *user)
{
    struct qn_work_health *own = user;
    if (strcmp(request->path, "/metrics") == 0) {
        fill_metrics(own, request->accept, ret_page);
        return true;
    }
    for (size_t i = 0; i < QN_COUNT_OF(pages); i++) {
        if (strcmp(request->path, pages[i].path) == 0) {
            fill_page(own, pages[i].page, ret_page);
            return true;
        }
    }
    return false;
}

/* --- Reports ----------------------------------------------------------------------------- */

static enum phase phase_of(const struct qn_work_health *own, const struct view *view)
{
    const quern_worker_check *accepts = find_check(view, "accepting");
    int64_t since_ms = (qn_clock_mono_ns() - own->begun_mono_ns) / QN_NS_PER_MS;
    if (view->hands_over) {
        return PHASE_RELOADS;
    }
    if (view->ends || (accepts != NULL && strcmp(accepts->detail, "draining") == 0)) {
        return PHASE_STOPS;
    }
    bool has_begun = own->phase != PHASE_STARTS && own->phase != PHASE_RELOADS;
    bool is_complete = view->health.started || has_begun || since_ms >= START_WAIT_MS;
    return is_complete ? PHASE_RUNS : own->phase;
}

static void report_phase(struct qn_work_health *own, enum phase phase)
{
    (void)pthread_mutex_lock(&own->mutex);
    if (own->owes_ready && phase == PHASE_RUNS) {
        own->owes_ready = !qn_notify_ready();
    }
    (void)pthread_mutex_unlock(&own->mutex);
    if (phase == own->phase) {
        return;
    }
    bool knows = true;
    (void)pthread_mutex_lock(&own->mutex);
    own->is_up = phase == PHASE_RUNS;
    (void)pthread_mutex_unlock(&own->mutex);
    switch (phase) {
    case PHASE_STARTS:
        break;
    case PHASE_RUNS:
        knows = qn_notify_ready();
        break;
    case PHASE_RELOADS:
        knows = qn_notify_reloading();
        break;
    case PHASE_STOPS:
        knows = qn_notify_stopping();
        break;
    }
    own->phase = knows ? phase : own->phase;
}

/* The first check that fails, or what it does. */
static void report_status(struct qn_work_health *own, const struct view *view)
{
    char text[sizeof own->status];
    const quern_worker_check *failed = NULL;
    for (size_t i = 0; failed == NULL && i < view->health.check_count; i++) {
        failed = view->health.checks[i].ok ? NULL : &view->health.checks[i];
    }
    if (view->ends) {
        (void)snprintf(text, sizeof text, "ends");
    } else if (failed != NULL) {
        (void)snprintf(text, sizeof text, "%s: %s: %s",
                       view->health.live ? "not ready" : "not live", failed->name, failed->detail);
    } else {
        (void)snprintf(text, sizeof text, "ready");
    }
    if (strcmp(text, own->status) != 0 && qn_notify_status(text)) {
        (void)memcpy(own->status, text, sizeof text);
    }
}

/* Returns after how many ms to report again; -1: never. */
static int64_t report(struct qn_work_health *own)
{
    if (!qn_notify_is_wanted()) {
        return -1;
    }
    struct view view = look(own);
    int64_t pace_ms = qn_notify_watchdog_ms();
    int64_t now_mono_ns = qn_clock_mono_ns();
    int64_t next_ms = TICK_MS;
    report_phase(own, phase_of(own, &view));
    report_status(own, &view);
    if (pace_ms == 0) {
        return next_ms;
    }
    int64_t left_ms = pace_ms - (now_mono_ns - own->alive_mono_ns) / QN_NS_PER_MS;
    if (left_ms <= 0 && view.health.live && qn_notify_alive()) {
        own->alive_mono_ns = now_mono_ns;
        left_ms = pace_ms;
    }
    return left_ms > 0 && left_ms < next_ms ? left_ms : next_ms;
}

/* --- The thread ---------------------------------------------------------------------------- */

static bool stops(struct qn_work_health *own)
{
    (void)pthread_mutex_lock(&own->mutex);
    bool stops = own->stops;
    (void)pthread_mutex_unlock(&own->mutex);
    return stops;
}

static void *serve(void *user)
{
    struct qn_work_health *own = user;
    struct pollfd fds[2] = {
        {.fd = own->wake_fd, .events = POLLIN},
        {.fd = own->server == NULL ? -1 : qn_server_fd(own->server), .events = POLLIN}};
    do {
        int64_t wait_ms = report(own);
        int64_t server_ms = own->server == NULL ? -1 : qn_server_work(own->server);
        if (wait_ms < 0 || (server_ms >= 0 && server_ms < wait_ms)) {
            wait_ms = server_ms;
        }
        if (poll(fds, QN_COUNT_OF(fds), (int)wait_ms) > 0 && (fds[0].revents & POLLIN) != 0) {
            uint64_t count;
            (void)!read(own->wake_fd, &count, sizeof count);
        }
    } while (!stops(own));
    (void)report(own);
    return NULL;
}

static void wake(struct qn_work_health *own)
{
    const uint64_t one = 1;
    (void)!write(own->wake_fd, &one, sizeof one);
}

/* Not by the thread, which might look only when all is over; the manager waits for this report. */
void qn_work_health_reload(struct qn_work *work, bool begins)
{
    struct qn_work_health *own = work->health;
    if (own == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&own->mutex);
    if (own->is_up && begins) {
        (void)qn_notify_reloading(); /* the manager accepts a READY without it */
    } else if (own->is_up) {
        own->owes_ready = !qn_notify_ready();
    }
    (void)pthread_mutex_unlock(&own->mutex);
}

void qn_work_health_start(struct qn_work *work)
{
    struct qn_work_health *own = work->health;
    quern_error err;
    if (own == NULL) {
        return;
    }
    own->stops = false;
    own->begun_mono_ns = qn_clock_mono_ns();
    if (own->listen_fd >= 0) {
        own->server = qn_server_new(own->listen_fd, ANSWER_S_MAX, answer, own);
        if (own->server == NULL) {
            qn_cli_warn(work->cli, "no health is served: no memory or descriptor");
        }
    }
    own->runs = qn_thread_start(&own->thread, "quern-health", serve, own, &err) == QUERN_OK;
    if (!own->runs) {
        qn_cli_warn(work->cli, "no health is served: %s", err.text);
    }
}

void qn_work_health_of(struct qn_work *work, quern_worker *worker, bool ends)
{
    struct qn_work_health *own = work->health;
    if (own != NULL) {
        (void)pthread_mutex_lock(&own->mutex);
        own->worker = worker;
        own->ends = ends;
        (void)pthread_mutex_unlock(&own->mutex);
        wake(own);
    }
}

void qn_work_health_stop(struct qn_work *work)
{
    struct qn_work_health *own = work->health;
    if (own == NULL) {
        return;
    }
    if (own->runs) {
        (void)pthread_mutex_lock(&own->mutex);
        own->stops = true;
        (void)pthread_mutex_unlock(&own->mutex);
        wake(own);
        (void)pthread_join(own->thread, NULL);
        own->runs = false;
    }
    qn_server_free(own->server);
    own->server = NULL;
}

/* --- The socket ---------------------------------------------------------------------------- */

/* That of the program before, which is open in this process; -1: none. */
static int take_passed_fd(void)
{
    const char *text = getenv(FD_VARIABLE);
    char *end = NULL;
    int accepts = 0;
    socklen_t size = sizeof accepts;
    long fd = text == NULL ? -1 : strtol(text, &end, 10);
    bool is_number = text != NULL && end != text && *end == '\0' && fd > STDERR_FILENO;
    (void)unsetenv(FD_VARIABLE);
    if (!is_number || fd > INT32_MAX ||
        getsockopt((int)fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) != 0 || accepts == 0) {
        return -1;
    }
    (void)fcntl((int)fd, F_SETFD, FD_CLOEXEC);
    return (int)fd;
}

static int open_socket(struct qn_work *work, const char *text)
{
    struct qn_work_health *own = work->health;
    char shown[QN_PLACE_TEXT_SIZE];
    if (!qn_place_parse(text, &own->place)) {
        return qn_cli_usage(
            work->cli, "--health-port: '%s' is not [ADDRESS:]PORT or the path of a socket", text);
    }
    own->listen_fd = take_passed_fd();
    if (own->listen_fd >= 0) {
        return QN_EXIT_OK;
    }
    own->listen_fd = qn_place_listen(&own->place);
    if (own->listen_fd < 0) {
        int code = errno;
        qn_cli_message(work->cli, "--health-port: cannot listen at %s: %s", text, strerror(code));
        return code == EADDRINUSE ? QN_EXIT_TEMPORARY : QN_EXIT_CONFIG;
    }
    qn_place_print(own->listen_fd, shown);
    QN_LOG(&work->log.lines, QUERN_LOG_INFO, "health is served", QN_LOG_TEXT("at", shown));
    return QN_EXIT_OK;
}

int qn_work_health_open(struct qn_work *work, const char *text)
{
    if (text == NULL && !qn_notify_is_wanted()) {
        return QN_EXIT_OK;
    }
    struct qn_work_health *own = qn_memory_must(qn_alloc_zero(1, sizeof *own));
    own->listen_fd = -1;
    own->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)pthread_mutex_init(&own->mutex, NULL);
    work->health = own;
    if (own->wake_fd < 0) {
        qn_cli_message(work->cli, "no descriptor: %s", strerror(errno));
        return QN_EXIT_TEMPORARY;
    }
    return text == NULL ? QN_EXIT_OK : open_socket(work, text);
}

void qn_work_health_pass_on(struct qn_work *work, bool passes)
{
    const struct qn_work_health *own = work->health;
    char number[16];
    if (!passes) {
        qn_notify_take();
        (void)unsetenv(FD_VARIABLE);
    } else {
        qn_notify_give_back();
    }
    if (own == NULL || own->listen_fd < 0) {
        return;
    }
    (void)fcntl(own->listen_fd, F_SETFD, passes ? 0 : FD_CLOEXEC);
    if (passes) {
        (void)snprintf(number, sizeof number, "%d", own->listen_fd);
        (void)setenv(FD_VARIABLE, number, 1);
    }
}

void qn_work_health_finish(struct qn_work *work)
{
    struct qn_work_health *own = work->health;
    if (own == NULL) {
        return;
    }
    qn_work_health_stop(work);
    if (own->listen_fd >= 0) {
        (void)close(own->listen_fd);
        if (own->place.path[0] != '\0') {
            (void)unlink(own->place.path);
        }
    }
    if (own->wake_fd >= 0) {
        (void)close(own->wake_fd);
    }
    (void)pthread_mutex_destroy(&own->mutex);
    qn_free(own);
    work->health = NULL;
}
