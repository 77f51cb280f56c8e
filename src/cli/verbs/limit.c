/* SPDX-License-Identifier: MIT */
/* limit.c - `quern limit`: set, list, remove.
 *
 * A limit is of a queue, or with --all-queues of all together; with --type or --key of a type or a
 * key in it; "*" means each of them that has none of its own. With --semaphore it is the queue's
 * share of one that other queues have, too. */
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/output/field.h"
#include "cli/output/json.h"
#include "cli/output/table.h"
#include "cli/output/text.h"
#include "task/limit.h"

enum scope_option { SCOPE_TYPE, SCOPE_KEY, SCOPE_SEMAPHORE, SCOPE_ALL };
static const struct qn_option scope_options[] = {
    [SCOPE_TYPE] = {"type", "TYPE", "tasks of this type; '*': each type by itself", QN_OPTION_TEXT},
    [SCOPE_KEY] = {"key", "KEY", "tasks with this key; '*': each key by itself", QN_OPTION_TEXT},
    [SCOPE_SEMAPHORE] = {"semaphore", "NAME", "of all queues that have this NAME; Redis: Go's, too",
                         QN_OPTION_TEXT},
    [SCOPE_ALL] = {"all-queues", NULL, "of all queues together, in place of QUEUE", QN_OPTION_FLAG},
};
enum list_option { LIST_ALL };
static const struct qn_option list_options[] = {
    [LIST_ALL] = {"all-queues", NULL, "only those of all queues together", QN_OPTION_FLAG},
};

static const char *const scope_names[] = {[QUERN_LIMIT_QUEUE] = "queue",
                                          [QUERN_LIMIT_TYPE] = "type",
                                          [QUERN_LIMIT_KEY] = "key",
                                          [QUERN_LIMIT_SEMAPHORE] = "semaphore"};

/* The line has a queue, or --all-queues (`all`), and `others` more operands. */
static int check_operands(const struct qn_cli *cli, bool all, size_t others)
{
    size_t count = cli->args.operand_count;
    size_t expected = others + (all ? 0 : 1);
    if (count < expected) {
        return qn_cli_usage(cli, "missing argument: %s (or --all-queues in place of QUEUE)",
                            others > 0 ? "QUEUE LIMIT" : "QUEUE");
    }
    return count > expected ? qn_cli_usage(cli, "--all-queues and a queue exclude each other")
                            : QN_EXIT_OK;
}

/* Queue, scope and name as the line gives them; `others` operands follow the queue. */
static int read_owner(const struct qn_cli *cli, size_t others, quern_limit *ret_limit)
{
    const struct qn_args *args = &cli->args;
    const char *type = qn_args_text(args, SCOPE_TYPE);
    const char *key = qn_args_text(args, SCOPE_KEY);
    const char *semaphore = qn_args_text(args, SCOPE_SEMAPHORE);
    bool all = qn_args_given(args, SCOPE_ALL);
    int exit_code = check_operands(cli, all, others);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    *ret_limit = (quern_limit){.queue = all ? QUERN_ALL_QUEUES : qn_args_operand(args, 0),
                               .scope = QUERN_LIMIT_QUEUE};
    if ((type != NULL) + (key != NULL) + (semaphore != NULL) > 1) {
        return qn_cli_usage(cli, "--type, --key and --semaphore exclude each other");
    }
    if (semaphore != NULL && all) {
        return qn_cli_usage(cli, "--semaphore needs a queue: set it for each that is to share it");
    }
    ret_limit->scope = type != NULL        ? QUERN_LIMIT_TYPE
                       : key != NULL       ? QUERN_LIMIT_KEY
                       : semaphore != NULL ? QUERN_LIMIT_SEMAPHORE
                                           : QUERN_LIMIT_QUEUE;
    ret_limit->name = type != NULL ? type : key != NULL ? key : semaphore;
    return QN_EXIT_OK;
}

static struct qn_limit numbers_of(const quern_limit *limit)
{
    return (struct qn_limit){
        .count = limit->count, .period_ms = limit->period_ms, .burst = limit->burst};
}

