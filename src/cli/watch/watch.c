/* SPDX-License-Identifier: MIT */
/* watch.c - `quern watch`: a line for each change of the state of a task, as it is seen.
 *
 * No broker reports all changes, so the tasks are looked at each second: first all that are active,
 * which are few; then the others, at most SCAN_MAX of them, so that a sweep over a large broker
 * takes several looks. A task that is not found where it was is read by its id. So the cost of a
 * look is bounded, on the broker as here. What begins and ends between two looks at it is not seen
 * itself; the counters of the queues show how many such ends there were, and that is reported.
 *
 * The first sweep only learns what there is. A broker that is away is waited for. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory/alloc.h"
#include "base/text/moment.h"
#include "base/text/plural.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/output/text.h"
#include "cli/watch/seen.h"
#include "quern/search.h"

enum {
    SCAN_MAX = 20000, /* tasks of a sweep in one look: 0.1 s of Redis */
    ACTIVE_MAX = 10000,
    READ_MAX = 500, /* tasks that are read by their id in one look; the others in the next one */
    INTERVAL_MS = 1000,
    INTERVAL_MS_MIN = 100,
    INTERVAL_MS_MAX = 86400000,
    REPORT_MS = 5000 /* between two reports of ends that were not seen */
};

enum option { OPTION_MATCH, OPTION_QUEUE, OPTION_INTERVAL };
static const struct qn_option options[] = {
    [OPTION_MATCH] = {"match", "QUERY", "only tasks that fulfil it, as of task list",
                      QN_OPTION_TEXT},
    [OPTION_QUEUE] = {"queue", "NAME", "only in this queue (default: all)", QN_OPTION_TEXT},
    [OPTION_INTERVAL] = {"interval", "D", "look so often (1s)", QN_OPTION_DURATION,
                         .min = INTERVAL_MS_MIN, .max = INTERVAL_MS_MAX},
};

struct watch {
    const struct qn_cli *cli;
    quern_inspector *inspector;
    const char *match;
    const char *queue;
    struct qn_seen seen;
    uint64_t round;        /* of the looks, from 1 on */
    uint64_t sweep_round;  /* in which the sweep began */
    char *cursor;          /* of the sweep; NULL: it begins */
    bool has_swept;        /* once: what is new from now on is news */
    size_t reads;          /* in this look */
    quern_error err;       /* of a read; code QUERN_OK: none failed */
    uint64_t ended_before; /* by the counters, when it began */
    uint64_t ends_seen;
    uint64_t missed; /* as it was reported */
    int64_t reported_mono_ns;
    bool is_away;
};

/* --- Events ------------------------------------------------------------------------------ */

struct event {
    const struct qn_seen_task *task;
    const char *from;            /* "": it is new */
    const char *to;              /* "gone": done without a retention, or deleted */
    const quern_task_info *info; /* NULL: it is gone */
};

static const char *name_of(quern_task_state state)
{
    const char *name = quern_task_state_name(state);
    return name != NULL ? name : "unknown";
}

/* Of a task that waits for a retry or is archived; "": none. */
static const char *error_of(const struct event *event)
{
    bool has_failed = strcmp(event->to, "retry") == 0 || strcmp(event->to, "archived") == 0;
    const char *error = event->info != NULL && has_failed ? quern_task_info_error(event->info) : "";
    return error != NULL ? error : "";
}

static void print_json(const struct event *event, int64_t now_ms)
{
    json_t *object = qn_memory_must(json_pack("{s:o,s:s,s:s}", "at_ms", qn_json_moment(now_ms),
                                              "from", event->from, "to", event->to));
    qn_json_set_text(object, "queue", event->task->queue);
    qn_json_set_text(object, "id", event->task->id);
    qn_json_set_text(object, "type", event->task->type);
    qn_json_set_text(object, "error", error_of(event));
    if (event->info != NULL) {
        const char *cause = quern_cause_name(quern_task_info_cause(event->info));
        bool has_cause = quern_task_info_cause(event->info) != QUERN_CAUSE_NONE && cause != NULL;
        (void)json_object_set_new(object, "retry_count",
                                  json_integer(quern_task_info_retry_count(event->info)));
        (void)json_object_set_new(object, "crash_count",
                                  json_integer(quern_task_info_crash_count(event->info)));
        qn_json_set_text(object, "worker", quern_task_info_worker(event->info));
        qn_json_set_text(object, "cause", has_cause ? cause : "");
    }
    (void)qn_json_print(object);
}

