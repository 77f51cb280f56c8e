/* SPDX-License-Identifier: MIT */
/* health.c - `quern health`: a probe of workers, for containers, cron and scripts.
 *
 * With --health-port it asks the process itself, which needs no broker. Else it reads the records
 * of workers at the broker: those of this host, or the ones that are named. It prints one line. A
 * broker that cannot be asked is an error of its own: then nothing is known of the workers. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory/alloc.h"
#include "base/text/plural.h"
#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/output/text.h"
#include "cli/service.h"
#include "cli/supervise/ask.h"

#define MAX_AGE_MS 15000 /* three heartbeats */
#define TIMEOUT_MS 3000
#define REASON_SIZE 512

enum option {
    OPTION_CHECK,
    OPTION_HEALTH_PORT,
    OPTION_WORKER,
    OPTION_HOST,
    OPTION_PID,
    OPTION_ALL,
    OPTION_MAX_AGE,
    OPTION_TIMEOUT
};
static const struct qn_option options[] = {
    [OPTION_CHECK] = {"check", "WHAT", "ready (default), live or start", QN_OPTION_TEXT},
    [OPTION_HEALTH_PORT] = {"health-port", "PLACE",
                            "ask the process, as work --health-port names it", QN_OPTION_TEXT},
    [OPTION_WORKER] = {"worker", "ID", "of this worker, or the beginning of its id",
                       QN_OPTION_TEXT},
    [OPTION_HOST] = {"host", "NAME", "of the workers there (this host)", QN_OPTION_TEXT},
    [OPTION_PID] = {"pid", "N", "of the worker in this process", QN_OPTION_COUNT, .min = 1,
                    .max = INT32_MAX},
    [OPTION_ALL] = {"all", NULL, "of all workers", QN_OPTION_FLAG},
    [OPTION_MAX_AGE] = {"max-age", "D", "how old a heartbeat may be (15s)", QN_OPTION_DURATION,
                        .min = 1},
    [OPTION_TIMEOUT] = {"timeout", "D", "how long the process may take to answer (3s)",
                        QN_OPTION_DURATION, .min = 1},
};

enum check { CHECK_READY, CHECK_LIVE, CHECK_START };
static const struct {
    const char *name;
    const char *path;
    const char *word;
} checks[] = {
    [CHECK_READY] = {"ready", "/readyz", "ready"},
    [CHECK_LIVE] = {"live", "/livez", "live"},
    [CHECK_START] = {"start", "/startupz", "started"},
};

static bool read_check(const struct qn_cli *cli, enum check *ret_check)
{
    const char *text = qn_args_text(&cli->args, OPTION_CHECK);
    for (size_t i = 0; i < QN_COUNT_OF(checks); i++) {
        if (text == NULL || strcmp(text, checks[i].name) == 0) {
            *ret_check = (enum check)i;
            return true;
        }
    }
    return false;
}

struct result {
    enum check check;
    bool ok;
    const char *reason;
    const char *name; /* of the details in the document */
};

/* The line, or the document. */
static int print(const struct qn_cli *cli, const struct result *result, json_t *take_details)
{
    const char *reason = result->reason;
    bool ok = result->ok;
    if (cli->json) {
        json_t *object = json_pack("{s:b,s:s,s:o}", "ok", ok, "check", checks[result->check].name,
                                   result->name, take_details);
        (void)json_object_set_new(qn_memory_must(object), "reason", json_string(reason));
        int printed = qn_json_print(object);
        return printed != QN_EXIT_OK ? printed : ok ? QN_EXIT_OK : QN_EXIT_FAILURE;
    }
    json_decref(take_details);
    char *safe = qn_text_safe(reason, strlen(reason));
    (void)printf("%s%s: %s\n", ok ? "" : "not ", checks[result->check].word, safe);
    qn_free(safe);
    return ok ? QN_EXIT_OK : QN_EXIT_FAILURE;
}

/* --- The process itself ------------------------------------------------------------------ */