static void set(json_t *object, const char *name, int64_t number)
{
    int failed = json_object_set_new(object, name, qn_memory_must(json_integer(number)));
    (void)qn_memory_must(failed == 0 ? object : NULL);
}

static json_t *json_owner(const quern_limit *limit)
{
    json_t *object = qn_memory_must(json_object());
    qn_json_set_text(object, "queue", limit->queue);
    qn_json_set_text(object, "scope", scope_names[limit->scope]);
    if (limit->scope != QUERN_LIMIT_QUEUE) {
        qn_json_set_text(object, "name", limit->name);
    }
    return object;
}

static json_t *json_limit(const quern_limit *limit)
{
    char text[QN_LIMIT_TEXT_SIZE];
    const struct qn_limit numbers = numbers_of(limit);
    json_t *object = json_owner(limit);
    qn_limit_format(&numbers, text);
    qn_json_set_text(object, "limit", text);
    set(object, "count", limit->count);
    set(object, "period_ms", limit->period_ms);
    set(object, "burst", limit->burst);
    return object;
}

static int run_set(struct qn_cli *cli)
{
    quern_error err;
    quern_limit limit;
    struct qn_limit numbers;
    quern_inspector *inspector = NULL;
    int exit_code = read_owner(cli, 1, &limit);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    const char *text = qn_args_operand(&cli->args, cli->args.operand_count - 1);
    if (qn_limit_parse(text, &numbers, &err) != QUERN_OK) {
        return qn_cli_usage(cli, "%s", err.text);
    }
    limit.count = numbers.count;
    limit.period_ms = numbers.period_ms;
    limit.burst = numbers.burst;
    exit_code = qn_cli_open_inspector(cli, true, &inspector);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    qn_cli_warn_odd_queue(cli, inspector, limit.queue,
                          "use --all-queues for a limit of all queues together");
    if (quern_inspector_set_limit(inspector, &limit, &err) != QUERN_OK) {
        exit_code = qn_cli_fail(cli, &err);
    } else if (cli->json) {
        exit_code = qn_json_print(json_limit(&limit));
    } else {
        char shown[QN_LIMIT_TEXT_SIZE];
        qn_limit_format(&numbers, shown);
        qn_field_text("limit", shown);
    }
    quern_inspector_free(inspector);
    return exit_code;
}

/* "limit of key acme in queue mail removed" */
static void print_removed(const quern_limit *limit)
{
    bool all = strcmp(limit->queue, QUERN_ALL_QUEUES) == 0;
    char *queue = qn_text_safe(limit->queue, strlen(limit->queue));
    char *name = qn_text_safe(limit->name != NULL ? limit->name : "",
                              limit->name != NULL ? strlen(limit->name) : 0);
    printf("limit of ");
    if (limit->scope != QUERN_LIMIT_QUEUE) {
        printf("%s %s in ", scope_names[limit->scope], name);
    }
    printf("%s%s removed\n", all ? "all queues" : "queue ", all ? "" : queue);
    qn_free(queue);
    qn_free(name);
}

static int run_remove(struct qn_cli *cli)
{
    quern_error err;
    quern_limit limit;
    quern_inspector *inspector = NULL;
    int exit_code = read_owner(cli, 0, &limit);
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_cli_open_inspector(cli, false, &inspector);
    }
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    if (quern_inspector_remove_limit(inspector, limit.queue, (quern_limit_scope)limit.scope,
                                     limit.name, &err) != QUERN_OK) {
        exit_code = qn_cli_fail(cli, &err);
    } else if (cli->json) {
        json_t *object = json_owner(&limit);
        qn_json_set_text(object, "done", "removed");
        exit_code = qn_json_print(object);
    } else {
        print_removed(&limit);
    }
    quern_inspector_free(inspector);
    return exit_code;
}

/* Each type or key uses it by itself: there is no one number. */
static bool is_each(const quern_limit *limit)
{
    return limit->scope != QUERN_LIMIT_SEMAPHORE && strcmp(limit->name, QN_LIMIT_EACH) == 0;
}