static void print_text(const struct event *event, int64_t now_ms)
{
    char at[64];
    char line[1024];
    const char *error = error_of(event);
    const char *cause =
        event->info != NULL ? quern_cause_name(quern_task_info_cause(event->info)) : NULL;
    bool has_cause =
        cause != NULL && quern_task_info_cause(event->info) != QUERN_CAUSE_NONE && error[0] == '\0';
    qn_moment_format(now_ms, at, sizeof at);
    (void)snprintf(line, sizeof line, "%s %s %s %s %s%s%s%s%s%s%s", at, event->task->queue,
                   event->task->id, event->task->type, event->from,
                   event->from[0] == '\0' ? "" : " -> ", event->to, has_cause ? ", " : "",
                   has_cause ? cause : "", error[0] == '\0' ? "" : ": ", error);
    char *safe = qn_text_safe(line, strcspn(line, "\n"));
    printf("%s\n", safe);
    qn_free(safe);
}

/* Whether a run may have ended, which the counters count, too. */
static bool is_end(const struct event *event)
{
    bool had_ended = strcmp(event->from, "archived") == 0 || strcmp(event->from, "completed") == 0;
    return !had_ended && (strcmp(event->to, "gone") == 0 || strcmp(event->to, "completed") == 0 ||
                          strcmp(event->to, "archived") == 0 || strcmp(event->to, "retry") == 0);
}

static void emit(struct watch *watch, const struct event *event)
{
    int64_t now_ms = qn_clock_wall_ms(qn_clock_system());
    watch->ends_seen += is_end(event) ? 1 : 0;
    if (watch->cli->json) {
        print_json(event, now_ms);
    } else {
        print_text(event, now_ms);
    }
}

/* --- What a look finds -------------------------------------------------------------------- */

static void compare(struct watch *watch, struct qn_seen_task *task, const quern_task_info *info)
{
    bool has_changed = task->state != quern_task_info_state(info) ||
                       task->retry_count != quern_task_info_retry_count(info) ||
                       task->crash_count != quern_task_info_crash_count(info);
    task->round = watch->round;
    if (has_changed) {
        quern_task_state from = task->state;
        qn_seen_update(task, info);
        emit(watch, &(struct event){task, name_of(from), name_of(task->state), info});
    }
}

static void observe(struct watch *watch, const quern_task_list *list)
{
    for (size_t i = 0; i < quern_task_list_size(list); i++) {
        const quern_task_info *info = quern_task_list_at(list, i);
        struct qn_seen_task *task =
            qn_seen_find(&watch->seen, quern_task_info_queue(info), quern_task_info_id(info));
        if (task != NULL) {
            compare(watch, task, info);
            continue;
        }
        task = qn_seen_add(&watch->seen, info);
        if (task != NULL) {
            task->round = watch->round;
            if (watch->has_swept) {
                emit(watch, &(struct event){task, "", name_of(task->state), info});
            }
        }
    }
}

/* Reads a task that was not where it was. True: it is to be forgotten. */
static bool read_missing(struct watch *watch, struct qn_seen_task *task)
{
    quern_error err;
    quern_task_info *info = NULL;
    if (watch->reads >= READ_MAX || watch->err.code != QUERN_OK) {
        return false;
    }
    watch->reads++;
    quern_status status =
        quern_inspector_task(watch->inspector, task->queue, task->id, &info, &err);
    if (status == QUERN_E_NOT_FOUND) {
        emit(watch, &(struct event){task, name_of(task->state), "gone", NULL});
        return true;
    }
    if (status != QUERN_OK) {
        watch->err = err;
        return false;
    }
    compare(watch, task, info);
    quern_task_info_free(info);
    return false;
}