/* The checks that failed. */
static void read_failures(const json_t *body, char reason[REASON_SIZE])
{
    size_t used = 0;
    size_t index;
    json_t *check;
    json_array_foreach(json_object_get(body, "checks"), index, check)
    {
        const char *name = json_string_value(json_object_get(check, "name"));
        const char *detail = json_string_value(json_object_get(check, "detail"));
        int64_t for_s = json_integer_value(json_object_get(check, "for_ms")) / 1000;
        if (json_is_false(json_object_get(check, "ok")) && name != NULL && used < REASON_SIZE) {
            int size = snprintf(reason + used, REASON_SIZE - used, "%s%s: %s, for %" PRId64 " s",
                                used > 0 ? "; " : "", name, detail != NULL ? detail : "", for_s);
            used += size > 0 ? (size_t)size : 0;
        }
    }
    if (used == 0) {
        (void)snprintf(reason, REASON_SIZE, "it does not say why");
    }
}

static int ask_process(const struct qn_cli *cli, enum check check, const char *text)
{
    struct qn_place place;
    char why[128];
    char reason[REASON_SIZE];
    if (!qn_place_parse(text, &place)) {
        return qn_cli_usage(
            cli, "--health-port: '%s' is not [ADDRESS:]PORT or the path of a socket", text);
    }
    struct qn_ask_answer *answer = qn_memory_must(qn_alloc_zero(1, sizeof *answer));
    bool answers = qn_ask(&place, checks[check].path,
                          qn_args_number(&cli->args, OPTION_TIMEOUT, TIMEOUT_MS), answer, why);
    json_t *body = answers ? json_loads(answer->body, 0, NULL) : NULL;
    bool ok = answers && answer->code == 200;
    if (!answers) {
        (void)snprintf(reason, sizeof reason, "no answer from %s: %s", text, why);
    } else if (ok) {
        (void)snprintf(reason, sizeof reason, "the process at %s says so", text);
    } else if (answer->code == 503) {
        read_failures(body, reason);
    } else {
        (void)snprintf(reason, sizeof reason, "%s answers with status %d", text, answer->code);
    }
    qn_free(answer);
    const struct result result = {check, ok, reason, "answer"};
    return print(cli, &result, body != NULL ? body : json_null());
}

/* --- Its record ---------------------------------------------------------------------------- */

/* Which records are looked at. */
struct choice {
    const char *id;
    const char *host; /* NULL: of any */
    int64_t pid;      /* 0: of any */
};

static bool is_chosen(const struct choice *choice, const quern_worker_info *worker)
{
    return (choice->id == NULL || strncmp(worker->id, choice->id, strlen(choice->id)) == 0) &&
           (choice->host == NULL || strcmp(worker->host, choice->host) == 0) &&
           (choice->pid == 0 || worker->pid == choice->pid);
}

static bool is_ok(const quern_worker_info *worker, enum check check, int64_t age_ms,
                  int64_t max_age_ms)
{
    switch (check) {
    case CHECK_READY:
        return age_ms <= max_age_ms && worker->status == QUERN_WORKER_ACTIVE;
    case CHECK_LIVE:
        return age_ms <= max_age_ms && worker->status != QUERN_WORKER_STALLED;
    case CHECK_START:
        return true;
    }
    return false;
}

static json_t *worker_json(const quern_worker_info *worker, bool ok, int64_t age_ms)
{
    json_t *object =
        json_pack("{s:s,s:s,s:I,s:s,s:b,s:I}", "id", worker->id, "host", worker->host, "pid",
                  (json_int_t)worker->pid, "status", qn_service_status_name(worker->status), "ok",
                  ok, "heartbeat_age_ms", (json_int_t)age_ms);
    (void)json_object_set_new(qn_memory_must(object), "exchanged_at_ms",
                              qn_json_moment(worker->exchanged_at_ms));
    return object;
}

static void describe(const quern_worker_info *worker, int64_t age_ms, char reason[REASON_SIZE])
{
    int64_t exchange_s = (worker->heartbeat_at_ms - worker->exchanged_at_ms) / 1000;
    int used = snprintf(reason, REASON_SIZE,
                        "worker %.64s on %.200s, process %" PRId64 ", is %s; its heartbeat is"
                        " %" PRId64 " s old",
                        worker->id, worker->host, worker->pid,
                        qn_service_status_name(worker->status), age_ms / 1000);
    if (worker->exchanged_at_ms != 0 && used > 0 && used < REASON_SIZE) {
        (void)snprintf(reason + used, REASON_SIZE - (size_t)used,
                       ", the last answer to a request for tasks then was %" PRId64 " s",
                       exchange_s);
    }
}