static void add_row(struct qn_table *table, const quern_limit *limit)
{
    char text[QN_LIMIT_TEXT_SIZE];
    const struct qn_limit numbers = numbers_of(limit);
    qn_limit_format(&numbers, text);
    qn_table_text(table, limit->queue);
    qn_table_text(table, scope_names[limit->scope]);
    qn_table_text(table, limit->name);
    qn_table_text(table, text);
    if (is_each(limit)) {
        qn_table_text(table, "each");
    } else {
        qn_table_number(table, (uint64_t)limit->used);
    }
}

static void print_table(const quern_limit_list *list)
{
    static const struct qn_column columns[] = {{.title = "QUEUE", .flexible = true},
                                               {.title = "SCOPE"},
                                               {.title = "NAME", .flexible = true},
                                               {.title = "LIMIT"},
                                               {.title = "USED", .right = true}};
    struct qn_table table;
    qn_table_init(&table, columns, QN_COUNT_OF(columns));
    for (size_t i = 0; i < quern_limit_list_size(list); i++) {
        add_row(&table, quern_limit_list_at(list, i));
    }
    qn_table_print(&table);
    qn_table_finish(&table);
}

static int print_json(const quern_limit_list *list)
{
    json_t *array = qn_memory_must(json_array());
    for (size_t i = 0; i < quern_limit_list_size(list); i++) {
        const quern_limit *limit = quern_limit_list_at(list, i);
        json_t *object = json_limit(limit);
        if (is_each(limit)) {
            int failed = json_object_set_new(object, "used", json_null());
            (void)qn_memory_must(failed == 0 ? object : NULL);
        } else {
            set(object, "used", limit->used);
        }
        (void)qn_memory_must(json_array_append_new(array, object) == 0 ? array : NULL);
    }
    return qn_json_print(array);
}

static int run_list(struct qn_cli *cli)
{
    quern_error err;
    quern_limit_list *list = NULL;
    quern_inspector *inspector = NULL;
    const char *queue = qn_args_operand(&cli->args, 0);
    bool all = qn_args_given(&cli->args, LIST_ALL);
    if (all && queue != NULL) {
        return qn_cli_usage(cli, "--all-queues and a queue exclude each other");
    }
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    if (quern_inspector_limits(inspector, all ? QUERN_ALL_QUEUES : queue, &list, &err) !=
        QUERN_OK) {
        exit_code = qn_cli_fail(cli, &err);
    } else if (cli->json) {
        exit_code = print_json(list);
    } else if (quern_limit_list_size(list) > 0) {
        print_table(list);
    } else {
        qn_cli_message(cli, "no limits");
    }
    quern_limit_list_free(list);
    quern_inspector_free(inspector);
    return exit_code;
}

static const struct qn_verb verbs[] = {
    {.name = "set",
     .operands = "[QUEUE] LIMIT",
     .summary = "set or change how many tasks run at a time, or start in a period",
     .about = "LIMIT: 10 (at a time), 100/s, 100/1m (a window), \"100/1m burst 20\".\n"
              "Go's workers on the same queue are not bound by limits.",
     .example = "  quern limit set mail 10\n  quern limit set mail 100/1m --key acme\n"
                "  quern limit set --all-queues 5 --type report",
     .options = scope_options,
     .option_count = QN_COUNT_OF(scope_options),
     .operand_min = 1,
     .operand_max = 2,
     .run = run_set},
    {.name = "list",
     .operands = "[QUEUE]",
     .summary = "list limits, and how much of each is used now",
     .example = "  quern limit list mail",
     .options = list_options,
     .option_count = QN_COUNT_OF(list_options),
     .operand_max = 1,
     .run = run_list},
    {.name = "remove",
     .operands = "[QUEUE]",
     .summary = "remove the limits of a queue, or of a type, key or semaphore",
     .example = "  quern limit remove mail --key acme",
     .options = scope_options,
     .option_count = QN_COUNT_OF(scope_options),
     .operand_max = 1,
     .run = run_remove},
};
const struct qn_noun qn_noun_limit = {
    "limit", "limit how many tasks run at a time, or start in a period", verbs, QN_COUNT_OF(verbs)};