static bool check_active(struct qn_seen_task *task, void *user)
{
    struct watch *watch = user;
    return task->state == QUERN_TASK_ACTIVE && task->round != watch->round &&
           read_missing(watch, task);
}

/* With a query a task may have stopped fulfilling it. */
static bool check_swept(struct qn_seen_task *task, void *user)
{
    struct watch *watch = user;
    bool is_missing = task->round < watch->sweep_round;
    bool is_gone = is_missing && read_missing(watch, task);
    return is_gone || (is_missing && watch->match != NULL && task->round == watch->round);
}

/* --- A look -------------------------------------------------------------------------------- */

static quern_status search(struct watch *watch, const quern_search *search, char **ret_cursor)
{
    quern_task_list *list = NULL;
    quern_status status = quern_inspector_search(watch->inspector, search, &list, &watch->err);
    if (status == QUERN_OK) {
        const char *cursor = quern_task_list_cursor(list);
        observe(watch, list);
        *ret_cursor = cursor == NULL ? NULL : qn_memory_must(qn_str_dup(cursor));
    }
    quern_task_list_free(list);
    return status;
}

static quern_status look_at_active(struct watch *watch)
{
    char *cursor = NULL;
    const quern_search active = {.match = watch->match,
                                 .queue = watch->queue,
                                 .state = QUERN_TASK_ACTIVE,
                                 .limit = ACTIVE_MAX,
                                 .scan_max = ACTIVE_MAX};
    quern_status status = search(watch, &active, &cursor);
    qn_free(cursor); /* more than that are seen by the sweep */
    if (status == QUERN_OK) {
        qn_seen_each(&watch->seen, check_active, watch);
    }
    return watch->err.code;
}

static quern_status sweep(struct watch *watch)
{
    char *next = NULL;
    const quern_search part = {.match = watch->match,
                               .queue = watch->queue,
                               .cursor = watch->cursor,
                               .limit = ACTIVE_MAX,
                               .scan_max = SCAN_MAX};
    watch->sweep_round = watch->cursor == NULL ? watch->round : watch->sweep_round;
    quern_status status = search(watch, &part, &next);
    qn_free(watch->cursor);
    watch->cursor = next;
    if (status == QUERN_OK && next == NULL) {
        if (watch->has_swept) {
            qn_seen_each(&watch->seen, check_swept, watch);
        } else {
            watch->has_swept = true;
            qn_cli_message(watch->cli, "%zu %s; what begins and ends between two looks is counted",
                           watch->seen.count, qn_plural(watch->seen.count, "task", "tasks"));
        }
    }
    return watch->err.code;
}

/* --- What was not seen ---------------------------------------------------------------------- */

static quern_status count_ended(struct watch *watch, uint64_t *ret_ended)
{
    quern_queue_list *list = NULL;
    quern_status status = quern_inspector_queues(watch->inspector, &list, &watch->err);
    uint64_t ended = 0;
    for (size_t i = 0; status == QUERN_OK && i < quern_queue_list_size(list); i++) {
        const quern_queue_info *queue = quern_queue_list_at(list, i);
        bool counts = watch->queue == NULL || strcmp(watch->queue, queue->name) == 0;
        ended += counts ? queue->processed_total : 0;
    }
    quern_queue_list_free(list);
    *ret_ended = ended;
    return status;
}

static void print_missed(const struct watch *watch, uint64_t count)
{
    if (watch->cli->json) {
        (void)qn_json_print(json_pack("{s:I,s:b}", "missed", (json_int_t)count, "full",
                                      watch->seen.was_full ? 1 : 0));
        return;
    }
    qn_cli_message(watch->cli, "%" PRIu64 " %s not seen%s", count,
                   qn_plural(count, "run that ended was", "runs that ended were"),
                   watch->seen.was_full ? "; there are too many tasks: use --match or --queue"
                                        : "");
}