static int judge(const struct qn_cli *cli, enum check check, const struct choice *choice,
                 const quern_worker_list *list)
{
    char reason[REASON_SIZE] = "";
    size_t count = 0;
    size_t bad = 0;
    json_t *workers = json_array();
    int64_t now_ms = qn_clock_wall_ms(qn_clock_system());
    int64_t max_age_ms = qn_args_number(&cli->args, OPTION_MAX_AGE, MAX_AGE_MS);
    for (size_t i = 0; i < quern_worker_list_size(list); i++) {
        const quern_worker_info *worker = quern_worker_list_at(list, i);
        int64_t age_ms = now_ms - worker->heartbeat_at_ms;
        if (!is_chosen(choice, worker)) {
            continue;
        }
        age_ms = age_ms < 0 ? 0 : age_ms;
        bool ok = is_ok(worker, check, age_ms, max_age_ms);
        if (count == 0 || (!ok && bad == 0)) {
            describe(worker, age_ms, reason);
        }
        count++;
        bad += ok ? 0 : 1;
        (void)json_array_append_new(workers, worker_json(worker, ok, age_ms));
    }
    if (count == 0) {
        (void)snprintf(reason, sizeof reason, "no live worker %s%.200s has a record",
                       choice->host != NULL ? "of host " : "that was asked for",
                       choice->host != NULL ? choice->host : "");
    } else if (count > 1) {
        size_t used = strlen(reason);
        (void)snprintf(reason + used, sizeof reason - used, " (%zu of %zu %s %s)",
                       bad > 0 ? bad : count, count, qn_plural(count, "worker", "workers"),
                       bad > 0 ? "failed" : "are well");
    }
    const struct result result = {check, count > 0 && bad == 0, reason, "workers"};
    return print(cli, &result, workers);
}

static int read_records(struct qn_cli *cli, enum check check, const struct choice *choice)
{
    quern_inspector *inspector = NULL;
    quern_worker_list *list = NULL;
    quern_error err;
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    exit_code = quern_inspector_workers(inspector, &list, &err) == QUERN_OK
                    ? judge(cli, check, choice, list)
                    : qn_cli_fail(cli, &err);
    quern_worker_list_free(list);
    quern_inspector_free(inspector);
    return exit_code;
}

static int run_health(struct qn_cli *cli)
{
    const struct qn_args *args = &cli->args;
    enum check check = CHECK_READY;
    char own_host[HOST_NAME_MAX + 1] = "";
    const char *place = qn_args_text(args, OPTION_HEALTH_PORT);
    const struct choice given = {.id = qn_args_text(args, OPTION_WORKER),
                                 .host = qn_args_text(args, OPTION_HOST),
                                 .pid = qn_args_number(args, OPTION_PID, 0)};
    bool all = qn_args_given(args, OPTION_ALL);
    if (!read_check(cli, &check)) {
        return qn_cli_usage(cli, "--check: '%s' is not ready, live or start",
                            qn_args_text(args, OPTION_CHECK));
    }
    bool is_narrow = given.id != NULL || given.host != NULL || given.pid != 0;
    if ((place != NULL && (all || is_narrow)) || (all && is_narrow)) {
        return qn_cli_usage(cli, "--health-port, --all and --worker, --host, --pid exclude each"
                                 " other");
    }
    if (place == NULL && qn_args_given(args, OPTION_TIMEOUT)) {
        return qn_cli_usage(cli, "--timeout is for --health-port: the process there is asked");
    }
    if (place != NULL && qn_args_given(args, OPTION_MAX_AGE)) {
        return qn_cli_usage(cli, "--max-age is for the records at the broker: --health-port asks"
                                 " the process");
    }
    if (place != NULL) {
        return ask_process(cli, check, place);
    }
    struct choice choice = given;
    if (!all && choice.id == NULL && choice.host == NULL) {
        (void)gethostname(own_host, sizeof own_host - 1);
        choice.host = own_host;
    }
    return read_records(cli, check, &choice);
}

static const struct qn_verb verbs[] = {{
    .name = "",
    .operands = "",
    .summary = "whether workers are ready, live or started: exit 0 or 1, and one line",
    .about = "Without --health-port it reads what the workers have reported to the broker.",
    .example = "  quern health --health-port 9090 --check live",
    .options = options,
    .option_count = QN_COUNT_OF(options),
    .run = run_health,
}};
const struct qn_noun qn_noun_health = {"health", "probe workers: ready, live or started", verbs, 1};