/* The counters know nothing of a query. */
static quern_status report_missed(struct watch *watch)
{
    uint64_t ended = 0;
    int64_t now_ns = qn_clock_mono_ns();
    if (watch->match != NULL || !watch->has_swept ||
        now_ns - watch->reported_mono_ns < REPORT_MS * QN_NS_PER_MS) {
        return QUERN_OK;
    }
    watch->reported_mono_ns = now_ns;
    quern_status status = count_ended(watch, &ended);
    ended = ended > watch->ended_before ? ended - watch->ended_before : 0;
    uint64_t missed = ended > watch->ends_seen ? ended - watch->ends_seen : 0;
    if (status == QUERN_OK && missed > watch->missed) {
        print_missed(watch, missed - watch->missed);
        watch->missed = missed;
    }
    return status;
}

/* --- The verb ------------------------------------------------------------------------------- */

static quern_status look(struct watch *watch)
{
    watch->round++;
    watch->reads = 0;
    watch->err.code = QUERN_OK;
    quern_status status = look_at_active(watch);
    if (status == QUERN_OK) {
        status = sweep(watch);
    }
    if (status == QUERN_OK) {
        status = report_missed(watch);
    }
    (void)fflush(stdout);
    return status;
}

/* False: it is no use to wait for the broker. */
static bool may_come_back(const struct watch *watch, quern_status status)
{
    return !qn_cli_no_retry(watch->cli) && watch->round > 1 &&
           (status == QUERN_E_CONNECT || status == QUERN_E_BUSY || status == QUERN_E_TIMEOUT);
}

static int watch_on(struct watch *watch)
{
    int64_t interval_ms = qn_args_number(&watch->cli->args, OPTION_INTERVAL, INTERVAL_MS);
    if (count_ended(watch, &watch->ended_before) != QUERN_OK) {
        return qn_cli_fail(watch->cli, &watch->err);
    }
    watch->reported_mono_ns = qn_clock_mono_ns();
    while (ferror(stdout) == 0) {
        quern_status status = look(watch);
        if (status != QUERN_OK && !may_come_back(watch, status)) {
            return status == QUERN_E_INVALID ? qn_cli_usage(watch->cli, "%s", watch->err.text)
                                             : qn_cli_fail(watch->cli, &watch->err);
        }
        if ((status != QUERN_OK) != watch->is_away) {
            watch->is_away = status != QUERN_OK;
            qn_cli_message(watch->cli, "%s",
                           watch->is_away ? watch->err.text : "the broker answers again");
        }
        (void)poll(NULL, 0, (int)interval_ms);
    }
    return QN_EXIT_FAILURE;
}

static int run_watch(struct qn_cli *cli)
{
    struct watch watch = {.cli = cli,
                          .match = qn_args_text(&cli->args, OPTION_MATCH),
                          .queue = qn_args_text(&cli->args, OPTION_QUEUE)};
    int exit_code = qn_cli_open_inspector(cli, false, &watch.inspector);
    if (exit_code == QN_EXIT_OK) {
        qn_seen_init(&watch.seen);
        exit_code = watch_on(&watch);
        qn_seen_finish(&watch.seen);
    }
    qn_free(watch.cursor);
    quern_inspector_free(watch.inspector);
    return exit_code;
}

static const struct qn_verb verbs[] = {{
    .name = "",
    .operands = "",
    .summary = "print a line for each change of a task, until it is interrupted",
    .about = "Tasks are looked at each second: what begins and ends in between is only\n"
             "counted. A sweep over more than 20000 tasks takes several looks.",
    .example = "  quern watch --match 'type = mail:* and retried > 0'",
    .options = options,
    .option_count = QN_COUNT_OF(options),
    .run = run_watch,
}};
const struct qn_noun qn_noun_watch = {"watch", "print what becomes of tasks, live", verbs, 1};
